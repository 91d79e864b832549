// Submits one job per request with 100 requests in flight; everybody behind an HTTP server, driven by the same client.
// No worker runs. Afterwards the store must hold every job that was acknowledged.
import { openHouse } from '../house.mjs';
import { spread } from '../numbers.mjs';

export const submit = {
  name: 'submit',
  rows: [
    {
      key: 'submit',
      title: 'submit, one job a request, 100 in flight',
      unit: '/s',
      better: 'higher',
      must: { ratio: 1.3, peer: 'bullmq', least: 20_000, text: '1.3 × BullMQ; 20,000' },
      aim: { least: 30_000, text: '30,000' },
    },
  ],
  peers: ['bullmq', 'pgboss', 'graphile'],
  quickPeers: ['bullmq'],

  async measure(bench, contestant) {
    const house = await openHouse(bench, contestant, { http: true });
    try {
      return await timedSubmits(house, (load) => load.ask('submit', { inFlight: 100, ...bench.times(5, 4) }), 'submit');
    } finally {
      await house.close();
    }
  },
};

/** Runs a timed load and sees that what was acknowledged is stored. */
export async function timedSubmits(house, run, key) {
  const before = await house.moment();
  const stored = await house.stored();
  const { jobs, seconds, submitted, tookMs } = await run(house.load);
  const cost = house.cost(before, await house.moment(), submitted);
  const now = await house.stored();
  if (now - stored < submitted) {
    throw new Error(`${house.contestant.title} acknowledged ${submitted} jobs and stored ${now - stored}`);
  }
  return { values: { [key]: jobs / seconds }, detail: { [key]: { jobs, seconds, tookMs: spread(tookMs), ...cost } } };
}
