// Fills the book with a life of some weeks, by SQL alone: millions of jobs and runs in every state, with failures, attempts,
// dead letters, schedules with their ledgers, logs, workflows, alerts, the audit log and what else pages show. What it writes
// keeps the invariants, so that a server can work on it. Used by the measure `pages` and by the test of lists at scale.

const CHUNK = 100_000;
const MODEL_TYPES = 40;
const MODEL_QUEUES = 20;
const USERS = 2_000;

/**
 * `ask(text, values)` runs a statement on a database that a server has migrated. Nobody may serve the types `type-…`, and
 * sessions that hold runs last for a day.
 */
export async function fillBook(ask, { jobs, schedules = jobs / 50, days = 30, say = () => {} }) {
  await makeDays(ask, days);
  await ask(lanesAndWorkers);
  for (let i = 0; i < jobs; i += CHUNK) {
    if (i % 1_000_000 === 0) say(`${i.toLocaleString('en')} of ${jobs.toLocaleString('en')} jobs written`);
    await ask(oneTime, [i, Math.min(CHUNK, jobs - i), jobs, days]);
  }
  say('schedules, logs, workflows and the rest');
  const share = (part) => Math.max(20, Math.round(jobs * part));
  await ask(blocked, [share(0.001)]);
  await ask(recurring, [Math.max(20, Math.round(schedules)), 24]);
  await ask(logs);
  await ask(workflows, [share(0.02), days]);
  for (const text of small) await ask(text, [share(0.01), days]);
  for (const table of [
    'jobs',
    'schedules',
    'waiting',
    'ready',
    'running',
    'ended_runs',
    'attempts',
    'dead_letters',
    'log_chunks',
    'occurrences',
  ])
    await ask(`vacuum analyze punctual.${table}`);
  await ask('analyze');
}

async function makeDays(ask, days) {
  await ask(`do $$
    declare d date; t text;
    begin
      for d in select generate_series((now() at time zone 'UTC')::date - ${days + 1}, (now() at time zone 'UTC')::date, interval '1 day')::date loop
        foreach t in array array['ended_runs', 'attempts', 'log_chunks', 'log_filters'] loop
          execute format('create table if not exists punctual.%I partition of punctual.%I for values from (%L) to (%L)',
            t || to_char(d, '_YYYYMMDD'), t, d || '+00', (d + 1) || '+00');
        end loop;
      end loop;
    end $$`);
}

const lanesAndWorkers = `
  with made as (
    insert into punctual.lanes (queue, type, executor, priority)
    select 'queue-' || t % ${MODEL_QUEUES}, 'type-' || t, 'handler', p
    from generate_series(0, ${MODEL_TYPES - 1}) t, unnest(array[3, 5, 8]) p
    on conflict do nothing
  )
  insert into punctual.workers (session_id, worker_id, host, pid, version, slots, types, executors, started_at, seen_at, lease_until, ended_at, lost)
  select gen_random_uuid(), 'worker-' || w, 'host-' || w % 50, w, '1', 50, array['type-' || w % ${MODEL_TYPES}], '{}',
         now() - w * interval '10 minutes', case when w < 50 then now() else now() - w * interval '5 minutes' end,
         case when w < 50 then now() + interval '1 day' else now() - w * interval '5 minutes' end,
         case when w >= 50 then now() - w * interval '5 minutes' end, w % 7 = 0 and w >= 50
  from generate_series(0, 999) w`;

/** Ids as base/ids.ts makes them: time, version 7, random, kind, segment. */
const idHead = (ms, random) =>
  `left(${ms}, 8) || '-' || right(${ms}, 4) || '-7' || substr(${random}, 1, 3) || '-8' || substr(${random}, 4, 3) || '-' || substr(${random}, 7, 8)`;
const hexMs = (at) => `lpad(to_hex(floor(extract(epoch from ${at}) * 1000)::bigint), 12, '0')`;
const tail = (segment) => `lpad(to_hex(${segment}::integer), 3, '0')`;
const newId = (at, seed, kind, segment) =>
  `(${idHead(hexMs(at), `md5(${seed})`)} || '${kind}' || ${tail(segment)})::uuid`;

const errorOf = (g) => `case ${g} % 5
  when 0 then 'connect ECONNREFUSED 10.0.0.' || ${g} % 250 || ':5432'
  when 1 then 'timeout of ' || ${g} % 9000 || ' ms exceeded'
  when 2 then 'Request failed with status code 50' || ${g} % 4
  when 3 then 'Invoice ' || ${g} || ' not found'
  else E'TypeError: Cannot read properties of undefined\\n    at handler (/app/work.js:' || ${g} % 900 || ':7)' end`;

const oneTime = `
  with numbered as materialized (
    select g, (g % i.segments)::smallint as segment, (g * 2654435761 % 4294967296 / 7) % 1000 as h, (g * 40503 % 65536) / 65536.0 as spread,
           now() - $4::integer * interval '1 day' * (1 - g::float8 / $3::bigint) as made
    from generate_series($1::bigint, $1::bigint + $2::bigint - 1) g, punctual.installation i
  ), drawn as materialized (
    select n.*, ${idHead(hexMs('made'), 'md5(g::text)')} as head, ${tail('segment')} as tail,
           (floor(spread * spread * ${MODEL_TYPES}))::integer as t, case when h % 10 < 8 then 5 when h % 10 = 8 then 3 else 8 end as priority,
           case when g % greatest(1, $3::bigint / 500) = 7 then 'running'
                when h < 900 then 'SUCCESS' when h < 930 then 'FAILED' when h < 940 then 'CANCELLED' when h < 942 then 'DROPPED'
                when h < 990 then 'due_later' when h < 992 then 'retry' when h < 993 then 'paused' else 'ready' end as state
    from numbered n
  ), placed as materialized (
    select d.*, (head || '0' || tail)::uuid as job_id, (head || '1' || tail)::uuid as run_id, 'type-' || t as type, 'queue-' || t % ${MODEL_QUEUES} as queue,
           l.lane_id, least(now(), made + interval '1 second' + spread * interval '5 seconds') as started,
           least(now(), made + interval '3 seconds' + spread * interval '1 minute') as ended,
           now() + interval '2 hours' + (g % 1000000) * interval '2 seconds' as later
    from drawn d
    join punctual.lanes l on l.type = 'type-' || t and l.queue = 'queue-' || t % ${MODEL_QUEUES} and l.priority = d.priority and l.stage = 'plain'
  ), jobs as (
    insert into punctual.jobs (segment, job_id, user_id, name, type, queue, priority, schedule_type, schedule_time, payload, tags,
      max_retries, timeout_ms, paused_at, cancelled_at, created_at, updated_at)
    select segment, job_id, 'user-' || floor(spread * spread * spread * ${USERS})::integer, 'Job ' || g % 5000 || ' of ' || type, type, queue, priority,
      case when state = 'due_later' then 'FUTURE' else 'IMMEDIATE' end::punctual.schedule_type, case when state = 'due_later' then later end,
      '{"order":' || g || ',"customer":"c' || g % 9973 || '","note":"as asked"}', case when g % 20 = 0 then array['nightly', 'team-' || g % 7] end,
      3, 600000, case when state = 'paused' then made end, case when state = 'CANCELLED' then ended end, made, made
    from placed
  ), ended as (
    insert into punctual.ended_runs (segment, run_id, job_id, lane_id, attempt, cause, status, reason, lease_id, worker_id, scheduled_for,
      due_at, started_at, ended_at, error, result)
    select segment, run_id, job_id, lane_id, case when state = 'FAILED' then 4 else 1 end, 'submit', state::punctual.run_outcome,
      case state when 'FAILED' then 'failed' when 'DROPPED' then 'gate' end, gen_random_uuid(), case when state in ('SUCCESS', 'FAILED') then 'worker-' || g % 1000 end,
      made, made, case when state in ('SUCCESS', 'FAILED') then started end, greatest(ended, started), case when state = 'FAILED' then ${errorOf('g')} end,
      case when state = 'SUCCESS' then '{"ok":true,"rows":' || g % 977 || '}' end
    from placed
    where state in ('SUCCESS', 'FAILED', 'CANCELLED', 'DROPPED')
  ), tried as (
    insert into punctual.attempts (segment, run_id, attempt, lease_id, worker_id, outcome, started_at, ended_at, error)
    select segment, run_id, a, gen_random_uuid(), 'worker-' || (g + a) % 1000, 'failed', started, greatest(ended, started), ${errorOf('g')}
    from placed, generate_series(1, 4) a
    where state = 'FAILED' or (state = 'retry' and a = 1)
  ), dead as (
    insert into punctual.dead_letters (segment, run_id, job_id, lane_id, reason, error, attempts, worker_id, failed_at)
    select segment, run_id, job_id, lane_id, 'failed', ${errorOf('g')}, 4, 'worker-' || g % 1000, greatest(ended, started)
    from placed
    where state = 'FAILED'
  ), waiting as (
    insert into punctual.waiting (segment, run_id, job_id, lane_id, attempts, cause, reason, scheduled_for, due_at, wake_at)
    select segment, run_id, job_id, lane_id, case when state = 'retry' then 1 else 0 end, 'submit', state::punctual.waiting_reason,
      case when state = 'due_later' then later else made end, later, case when state = 'paused' then 'infinity' else later end
    from placed
    where state in ('due_later', 'retry', 'paused')
  ), ready as (
    insert into punctual.ready (segment, run_id, job_id, lane_id, attempts, cause, scheduled_for, due_at)
    select segment, run_id, job_id, lane_id, 0, 'submit', made, made from placed where state = 'ready'
  )
  insert into punctual.running (segment, run_id, job_id, lane_id, attempt, cause, lease_id, session_id, worker_id, scheduled_for, due_at, started_at)
  select p.segment, p.run_id, p.job_id, p.lane_id, 1, 'submit', gen_random_uuid(), w.session_id, w.worker_id, p.made, p.made, greatest(p.started, now() - interval '5 minutes')
  from placed p
  join punctual.workers w on w.worker_id = 'worker-' || p.g % 50 and w.ended_at is null
  where p.state = 'running'`;

/** Some of those that wait for a time wait for another run instead. */
const blocked = `
  with chosen as (
    select w.*, row_number() over (order by w.segment, w.run_id) as n
    from (select * from punctual.waiting where reason = 'due_later' limit 2 * $1::integer) w
  ), pairs as (
    select c.segment, c.run_id, c.job_id, p.segment as parent_segment, p.run_id as parent_run_id
    from chosen c
    join chosen p on p.n = c.n - 1
    where c.n % 2 = 0
  ), needs as (
    insert into punctual.needs (segment, job_id, parent_run_id, place, on_condition)
    select segment, job_id, parent_run_id, 0, 'success' from pairs
  ), dependents as (
    insert into punctual.dependents (segment, run_id, job_id, on_condition)
    select parent_segment, parent_run_id, job_id, 'success' from pairs
  )
  update punctual.waiting w
  set reason = 'dependency', wake_at = 'infinity'
  from pairs p
  where w.segment = p.segment and w.run_id = p.run_id`;

/**
 * Hourly schedules, copies of those that were made through the door (their type is `type-hourly`), each with a key of its own,
 * an interval with its own beginning too. One of twenty has a day of history and the others three hours: all of a day would be
 * more runs than there are one-time jobs for every two schedules, and no page shows more of it.
 */
const recurring = `
  with models as materialized (
    select s.*, row_number() over (order by s.segment, s.job_id) - 1 as n, count(*) over () as all_models,
           extract(epoch from s.next_fire_at)::bigint as phase, j.schedule_type
    from punctual.schedules s
    join punctual.jobs j using (segment, job_id)
    where j.type = 'type-hourly'
  ), lane as (
    select lane_id from punctual.lanes where type = 'type-hourly' limit 1
  ), numbered as materialized (
    select g, (g % i.segments)::smallint as segment, case when g % 20 = 0 then $2::integer else 3 end as hours, m.n,
           (m.phase + case when m.schedule_type = 'INTERVAL' then g else 0 end) % 3600 as phase
    from generate_series(1, $1::bigint) g
    cross join punctual.installation i
    join models m on m.n = g % m.all_models
  ), timed as materialized (
    select n.*, to_timestamp(floor((extract(epoch from now()) - phase) / 3600) * 3600 + phase) as last from numbered n
  ), placed as materialized (
    select t.*, last - hours * interval '1 hour' as first, ${newId(`last - hours * interval '1 hour' - interval '1 minute'`, `'schedule' || g`, 0, 'segment')} as job_id
    from timed t
  ), jobs as (
    insert into punctual.jobs (segment, job_id, user_id, name, type, queue, priority, schedule_type, max_retries, timeout_ms, created_at, updated_at)
    select p.segment, p.job_id, 'user-' || g % ${USERS}, 'Hourly ' || g, 'type-hourly', 'hourly', 5, m.schedule_type, 3, 600000,
           first - interval '1 minute', first - interval '1 minute'
    from placed p
    join models m using (n)
  ), schedules as (
    insert into punctual.schedules (segment, job_id, spec, rule, overlap, catch_up, max_catch_up_count, fixed_delay, next_fire_at, planned_until, runs_made)
    select p.segment, p.job_id, m.spec,
           regexp_replace(regexp_replace(m.rule, '"jitter_key":"[^"]*"', '"jitter_key":"' || p.job_id || '"'), '"anchor_ms":[0-9]+', '"anchor_ms":' || floor(extract(epoch from first) * 1000)::bigint),
           m.overlap, m.catch_up, m.max_catch_up_count, false, last + interval '1 hour', last, hours + 1
    from placed p
    join models m using (n)
  ), times as materialized (
    select p.segment, p.job_id, p.g, at, ${newId('at', `'occurrence' || g || at`, 2, 'segment')} as run_id
    from placed p, generate_series(first, last, interval '1 hour') at
  ), ledger as (
    insert into punctual.occurrences (segment, job_id, scheduled_for, through, times, run_id, effective_at, planned_at)
    select segment, job_id, at, at, 1, run_id, at, at from times
  )
  insert into punctual.ended_runs (segment, run_id, job_id, lane_id, attempt, cause, status, reason, lease_id, worker_id, scheduled_for, due_at, started_at, ended_at)
  select segment, run_id, job_id, lane_id, 1, 'schedule', case when g % 50 = 0 then 'FAILED' else 'SUCCESS' end::punctual.run_outcome,
         case when g % 50 = 0 then 'failed' end, gen_random_uuid(), 'worker-' || g % 1000, at, at, at, least(now(), at + g % 60 * interval '1 second')
  from times, lane`;

/** As an older version stored them: a server that runs on it makes them searchable. */
const logs = `
  insert into punctual.log_chunks (segment, run_id, attempt, lines, created_at, job_id, lane_id, worker_id, weight, words)
  select e.segment, e.run_id, e.attempt,
         '[{"at":"2026-01-01T00:00:00.000Z","level":"info","message":"order ' || right(e.run_id::text, 12) || ' accepted"},{"at":"2026-01-01T00:00:00.100Z","level":"warn","message":"payment retried after ' || e.n % 977 || ' ms"}]',
         e.ended_at, e.job_id, e.lane_id, e.worker_id, 120,
         ''::tsvector
  from (
    select *, row_number() over () as n
    from (
      -- About one of twenty.
      select * from punctual.ended_runs where started_at is not null and get_byte(uuid_send(run_id), 12) < 13 order by ended_at
    ) chosen
  ) e
  join punctual.lanes l using (lane_id)`;

/** Those that ended have two steps done; those that go on wait for a person. */
const workflows = `
  with numbered as materialized (
    select g, (g % i.segments)::smallint as segment, now() - $2::integer * interval '1 day' * (1 - g::float8 / $1::bigint) as made, g % 100 = 0 as open
    from generate_series(1, $1::bigint) g, punctual.installation i
  ), placed as materialized (
    select n.*, ${newId('made', `'workflow' || g`, 5, 'segment')} as workflow_id from numbered n
  ), flows as (
    insert into punctual.workflows (segment, workflow_id, name, user_id, definition, created_at, ended_at, outcome)
    select segment, workflow_id, 'flow-' || g % 30, 'user-' || g % ${USERS},
      '{"steps":{"fetch":{"type":"type-1"},"approve":{"needs":["fetch"],"wait":{"event":"approved"}}}}', made, case when not open then made + interval '1 minute' end,
      case when open then null when g % 40 = 1 then 'FAILED' else 'SUCCESS' end
    from placed
  )
  insert into punctual.workflow_steps (segment, workflow_id, step, item, kind, outcome, token, begun_at, ended_at)
  select segment, workflow_id, step, -1, case when step = 'fetch' then 'job' else 'wait' end,
         case when step = 'fetch' or not open then case when g % 40 = 1 and step = 'approve' then 'FAILED' else 'SUCCESS' end end, case when step = 'approve' then md5(g::text) end,
         case when step = 'fetch' then made else made + interval '20 seconds' end,
         case when step = 'fetch' then made + interval '10 seconds' when not open then made + interval '40 seconds' end
  from placed, unnest(array['fetch', 'approve']) step`;

const at = `now() - $2::integer * interval '1 day' * (1 - least(1, g::float8 / $1::bigint))`;

/** $1: how many, $2: over how many days. */
const small = [
  `insert into punctual.alerts (alert_id, rule, kind, group_key, value, summary, since, last_at, resolved_at)
   select ${newId(at, `'alert' || g`, 8, '0')}, 'rule-' || g % 20, 'backlog_age', 'group-' || g, g % 100, 'Runs of queue-' || g % 20 || ' wait too long',
          ${at}, ${at}, case when g % 500 <> 0 then ${at} end
   from generate_series(1, $1::bigint) g`,
  `insert into punctual.audit (audit_id, at, key_name, user_id, operation, noun, id, before, after)
   select ${newId(at, `'audit' || g`, 'f', '0')}, ${at}, 'key-' || g % 30, 'user-' || g % 50, (array['updateJob', 'setGate', 'pauseJob', 'createKey'])[1 + g % 4],
          (array['job', 'gate', 'job', 'key'])[1 + g % 4], 'thing-' || g % 1000, '{"a":1}', '{"a":2}'
   from generate_series(1, 6 * $1::bigint) g`,
  `insert into punctual.deliveries (delivery_id, target_kind, target, event_id, event, body, state, attempts, next_at, status, error, created_at, ended_at)
   select ${newId(at, `'delivery' || g`, 9, '0')}, 'channel', 'channel-' || g % 5, g::text, 'alert.firing', '{}', case when g % 50 = 0 then 'dead' else 'delivered' end,
          1, null, 200, null, ${at}, ${at}
   from generate_series(1, $1::bigint) g`,
  `with made as (
     insert into punctual.operations (operation_id, action, filter, state, started_at, ended_at)
     select ${newId(at, `'operation' || g`, 4, '0')}, 'cancel', '{"type":"type-1"}', 'DONE', ${at}, ${at} from generate_series(1, least(500, $1::bigint)) g
     returning operation_id
   )
   insert into punctual.operation_parts (segment, operation_id, looked_at, matched, done, ended)
   select s, operation_id, 100, 10, 10, true from made, punctual.installation i, generate_series(0, i.segments - 1) s`,
  `insert into punctual.artifacts (segment, sha256, upload_id, size, name, content_type, created_at)
   select punctual.segment_of_key(h, i.segments), h, gen_random_uuid(), 1000 + g, 'report-' || g || '.pdf', 'application/pdf', ${at}
   from (select g, encode(sha256(g::text::bytea), 'hex') as h from generate_series(1, least(20000, $1::bigint)) g) a, punctual.installation i`,
  `insert into punctual.key_limits (segment, key, own, max_concurrency)
   select punctual.segment_of_key('customer-' || g, i.segments), 'customer-' || g, true, 5
   from generate_series(1, least(20000, $1::bigint)) g, punctual.installation i where $2::integer > 0`,
  `insert into punctual.lane_starts (lane_id, bucket, started)
   select l.lane_id, date_trunc('second', now()) - s * interval '10 seconds', 10
   from punctual.lanes l, generate_series(0, 6) s where l.type like 'type-%' and $1::bigint + $2::integer > 0`,
];
