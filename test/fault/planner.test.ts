// Planners are killed in the middle of planning, their clocks are a day off, PostgreSQL dies under them: every time of
// every schedule is in the ledger exactly once.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { Client } from '@punctual/sdk';
import { startEmbedded } from '@punctual/server/embedded';
import { openDatabase } from '@punctual/server/internal/store/database';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
import { eventually } from '../support/eventually.ts';
import { startServerProcess } from '../support/process.ts';
import { hourMs, wrongClock } from '../support/wrong_clock.ts';

const schedules = 200;
const kills = 50;
const wrong = [0, 25 * hourMs, -25 * hourMs];

test('three servers, killed with -9 fifty times while they plan, and PostgreSQL once: each time exactly once', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'pf-'));
  let postgres = await startEmbedded({ dataDir: folder });
  const url = postgres.url;
  const start = (place: number) =>
    startServerProcess(url, { ...wrongClock(wrong[place] ?? 0), PUNCTUAL_QUERY_TIMEOUT_MS: '8000' });
  // One that starts again is waited for when its turn comes, while the others plan.
  const servers = [0, 1, 2].map(start);
  try {
    const [first] = await Promise.all(servers);
    const client = new Client({ url: first?.url });
    const jobs = Array.from({ length: schedules }, () => ({
      type: 'nobody',
      cron_expression: '* * * * * *',
      overlap: 'allow' as const,
    }));
    await client.jobs.createMany(jobs);
    client.close();
    for (let kill = 0; kill < kills; kill++) {
      const place = kill % 3;
      // Planning begins with each second and takes a part of it.
      await new Promise((resolve) => setTimeout(resolve, 1000 - (Date.now() % 1000) + Math.random() * 150));
      if (kill === 25) {
        await Promise.all(servers);
        process.kill(postgres.pid, 'SIGKILL');
        await postgres.exited;
        postgres = await startEmbedded({ dataDir: folder });
      }
      await (await servers[place])?.kill('SIGKILL');
      servers[place] = start(place);
      servers[place].catch(() => {});
    }
    const db = openDatabase({ url: postgres.url, poolSize: 2, queryTimeoutMs: 30_000 });
    const query = <Row extends object>(text: string): Promise<Row[]> => db.query<Row>({ name: '', text, values: [] });
    try {
      await eventually(
        async () => {
          const [row] = await query<{ behind: number }>(
            `select count(*)::integer as behind from punctual.schedules where planned_until < now() - interval '3 seconds'`,
          );
          assert.equal(row?.behind, 0);
        },
        { withinMs: 120_000, everyMs: 200 },
      );
      await Promise.all(servers.map(async (server) => (await server).kill('SIGTERM')));
      const [found] = await query<{ jobs: number; wrong: number; times: number; runs: number; without: number }>(`
        select count(*)::integer as jobs, count(*) filter (where o.times <> o.expected)::integer as wrong, sum(o.times)::integer as times,
               sum(o.runs)::integer as runs, sum(o.without)::integer as without
        from (
          select j.job_id, (select coalesce(sum(c.times), 0) from punctual.occurrences c where c.job_id = j.job_id) as times,
                 (select count(*) from punctual.occurrences c where c.job_id = j.job_id and c.run_id is not null) as runs,
                 (select count(*) from punctual.occurrences c where c.job_id = j.job_id and c.run_id is null) as without,
                 floor(extract(epoch from s.planned_until)) - floor(extract(epoch from j.created_at)) as expected
          from punctual.jobs j join punctual.schedules s using (segment, job_id)
        ) o`);
      assert.deepEqual([found?.jobs, found?.wrong, found?.without], [schedules, 0, 0], JSON.stringify(found));
      // Each kill waited for another second; the last few of them may not have been planned yet.
      assert.ok((found?.runs ?? 0) >= schedules * (kills - 5), JSON.stringify(found));
      const [live] = await query<{ n: number }>('select count(*)::integer as n from punctual.ready');
      assert.equal(live?.n, found?.runs);
      assert.deepEqual(await checkInvariants(db), []);
    } finally {
      await db.close();
    }
  } finally {
    for (const server of servers) await server.then((one) => one.kill('SIGKILL')).catch(() => {});
    await postgres.stop();
    rmSync(folder, { recursive: true, force: true });
  }
});
