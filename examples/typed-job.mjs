// @ts-check
// A typed job: one definition for those who submit and those who work. Editors and the compiler know the payload and the result;
// both ends check what goes over the wire. Any Standard Schema (zod, valibot, arktype, …) may stand in place of the JSON Schema.
//
//   npm start                       in one terminal
//   node examples/typed-job.mjs     in another; an argument names another server than http://127.0.0.1:7600
import { Client, defineJob, PunctualError, Worker } from '@punctual/sdk';

const url = process.argv[2] ?? 'http://127.0.0.1:7600';

const invoice = defineJob({
  type: 'example-invoice',
  payload: {
    type: 'object',
    required: ['customer', 'cents'],
    properties: { customer: { type: 'string', minLength: 1 }, cents: { type: 'integer', minimum: 1 } },
    additionalProperties: false,
  },
  result: { type: 'object', required: ['number'], properties: { number: { type: 'string' } } },
  max_retries: 3,
  timeout_ms: 10_000,
});

const worker = new Worker({ url }).handle(invoice, async ({ customer, cents }, ctx) => {
  ctx.log.info(`an invoice of ${(cents / 100).toFixed(2)} for ${customer}`);
  return { number: `${customer}-1` };
});
await worker.start();

const client = new Client({ url });
try {
  const submitted = await invoice.submit(client, { customer: 'ada', cents: 1250 });
  const run = await client.runs.waitFor(submitted, { throwOnFailure: true });
  console.log(`invoice ${run.result?.number}`);

  await invoice.submit(client, { customer: '', cents: 1.5 }).catch((error) => {
    if (!(error instanceof PunctualError)) throw error;
    for (const { path, message } of error.errors ?? []) console.log(`refused: ${path} ${message}`);
  });

  // Somebody who does not have the definition: the run fails at its first attempt, and says why.
  const wrong = await client.jobs.create({ type: invoice.type, payload: { customer: 'eve' } });
  const failed = await client.runs.waitFor(wrong);
  console.log(`${failed.status} at attempt ${failed.attempt_number}: ${failed.error_message}`);
} finally {
  client.close();
  await worker.stop();
}
