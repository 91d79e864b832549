// Workers before which a load balancer chooses the server: another one for each call, or for each connection. Nothing starts
// twice, and nobody waits for a heartbeat.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { startBalancer } from '../support/balancer.ts';
import { eventually } from '../support/eventually.ts';
import { openHouse } from '../support/house.ts';
import { scrape } from '../support/metrics.ts';
import { keepsWithin, timed } from '../support/within.ts';

/** So long that whoever waits for a heartbeat shows it. */
const rareHeartbeats = { heartbeat_ms: 15_000, lease_ms: 90_000, lease_margin_ms: 10_000 };

async function sumOf(urls: readonly string[], metric: string): Promise<number> {
  const values = await Promise.all(urls.map(async (url) => (await scrape(url)).value(metric) ?? Number.NaN));
  return values.reduce((sum, value) => sum + value, 0);
}

async function runEachOnce(by: 'request' | 'connection'): Promise<void> {
  await using house = await openHouse({ servers: 3, config: rareHeartbeats });
  const urls = house.servers.map((server) => server.url);
  await using balancer = await startBalancer(urls, by);
  const starts = new Map<string, number>();
  const note = (run_id: string): void => void starts.set(run_id, (starts.get(run_id) ?? 0) + 1);
  const handlers = {
    quick: async ({ run_id }: { run_id: string }) => note(run_id),
    slow: async ({ run_id }: { run_id: string }) => {
      note(run_id);
      await new Promise((resolve) => setTimeout(resolve, 20));
    },
  };
  const workers = await Promise.all([0, 1].map(() => house.addWorker(handlers, { url: balancer.url, slots: 10 })));
  const jobs = Array.from({ length: 300 }, (_, i) => ({ type: i % 3 === 0 ? 'slow' : 'quick' }));
  let expected = 0;
  await keepsWithin(rareHeartbeats.heartbeat_ms, () =>
    timed(async () => {
      expected += jobs.length;
      await house.client.jobs.createMany(jobs);
      await eventually(async () => assert.equal(await house.count('ended_runs'), expected));
    }),
  );
  assert.equal(starts.size, expected);
  assert.deepEqual(
    [...starts].filter(([, times]) => times !== 1),
    [],
  );
  assert.equal(await sumOf(urls, 'punctual_lease_lost_total'), 0);
  await Promise.all(workers.map((worker) => worker.stop()));
}

describe('workers behind a load balancer', () => {
  test('that chooses a server for each request run each job once, and wait for no heartbeat', () =>
    runEachOnce('request'));

  test('that chooses a server for each connection run each job once, and wait for no heartbeat', () =>
    runEachOnce('connection'));

  test('that have many slots are given their runs once, not to be taken back from the server before', async () => {
    await using house = await openHouse({ servers: 3, config: rareHeartbeats });
    const urls = house.servers.map((server) => server.url);
    await using balancer = await startBalancer(urls, 'request');
    const worker = await house.addWorker({ quick: async () => {} }, { url: balancer.url, slots: 2_000 });
    const jobs = Array.from({ length: 1_000 }, () => ({ type: 'quick' }));
    let expected = 0;
    const givenBack = async (): Promise<number> => {
      const before = await sumOf(urls, 'punctual_runs_given_back_total');
      expected += 10_000;
      for (let i = 0; i < 10; i++) await house.client.jobs.createMany(jobs);
      await eventually(async () => assert.equal(await house.count('ended_runs'), expected));
      return (await sumOf(urls, 'punctual_runs_given_back_total')) - before;
    };
    // On a machine that is short of processors a call may be given up before its answer has come.
    await keepsWithin(5_000, givenBack, 'of 10,000 runs given back');
    await worker.stop();
  });
});
