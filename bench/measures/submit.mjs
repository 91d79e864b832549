// Submits one job per request with 100 requests in flight; everybody behind an HTTP server, driven by the same client: one for
// all, whose requests may share a connection where the server takes that, and then a hundred, whose requests cannot. No worker
// runs. Afterwards the store must hold every job that was acknowledged.
import { openHouse } from '../house.mjs';
import { spread } from '../numbers.mjs';

const row = (key, title) => ({
  key,
  title: `submit, one job a request, 100 in flight${title}`,
  unit: '/s',
  better: 'higher',
  must: { ratio: 1.3, peer: 'bullmq', least: 20_000, text: '1.3 × BullMQ; 20,000' },
  aim: { least: 30_000, text: '30,000' },
});

export const submit = {
  name: 'submit',
  rows: [row('submit', ' from one client'), row('submitApart', ' from 100 clients')],
  peers: ['bullmq', 'pgboss', 'graphile'],
  quickPeers: ['bullmq'],

  async measure(bench, contestant) {
    const house = await openHouse(bench, contestant, { http: true });
    const results = [];
    try {
      for (const how of bench.quick ? ['submit'] : ['submit', 'submitApart']) {
        const load = (process) => process.ask(how, { inFlight: 100, ...bench.times(5, 4) });
        results.push(await timedSubmits(house, load, how));
      }
    } finally {
      await house.close();
    }
    return joined(results);
  },
};

/** Those of a measure that takes several, one after the other. */
export function joined(results) {
  return {
    values: Object.assign({}, ...results.map((result) => result.values)),
    detail: Object.assign({}, ...results.map((result) => result.detail)),
  };
}

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
