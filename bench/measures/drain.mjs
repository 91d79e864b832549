// Fills the store with waiting jobs, then starts one worker process. The time counts from the start of the first job
// until the store says that every job is settled.
import { tick, until } from '../clock.mjs';
import { openHouse } from '../house.mjs';
import { residentMb } from '../procfs.mjs';

export const drain = {
  name: 'drain',
  rows: [
    {
      key: 'drain',
      title: 'drain of 100,000 waiting, one worker process',
      quickTitle: 'drain of 30,000 waiting, one worker process',
      unit: '/s',
      better: 'higher',
      must: { ratio: 1.2, text: '1.2 × best' },
      aim: { ratio: 2, text: '2 ×' },
    },
  ],
  peers: ['bullmq', 'pgboss', 'graphile'],
  quickPeers: ['graphile'],

  async measure(bench, contestant) {
    const house = await openHouse(bench, contestant);
    try {
      const drained = await drainOnce(house, bench.quick ? 30_000 : 100_000);
      return { values: { drain: drained.rate }, detail: { drain: drained } };
    } finally {
      await house.close();
    }
  },
};

export async function drainOnce(house, n) {
  await house.load.ask('fill', { n });
  return drainFilled(house, n);
}

/** Drains what waits already. Statements are planned anew when the planner learns of new figures. */
export async function drainFilled(house, n, { analyze = true } = {}) {
  if (analyze) await house.analyze();
  const before = await house.moment();
  const worker = await house.startWorker();
  await until(`${house.contestant.title} has started ${n} jobs`, () => worker.count() >= n, {
    everyMs: 2,
    withinMs: 300_000,
  });
  await house.settled();
  const settledAt = tick();
  const { n: started, first } = await worker.ask('report');
  if (started !== n) throw new Error(`${house.contestant.title} started ${started} of ${n} jobs`);
  const cost = house.cost(before, await house.moment(), n);
  const seconds = (settledAt - first) / 1000;
  return { rate: n / seconds, jobs: n, seconds, worker_mb: residentMb(worker.pid), ...cost };
}
