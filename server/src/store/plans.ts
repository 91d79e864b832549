// The one guarded statement with which the planner writes what it decided about schedules that are due (scheduler/plan.ts):
// the ledger, the runs, and when to look again, if the turn of each is still the one it was read in (schedules.ts).
import { newId } from '../base/ids.ts';
import type { Plan, PlannedTime } from '../rules/plan.ts';
import { int4s, texts, timestamps, uuids } from './arrays.ts';
import { type ClaimedRow, type ClaimedRun, claimedColumns, type DirectGrant, toClaimed } from './claim.ts';
import type { Queryable } from './database.ts';
import { type Fragment, joinJob, part, sql } from './sql.ts';

export interface PlannedSchedule {
  job_id: string;
  turn: number;
  lane_id: number;
  plan: Plan;
}

export interface Planned {
  /** Jobs whose plan was written, when others had moved on; null: all of them. */
  jobs: Set<string> | null;
  runs: number;
  /** Milliseconds until the first run that waits for its time; null when none does. */
  next_run_ms: number | null;
  /** Those that were leased instead of becoming ready. */
  granted: ClaimedRun[];
}

/**
 * Writes what was decided for schedules of one segment: the ledger, the runs, and when to look again. With `grant`, runs
 * that are due are leased to it at once, also those that will be within `aheadMs`.
 */
export async function writePlans(
  db: Queryable,
  segment: number,
  plans: readonly PlannedSchedule[],
  grant: (DirectGrant & { aheadMs?: number }) | null = null,
): Promise<Planned> {
  const soon = part`now() + ${grant?.aheadMs ?? 0}::integer * interval '1 millisecond'`;
  const isDue = part`run_id is not null and blocked = 0 and effective_at <= ${soon}`;
  const times: TimeOf[] = [];
  for (const of of plans)
    for (const time of of.plan.times)
      times.push({ of, time, run_id: time.reason === null ? newId('run', segment) : null });
  const simple = plans.every(({ plan }) => isSimple(plan));
  const rows = await db.query<Written & (ClaimedRow | { run_id: null })>(sql`
    with moved as (${simple ? moveWithTimes(segment, times) : move(segment, plans)}),
    entry as materialized (
      select t.*${grant === null ? part`` : part`, nextval('punctual.arrivals') * 4096 as seq`}
      from ${simple ? movedTimes : timesOfMoved(times)}
    ),
    ledger as (
      insert into punctual.occurrences (segment, job_id, scheduled_for, through, times, run_id, reason, effective_at, note)
      select ${segment}::smallint, job_id, scheduled_for, through, times, run_id, reason::punctual.occurrence_reason, effective_at, note
      from entry
    ),
    due as (
      ${grant === null ? intoReady(segment) : intoRunning(segment, grant)}
      from entry
      where ${isDue}
      returning 1
    ),
    later as (
      insert into punctual.waiting (segment, run_id, job_id, lane_id, attempts, cause, reason, scheduled_for, due_at, wake_at)
      select ${segment}::smallint, run_id, job_id, lane_id, 0, 'schedule',
             case when blocked = 1 then 'overlap' else 'due_later' end::punctual.waiting_reason, scheduled_for, effective_at,
             case when blocked = 1 then 'infinity' else effective_at end
      from entry
      where run_id is not null and (blocked = 1 or effective_at > ${soon})
      returning wake_at
    )
    select case when (select count(*) from moved) < ${plans.length}::integer then (select coalesce(array_agg(job_id::text), '{}') from moved) end as jobs,
           ((select count(*) from due) + (select count(*) from later))::integer as runs,
           (select extract(epoch from min(wake_at) - now()) * 1000 from later where wake_at < 'infinity') as next_run_ms
           ${grant === null ? part`, null as run_id` : part`, granted.* from (select 1) one left join (${grantedRuns(segment, isDue)}) granted on true`}`);
  const { jobs = null, runs = 0, next_run_ms = null } = rows[0] ?? {};
  return {
    jobs: jobs === null ? null : new Set(jobs),
    runs,
    next_run_ms: next_run_ms === null ? null : Number(next_run_ms),
    granted: toClaimed(
      rows.filter((row) => row.run_id !== null),
      null,
    ),
  };
}

interface TimeOf {
  of: PlannedSchedule;
  time: PlannedTime;
  run_id: string | null;
}

/** One time has come, and it makes a run as it should: so it is nearly always. */
export function isSimple({ times }: Plan): boolean {
  const [time] = times;
  return time !== undefined && times.length === 1 && time.reason === null && time.note === null && !time.blocked;
}

function move(segment: number, plans: readonly PlannedSchedule[]): Fragment {
  return part`
      update punctual.schedules s
      set next_fire_at = p.next_fire_at, planned_until = p.planned_until, runs_made = s.runs_made + p.runs, ended = p.ended = 1, turn = s.turn + 1
      from unnest(${movedArrays(plans)}, ${int4s(plans, runsOf)}::integer[]) as p (job_id, turn, next_fire_at, planned_until, ended, runs)
      where s.segment = ${segment}::smallint and s.job_id = p.job_id and s.turn = p.turn
      returning s.job_id`;
}

/** The same, with the time of each, which then need not be looked up again. */
function moveWithTimes(segment: number, times: readonly TimeOf[]): Fragment {
  return part`
      update punctual.schedules s
      set next_fire_at = p.next_fire_at, planned_until = p.planned_until, runs_made = s.runs_made + 1, ended = p.ended = 1, turn = s.turn + 1
      from unnest(
        ${movedArrays(times.map(({ of }) => of))}, ${int4s(times, ({ of }) => of.lane_id)}::integer[],
        ${timestamps(times, ({ time }) => time.nominal_ms)}::timestamptz[], ${timestamps(times, ({ time }) => time.effective_ms)}::timestamptz[],
        ${uuids(times, ({ run_id }) => run_id)}::uuid[])
        as p (job_id, turn, next_fire_at, planned_until, ended, lane_id, scheduled_for, effective_at, run_id)
      where s.segment = ${segment}::smallint and s.job_id = p.job_id and s.turn = p.turn
      returning s.job_id, p.lane_id, p.scheduled_for, p.effective_at, p.run_id`;
}

function movedArrays(plans: readonly PlannedSchedule[]): Fragment {
  return part`
        ${uuids(plans, (plan) => plan.job_id)}::uuid[], ${int4s(plans, (plan) => plan.turn)}::integer[],
        ${timestamps(plans, ({ plan }) => plan.next_ms)}::timestamptz[], ${timestamps(plans, ({ plan }) => plan.planned_until_ms)}::timestamptz[],
        ${int4s(plans, ({ plan }) => (plan.ended ? 1 : 0))}::integer[]`;
}

const movedTimes = part`(
        select *, scheduled_for as through, 1 as times, null::text as reason, 0 as blocked, null::text as note
        from moved
      ) t`;

function timesOfMoved(times: readonly TimeOf[]): Fragment {
  return part`unnest(
        ${uuids(times, ({ of }) => of.job_id)}::uuid[], ${int4s(times, ({ of }) => of.lane_id)}::integer[],
        ${timestamps(times, ({ time }) => time.nominal_ms)}::timestamptz[], ${timestamps(times, ({ time }) => time.through_ms)}::timestamptz[],
        ${int4s(times, ({ time }) => time.times)}::integer[], ${uuids(times, ({ run_id }) => run_id)}::uuid[],
        ${texts(times, ({ time }) => time.reason)}::text[], ${timestamps(times, ({ time }) => time.effective_ms)}::timestamptz[],
        ${int4s(times, ({ time }) => (time.blocked ? 1 : 0))}::integer[], ${texts(times, ({ time }) => time.note)}::text[])
        as t (job_id, lane_id, scheduled_for, through, times, run_id, reason, effective_at, blocked, note)
      join moved using (job_id)`;
}

interface Written {
  jobs: string[] | null;
  runs: number;
  next_run_ms: string | null;
}

function intoReady(segment: number): Fragment {
  return part`
      insert into punctual.ready (segment, run_id, job_id, lane_id, attempts, cause, scheduled_for, due_at)
      select ${segment}::smallint, run_id, job_id, lane_id, 0, 'schedule', scheduled_for, effective_at`;
}

function intoRunning(segment: number, { session_id, worker_id, lease_id }: DirectGrant): Fragment {
  return part`
      insert into punctual.running (segment, run_id, job_id, lane_id, attempt, cause, lease_id, session_id, worker_id, scheduled_for, due_at, started_at)
      select ${segment}::smallint, run_id, job_id, lane_id, 1, 'schedule', ${lease_id}::uuid, ${session_id}::uuid, ${worker_id}::text,
             scheduled_for, effective_at, greatest(now(), effective_at)`;
}

/** A job that is paused or cancelled has another turn: none of these is flagged. */
function grantedRuns(segment: number, isDue: Fragment): Fragment {
  return part`
      select ${claimedColumns(null)}, null as flag, null::integer as slot
      from (select run_id, job_id, lane_id, 0 as attempts, seq, scheduled_for, effective_at as due_at from entry where ${isDue}) t
      ${joinJob(segment, part`t.job_id`, part`j.*`)}`;
}

function runsOf({ plan }: PlannedSchedule): number {
  let runs = 0;
  for (const time of plan.times) if (time.reason === null) runs++;
  return runs;
}
