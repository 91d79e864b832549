// Schedules: a hundred thousand due in the same second, what planning costs with few and with very many schedules, and how
// late the runs of schedules start. Only ours: peers have nothing to compare.
import { Client, Worker } from '@punctual/sdk';
import { sleep, tick, until, wall } from '../clock.mjs';
import { openHouse } from '../house.mjs';
import { spread } from '../numbers.mjs';
import { ask } from '../postgres.mjs';

const row = (key, title, unit, must) => ({ key, title, unit, better: 'lower', must, aim: null });

export const schedules = {
  name: 'schedules',
  byName: true,
  rows: [
    row('midnight', 'schedules due in the same second: all planned after', 'ms', {
      most: 5000,
      text: '≤ 5,000 (100,000 schedules)',
    }),
    row('others', 'meanwhile, a job of somebody else: start latency, max', 'ms', { most: 2000, text: '≤ 2,000' }),
    row('cost', 'planning 10 a second with 1,000,000 schedules ÷ with 10,000, processor time', '×', {
      most: 2,
      text: '≤ 2',
    }),
    row('cron_p50', 'lateness of runs of schedules at 100 a second, p50', 'ms', null),
    row('cron_p99', 'lateness of runs of schedules at 100 a second, p99', 'ms', { most: 10, text: '≤ 10' }),
  ],
  peers: [],
  quickPeers: [],

  async measure(bench, contestant) {
    const few = bench.quick ? 2_000 : 10_000;
    const many = bench.quick ? 20_000 : 1_000_000;
    const herd = bench.quick ? 5_000 : 100_000;
    const lateness = await inHouse(bench, contestant, (house, client) => late(house, client));
    const midnight = await inHouse(bench, contestant, (house, client) => fallDue(house, client, herd));
    const withFew = await inHouse(bench, contestant, (house, client) => planningCost(house, client, few));
    const withMany = await inHouse(bench, contestant, (house, client) => planningCost(house, client, many));
    return {
      values: {
        midnight: midnight.plannedMs,
        others: midnight.othersMs,
        cost: withMany / withFew,
        cron_p50: lateness.p50,
        cron_p99: lateness.p99,
      },
      detail: { herd, few: { schedules: few, us: withFew }, many: { schedules: many, us: withMany }, lateness },
    };
  },
};

async function inHouse(bench, contestant, work) {
  const house = await openHouse(bench, contestant);
  const client = new Client({ url: house.place.url, timeoutMs: 120_000 });
  try {
    return await work(house, client);
  } finally {
    client.close();
    await house.close();
  }
}

async function openWorker(house, onStart) {
  const worker = new Worker({ url: house.place.url, slots: 1000, handlers: { noop: onStart } });
  await worker.start();
  return worker;
}

/** 100 intervals of a second that began at different moments; from the nominal time to the start of the handler. */
async function late(house, client) {
  let lateMs = [];
  const worker = await openWorker(house, (run) => {
    lateMs.push(wall() - Date.parse(run.scheduled_for));
  });
  for (let i = 0; i < 100; i++) {
    await client.jobs.create({ type: 'noop', interval_ms: 1000, overlap: 'allow' });
    await sleep(10);
  }
  await sleep(5000);
  lateMs = [];
  await sleep(10_000);
  const measured = spread(lateMs);
  await worker.stop({ graceMs: 0 });
  return measured;
}

async function fallDue(house, client, herd) {
  const startMs = [];
  const worker = await openWorker(house, (run) => {
    if (run.payload?.t !== undefined) startMs.push(tick() - run.payload.t);
  });
  const at = Math.ceil((wall() + 25_000) / 60_000) * 60_000;
  const when = new Date(at);
  const cron_expression = `${when.getUTCMinutes()} ${when.getUTCHours()} * * *`;
  // A queue that no worker serves: what is measured is planning.
  const job = { type: 'nobody', queue: 'herd', cron_expression };
  for (let made = 0; made < herd; made += 1000)
    await client.jobs.createMany(Array.from({ length: Math.min(1000, herd - made) }, () => job));
  if (wall() > at - 1000) throw new Error(`it took too long to create ${herd} schedules`);
  await sleep(at - 2000 - wall());
  let others = true;
  const submitting = (async () => {
    while (others) {
      await client.jobs.create({ type: 'noop', payload: { t: tick() } });
      await sleep(20);
    }
  })();
  // Asked so that it costs the planner nothing.
  const { databaseUrl } = house.place;
  const planned = async () => {
    const [{ due }] = await ask(
      databaseUrl,
      `select exists (select from punctual.schedules where segment = s and next_fire_at <= now() offset 0) as due
       from generate_series(0, 15) s order by 1 desc limit 1`,
    );
    return !due && wall() > at;
  };
  await until(`${herd} schedules are planned`, planned, { everyMs: 250, withinMs: 120_000 });
  others = false;
  await submitting;
  const [{ n }] = await ask(databaseUrl, 'select count(*)::integer as n from punctual.occurrences');
  if (n !== herd) throw new Error(`of ${herd} schedules ${n} were planned`);
  const [{ ms }] = await ask(
    house.place.databaseUrl,
    'select extract(epoch from max(planned_at) - max(scheduled_for)) * 1000 as ms from punctual.occurrences',
  );
  await worker.stop({ graceMs: 0 });
  return { plannedMs: Number(ms), othersMs: Math.max(...startMs) };
}

/** Processor time of server and database for each planned time, with ten schedules of every second among many others. */
async function planningCost(house, client, count) {
  await client.jobs.create({ type: 'nobody', queue: 'rest', cron_expression: '0 0 1 1 *' });
  await ask(
    house.place.databaseUrl,
    `with one as (select s.*, j.name from punctual.schedules s join punctual.jobs j using (segment, job_id) limit 1),
     ids as (select (i % 16)::smallint as segment, overlay(gen_random_uuid()::text placing '0' || lpad(to_hex(i % 16), 3, '0') from 33 for 4)::uuid as job_id from generate_series(1, ${count}) i),
     jobs as (insert into punctual.jobs (segment, job_id, name, type, queue, priority, schedule_type, max_retries, timeout_ms)
       select ids.segment, ids.job_id, 'x', 'nobody', 'rest', 5, 'CRON', 3, 3600000 from ids)
     insert into punctual.schedules (segment, job_id, spec, rule, overlap, catch_up, max_catch_up_count, fixed_delay, next_fire_at)
     select ids.segment, ids.job_id, one.spec, one.rule, one.overlap, one.catch_up, 100, false, one.next_fire_at from ids, one`,
  );
  await house.analyze();
  for (let i = 0; i < 10; i++)
    await client.jobs.create({ type: 'nobody', queue: 'rest', cron_expression: '* * * * * *', overlap: 'allow' });
  await sleep(5000);
  const before = await house.moment();
  await sleep(15_000);
  const { cpu_us } = house.cost(before, await house.moment(), 150);
  return cpu_us.server + cpu_us.store;
}
