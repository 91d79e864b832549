// Lateness: 1,000 future jobs, evenly spread over some seconds; from the time each is due to the start of its handler.
import { until, wall } from '../clock.mjs';
import { openHouse } from '../house.mjs';
import { spread } from '../numbers.mjs';

export const lateness = {
  name: 'lateness',
  rows: [
    {
      key: 'late_p50',
      title: 'lateness of future jobs spread over seconds, p50',
      unit: 'ms',
      better: 'lower',
      must: null,
      aim: null,
    },
    {
      key: 'late_p99',
      title: 'lateness of future jobs spread over seconds, p99',
      unit: 'ms',
      better: 'lower',
      must: { most: 10, text: '≤ 10' },
      aim: { most: 3, text: '≤ 3' },
    },
  ],
  peers: ['bullmq', 'pgboss', 'graphile'],
  quickPeers: [],

  async measure(bench, contestant) {
    const house = await openHouse(bench, contestant, { place: { forDueTimes: true } });
    try {
      const worker = await house.startWorker({ meaning: 'due' });
      await house.warmUp();
      const n = 1000;
      const { end, spareMs } = await house.load.ask('future', {
        n,
        leadMs: bench.quick ? 1500 : 3000,
        overMs: bench.quick ? 1500 : 4000,
      });
      if (spareMs < 0) throw new Error(`${house.contestant.title} took too long to accept ${n} future jobs`);
      const withinMs = end - wall() + 60_000;
      await until(`all ${n} jobs have started`, () => worker.count() >= n, { withinMs });
      const { lateMs } = await worker.ask('report');
      const measured = { ...spread(lateMs), early: lateMs.filter((ms) => ms < 0).length };
      return { values: { late_p50: measured.p50, late_p99: measured.p99 }, detail: { lateness: measured } };
    } finally {
      await house.close();
    }
  },
};
