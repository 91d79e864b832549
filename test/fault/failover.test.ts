// A standby that had not got everything takes over: what the primary acknowledged last is gone, and the book gives its numbers
// to others. Servers that went on through it must not go by what they remember.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { Client } from '@punctual/sdk';
import { openDatabase } from '@punctual/server/internal/store/database';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
import { eventually } from '../support/eventually.ts';
import { Pair } from '../support/pair.ts';
import { startServerProcess } from '../support/process.ts';

test('after a failover that lost the newest lanes, jobs of their types run as what they are, and none waits for ever', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'pa-'));
  try {
    await using pair = await Pair.open(folder, { synchronous: false });
    const env = { PUNCTUAL_POLL_INTERVAL_MS: '60000', PUNCTUAL_LEASE_MS: '60000' };
    await using one = await startServerProcess(pair.url, env);
    await using other = await startServerProcess(pair.url, env);
    const [first, second] = [new Client({ url: one.url }), new Client({ url: other.url })];
    const submit = (client: Client, type: string) =>
      eventually(() => client.jobs.create({ type, executor: { kind: 'shell', command: [type] } }), {
        withinMs: 60_000,
      });
    await submit(first, 'before');
    await pair.failOver(async () => {
      // Lanes with these numbers, of which only the first server knows, are lost.
      for (const type of ['lost-1', 'lost-2', 'lost-3']) await submit(first, type);
    });
    // The second server gives the same numbers to other lanes; the first remembers its own.
    const kept = [];
    for (const type of ['new-1', 'new-2']) kept.push(await submit(second, type));
    for (const type of ['lost-3', 'lost-2', 'lost-1', 'new-2', 'new-1', 'before']) kept.push(await submit(first, type));
    const db = openDatabase({ url: pair.url, poolSize: 1, queryTimeoutMs: 10_000 });
    try {
      const rows = await db.query<{ job_id: string }>({
        name: '',
        text: `select r.job_id
               from punctual.ready r
               join punctual.jobs j using (segment, job_id)
               join punctual.lanes l on l.lane_id = r.lane_id and l.type = j.type
               where j.type <> 'before'`,
        values: [],
      });
      const found = new Set(rows.map(({ job_id }) => job_id));
      const astray = kept.slice(0, -1).filter(({ job_id }) => !found.has(job_id));
      assert.deepEqual(astray, [], 'these wait in a lane that is not theirs');
      assert.deepEqual(await checkInvariants(db), []);
    } finally {
      await db.close();
      first.close();
      second.close();
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
