// What decides which runs start: the same drain beside runs that a gate holds, under limits and over priorities, each as a
// ratio to the plain drain. Only ours: peers have nothing to compare.
import { Client } from '@punctual/sdk';
import { checkBook, writeBacklog } from '../backlog.mjs';
import { claimsInTurn } from '../claims.mjs';
import { openHouse } from '../house.mjs';
import { jobType } from '../http_producer.mjs';
import { countStatements, startingTime } from '../statements.mjs';
import { drainFilled } from './drain.mjs';

const ratio = (key, title, must = null) => ({ key, title, unit: '×', better: 'lower', must, aim: null });

export const flow = {
  name: 'flow',
  byName: true,
  statements: true,
  rows: [
    {
      ...ratio('held', 'claim beside 1,000,000 held runs ÷ without, database time', { most: 1.2, text: '≤ 1.2' }),
      quickTitle: 'claim beside 50,000 held runs ÷ without, database time',
    },
    ratio('held_drain', 'the whole drain beside them ÷ without, time'),
    {
      ...ratio('keys', 'claim under 10,000 keys limited to 1 ÷ without keys, database time'),
      quickTitle: 'claim under 2,500 keys limited to 1 ÷ without keys, database time',
    },
    // What a limit of keys costs is both: who is admitted was moved out of the claim, not out of the cost.
    ratio('keys_admitted', 'claim and admission under those keys ÷ claim without keys, database time', {
      most: 1.5,
      text: '≤ 1.5',
    }),
    ratio('keys_300', 'claims of 300 runs under 10,000 keys ÷ without, in turn, processor time'),
    ratio('keys_100', 'claims of 100 runs under them ÷ without, in turn, processor time'),
    ratio('keys_drain', 'the whole drain under those keys ÷ without, time'),
    ratio('limit_drain', 'drain under a type limit above the slots ÷ without, time'),
    ratio('priorities_drain', 'drain over 10 priorities ÷ of one, time'),
  ],
  peers: [],
  quickPeers: [],

  async measure(bench, contestant) {
    const n = bench.quick ? 5000 : 20_000;
    const drain = (prepare, jobOf) =>
      inHouse(bench, contestant, (house, client) => drainCounted(house, client, { n, prepare, jobOf, warm: n / 5 }));
    // The plain drain before and after the others: what they are compared with is as old as they are.
    const first = await drain();
    const held = await drain((house, client) => holdMany(bench, house, client));
    const keys = await drain(
      (_, client) => client.limits.put('*', { max_concurrency: 1 }),
      (i) => ({ concurrency_key: `key-${i % (n / 2)}` }),
    );
    const limit = await drain((_, client) => client.limits.setLane('type', jobType, { max_concurrency: 10_000 }));
    const priorities = await drain(undefined, (i) => ({ priority: i % 10 }));
    const last = await drain();
    const claims_300 = await claimsInTurn(bench, 300);
    const claims_100 = await claimsInTurn(bench, 100);
    const plain = mean(first, last);
    return {
      values: {
        held: held.claim / plain.claim,
        held_drain: held.seconds / plain.seconds,
        keys: keys.claim / plain.claim,
        keys_admitted: (keys.claim + keys.admit) / plain.claim,
        keys_300: claims_300.ratio,
        keys_100: claims_100.ratio,
        keys_drain: keys.seconds / plain.seconds,
        limit_drain: limit.seconds / plain.seconds,
        priorities_drain: priorities.seconds / plain.seconds,
      },
      detail: { plain: first, held, keys, limit, priorities, plain_again: last, claims_300, claims_100 },
    };
  },
};

export async function inHouse(bench, contestant, work) {
  const house = await openHouse(bench, contestant, { place: { types: [jobType, 'held'], gated: true } });
  const client = new Client({ url: house.place.url, timeoutMs: 120_000 });
  try {
    return await work(house, client);
  } finally {
    client.close();
    await house.close();
  }
}

/**
 * A drain of n jobs, and the database time in microseconds that claims and admission took for each. Some of the same kind
 * are drained before: each connection plans a statement once, which would count for much in a drain of seconds.
 */
async function drainCounted(house, client, { n, prepare, jobOf = () => ({}), warm }) {
  const { databaseUrl } = house.place;
  await prepare?.(house, client);
  await fill(client, warm, jobOf);
  await drainFilled(house, warm);
  await house.stopWorker();
  await countStatements(databaseUrl);
  await fill(client, n, jobOf);
  const drained = await drainFilled(house, n, { analyze: false });
  const { claim, admit, claims } = await startingTime(databaseUrl);
  await checkBook(databaseUrl);
  return { ...drained, claim: (claim * 1000) / n, admit: (admit * 1000) / n, runs_a_claim: n / claims };
}

async function fill(client, n, jobOf) {
  const payload = { user: 'u-123456', action: 'send-email', to: 'someone@example.com', ref: 'abcdefghij-0123456789' };
  let next = 0;
  const submit = async () => {
    while (next < n) {
      const from = next;
      next = Math.min(n, from + 1000);
      const jobs = Array.from({ length: next - from }, (_, k) => ({ type: jobType, payload, ...jobOf(from + k) }));
      await client.jobs.createMany(jobs);
    }
  };
  await Promise.all([submit(), submit(), submit(), submit()]);
}

/** Runs of a type that the worker serves wait behind its gate. */
async function holdMany(bench, house, client) {
  const n = bench.quick ? 50_000 : 1_000_000;
  await client.gates.set('type', 'held', { state: 'hold' });
  await client.jobs.create({ type: 'held', payload: { ref: 'held' } });
  const { databaseUrl } = house.place;
  await writeBacklog(bench, { databaseUrl, n: n - 1, type: 'held', where: 'ready' });
}

const mean = (a, b) => ({ claim: (a.claim + b.claim) / 2, seconds: (a.seconds + b.seconds) / 2 });
