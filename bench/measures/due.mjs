// 10,000 jobs due at the same instant: how long after it the last one has started.
import { until, wall } from '../clock.mjs';
import { openHouse } from '../house.mjs';
import { spread } from '../numbers.mjs';

export const due = {
  name: 'due',
  rows: [
    {
      key: 'due_last',
      title: '10,000 due at the same instant: the last one started after',
      unit: 'ms',
      better: 'lower',
      must: { most: 300, text: '≤ 300' },
      aim: { most: 120, text: '≤ 120' },
    },
  ],
  peers: ['bullmq', 'pgboss', 'graphile'],
  quickPeers: [],

  async measure(bench, contestant) {
    const house = await openHouse(bench, contestant, { place: { forDueTimes: true } });
    try {
      const worker = await house.startWorker({ meaning: 'due' });
      await house.warmUp();
      await house.warmUpDue({ inMs: bench.quick ? 700 : 1500 });
      const n = 10_000;
      const atMs = Math.ceil(wall()) + (bench.quick ? 2000 : 4000);
      await house.load.ask('fill', { n, atMs });
      if (wall() > atMs - 500) throw new Error(`${house.contestant.title} took too long to accept ${n} future jobs`);
      const withinMs = atMs - wall() + 60_000;
      await until(`all ${n} jobs have started`, () => worker.count() >= n, { withinMs });
      const { lateMs } = await worker.ask('report');
      const measured = { ...spread(lateMs), early: lateMs.filter((ms) => ms < 0).length };
      return { values: { due_last: measured.max }, detail: { due: measured } };
    } finally {
      await house.close();
    }
  },
};
