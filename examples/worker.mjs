// @ts-check
// A worker of your own: two handlers, one that fails once and is tried again, one that heeds its signal and so can be
// cancelled. The same program also submits the jobs, so that there is something to see; usually another one does.
//
//   npm start                    in one terminal
//   node examples/worker.mjs     in another; an argument names another server than http://127.0.0.1:7600
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, RetryError, Worker } from '@punctual/sdk';

const url = process.argv[2] ?? 'http://127.0.0.1:7600';

const worker = new Worker({
  url,
  slots: 5,
  handlers: {
    // A run may start again when its worker dies or an attempt fails: make the effect safe to repeat, by its run_id.
    'example-charge': async (run, ctx) => {
      ctx.log.info(`attempt ${run.attempt_number} of ${run.max_attempts}`);
      if (run.attempt_number === 1) throw new RetryError('the bank is busy', { retryAfterMs: 100 });
      return { charged: run.payload, key: run.run_id };
    },
    // ctx.signal is aborted when the run is cancelled, takes too long, or the worker stops.
    'example-wait': async (_run, ctx) => {
      console.log('waiting for an hour, or for somebody to cancel');
      await sleep(3_600_000, undefined, { signal: ctx.signal });
    },
  },
});
await worker.start();
console.log(`worker ${worker.id} takes work from ${url}`);

const client = new Client({ url });
try {
  const charge = await client.jobs.create({ type: 'example-charge', payload: { cents: 1250 }, max_retries: 3 });
  const charged = await client.jobs.waitFor(charge.job_id);
  console.log(`${charged.status} at attempt ${charged.attempt_number}: ${JSON.stringify(charged.result)}`);
  for (const { message } of (await client.runs.logs(charged.run_id)).lines) console.log(`  log: ${message}`);

  const long = await client.jobs.create({ type: 'example-wait' });
  while ((await client.jobs.status(long.job_id)).latest_run?.status !== 'RUNNING') await sleep(20);
  await client.jobs.cancel(long.job_id);
  console.log(`${(await client.jobs.waitFor(long.job_id)).status} as asked`);
} finally {
  client.close();
  await worker.stop();
}
