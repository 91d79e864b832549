// Schedules in the book: what the planner reads, and all that changes them but its plans (plans.ts).
//
// The guard is `turn`: everything that plans, edits, pauses or adds a run of a recurring job lets it grow. Who planned from
// an older turn matches nothing and writes nothing, neither times nor runs; so two planners, or a planner and an edit,
// never mix, without a lock held while anybody thinks.
//
// Never twice at once: a run is made free to start only by who saw, in the turn it then wins, that no other run of the job
// is live or blocked. In every other case it is made blocked, and releaseBlocked lets the oldest go when nothing is live.
import type { OccurrenceReason, Schedule } from '@punctual/contract';
import { segmentOf } from '../base/ids.ts';
import { describe } from '../rules/schedule/describe.ts';
import type { ScheduleRule } from '../rules/schedule/rule.ts';
import type { PreparedSchedule } from '../rules/schedule_input.ts';
import { int4s, int8s, texts, timestamps, uuids } from './arrays.ts';
import type { Queryable } from './database.ts';
import { type LaneKey, laneOfJob } from './lanes.ts';
import { epochMs, type Fragment, part, sql } from './sql.ts';

export interface DueSchedule extends LaneKey {
  job_id: string;
  turn: number;
  rule: string;
  fixed_delay: boolean;
  overlap: 'queue_one' | 'skip' | 'cancel_other' | 'allow';
  catch_up: 'latest' | 'all' | 'none';
  max_catch_up_age_ms: string | null;
  max_catch_up_count: number;
  runs_left: number | null;
  next_ms: string;
  planned_until_ms: string;
  paused_until_ms: string | null;
  now_ms: string;
  /** With its fraction. */
  exact_now_ms: string;
  /** When the first of those is due that have time yet; null when there is none. */
  rest_ms: string | null;
  live: number;
  blocked: number;
}

const counts = part`r.cause <> 'submit' and r.cause <> 'backfill'`;
/** Runs of the job `s` that are not done, apart from those that wait for the end of another and those of backfills. */
const liveRuns = part`(
  (select count(*) from punctual.running r where r.segment = s.segment and r.job_id = s.job_id and ${counts})
  + (select count(*) from punctual.ready r where r.segment = s.segment and r.job_id = s.job_id and ${counts})
  + (select count(*) from punctual.waiting r where r.segment = s.segment and r.job_id = s.job_id and ${counts} and r.reason <> 'overlap'))::integer`;

/**
 * Schedules of a segment whose time has come, or comes within `aheadMs`, the longest overdue first. They are chosen before anything is joined: else
 * all that are due together are read for each batch of them. Who allows overlaps need not know of other runs.
 */
export async function readDue(db: Queryable, segment: number, limit: number, aheadMs = 0): Promise<DueSchedule[]> {
  const soon = part`now() + ${aheadMs}::integer * interval '1 millisecond'`;
  return db.query<DueSchedule>(sql`
    select s.job_id, s.turn, s.rule, s.fixed_delay, s.overlap::text as overlap, s.catch_up::text as catch_up, s.max_catch_up_age_ms,
           s.max_catch_up_count, s.max_runs - s.runs_made as runs_left, ${epochMs(part`s.next_fire_at`)} as next_ms,
           ${epochMs(part`s.planned_until`)} as planned_until_ms, ${epochMs(part`s.paused_until`)} as paused_until_ms, ${epochMs(part`now()`)} as now_ms,
           extract(epoch from now()) * 1000 as exact_now_ms,
           (select extract(epoch from min(next_fire_at)) * 1000 from punctual.schedules where segment = ${segment}::smallint and next_fire_at > ${soon}) as rest_ms,
           coalesce(others.live, 0) as live, coalesce(others.blocked, 0) as blocked, ${laneOfJob}
    from (
      select *
      from punctual.schedules
      where segment = ${segment}::smallint and next_fire_at <= ${soon}
      order by next_fire_at
      limit ${limit}::integer
    ) s
    join punctual.jobs j using (segment, job_id)
    left join lateral (
      select ((select count(*) from punctual.running r where r.segment = s.segment and r.job_id = s.job_id and ${counts})
              + (select count(*) from punctual.ready r where r.segment = s.segment and r.job_id = s.job_id and ${counts})
              + count(*) filter (where r.reason <> 'overlap' and ${counts}))::integer as live,
             count(*) filter (where r.reason = 'overlap')::integer as blocked
      from punctual.waiting r
      where r.segment = s.segment and r.job_id = s.job_id and r.cause <> 'submit'
    ) others on s.overlap <> 'allow'`);
}

/** For each segment with a schedule to look at: milliseconds until the earliest, negative when overdue. */
export async function nextPlans(
  db: Queryable,
  segments: readonly number[],
): Promise<{ segment: number; in_ms: number }[]> {
  const rows = await db.query<{ segment: number; in_ms: string }>(sql`
    select g.segment, extract(epoch from next.next_fire_at - now()) * 1000 as in_ms
    from unnest(${segments}::smallint[]) g (segment)
    cross join lateral (
      select s.next_fire_at
      from punctual.schedules s
      where s.segment = g.segment and s.next_fire_at is not null
      order by s.next_fire_at
      limit 1
    ) next`);
  return rows.map((row) => ({ segment: row.segment, in_ms: Number(row.in_ms) }));
}

/**
 * Lets the oldest run that waits for the end of another go, for jobs of which nothing is live any more. Of two servers
 * that do it at once, one deletes the row. Answers how many.
 */
export async function releaseBlocked(
  db: Queryable,
  segment: number,
  jobIds: readonly string[] | null,
): Promise<number> {
  const rows = await db.query<{ released: number }>(sql`
    with free as (
      select distinct on (w.job_id) w.run_id
      from punctual.waiting w
      join punctual.jobs j using (segment, job_id)
      cross join lateral (select w.segment, w.job_id) s
      where w.segment = ${segment}::smallint and w.reason = 'overlap' and j.paused_at is null and ${liveRuns} = 0
        ${jobIds === null ? part`` : part`and w.job_id = any (${uuids(jobIds, (id) => id)}::uuid[])`}
      order by w.job_id, w.scheduled_for, w.run_id
      limit 1000
    ),
    taken as (
      delete from punctual.waiting w
      using free f
      where w.segment = ${segment}::smallint and w.run_id = f.run_id and w.reason = 'overlap'
      returning w.*
    ),
    due as (
      insert into punctual.ready (segment, run_id, job_id, lane_id, attempts, cause, scheduled_for, due_at)
      select segment, run_id, job_id, lane_id, attempts, cause, scheduled_for, due_at
      from taken
      where due_at <= now()
      returning 1
    ),
    later as (
      insert into punctual.waiting (segment, run_id, job_id, lane_id, attempts, cause, reason, scheduled_for, due_at, wake_at)
      select segment, run_id, job_id, lane_id, attempts, cause, 'due_later', scheduled_for, due_at, due_at
      from taken
      where due_at > now()
      returning 1
    )
    select ((select count(*) from due) + (select count(*) from later))::integer as released`);
  return rows[0]?.released ?? 0;
}

/** A fixed delay begins when nothing of its job is live: the next time is that long from now. Answers how many began. */
export async function beginDelays(db: Queryable, segment: number, jobIds: readonly string[] | null): Promise<number> {
  const rows = await db.query<{ begun: number }>(sql`
    with begun as (
      update punctual.schedules s
      set next_fire_at = now() + ((s.rule::jsonb ->> 'every_ms')::bigint * interval '1 millisecond'), turn = s.turn + 1
      from punctual.jobs j
      where s.segment = ${segment}::smallint and s.fixed_delay and s.next_fire_at is null and not s.ended
        and j.segment = s.segment and j.job_id = s.job_id and j.paused_at is null and j.cancelled_at is null
        ${jobIds === null ? part`` : part`and s.job_id = any (${uuids(jobIds, (id) => id)}::uuid[])`}
        and ${liveRuns} = 0
        and not exists (select from punctual.waiting w where w.segment = s.segment and w.job_id = s.job_id and w.reason = 'overlap')
      returning 1
    )
    select count(*)::integer as begun
    from begun`);
  return rows[0]?.begun ?? 0;
}

/** Those of the jobs whose last runs all failed, as many as they allow. */
export async function findFailing(db: Queryable, segment: number, jobIds: readonly string[]): Promise<string[]> {
  const rows = await db.query<{ job_id: string }>(sql`
    select s.job_id
    from punctual.schedules s
    where s.segment = ${segment}::smallint and s.job_id = any (${uuids(jobIds, (id) => id)}::uuid[]) and s.pause_after_failures is not null
      and s.pause_after_failures <= (
        select count(*) filter (where last.status = 'FAILED')
        from (
          select e.status
          from punctual.ended_runs e
          where e.segment = s.segment and e.job_id = s.job_id and e.cause <> 'submit' and e.cause <> 'backfill' and e.ended_at > s.failures_from
          order by e.run_id desc
          limit s.pause_after_failures
        ) last)`);
  return rows.map((row) => row.job_id);
}

export interface ScheduleRow {
  spec: string;
  rule: string;
  fixed_delay: boolean;
  next_fire_at: Date | null;
  ended: boolean;
}

/** What an edit or a backfill goes out from. */
export async function getSchedule(db: Queryable, jobId: string): Promise<ScheduleRow | null> {
  const rows = await db.query<ScheduleRow>(sql`
    select spec, rule, fixed_delay, next_fire_at, ended
    from punctual.schedules
    where segment = ${segmentOf(jobId)}::smallint and job_id = ${jobId}`);
  return rows[0] ?? null;
}

/** The database's time, in ms since 1970. */
export async function databaseNow(db: Queryable): Promise<number> {
  const rows = await db.query<{ now_ms: string }>(sql`select ${epochMs(part`now()`)} as now_ms`);
  return Number(rows[0]?.now_ms);
}

/** The insert of schedules beside their jobs, for the statement that creates both: those of `input` only. */
export function insertSchedules(
  rows: readonly { job_id: string; segment: number; schedule: PreparedSchedule }[],
): Fragment {
  const pick =
    <T>(of: (schedule: PreparedSchedule) => T) =>
    (row: { schedule: PreparedSchedule }): T =>
      of(row.schedule);
  return part`
    scheduled as (
      insert into punctual.schedules (segment, job_id, spec, rule, calendar, overlap, catch_up, max_catch_up_age_ms, max_catch_up_count,
                                      max_runs, fixed_delay, pause_after_failures, next_fire_at)
      select i.segment, i.job_id, s.spec, s.rule, s.calendar, s.overlap::punctual.schedule_overlap, s.catch_up::punctual.schedule_catch_up,
             s.max_catch_up_age_ms, s.max_catch_up_count, s.max_runs, s.fixed_delay = 1, s.pause_after_failures, s.next_fire_at
      from unnest(
        ${uuids(rows, (row) => row.job_id)}::uuid[], ${texts(
          rows,
          pick((s) => s.spec),
        )}::text[], ${texts(
          rows,
          pick((s) => s.rule),
        )}::text[],
        ${texts(
          rows,
          pick((s) => s.calendar),
        )}::text[], ${texts(
          rows,
          pick((s) => s.overlap),
        )}::text[],
        ${texts(
          rows,
          pick((s) => s.catch_up),
        )}::text[], ${int8s(
          rows,
          pick((s) => s.max_catch_up_age_ms),
        )}::bigint[],
        ${int4s(
          rows,
          pick((s) => s.max_catch_up_count),
        )}::integer[], ${int4s(
          rows,
          pick((s) => s.max_runs),
        )}::integer[],
        ${int4s(
          rows,
          pick((s) => (s.fixed_delay ? 1 : 0)),
        )}::integer[], ${int4s(
          rows,
          pick((s) => s.pause_after_failures),
        )}::integer[],
        ${timestamps(
          rows,
          pick((s) => s.next_ms),
        )}::timestamptz[])
        as s (job_id, spec, rule, calendar, overlap, catch_up, max_catch_up_age_ms, max_catch_up_count, max_runs, fixed_delay,
              pause_after_failures, next_fire_at)
      join input i using (job_id)
    ),`;
}

/** Replaces a schedule that has nothing overdue: times from now on follow the new one. False: plan first, then again. */
export async function replaceSchedule(
  tx: Queryable,
  { jobId, next, paused }: { jobId: string; next: PreparedSchedule; paused: boolean },
): Promise<boolean> {
  const rows = await tx.query<{ job_id: string }>(sql`
    update punctual.schedules s
    set spec = ${next.spec}, rule = ${next.rule}, calendar = ${next.calendar}, overlap = ${next.overlap}::punctual.schedule_overlap,
        catch_up = ${next.catch_up}::punctual.schedule_catch_up, max_catch_up_age_ms = ${next.max_catch_up_age_ms}::bigint,
        max_catch_up_count = ${next.max_catch_up_count}::integer, max_runs = ${next.max_runs}::integer, fixed_delay = ${next.fixed_delay}::boolean,
        pause_after_failures = ${next.pause_after_failures}::integer, ended = false, turn = s.turn + 1,
        planned_until = greatest(s.planned_until, now()),
        next_fire_at = case when not ${paused}::boolean then to_timestamp(${next.next_ms}::double precision / 1000) end
    where s.segment = ${segmentOf(jobId)}::smallint and s.job_id = ${jobId} and (s.next_fire_at is null or s.next_fire_at > now())
    returning s.job_id`);
  return rows.length > 0;
}

/** While its job is paused or cancelled a schedule has no times. */
export async function stopSchedule(tx: Queryable, jobId: string, options: { ended: boolean }): Promise<void> {
  await tx.query(sql`
    update punctual.schedules
    set next_fire_at = null, ended = ended or ${options.ended}::boolean, turn = turn + 1
    where segment = ${segmentOf(jobId)}::smallint and job_id = ${jobId}`);
}

/** From now on it has times again; those that came since it was stopped are recorded as paused. */
export async function resumeSchedule(tx: Queryable, jobId: string): Promise<void> {
  await tx.query(sql`
    update punctual.schedules
    set next_fire_at = case when not ended then now() end, paused_until = now(), failures_from = now(), turn = turn + 1
    where segment = ${segmentOf(jobId)}::smallint and job_id = ${jobId}`);
}

/** Lets the turn grow: a run of the job is about to be added by somebody else than the planner. */
export async function takeTurn(tx: Queryable, jobId: string): Promise<{ overlap: string } | null> {
  const rows = await tx.query<{ overlap: string }>(sql`
    update punctual.schedules
    set turn = turn + 1
    where segment = ${segmentOf(jobId)}::smallint and job_id = ${jobId}
    returning overlap::text as overlap`);
  return rows[0] ?? null;
}

export interface OccurrenceRow {
  scheduled_for: Date;
  through: Date;
  times: number;
  run_id: string | null;
  reason: OccurrenceReason | null;
  effective_at: Date | null;
  note: string | null;
  planned_at: Date;
}

export interface OccurrenceFilter {
  reason?: string | undefined;
  with_run?: boolean | undefined;
  from?: string | undefined;
  to?: string | undefined;
}

/** Newest first, below a time. */
export async function listOccurrences(
  db: Queryable,
  jobId: string,
  { filter, below, limit }: { filter: OccurrenceFilter; below: string | null; limit: number },
): Promise<OccurrenceRow[]> {
  const { reason, with_run, from, to } = filter;
  return db.query<OccurrenceRow>(sql`
    select scheduled_for, through, times, run_id, reason::text as reason, effective_at, note, planned_at
    from punctual.occurrences
    where segment = ${segmentOf(jobId)}::smallint and job_id = ${jobId}
      ${below === null ? part`` : part`and scheduled_for < ${below}::timestamptz`}
      ${reason === undefined ? part`` : part`and reason = ${reason}::punctual.occurrence_reason`}
      ${with_run === undefined ? part`` : part`and (run_id is not null) = ${with_run}::boolean`}
      ${from === undefined ? part`` : part`and through >= ${from}::timestamptz`}
      ${to === undefined ? part`` : part`and scheduled_for <= ${to}::timestamptz`}
    order by scheduled_for desc
    limit ${limit}::integer`);
}

/** A schedule as it comes with its job; times are ISO texts. */
export interface ShownSchedule {
  spec: string;
  rule: string;
  next_fire_at: string | null;
  runs_made: number;
  ended: boolean;
}

/** What people see of it. */
export function toSchedule({ spec, rule, next_fire_at, runs_made, ended }: ShownSchedule): Schedule {
  const asked = JSON.parse(spec) as Omit<Schedule, 'next_time' | 'runs_made' | 'ended' | 'words'>;
  return {
    ...asked,
    next_time: next_fire_at === null ? null : new Date(next_fire_at).toISOString(),
    runs_made,
    ended,
    words: describe(JSON.parse(rule) as ScheduleRule, { fixedDelay: asked.interval_mode === 'fixed_delay' }),
  };
}
