// The life cycle while somebody holds a snapshot open, so that nothing can be vacuumed: the speed before, and how it
// goes in the three minutes after. Only when asked for, since it takes that long.
import pg from 'pg';
import { openHouse } from '../house.mjs';
import { observe, startFeeding } from './lifecycle.mjs';

export const snapshot = {
  name: 'snapshot',
  byName: true,
  rows: [
    {
      key: 'before',
      title: 'life cycle before a snapshot is held',
      unit: '/s',
      better: 'higher',
      must: null,
      aim: null,
    },
    {
      key: 'after',
      title: 'life cycle in the last 30 s of 3 minutes with a held snapshot',
      unit: '/s',
      better: 'higher',
      must: null,
      aim: null,
    },
    {
      key: 'share',
      title: 'the second as a share of the first',
      unit: '×',
      better: 'higher',
      must: { least: 0.7, text: '≥ 0.7, no decay' },
      aim: { least: 0.9, text: '0.9' },
    },
  ],
  peers: ['pgboss', 'graphile'],
  quickPeers: [],

  async measure(bench, contestant) {
    const house = await openHouse(bench, contestant);
    const holder = new pg.Client({ connectionString: house.place.databaseUrl });
    holder.on('error', () => {});
    try {
      await startFeeding(house);
      await observe(house, bench.quick ? 2 : 5);
      const before = await observe(house, bench.quick ? 4 : 15);
      await holder.connect();
      await holder.query('begin isolation level repeatable read');
      await holder.query('select count(*) from pg_class');
      const series = [];
      for (let i = 0; i < (bench.quick ? 4 : 18); i++) series.push(await observe(house, bench.quick ? 5 : 10));
      const rates = series.map(({ rate }) => Math.round(rate));
      const last = rates.slice(-3);
      const after = last.reduce((sum, rate) => sum + rate, 0) / last.length;
      const values = { before: before.rate, after, share: after / before.rate };
      return { values, detail: { snapshot: { before, rates, last: series.at(-1) } } };
    } finally {
      await holder.end().catch(() => {});
      await house.close();
    }
  },
};
