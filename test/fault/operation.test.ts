// Servers are killed in the middle of operations: those go on at others from where they were, and each item is done
// exactly once. A job that was changed twice would show it by its version.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Client } from '@punctual/sdk';
import { openDatabase } from '@punctual/server/internal/store/database';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
import { createDatabase } from '../support/database.ts';
import { eventually } from '../support/eventually.ts';
import { startServerProcess } from '../support/process.ts';

const kills = 8;
const maxOperations = 40;
/** Moved in batches, and one by one. */
const plain = 5_000;
const recurring = 500;

test('three servers, killed with -9 eight times during operations: each item is done once', async () => {
  const { url, drop } = await createDatabase({ migrated: true, segments: 4 });
  const db = openDatabase({ url, poolSize: 2, queryTimeoutMs: 30_000 });
  const start = () => startServerProcess(url, { PUNCTUAL_POLL_INTERVAL_MS: '20' });
  const servers = await Promise.all([start(), start(), start()]);
  const query = <Row extends object>(text: string): Promise<Row[]> => db.query<Row>({ name: '', text, values: [] });
  const all = plain + recurring;
  const ids: string[] = [];
  const isRunning = async (): Promise<boolean> =>
    (await query(`select from punctual.operations where state = 'RUNNING'`)).length > 0;
  const begin = async (): Promise<void> => {
    const client = new Client({ url: servers[0]?.url });
    const filter = { type: 'nobody' };
    const operation = await client.operations.create({ action: 'reprioritise', priority: ids.length % 2, filter });
    ids.push(operation.operation_id ?? '');
    client.close();
  };
  try {
    const client = new Client({ url: servers[0]?.url });
    for (let at = 0; at < all; at += 500)
      await client.jobs.createMany(
        Array.from({ length: 500 }, (_, i) => {
          if (at >= plain) return { type: 'nobody', cron_expression: '0 0 1 1 *' };
          return { type: 'nobody', ...(i % 2 === 0 ? { delay_ms: 3_600_000 } : {}) };
        }),
      );
    client.close();
    for (let left = kills; left > 0; ) {
      if (!(await isRunning())) await begin();
      assert.ok(ids.length < maxOperations, 'operations end before a server can be killed');
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 100));
      if (!(await isRunning())) continue;
      await servers[left % 3]?.kill('SIGKILL');
      servers[left % 3] = await start();
      left--;
    }
    await eventually(async () => assert.equal(await isRunning(), false), { withinMs: 300_000, everyMs: 100 });
    const reader = new Client({ url: servers[0]?.url });
    for (const id of ids) {
      const { state, matched, done, skipped } = await reader.operations.get(id);
      assert.deepEqual({ state, matched, done, skipped }, { state: 'DONE', matched: all, done: all, skipped: 0 });
    }
    reader.close();
    const priority = (ids.length - 1) % 2;
    const jobs = await query('select priority, version, count(*)::integer as n from punctual.jobs group by 1, 2');
    assert.deepEqual(jobs, [{ priority, version: 1 + ids.length, n: all }]);
    const runs = await query(
      `select l.priority, count(*)::integer as n
       from (select lane_id from punctual.waiting union all select lane_id from punctual.ready) r
       join punctual.lanes l using (lane_id)
       group by 1`,
    );
    assert.deepEqual(runs, [{ priority, n: plain }]);
    await Promise.all(servers.map((server) => server.kill('SIGTERM')));
    assert.deepEqual(await checkInvariants(db), []);
  } finally {
    await Promise.all(servers.map((server) => server.kill('SIGKILL').catch(() => {})));
    await db.close();
    await drop();
  }
});
