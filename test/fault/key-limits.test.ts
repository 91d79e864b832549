// Workers are killed while limits hold: what the jobs themselves wrote shows that never more of a key ran at once than
// allowed, and that nobody was forgotten.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { Client } from '@punctual/sdk';
import { type Database, openDatabase } from '@punctual/server/internal/store/database';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
import { createDatabase } from '../support/database.ts';
import { eventually } from '../support/eventually.ts';
import { openHouse, shortLease } from '../support/house.ts';
import { mostAtOnce, readLedger, startLedgerWorker } from '../support/ledger.ts';
import { startServerProcess } from '../support/process.ts';

const keys = 50;
const runsOfEach = 12;
const kills = 6;

test('three servers, workers killed with -9, fifty keys: never more of a key at once than its limit, and all is done', async () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'punctual-keys-'));
  const ledger = path.join(folder, 'ledger');
  await using house = await openHouse({ servers: 3, segments: 8, config: shortLease });
  const start = (i: number, n: number) =>
    startLedgerWorker({ url: house.servers[i]?.url ?? '', id: `w${i}-${n}`, ledger, slots: 30 });
  const workers = await Promise.all([0, 1, 2].map((i) => start(i, 0)));
  try {
    const limitOf = new Map(Array.from({ length: keys }, (_, i) => [`k${i}`, 1 + Math.floor(Math.random() * 4)]));
    for (const [key, max_concurrency] of limitOf) await house.client.limits.put(key, { max_concurrency });
    const names = Array.from({ length: keys * runsOfEach }, (_, i) => `k${i % keys}`);
    const { jobs } = await house.client.jobs.createMany(
      names.map((concurrency_key) => ({
        type: 'work',
        concurrency_key,
        max_retries: 20,
        payload: { ms: 20 + Math.random() * 60 },
      })),
    );
    const keyOf = new Map(jobs.map((job, i) => [job.run_id ?? '', names[i] ?? '']));
    for (let n = 1; n <= kills; n++) {
      await new Promise((resolve) => setTimeout(resolve, 300 + Math.random() * 500));
      await workers[n % 3]?.kill('SIGKILL');
      workers[n % 3] = await start(n % 3, n);
    }
    await eventually(async () => assert.equal(await house.count('ended_runs'), names.length), { withinMs: 300_000 });
    assert.equal(await house.count('ended_runs', `where status = 'SUCCESS'`), names.length);
    assert.ok((await house.count('attempts', `where outcome = 'lost'`)) > 0, 'no kill hit a run');
    const lines = readLedger(ledger);
    for (const [key, limit] of limitOf) {
      const most = mostAtOnce(lines.filter((line) => keyOf.get(line.run_id) === key));
      assert.ok(most >= 1 && most <= limit, `${most} runs of ${key} at once, ${limit} allowed`);
    }
    await eventually(async () => assert.equal(await house.count('key_holds'), 0));
  } finally {
    await Promise.all(workers.map((worker) => worker.kill('SIGKILL').catch(() => {})));
    rmSync(folder, { recursive: true, force: true });
  }
});

/** Those that workers might have now, by key; then some of them end. Answers how many did. */
async function endSome(db: Database, check: (key: string, places: number) => void): Promise<number> {
  const ask = <Row extends object>(text: string) => db.query<Row>({ name: '', text, values: [] });
  const admitted = await ask<{ key: string; places: number }>(
    `select j.concurrency_key as key, count(*)::integer as places
     from punctual.ready r
     join punctual.lanes l using (lane_id)
     join punctual.jobs j using (segment, job_id)
     where l.stage = 'admitted'
     group by 1`,
  );
  for (const { key, places } of admitted) check(key, places);
  const ended = await ask(
    `with done as (
       delete from punctual.ready r
       using punctual.lanes l
       where l.lane_id = r.lane_id and l.stage = 'admitted' and random() < 0.7
       returning r.*
     )
     insert into punctual.ended_runs (segment, run_id, job_id, lane_id, attempt, cause, status, scheduled_for, due_at, started_at)
     select segment, run_id, job_id, lane_id, 1, cause, 'SUCCESS', scheduled_for, due_at, now() from done
     returning run_id`,
  );
  return ended.length;
}

test('three servers, killed with -9 while they admit: never more of a key than its limit, and nobody is forgotten', async () => {
  const { url, drop } = await createDatabase({ migrated: true, segments: 4 });
  const db = openDatabase({ url, poolSize: 2, queryTimeoutMs: 30_000 });
  const start = () => startServerProcess(url, { PUNCTUAL_POLL_INTERVAL_MS: '50' });
  const servers = await Promise.all([start(), start(), start()]);
  try {
    const client = new Client({ url: servers[0]?.url });
    const limit = (key: string): number => 1 + (Number(key.slice(1)) % 4);
    for (let i = 0; i < 20; i++) await client.limits.put(`k${i}`, { max_concurrency: limit(`k${i}`) });
    // Runs whose type is limited as well are admitted before a worker asks for them.
    await client.limits.setLane('type', 'nobody', { max_concurrency: 10_000 });
    const jobs = Array.from({ length: 300 }, (_, i) => ({ type: 'nobody', concurrency_key: `k${i % 20}` }));
    await client.jobs.createMany(jobs);
    client.close();
    const killing = (async () => {
      for (let left = kills; left > 0; left--) {
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 300));
        await servers[left % 3]?.kill('SIGKILL');
        servers[left % 3] = await start();
      }
    })();
    let ended = 0;
    const deadline = performance.now() + 300_000;
    while (ended < jobs.length && performance.now() < deadline) {
      ended += await endSome(db, (key, places) => assert.ok(places <= limit(key), `${places} of ${key}`));
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    await killing;
    assert.equal(ended, jobs.length);
    await Promise.all(servers.map((server) => server.kill('SIGTERM')));
    assert.deepEqual(await checkInvariants(db), []);
  } finally {
    await Promise.all(servers.map((server) => server.kill('SIGKILL').catch(() => {})));
    await db.close();
    await drop();
  }
});
