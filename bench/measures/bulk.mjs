// Submits many jobs a request, ten requests in flight; everybody behind an HTTP server, driven by the same client.
import { openHouse } from '../house.mjs';
import { joined, timedSubmits } from './submit.mjs';

const row = (size) => ({
  key: `bulk${size}`,
  title: `submit in bulk, ${size.toLocaleString('en')} jobs a request`,
  unit: 'jobs/s',
  better: 'higher',
  must: { ratio: 1.5, text: '1.5 × best' },
  aim: { least: 150_000, text: '150,000' },
});

export const bulk = {
  name: 'bulk',
  rows: [row(100), row(1000)],
  peers: ['bullmq', 'pgboss', 'graphile'],
  quickPeers: ['graphile'],

  /** Each size in a house of its own: the tables that one leaves, the larger the faster it was, are not to slow the other. */
  async measure(bench, contestant) {
    const results = [];
    for (const size of [100, 1000]) {
      const house = await openHouse(bench, contestant, { http: true });
      try {
        const load = (process) => process.ask('bulk', { size, inFlight: 10, ...bench.times(4, 4) });
        results.push(await timedSubmits(house, load, `bulk${size}`));
      } finally {
        await house.close();
      }
    }
    return joined(results);
  },
};
