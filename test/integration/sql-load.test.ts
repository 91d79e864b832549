// Thousands of jobs submitted in SQL from many transactions at once, some of which are rolled back: what was committed runs,
// once, and nothing else does.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inTransaction, openApplication, submit } from '../support/application.ts';
import { eventually } from '../support/eventually.ts';
import { openHouse } from '../support/house.ts';

const connections = 12;
const transactions = 30;

test('of thousands of submits in SQL exactly those that were committed run, each once', async () => {
  const ran: string[] = [];
  const note = async (run: { job_id: string }): Promise<void> => {
    ran.push(run.job_id);
  };
  const types = Array.from({ length: 5 }, (_, i) => `load-${i}`);
  await using house = await openHouse({
    servers: 2,
    workers: 2,
    slots: 50,
    handlers: Object.fromEntries(types.map((type) => [type, note])),
  });
  await using app = await openApplication(house.databaseUrl);
  const committed: string[] = [];
  await Promise.all(
    Array.from({ length: connections }, async (_, c) => {
      const client = await app.connect();
      for (let t = 0; t < transactions; t++) {
        const work = inTransaction(client, async () => {
          const ids: string[] = [];
          for (let i = 0; i < 10; i++) {
            // New lanes come up in one order only: two transactions that make them in different orders would wait in a circle.
            const type = types[Math.min(4, Math.floor(t / 6))] ?? '';
            const delay = i % 4 === 0 ? { delay: `${(c * t) % 50} milliseconds` } : {};
            ids.push(await submit(client, type, { payload: JSON.stringify({ c, t, i }), notify: i % 3 > 0, ...delay }));
          }
          if (t % 5 === 4) throw new Error('changed my mind');
          return ids;
        });
        await work.then(
          (ids) => committed.push(...ids),
          (error: Error) => assert.equal(error.message, 'changed my mind'),
        );
      }
    }),
  );
  assert.equal(committed.length, connections * transactions * 8);
  await eventually(() => assert.ok(ran.length >= committed.length, `${ran.length} of ${committed.length}`), {
    withinMs: 60_000,
    everyMs: 50,
  });
  await eventually(async () =>
    assert.equal(await house.count('ended_runs', `where status = 'SUCCESS'`), committed.length),
  );
  assert.deepEqual(ran.sort(), committed.sort());
  assert.equal(await house.count('jobs'), committed.length);
});
