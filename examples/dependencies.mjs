// @ts-check
// Three steps that wait for each other, made by one call: two parts side by side, then what puts them together; and one
// that runs only if something failed. The type `echo` is served by the worker that `npm start` brings along.
//
//   npm start                          in one terminal
//   node examples/dependencies.mjs     in another; an argument names another server than http://127.0.0.1:7600
import { Client } from '@punctual/sdk';

const client = new Client({ url: process.argv[2] ?? 'http://127.0.0.1:7600' });
try {
  const { jobs } = await client.jobs.createMany([
    { name: 'left', type: 'echo' },
    { name: 'right', type: 'echo' },
    { name: 'together', type: 'echo', depends_on: [{ item: 0 }, { item: 1 }] },
    { name: 'tell somebody', type: 'echo', depends_on: [{ item: 2, on: 'failure' }] },
  ]);
  for (const { job_id } of jobs) {
    const run = await client.jobs.waitFor(job_id, { timeoutMs: 30_000 });
    console.log(`${run.name}: ${run.status}${run.reason === null ? '' : ` (${run.reason})`}`);
  }
} finally {
  client.close();
}
