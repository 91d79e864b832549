// What must always be true of the book: queries that return no rows. Checked after every test, and in production by
// `punctual doctor`.
import { holdsPlace } from './admit_keys.ts';
import { segmentOfHash } from './artifact_refs.ts';
import type { Database } from './database.ts';
import { findHole } from './holes.ts';
import { firstRunOfJob, jobIsLive } from './jobs.ts';
import { mostPlaces, neglectedKeys } from './key_limits.ts';
import { type Fragment, part, type Sql, sql } from './sql.ts';

export interface Violation {
  invariant: string;
  example: string;
}

const anyRun = part`(
  select segment, run_id, job_id, lane_id, cause, 'waiting' as state from punctual.waiting
  union all select segment, run_id, job_id, lane_id, cause, 'ready' from punctual.ready
  union all select segment, run_id, job_id, lane_id, cause, 'running' from punctual.running
  union all select segment, run_id, job_id, lane_id, cause, 'ended' from punctual.ended_runs) r`;

/** The segment an id bears: its last three hex digits. */
const segmentIn = (id: Fragment): Fragment => part`('x' || right(${id}::text, 3))::bit(12)::integer`;

/** Made so long ago that retention, which keeps at least a day, may have removed it. */
const mayBeGone = (id: Fragment): Fragment =>
  part`('x' || left(replace(${id}::text, '-', ''), 12))::bit(48)::bigint < extract(epoch from now() - interval '1 day') * 1000`;

/** Each selects `what`: the id of a thing for which the promise is broken. */
export const invariants: Record<string, Fragment> = {
  'a run is in exactly one state': part`
    select run_id::text as what from ${anyRun} group by segment, run_id having count(*) > 1`,
  'a run has a job': part`
    select r.run_id::text as what from ${anyRun} left join punctual.jobs j using (segment, job_id) where j.job_id is null`,
  'a job has its first run': part`
    select j.job_id::text as what
    from punctual.jobs j
    left join ${anyRun} on r.segment = j.segment and r.run_id = overlay(j.job_id::text placing '1' from 33 for 1)::uuid
    where j.schedule_type in ('IMMEDIATE', 'FUTURE') and r.run_id is null and not ${mayBeGone(part`j.job_id`)}`,
  'an encrypted job stores nothing in the clear': part`
    select e.run_id::text as what
    from punctual.ended_runs e
    join punctual.jobs j using (segment, job_id)
    where left(j.payload, 4) = 'enc:' and left(e.result, 4) <> 'enc:'
    union all
    select c.run_id::text
    from punctual.checkpoints c
    join ${anyRun} using (segment, run_id)
    join punctual.jobs j on j.segment = r.segment and j.job_id = r.job_id
    where left(j.payload, 4) = 'enc:' and left(c.value, 4) <> 'enc:'`,
  'an encrypted workflow stores nothing in the clear': part`
    select w.workflow_id::text as what
    from punctual.workflows w
    where left(w.input, 4) = 'enc:' and left(w.result, 4) <> 'enc:'
    union all
    select s.workflow_id::text || ' ' || s.step
    from punctual.workflow_steps s
    join punctual.workflows w using (segment, workflow_id)
    where left(w.input, 4) = 'enc:' and (left(s.payload, 4) <> 'enc:' or left(s.result, 4) <> 'enc:')
    union all
    select c.workflow_id::text
    from punctual.workflows c
    join punctual.workflows w on w.segment = c.segment and w.workflow_id = c.parent_id
    where left(w.input, 4) = 'enc:' and left(c.input, 4) is distinct from 'enc:'
    union all
    select j.job_id::text
    from punctual.jobs j
    join punctual.workflows w on w.segment = ${segmentIn(part`j.workflow_id`)} and w.workflow_id = j.workflow_id
    where left(w.input, 4) = 'enc:' and left(j.payload, 4) is distinct from 'enc:'`,
  'a run has a lane': part`
    select r.run_id::text as what from ${anyRun} left join punctual.lanes l using (lane_id) where l.lane_id is null`,
  'a run lives in the segment its id bears': part`
    select r.run_id::text as what from ${anyRun} where ${segmentIn(part`r.run_id`)} <> r.segment or ${segmentIn(part`r.job_id`)} <> r.segment`,
  'a submission names jobs that exist': part`
    select s.key as what
    from punctual.submissions s
    left join punctual.jobs j on j.segment = ${segmentIn(part`s.job_id`)} and j.job_id = s.job_id
    where j.job_id is null and not ${mayBeGone(part`s.job_id`)}`,
  'a cancelled job has no run left to start': part`
    select w.run_id::text as what
    from punctual.waiting w
    join punctual.jobs j using (segment, job_id)
    where j.cancelled_at < now() - interval '5 seconds' and w.wake_at < now() - interval '5 seconds'`,
  'a run that waits as paused has a job that is paused': part`
    select w.run_id::text as what
    from punctual.waiting w
    join punctual.jobs j using (segment, job_id)
    where w.reason = 'paused' and j.paused_at is null and j.cancelled_at is null`,
  'a run never starts more often than it may': part`
    select r.run_id::text as what
    from punctual.running r
    join punctual.jobs j using (segment, job_id)
    where r.attempt > j.max_retries + 1 and j.version = 1`,
  'a leased run belongs to a session that has not long ended': part`
    select r.run_id::text as what
    from punctual.running r
    left join punctual.workers w using (session_id)
    where w.session_id is null or w.ended_at < now() - interval '30 seconds'`,
  'an attempt or a log line is of a run that is there, or was': part`
    select a.run_id::text as what
    from (select segment, run_id from punctual.attempts union all select segment, run_id from punctual.log_chunks) a
    left join ${anyRun} using (segment, run_id)
    where r.run_id is null and not ${mayBeGone(part`a.run_id`)}`,
  'log lines are found by one filter': part`
    select c.chunk::text as what
    from punctual.log_chunks c
    left join (select f.segment, unnest(f.chunks) as chunk, f.since, f.created_at from punctual.log_filters f) n
      on n.chunk = c.chunk and n.segment = c.segment and c.created_at between n.since and n.created_at
    where c.job_id is not null and c.words is null
    group by c.chunk
    having count(n.chunk) <> 1`,
  'a failure has a reason': part`
    select run_id::text as what from punctual.ended_runs where status = 'FAILED' and error is null and reason is null`,
  'a run does not end before it starts': part`
    select run_id::text as what from punctual.ended_runs where ended_at < started_at`,
  'a completion is settled by the commit that brings it': part`
    select run_id::text as what from punctual.completions`,
  'a dead letter is of a run that failed': part`
    select d.run_id::text as what
    from punctual.dead_letters d
    left join punctual.ended_runs e using (segment, run_id)
    where e.status is distinct from 'FAILED'`,
  'a dead letter has its job': part`
    select d.run_id::text as what
    from punctual.dead_letters d
    left join punctual.jobs j using (segment, job_id)
    where j.job_id is null`,
  'a redriven dead letter has its run': part`
    select d.run_id::text as what
    from punctual.dead_letters d
    left join ${anyRun} on r.segment = d.segment and r.run_id = d.redriven_run_id
    where d.redriven_run_id is not null and r.run_id is null and not ${mayBeGone(part`d.redriven_run_id`)}`,
  'a recurring job has its schedule': part`
    select j.job_id::text as what
    from punctual.jobs j
    left join punctual.schedules s using (segment, job_id)
    where j.schedule_type in ('CRON', 'INTERVAL') and s.job_id is null`,
  'a run of a schedule has its time in the ledger': part`
    select r.run_id::text as what
    from ${anyRun}
    left join punctual.occurrences o on o.segment = r.segment and o.job_id = r.job_id and o.run_id = r.run_id
    where r.cause = 'schedule' and o.run_id is null`,
  'a time in the ledger that made a run has it': part`
    select o.run_id::text as what
    from punctual.occurrences o
    left join ${anyRun} on r.segment = o.segment and r.run_id = o.run_id
    where o.run_id is not null and r.run_id is null and not ${mayBeGone(part`o.run_id`)}`,
  'entries of the ledger do not overlap': part`
    select o.job_id::text as what
    from (
      select job_id, scheduled_for, lag(through) over (partition by segment, job_id order by scheduled_for) as before
      from punctual.occurrences
    ) o
    where o.scheduled_for <= o.before`,
  'nothing in the ledger lies beyond what is planned': part`
    select o.job_id::text as what
    from punctual.occurrences o
    join punctual.schedules s using (segment, job_id)
    where o.through > s.planned_until`,
  'a job that does not allow it never runs twice at once': part`
    select r.job_id::text as what
    from punctual.running r
    join punctual.schedules s using (segment, job_id)
    where s.overlap <> 'allow' and r.cause <> 'backfill'
    group by r.segment, r.job_id
    having count(*) > 1`,
  'a run waits for another only while there is one': part`
    select w.run_id::text as what
    from punctual.waiting w
    join punctual.jobs j using (segment, job_id)
    where w.reason = 'overlap' and j.paused_at is null and w.updated_at < now() - interval '30 seconds'
      and not exists (select from punctual.running r where r.segment = w.segment and r.job_id = w.job_id and r.cause <> 'backfill')
      and not exists (select from punctual.ready r where r.segment = w.segment and r.job_id = w.job_id and r.cause <> 'backfill')
      and not exists (select from punctual.waiting r where r.segment = w.segment and r.job_id = w.job_id and r.cause <> 'backfill' and r.reason <> 'overlap')`,
  'a time of a backfill that made a run has it': part`
    select t.run_id::text as what
    from punctual.backfill_times t
    left join ${anyRun} on r.segment = t.segment and r.run_id = t.run_id
    where t.run_id is not null and r.run_id is null and not (t.outcome is not null and ${mayBeGone(part`t.run_id`)})`,
  'a run of a backfill has its time there': part`
    select r.run_id::text as what
    from ${anyRun}
    left join punctual.backfill_times t on t.segment = r.segment and t.run_id = r.run_id
    where r.cause = 'backfill' and t.run_id is null`,
  'a backfill has no more runs at once than it may': part`
    select t.backfill_id::text as what
    from (
      select segment, run_id from punctual.waiting where cause = 'backfill'
      union all select segment, run_id from punctual.ready where cause = 'backfill'
      union all select segment, run_id from punctual.running where cause = 'backfill'
    ) r
    join punctual.backfill_times t using (segment, run_id)
    join punctual.backfills b using (segment, backfill_id)
    group by t.segment, t.backfill_id, b.max_concurrency
    having count(*) > b.max_concurrency`,
  'a backfill counts what its times say': part`
    select b.backfill_id::text as what
    from punctual.backfills b
    left join punctual.backfill_times t using (segment, backfill_id)
    group by b.segment, b.backfill_id
    having (b.total, b.made, b.succeeded, b.failed, b.cancelled)
           <> (count(t.scheduled_for), count(t.run_id), count(*) filter (where t.outcome = 'SUCCESS'),
               count(*) filter (where t.outcome = 'FAILED'), count(*) filter (where t.outcome in ('CANCELLED', 'DROPPED')))`,
  'no more runs of a queue or a type start than its limit allows': part`
    select l.kind || ' ' || l.name as what
    from punctual.lane_limits l
    join punctual.lane_holds h using (kind, name)
    join punctual.running r using (segment, run_id)
    where l.max_concurrency is not null and r.started_at > l.changed_at
    group by l.kind, l.name, l.max_concurrency
    having count(*) > l.max_concurrency`,
  'a checkpoint goes with its run': part`
    select c.run_id::text as what
    from punctual.checkpoints c
    where c.updated_at < now() - interval '1 hour'
      and not exists (select from punctual.running r where r.segment = c.segment and r.run_id = c.run_id)
      and not exists (select from punctual.ready r where r.segment = c.segment and r.run_id = c.run_id)
      and not exists (select from punctual.waiting r where r.segment = c.segment and r.run_id = c.run_id)`,
  'a run that kept something shows that it was started': part`
    select r.run_id::text as what
    from (
      select segment, run_id, attempts, scheduled_for, due_at from punctual.waiting
      union all select segment, run_id, attempts, scheduled_for, due_at from punctual.ready
    ) r
    join punctual.checkpoints c using (segment, run_id)
    where r.attempts = 0 and r.due_at = r.scheduled_for`,
  'of the jobs that hold a unique key while live, at most one is live: the one the key names': part`
    select j.job_id::text as what
    from punctual.jobs j
    left join punctual.uniques u on u.user_id = coalesce(j.user_id, '') and u.key = j.unique_key and u.job_id = j.job_id
    where j.unique_scope = 'live' and u.job_id is null
      and (exists (select from punctual.waiting r where r.segment = j.segment and r.run_id = ${firstRunOfJob})
           or exists (select from punctual.ready r where r.segment = j.segment and r.run_id = ${firstRunOfJob})
           or exists (select from punctual.running r where r.segment = j.segment and r.run_id = ${firstRunOfJob})
           or exists (select from punctual.schedules s where s.segment = j.segment and s.job_id = j.job_id and not s.ended))`,
  'a unique key names a job that bears it': part`
    select u.key as what
    from punctual.uniques u
    left join punctual.jobs j on j.segment = ${segmentIn(part`u.job_id`)} and j.job_id = u.job_id
    where (coalesce(j.user_id, ''), j.unique_key) is distinct from (u.user_id, u.key)`,
  'an operation counts each item once': part`
    select p.operation_id::text as what
    from punctual.operation_parts p
    where p.matched <> p.done + cardinality(p.left_ids)
          + coalesce((select sum(s.value::integer) from jsonb_each_text(p.skipped) s), 0)`,
  'an operation that is done has nothing left': part`
    select o.operation_id::text as what
    from punctual.operations o
    join punctual.operation_parts p using (operation_id)
    where o.state = 'DONE' and (not p.ended or p.left_ids <> '{}')`,
  'since its limit was set a key gave away no more places than it may': part`
    select p.key as what
    from (
      select h.segment, h.key, h.admitted_at as since from punctual.key_holds h where ${holdsPlace}
      union all select r.segment, r.key, r.started_at from punctual.running r where r.key is not null
    ) p
    left join punctual.key_limits k using (segment, key)
    left join punctual.key_limits d on d.segment = p.segment and d.key = '*' and k.own is not true
    where strpos(p.key, ' ') = 0 and p.since > greatest(k.updated_at, d.updated_at) + interval '1 second'
    group by p.segment, p.key, k.own, k.max_concurrency
    having count(*) > ${mostPlaces(part`p`)}`,
  'a run that was taken from an entry lane holds its place by running, under the key of its job': part`
    select r.run_id::text as what
    from punctual.running r
    join punctual.lanes l using (lane_id)
    join punctual.jobs j using (segment, job_id)
    where r.key is distinct from case when l.stage = 'entry' then j.concurrency_key end`,
  'the key of a run that is ready, where it is noted, is that of its job': part`
    select r.run_id::text as what
    from punctual.ready r
    join punctual.jobs j using (segment, job_id)
    where r.key is not null and r.key is distinct from j.concurrency_key`,
  'an admitted run of a job with a key has its place': part`
    select r.run_id::text as what
    from (select segment, run_id, job_id, lane_id from punctual.ready union all select segment, run_id, job_id, lane_id from punctual.running) r
    join punctual.lanes l using (lane_id)
    join punctual.jobs j using (segment, job_id)
    left join punctual.key_holds h on h.segment = r.segment and h.run_id = r.run_id and h.key = j.concurrency_key
    where l.stage = 'admitted' and h.run_id is null`,
  'a run that waits is not in a lane that workers claim from after admission': part`
    select w.run_id::text as what
    from punctual.waiting w
    join punctual.lanes l using (lane_id)
    where l.entry_lane_id is not null`,
  'nobody waits for long under a key with room': part`
    select n.key as what
    from punctual.installation i
    cross join lateral generate_series(0, i.segments - 1) s (segment)
    cross join lateral (${neglectedKeys(part`s.segment::smallint`)}) n
    where n.updated_at < now() - interval '30 seconds'`,
  'a blocked run waits for something that has not ended': part`
    select w.run_id::text as what
    from punctual.waiting w
    where w.reason = 'dependency' and w.updated_at < now() - interval '10 seconds'
      and not exists (
        select from punctual.needs n
        left join punctual.ended_runs e on e.segment = ${segmentIn(part`n.parent_run_id`)} and e.run_id = n.parent_run_id
        where n.segment = w.segment and n.job_id = w.job_id and n.state = 'pending'
          and (e.run_id is null or e.ended_at > now() - interval '10 seconds'))`,
  'a run that may start has nothing left to wait for': part`
    select r.run_id::text as what
    from (
      select segment, run_id, job_id, cause from punctual.ready
      union all select segment, run_id, job_id, cause from punctual.running
    ) r
    join punctual.needs n using (segment, job_id)
    where n.state <> 'met' and r.cause = 'submit'`,
  'what is depended on is a run, by a job': part`
    select n.job_id::text as what
    from (
      select job_id, parent_run_id, state <> 'pending' as told from punctual.needs
      union all select job_id, run_id, told from punctual.dependents
    ) n
    left join punctual.jobs j on j.segment = ${segmentIn(part`n.job_id`)} and j.job_id = n.job_id
    left join ${anyRun} on r.segment = ${segmentIn(part`n.parent_run_id`)} and r.run_id = n.parent_run_id
    where j.job_id is null or (r.run_id is null and not (n.told and ${mayBeGone(part`n.parent_run_id`)}))`,
  'a run that a job waits for knows of it': part`
    select n.job_id::text as what
    from punctual.needs n
    where n.state = 'pending'
      and not exists (
        select from punctual.dependents d
        where d.segment = ${segmentIn(part`n.parent_run_id`)} and d.job_id = n.job_id
          and (d.run_id = n.parent_run_id or d.was = n.parent_run_id))`,
  'a step begins after the end of what it needs': part`
    select s.workflow_id::text || ' ' || s.step as what
    from punctual.workflow_steps s
    join punctual.workflows w using (segment, workflow_id)
    cross join lateral jsonb_array_elements(coalesce(w.definition::jsonb -> 'steps' -> s.step -> 'needs', '[]')) n (need)
    left join punctual.workflow_steps p
      on p.segment = s.segment and p.workflow_id = s.workflow_id and p.item = -1
     and p.step = case when jsonb_typeof(n.need) = 'string' then n.need #>> '{}' else n.need ->> 'step' end
    where s.item = -1 and coalesce(case when jsonb_typeof(n.need) = 'object' then n.need ->> 'on' end, 'success') = 'success'
      and (p.outcome is null or p.ended_at > s.begun_at)`,
  'a workflow that has not ended has something to wait for': part`
    select w.workflow_id::text as what
    from punctual.workflows w
    where w.ended_at is null and w.paused_at is null
      and not exists (select from punctual.workflow_steps s where s.segment = w.segment and s.workflow_id = w.workflow_id and s.outcome is null)`,
  'a workflow that has ended has nothing live': part`
    select w.workflow_id::text as what
    from punctual.workflows w
    join punctual.workflow_steps s using (segment, workflow_id)
    where w.ended_at is not null and s.outcome is null`,
  'a step that is live has its run': part`
    select s.workflow_id::text || ' ' || s.step as what
    from punctual.workflow_steps s
    left join ${anyRun} on r.segment = ${segmentIn(part`s.run_id`)} and r.run_id = s.run_id
    where s.run_id is not null and s.outcome is null and r.run_id is null`,
  'the end of a step is noted': part`
    select s.workflow_id::text || ' ' || s.step as what
    from punctual.workflow_steps s
    join punctual.ended_runs e on e.segment = ${segmentIn(part`s.run_id`)} and e.run_id = s.run_id
    where s.run_id is not null and s.outcome is null and e.ended_at < now() - interval '30 seconds'`,
  'a run of a workflow is of a step': part`
    select r.run_id::text as what
    from ${anyRun}
    join punctual.jobs j using (segment, job_id)
    where (r.cause = 'workflow') <> (j.workflow_id is not null)`,
  'a map counts what its items say': part`
    select m.workflow_id::text || ' ' || m.step as what
    from punctual.workflow_steps m
    left join punctual.workflow_steps i
      on i.segment = m.segment and i.workflow_id = m.workflow_id and i.step = m.step and i.item >= 0
    where m.kind = 'map'
    group by m.segment, m.workflow_id, m.step, m.items, m.made, m.succeeded, m.failed
    having (m.items, m.made, m.succeeded, m.failed)
           <> (count(i.item), count(i.run_id), count(*) filter (where i.outcome = 'SUCCESS'),
               count(*) filter (where i.run_id is not null and i.outcome in ('FAILED', 'CANCELLED')))`,
  'a live job that runs an artifact refers to it': part`
    select j.job_id::text as what
    from punctual.jobs j
    left join punctual.artifact_refs f on f.segment = ${segmentOfHash(part`j.executor::jsonb ->> 'sha256'`)}
                                      and f.sha256 = j.executor::jsonb ->> 'sha256' and f.owner_id = j.job_id
    where j.executor::jsonb ->> 'kind' = 'binary' and f.owner_id is null and ${jobIsLive}`,
  'a file that a run published is referred to while it is there': part`
    select p.run_id::text as what
    from punctual.run_artifacts p
    join punctual.artifacts a on a.segment = ${segmentOfHash(part`p.sha256`)} and a.sha256 = p.sha256
    left join punctual.artifact_refs f on f.segment = a.segment and f.sha256 = a.sha256 and f.owner_id = p.run_id
    where f.owner_id is null and a.created_at < p.published_at`,
  'an artifact and an upload live in the segment of their hash': part`
    select a.sha256 as what
    from (select segment, sha256 from punctual.artifacts union all select segment, sha256 from punctual.artifact_uploads) a
    where a.segment <> ${segmentOfHash(part`a.sha256`)}`,
  'an upload that has become an artifact is none any more': part`
    select u.sha256 as what from punctual.artifact_uploads u join punctual.artifacts a using (segment, sha256, upload_id)`,
  'what a lane is stands in one row': part`
    select min(lane_id)::text as what from punctual.lanes group by queue, type, executor, priority, requires, stage having count(*) > 1`,
};

export async function checkInvariants(db: Database, deadlineMs = 60_000): Promise<Violation[]> {
  const violations: Violation[] = [];
  for (const [invariant, query] of Object.entries(invariants)) {
    const [broken] = await db.transaction(async (tx) => {
      void tx.query(forWholeTables(deadlineMs));
      return tx.query<{ what: string }>(sql`select what from (${query}) broken limit 1`, deadlineMs);
    });
    if (broken !== undefined) violations.push({ invariant, example: broken.what });
  }
  const hole = await findHole(db, deadlineMs);
  if (hole !== null) violations.push({ invariant: 'the ledger has every time of a schedule', example: hole });
  return violations;
}

/**
 * They join whole tables, and want the first row that breaks them, which nearly always none does. A plan that would find one soon
 * is then the worst, all the more while PostgreSQL takes a table that was just filled for empty: a loop through one table for
 * each row of another takes hours where hashes take a second.
 */
const forWholeTables = (deadlineMs: number): Sql => sql`
  select set_config('enable_nestloop', 'off', true), set_config('enable_mergejoin', 'off', true),
         set_config('enable_seqscan', 'on', true), set_config('statement_timeout', ${String(deadlineMs)}::text, true)`;
