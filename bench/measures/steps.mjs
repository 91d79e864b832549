// How fast ends of runs start what depends on them. Each shape is one submit of jobs that do nothing, to a warm server with
// an idle worker; the time counts from the submit call until the store says that all have ended. Only ours.
import { tick, until } from '../clock.mjs';
import { jobType } from '../http_producer.mjs';
import { median } from '../numbers.mjs';
import { ask } from '../postgres.mjs';
import { inHouse } from './flow.mjs';

const step = (...items) => ({ type: jobType, payload: {}, depends_on: items.map((item) => ({ item })) });
const alone = { type: jobType, payload: {} };
const stage = (...needs) => ({ type: jobType, payload: {}, needs });
const named = (steps) => Object.fromEntries(steps.map((one, i) => [`s${i}`, one]));
const numbers = (from, to) => Array.from({ length: to - from }, (_, k) => from + k);

/** Whatever has an order among its steps is measured as one of these: `submit` gives them to the server. */
const shapes = [
  {
    row: {
      key: 'chain',
      title: 'chain of 100 dependent jobs, submit to the last end',
      unit: 'ms',
      better: 'lower',
      must: { most: 1000, text: '≤ 1,000' },
      aim: null,
    },
    steps: 100,
    submit: (client) => client.jobs.createMany([alone, ...numbers(0, 99).map((i) => step(i))]),
    valueOf: (ms) => ms,
  },
  {
    row: {
      key: 'fan',
      title: 'fan-out and fan-in, 1–998–1 dependent jobs, submit to the last end, steps',
      unit: '/s',
      better: 'higher',
      must: { least: 5000, text: '≥ 5,000' },
      aim: null,
    },
    steps: 1000,
    submit: (client) =>
      client.jobs.createMany([alone, ...numbers(0, 998).map(() => step(0)), step(...numbers(1, 999))]),
    valueOf: (ms) => 1_000_000 / ms,
  },
  {
    row: {
      key: 'workflow_chain',
      title: 'workflow of 100 steps in a chain, submit to the last end',
      unit: 'ms',
      better: 'lower',
      must: { most: 1000, text: '≤ 1,000' },
      aim: null,
    },
    steps: 100,
    submit: (client) =>
      client.workflows.create({
        name: 'chain',
        steps: named([stage(), ...numbers(0, 99).map((i) => stage(`s${i}`))]),
      }),
    valueOf: (ms) => ms,
  },
  {
    row: {
      key: 'workflow_fan',
      title: 'workflow of 1–998–1 steps, fan-out and fan-in, submit to the last end, steps',
      unit: '/s',
      better: 'higher',
      must: { least: 5000, text: '≥ 5,000' },
      aim: null,
    },
    steps: 1000,
    submit: (client) =>
      client.workflows.create({
        name: 'fan',
        steps: named([
          stage(),
          ...numbers(0, 998).map(() => stage('s0')),
          stage(...numbers(1, 999).map((i) => `s${i}`)),
        ]),
      }),
    valueOf: (ms) => 1_000_000 / ms,
  },
];

export const steps = {
  name: 'steps',
  byName: true,
  rows: shapes.map(({ row }) => row),
  peers: [],
  quickPeers: [],
  measure: (bench, contestant) => inHouse(bench, contestant, (house, client) => takeShapes(bench, house, client)),
};

async function takeShapes(bench, house, client) {
  const worker = await house.startWorker();
  await house.warmUp();
  const times = bench.quick ? 3 : 10;
  const values = {};
  const detail = {};
  for (const { row, steps: count, submit, valueOf } of shapes) {
    const tookMs = [];
    let before = null;
    // Of the first nothing is kept: a service runs for weeks.
    for (let i = 0; i <= times; i++) {
      await worker.ask('reset');
      if (i === 1) before = await house.moment();
      const begun = tick();
      await submit(client);
      await until(`all steps of a ${row.key} have ended`, () => hasEnded(house.place.databaseUrl), { everyMs: 5 });
      const ms = tick() - begun;
      const { n } = await worker.ask('report');
      if (n !== count) throw new Error(`${n} of ${count} steps of a ${row.key} were started`);
      if (i > 0) tookMs.push(ms);
    }
    values[row.key] = valueOf(median(tookMs));
    detail[row.key] = {
      steps: count,
      took_ms: tookMs.map(Math.round),
      ...house.cost(before, await house.moment(), count * times),
    };
  }
  return { values, detail };
}

async function hasEnded(databaseUrl) {
  const [{ yes }] = await ask(
    databaseUrl,
    `select not exists (select from punctual.waiting) and not exists (select from punctual.ready)
       and not exists (select from punctual.running)
       and not exists (select from punctual.workflows where ended_at is null) as yes`,
  );
  return yes;
}
