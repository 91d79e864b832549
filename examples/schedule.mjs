// @ts-check
// A job that runs again and again: look at a schedule first, create it, watch its ledger, end it. The type `echo` is served
// by the worker that `npm start` brings along.
//
//   npm start                       in one terminal
//   node examples/schedule.mjs      in another; an argument names another server than http://127.0.0.1:7600
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from '@punctual/sdk';

const client = new Client({ url: process.argv[2] ?? 'http://127.0.0.1:7600' });
try {
  // 02:30 does not exist in Paris on the night the clocks go forward.
  const preview = await client.schedules.preview({
    cron_expression: '30 2 * * *',
    timezone: 'Europe/Paris',
    from: '2027-03-27T12:00:00Z',
    count: 2,
  });
  console.log(preview.words);
  for (const { local, utc, note } of preview.times)
    console.log(`  ${local} is ${utc}${note === null ? '' : `: ${note}`}`);

  const { job_id } = await client.jobs.create({
    name: 'tick',
    type: 'echo',
    payload: 'tick',
    cron_expression: '* * * * * *',
    max_runs: 3,
  });
  while ((await client.jobs.get(job_id)).status !== 'COMPLETED') await sleep(100);
  const { occurrences } = await client.jobs.occurrences(job_id);
  console.log(`${occurrences.length} times, ${occurrences.filter(({ run_id }) => run_id !== null).length} runs`);
} finally {
  client.close();
}
