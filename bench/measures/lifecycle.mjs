// Submit, run and settle at the same time: the load process keeps a backlog of some 20,000 jobs in front of one worker
// process (Punctual over HTTP, peers through their library, which is faster for them); starts per second count.
import { sleep, tick } from '../clock.mjs';
import { openHouse } from '../house.mjs';

export const lifecycle = {
  name: 'lifecycle',
  rows: [
    {
      key: 'lifecycle',
      title: 'whole life cycle at once: submit, run, settle',
      unit: '/s',
      better: 'higher',
      must: { ratio: 1.2, text: '1.2 × best' },
      aim: { ratio: 1.7, text: '1.7 ×' },
    },
  ],
  peers: ['bullmq', 'pgboss', 'graphile'],
  quickPeers: ['graphile'],

  async measure(bench, contestant) {
    const house = await openHouse(bench, contestant);
    try {
      const { seconds, warmSeconds } = bench.times(8, 2);
      await startFeeding(house);
      await sleep(warmSeconds * 1000);
      const lived = await observe(house, seconds);
      return { values: { lifecycle: lived.rate }, detail: { lifecycle: lived } };
    } finally {
      await house.close();
    }
  },
};

export async function startFeeding(house) {
  await house.startWorker();
  await house.load.ask('feed', { backlog: 20_000, size: 1000, inFlight: 2 });
}

/** How many jobs start per second from now on, and what each costs. */
export async function observe(house, seconds) {
  const before = await house.moment();
  const n = house.worker.count();
  const at = tick();
  await sleep(seconds * 1000);
  const jobs = house.worker.count() - n;
  const took = (tick() - at) / 1000;
  if (jobs === 0) throw new Error(`${house.contestant.title} started nothing in ${seconds} s`);
  return { rate: jobs / took, jobs, seconds: took, ...house.cost(before, await house.moment(), jobs) };
}
