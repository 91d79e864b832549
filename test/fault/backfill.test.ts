// Servers are killed in the middle of a backfill: each time still makes exactly one run, and never more than allowed are
// live at once. What workers would do is done in the book, so that only the servers are under test.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Client } from '@punctual/sdk';
import { type Database, openDatabase } from '@punctual/server/internal/store/database';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
import { createDatabase } from '../support/database.ts';
import { startServerProcess } from '../support/process.ts';

const kills = 12;
const atOnce = 7;

/** Ends every run that is ready; answers how many those were. */
async function endAll(db: Database): Promise<number> {
  const rows = await db.query<{ run_id: string }>({
    name: '',
    text: `with done as (delete from punctual.ready returning *)
           insert into punctual.ended_runs (segment, run_id, job_id, lane_id, attempt, cause, status, scheduled_for, due_at, started_at)
           select segment, run_id, job_id, lane_id, 1, cause, 'SUCCESS', scheduled_for, due_at, now() from done
           returning run_id`,
    values: [],
  });
  return rows.length;
}

test('three servers, killed with -9 twelve times during a backfill: each time makes one run', async () => {
  const { url, drop } = await createDatabase({ migrated: true, segments: 4 });
  const db = openDatabase({ url, poolSize: 2, queryTimeoutMs: 30_000 });
  const start = () => startServerProcess(url, { PUNCTUAL_POLL_INTERVAL_MS: '20' });
  const servers = await Promise.all([start(), start(), start()]);
  try {
    const client = new Client({ url: servers[0]?.url });
    // Once a day, at an hour that does not come while the test runs: the schedule makes no run of its own.
    const hour = (new Date().getUTCHours() + 12) % 24;
    const { job_id } = await client.jobs.create({ type: 'nobody', cron_expression: `0 ${hour} * * *` });
    const range = { from: '1980-01-01T00:00:00Z', to: '2015-12-31T00:00:00Z' };
    const plan = await client.backfills.create(job_id, { ...range, max_concurrency: atOnce });
    client.close();
    let ended = 0;
    let left = kills;
    const killing = (async () => {
      for (; left > 0; left--) {
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 300));
        await servers[left % 3]?.kill('SIGKILL');
        servers[left % 3] = await start();
      }
    })();
    const deadline = performance.now() + 600_000;
    while (ended < plan.runs && performance.now() < deadline) {
      const some = await endAll(db);
      assert.ok(some <= atOnce, `${some} runs were live at once`);
      ended += some;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    await killing;
    assert.equal(await endAll(db), 0);
    assert.equal(ended, plan.runs);
    const [found] = await db.query<{ times: number; runs: number }>({
      name: '',
      text: 'select count(distinct scheduled_for)::integer as times, count(*)::integer as runs from punctual.ended_runs',
      values: [],
    });
    assert.deepEqual(found, { times: plan.times, runs: plan.times });
    await Promise.all(servers.map((server) => server.kill('SIGTERM')));
    assert.deepEqual(await checkInvariants(db), []);
  } finally {
    await Promise.all(servers.map((server) => server.kill('SIGKILL').catch(() => {})));
    await db.close();
    await drop();
  }
});
