// Start latency: single submits at an even rate to an idle worker; from the beginning of the submit call to the start of
// the handler in the worker process, on the clock that processes of a machine share.
import { sleep, until } from '../clock.mjs';
import { openHouse } from '../house.mjs';
import { spread } from '../numbers.mjs';

const rates = [50, 1000];

const rows = rates.flatMap((rate) => [
  {
    key: `p50_at_${rate}`,
    title: `start latency at ${rate.toLocaleString('en')}/s, p50`,
    unit: 'ms',
    better: 'lower',
    must: { most: 3, text: '≤ 3' },
    aim: null,
  },
  {
    key: `p99_at_${rate}`,
    title: `start latency at ${rate.toLocaleString('en')}/s, p99`,
    unit: 'ms',
    better: 'lower',
    must: { most: 15, text: '≤ 15' },
    aim: { most: 5, text: '≤ 5' },
  },
]);

export const latency = {
  name: 'latency',
  rows,
  peers: ['bullmq', 'pgboss', 'graphile'],
  quickPeers: [],

  async measure(bench, contestant) {
    const values = {};
    const detail = {};
    const house = await openHouse(bench, contestant);
    try {
      const worker = await house.startWorker();
      await house.warmUp();
      for (const rate of rates) {
        const { seconds } = bench.times(rate === 50 ? 8 : 4, 0);
        await sleep(bench.quick ? 200 : 1000);
        await worker.ask('reset');
        const before = await house.moment();
        const { started, failed, reason } = await house.load.ask('pace', { perSecond: rate, seconds });
        // A peer that cannot keep up may refuse some; we may not.
        if (failed > 0 && contestant.ours) throw new Error(`${failed} submits failed: ${reason}`);
        await until(`all ${started} jobs have started`, () => worker.count() >= started, { withinMs: 60_000 });
        const cost = house.cost(before, await house.moment(), started);
        const { lateMs } = await worker.ask('report');
        const measured = spread(lateMs);
        values[`p50_at_${rate}`] = measured.p50;
        values[`p99_at_${rate}`] = measured.p99;
        detail[`at_${rate}`] = { ...measured, failed, ...cost };
      }
    } finally {
      await house.close();
    }
    return { values, detail };
  },
};
