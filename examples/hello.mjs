// @ts-check
// The shortest way round: submit a job, wait for its run, print the result. The type `echo` is served by the worker that
// `npm start` brings along.
//
//   npm start                    in one terminal
//   node examples/hello.mjs      in another; an argument names another server than http://127.0.0.1:7600
import { Client } from '@punctual/sdk';

const client = new Client({ url: process.argv[2] ?? 'http://127.0.0.1:7600' });
try {
  const { job_id } = await client.jobs.create({
    name: 'say hello',
    type: 'echo',
    payload: { greeting: 'hello, world' },
  });
  console.log(`submitted job ${job_id}`);

  const run = await client.jobs.waitFor(job_id, { timeoutMs: 30_000 });
  console.log(`${run.status} on ${run.executor_id}: ${JSON.stringify(run.result)}`);
} finally {
  client.close();
}
