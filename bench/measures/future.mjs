// The same drain with and without millions of future jobs waiting beside it. They are written by SQL, as a submit would
// write them, once; then drains in that database and in an empty one take turns. The book must be in order afterwards.
import { checkBook, writeBacklog } from '../backlog.mjs';
import { openHouse } from '../house.mjs';
import { jobType } from '../http_producer.mjs';
import { ask } from '../postgres.mjs';
import { drainOnce } from './drain.mjs';

export const future = {
  name: 'future',
  notQuick: true,
  rows: [
    { key: 'without', title: 'drain without future jobs', unit: '/s', better: 'higher', must: null, aim: null },
    {
      key: 'with',
      title: 'drain with 5 million future jobs waiting',
      quickTitle: 'drain with 100,000 future jobs waiting',
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
      must: { least: 0.9, text: '≥ 0.9' },
      aim: { least: 1, text: '1.0' },
    },
  ],
  peers: [],
  quickPeers: [],

  async measure(bench, contestant) {
    const waiting = bench.quick ? 100_000 : 5_000_000;
    const jobs = bench.quick ? 40_000 : 100_000;
    bench.seeded ??= await seed(bench, contestant, waiting);
    const drainIn = async (database) => {
      const house = await openHouse(bench, contestant, { database });
      try {
        return await drainOnce(house, jobs);
      } finally {
        await house.close();
      }
    };
    const without = await drainIn(null);
    const beside = await drainIn(bench.seeded);
    if (bench.isLastRound) await finish(bench, waiting);
    const values = { without: without.rate, with: beside.rate, share: beside.rate / without.rate };
    return { values, detail: { without, with: { ...beside, waiting } } };
  },
};

async function seed(bench, contestant, n) {
  const database = await bench.stage.createDatabase('future');
  // The server makes the tables, and the first job its lane.
  const house = await openHouse(bench, contestant, { database });
  await house.load.ask('fill', { n: 1, atMs: Date.now() + 86_400_000 });
  await house.close();
  await writeBacklog(bench, { databaseUrl: database.url, n, type: jobType, where: 'waiting' });
  return database;
}

async function finish(bench, waiting) {
  const { url, drop } = bench.seeded;
  bench.seeded = undefined;
  const [{ n }] = await ask(url, 'select count(*)::integer as n from punctual.waiting');
  if (n !== waiting + 1) throw new Error(`${n} runs wait; there should be ${waiting + 1}`);
  await checkBook(url);
  await drop();
}
