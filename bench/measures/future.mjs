// The same drain with and without millions of future jobs waiting beside it. They are written by SQL, as a submit would
// write them, once; then drains in that database and in an empty one take turns. The book must be in order afterwards.
import { openDatabase } from '@punctual/server/internal/store/database';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
import { openHouse } from '../house.mjs';
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
  const chunk = 250_000;
  for (let i = 0; i < n; i += chunk) {
    bench.say(`${i.toLocaleString('en')} of ${n.toLocaleString('en')} future jobs written`);
    await ask(database.url, insertFuture, [i, Math.min(chunk, n - i)]);
  }
  await ask(database.url, 'vacuum analyze punctual.jobs');
  await ask(database.url, 'vacuum analyze punctual.waiting');
  await ask(database.url, 'checkpoint');
  return database;
}

// Ids as base/ids.ts makes them: time, version 7, random, kind (0 job, 1 its first run), segment.
const insertFuture = `
  with numbers as (
    select g, (g % segments)::smallint as segment, clock_timestamp() as made
    from generate_series($1::bigint, $1::bigint + $2::bigint - 1) g, punctual.installation
  ), ids as (
    select g, segment, gen_random_uuid()::text as random, lpad(to_hex(floor(extract(epoch from made) * 1000)::bigint), 12, '0') as time
    from numbers
  ), named as (
    select g, segment, lpad(to_hex(segment::integer), 3, '0') as tail,
      left(time, 8) || '-' || right(time, 4) || '-7' || substr(random, 16, 3) || '-' || substr(random, 20, 4) || '-' || substr(random, 25, 8) as head,
      now() + interval '1 day' + g * interval '10 milliseconds' as at
    from ids
  ), model as (
    select * from punctual.jobs order by job_id limit 1
  ), inserted as (
    insert into punctual.jobs (segment, job_id, user_id, name, type, queue, priority, schedule_type, schedule_time, payload,
      executor, tags, max_retries, timeout_ms, run_timeout_ms, backoff)
    select n.segment, (n.head || '0' || n.tail)::uuid, m.user_id, m.name, m.type, m.queue, m.priority, m.schedule_type, n.at, m.payload,
      m.executor, m.tags, m.max_retries, m.timeout_ms, m.run_timeout_ms, m.backoff
    from named n, model m
  )
  insert into punctual.waiting (segment, run_id, job_id, lane_id, attempts, cause, reason, scheduled_for, due_at, wake_at)
  select n.segment, (n.head || '1' || n.tail)::uuid, (n.head || '0' || n.tail)::uuid, l.lane_id, 0, 'submit', 'due_later', n.at, n.at, n.at
  from named n, model m join punctual.lanes l on l.queue = m.queue and l.type = m.type and l.priority = m.priority`;

async function finish(bench, waiting) {
  const { url, drop } = bench.seeded;
  bench.seeded = undefined;
  const [{ n }] = await ask(url, 'select count(*)::integer as n from punctual.waiting');
  if (n !== waiting + 1) throw new Error(`${n} runs wait; there should be ${waiting + 1}`);
  const db = openDatabase({ url, poolSize: 2, queryTimeoutMs: 600_000 });
  const broken = await checkInvariants(db);
  await db.close();
  if (broken.length > 0) throw new Error(`invariants are broken: ${JSON.stringify(broken)}`);
  await drop();
}
