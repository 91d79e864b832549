// Writes very many jobs by SQL, as submits would write them: millions in seconds. They are copies of a job that was
// submitted before, which made the tables and the lane. Measures that need something to wait beside what is measured call it.
import { openDatabase } from '@punctual/server/internal/store/database';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
import { ask } from './postgres.mjs';

const CHUNK = 250_000;

/** `where`: 'waiting' for times from tomorrow on, 'ready' for now. They are copies of the oldest job of this type. */
export async function writeBacklog({ say }, { databaseUrl, n, type, where }) {
  for (let i = 0; i < n; i += CHUNK) {
    say(`${i.toLocaleString('en')} of ${n.toLocaleString('en')} jobs written to wait`);
    await ask(databaseUrl, statement(where), [i, Math.min(CHUNK, n - i), type]);
  }
  await ask(databaseUrl, 'vacuum analyze punctual.jobs');
  await ask(databaseUrl, `vacuum analyze punctual.${where}`);
  await ask(databaseUrl, 'checkpoint');
}

// Ids as base/ids.ts makes them: time, version 7, random, kind (0 job, 1 its first run), segment.
const statement = (where) => `
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
    select * from punctual.jobs where type = $3 order by job_id limit 1
  ), inserted as (
    insert into punctual.jobs (segment, job_id, user_id, name, type, queue, priority, schedule_type, schedule_time, payload,
      executor, tags, max_retries, timeout_ms, run_timeout_ms, backoff)
    select n.segment, (n.head || '0' || n.tail)::uuid, m.user_id, m.name, m.type, m.queue, m.priority, m.schedule_type,
      ${where === 'waiting' ? 'n.at' : 'null'}, m.payload, m.executor, m.tags, m.max_retries, m.timeout_ms, m.run_timeout_ms, m.backoff
    from named n, model m
  )
  ${where === 'waiting' ? intoWaiting : intoReady}
  from named n, model m join punctual.lanes l on l.queue = m.queue and l.type = m.type and l.priority = m.priority`;

const intoWaiting = `
  insert into punctual.waiting (segment, run_id, job_id, lane_id, attempts, cause, reason, scheduled_for, due_at, wake_at)
  select n.segment, (n.head || '1' || n.tail)::uuid, (n.head || '0' || n.tail)::uuid, l.lane_id, 0, 'submit', 'due_later', n.at, n.at, n.at`;

const intoReady = `
  insert into punctual.ready (segment, run_id, job_id, lane_id, attempts, cause, scheduled_for, due_at)
  select n.segment, (n.head || '1' || n.tail)::uuid, (n.head || '0' || n.tail)::uuid, l.lane_id, 0, 'submit', now(), now()`;

/** What was written past the server must be as the server would have written it. */
export async function checkBook(databaseUrl) {
  const db = openDatabase({ url: databaseUrl, poolSize: 2, queryTimeoutMs: 600_000 });
  const broken = await checkInvariants(db);
  await db.close();
  if (broken.length > 0) throw new Error(`invariants are broken: ${JSON.stringify(broken)}`);
}
