// Machines whose clocks are a day off, each another way: what time it is, the database says, so nobody can tell.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { Client } from '@punctual/sdk';
import { startBalancer } from '../support/balancer.ts';
import { eventually } from '../support/eventually.ts';
import { openHouse } from '../support/house.ts';
import { overlaps, readLedger, startLedgerWorker } from '../support/ledger.ts';
import { startServerProcess } from '../support/process.ts';
import { hourMs, wrongClock } from '../support/wrong_clock.ts';

const wrong = [0, 25 * hourMs, -25 * hourMs];
const nearMs = 60_000;

const timeOf = (id: string): number => Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);

test('servers and workers whose clocks are a day off: the database’s time is in ids, answers, deadlines and searches', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'pc-'));
  const ledger = path.join(folder, 'ledger');
  try {
    await using house = await openHouse();
    const servers = await Promise.all(wrong.map((ms) => startServerProcess(house.databaseUrl, wrongClock(ms))));
    const urls = servers.map(({ url }) => url);
    await using balancer = await startBalancer(urls, 'request');
    const workers = await Promise.all(
      wrong.map((ms, i) => startLedgerWorker({ url: balancer.url, id: `w${i}`, ledger, env: wrongClock(ms) })),
    );
    const since = new Date(Date.now() - nearMs).toISOString();
    try {
      // Each answer says what time it is, and ids that a client makes by one server's time are taken by the others.
      for (const url of urls) {
        const { headers } = await fetch(`${url}/healthz`);
        const date = Date.parse(headers.get('date') ?? '');
        assert.ok(Math.abs(date - Date.now()) < nearMs, `${headers.get('date')}`);
      }
      const client = new Client({ url: balancer.url });
      const ids = new Set<string>();
      const tooLate: string[] = [];
      for (let i = 0; i < 30; i++) ids.add((await client.jobs.create({ type: 'quick' })).job_id);
      for (const url of urls) {
        const direct = new Client({ url });
        const due = Date.now() + 1_500;
        const bulk = await direct.jobs.createMany([
          { type: 'quick' },
          { type: 'quick', schedule_time: new Date(due).toISOString() },
        ]);
        for (const { job_id } of bulk.jobs) ids.add(job_id);
        const { job_id } = await direct.jobs.create({ type: 'nobody', run_timeout_ms: 500 });
        ids.add(job_id);
        tooLate.push(job_id);
        direct.close();
      }
      for (const id of ids) assert.ok(Math.abs(timeOf(id) - Date.now()) < nearMs, `${id} is of another time`);
      const found = await client.jobs.list({ created_after: since, limit: 100 });
      assert.equal(found.jobs.filter(({ job_id }) => ids.has(job_id)).length, ids.size);
      client.close();
      await eventually(async () => assert.equal(await house.count('ended_runs'), ids.size - tooLate.length));
      const early = (await house.client.runs.list({ limit: 100 })).runs.filter(
        ({ start_time, due_at }) => Date.parse(start_time ?? '') < Date.parse(due_at ?? ''),
      );
      assert.deepEqual(early, []);
      // Nobody served them in the time that they may take as a whole, which counts from when they were made.
      await house.addWorker({ nobody: async () => {} });
      for (const job_id of tooLate) assert.equal((await house.ended(job_id)).reason, 'run_timed_out');
      assert.deepEqual(overlaps(readLedger(ledger)), []);
    } finally {
      await Promise.all([...workers, ...servers].map((process) => process[Symbol.asyncDispose]()));
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
