// The moves of an operation that take a whole batch of one segment in one statement (operation_moves.ts calls them).
//
// Only plain runs go this way: the first run of a job that runs once and has no concurrency key. It is the only live run
// of its job then, nothing else waits for its end, and whoever deletes or marks its row under the job's lock has decided
// about the job. Whatever is more than that (recurring jobs, further runs, steps) is left to the moves of single calls.
// Every lock is taken with `skip locked`; a row that was not locked is not moved and not answered.
import { type ActsOn, PunctualError } from '@punctual/contract';
import { int4s, uuids } from './arrays.ts';
import type { Queryable } from './database.ts';
import { firstRunOfJob } from './jobs.ts';
import { type LaneKey, type Lanes, laneOfJob } from './lanes.ts';
import type { CancelOrder } from './run_moves.ts';
import { type Fragment, part, sql } from './sql.ts';

export interface Moved {
  /** Those that were moved. */
  done: string[];
  /** Those for which nothing is to do. */
  unchanged: string[];
  /** Running ones that were marked, whose workers are to be told. */
  orders: CancelOrder[];
}

/** Jobs whose one live run stands for itself: see above. */
const plainJob = part`j.schedule_type in ('IMMEDIATE', 'FUTURE') and j.concurrency_key is null and j.workflow_id is null
  and j.cancelled_at is null`;

/** The plain jobs among these; `run_id` is the run that decides. */
function lockedJobs(segment: number, ids: Fragment): Fragment {
  return part`
    locked as materialized (
      select j.job_id, ${firstRunOfJob} as run_id
      from punctual.jobs j
      where j.segment = ${segment}::smallint and j.job_id = any (${ids}) and ${plainJob}
      order by j.job_id
      for update skip locked
    )`;
}

function lockedRuns(name: Fragment, table: Fragment, segment: number): Fragment {
  return part`
    ${name} as materialized (
      select r.run_id
      from ${table} r
      where r.segment = ${segment}::smallint and r.run_id = any (array(select k.run_id from locked k))
      for update skip locked
    )`;
}

const jobOfFirstRun = (id: Fragment): Fragment => part`overlay(${id}::text placing '0' from 33 for 1)::uuid`;

/** Ends those that have not started and marks those that run; with `jobs` their jobs are cancelled with them. */
export async function cancelMany(
  tx: Queryable,
  { segment, ids, what }: { segment: number; ids: readonly string[]; what: ActsOn },
): Promise<Moved> {
  const given = part`${uuids(ids, (id) => id)}::uuid[]`;
  const jobs =
    what === 'jobs'
      ? given
      : part`array(select ${jobOfFirstRun(part`u.id`)} from unnest(${given}) u (id) where ${isFirstRun})`;
  const taken = part`segment, run_id, job_id, lane_id, attempts, cause, scheduled_for, due_at`;
  const rows = await tx.query<{
    run_id: string;
    job_id: string;
    lease_id: string | null;
    session_id: string | null;
  }>(sql`
    with ${lockedJobs(segment, jobs)},
    ${lockedRuns(part`to_wait`, part`punctual.waiting`, segment)},
    ${lockedRuns(part`to_start`, part`punctual.ready`, segment)},
    ${lockedRuns(part`at_work`, part`punctual.running`, segment)},
    waited as (
      delete from punctual.waiting
      where segment = ${segment}::smallint and run_id = any (array(select t.run_id from to_wait t)) and reason in (${plainReasons})
      returning ${taken}
    ),
    due as (
      delete from punctual.ready
      where segment = ${segment}::smallint and run_id = any (array(select t.run_id from to_start t))
      returning ${taken}
    ),
    marked as (
      update punctual.running
      set cancel_at = coalesce(cancel_at, now())
      where segment = ${segment}::smallint and run_id = any (array(select t.run_id from at_work t))
      returning run_id, job_id, lease_id, session_id
    ),
    ended as (
      insert into punctual.ended_runs (segment, run_id, job_id, lane_id, attempt, cause, status, reason, scheduled_for, due_at)
      select segment, run_id, job_id, lane_id, attempts, cause, 'CANCELLED', ${what === 'jobs' ? 'job_cancelled' : 'cancelled'}, scheduled_for, due_at
      from (select * from waited union all select * from due) t
    ),
    moved as (
      select run_id, job_id, null::uuid as lease_id, null::uuid as session_id from waited
      union all select run_id, job_id, null, null from due
      union all select run_id, job_id, lease_id, session_id from marked
    )
    ${what === 'jobs' ? part`, ${touchJobs(segment, part`cancelled_at = now()`)}` : part``}
    select run_id, job_id, lease_id, session_id
    from moved`);
  return {
    done: rows.map((row) => (what === 'jobs' ? row.job_id : row.run_id)),
    unchanged: [],
    orders: rows.flatMap(({ run_id, lease_id, session_id }) =>
      lease_id === null || session_id === null ? [] : [{ run_id, lease_id, session_id }],
    ),
  };
}

const isFirstRun = part`substr(u.id::text, 33, 1) = '1'`;

/** Why a plain run waits: for its time, its next attempt or a resume. */
const plainReasons = part`'due_later', 'retry', 'paused'`;

function touchJobs(segment: number, change: Fragment): Fragment {
  return part`touched as (
      update punctual.jobs
      set ${change}, version = version + 1, updated_at = now()
      where segment = ${segment}::smallint and job_id = any (array(select m.job_id from moved m))
    )`;
}

/** Runs that wait for their next attempt become due. */
export async function hurryMany(tx: Queryable, segment: number, ids: readonly string[]): Promise<string[]> {
  const rows = await tx.query<{ run_id: string }>(sql`
    with locked as materialized (
      select r.run_id
      from punctual.waiting r
      join punctual.jobs j on j.segment = r.segment and j.job_id = r.job_id
      where r.segment = ${segment}::smallint and r.run_id = any (${uuids(ids, (id) => id)}::uuid[]) and r.reason = 'retry'
        and ${plainJob} and j.paused_at is null
      order by r.run_id
      for update of r skip locked
      for share of j skip locked
    ),
    taken as (
      delete from punctual.waiting
      where segment = ${segment}::smallint and run_id = any (array(select k.run_id from locked k))
      returning segment, run_id, job_id, lane_id, attempts, cause, scheduled_for
    ),
    put as (
      insert into punctual.ready (segment, run_id, job_id, lane_id, attempts, cause, scheduled_for, due_at)
      select segment, run_id, job_id, lane_id, attempts, cause, scheduled_for, now()
      from taken
      order by run_id
    )
    select run_id
    from taken`);
  return rows.map((row) => row.run_id);
}

interface JobInLane extends LaneKey {
  job_id: string;
  plain: boolean;
}

/** Another priority or queue: the job is changed, and its run goes to the lane of that, behind those that are there. */
export async function changeLanes(
  tx: Queryable,
  lanes: Lanes,
  {
    segment,
    ids,
    priority,
    queue,
  }: { segment: number; ids: readonly string[]; priority: number | null; queue: string | null },
): Promise<Moved> {
  // The jobs stay locked until the end of the transaction, so what is read here is still so below.
  const jobs = await tx.query<JobInLane>(sql`
    select j.job_id, ${plainJob} as plain, ${laneOfJob}
    from punctual.jobs j
    where j.segment = ${segment}::smallint and j.job_id = any (${uuids(ids, (id) => id)}::uuid[]) and j.cancelled_at is null
    order by j.job_id
    for update skip locked`);
  const isOther = (job: JobInLane): boolean => (priority === null ? job.queue !== queue : job.priority !== priority);
  const others = jobs.filter((job) => job.plain && isOther(job));
  const keys = others.map((job) => ({ ...job, priority: priority ?? job.priority, queue: queue ?? job.queue }));
  const found = await lanesOrNone(lanes, keys);
  const wanted = found.map((lane_id, i) => ({ job_id: others[i]?.job_id ?? '', lane_id }));
  const done = wanted.length === 0 ? [] : await putInLanes(tx, segment, { priority, queue, wanted });
  return { done, unchanged: jobs.filter((job) => !isOther(job)).map((job) => job.job_id), orders: [] };
}

/** None when there would be too many: each is then refused by itself, with that reason. */
async function lanesOrNone(lanes: Lanes, keys: readonly LaneKey[]): Promise<number[]> {
  try {
    return (await lanes.ensure(keys)).map((lane) => lane.lane_id);
  } catch (error) {
    if (error instanceof PunctualError && error.code === 'too_many_lanes') return [];
    throw error;
  }
}

async function putInLanes(
  tx: Queryable,
  segment: number,
  change: { priority: number | null; queue: string | null; wanted: { job_id: string; lane_id: number }[] },
): Promise<string[]> {
  const { priority, queue, wanted } = change;
  const ids = part`array(select w.job_id from wanted w)`;
  const rows = await tx.query<{ job_id: string }>(sql`
    with wanted as materialized (
      select *
      from unnest(${uuids(wanted, (row) => row.job_id)}::uuid[], ${int4s(wanted, (row) => row.lane_id)}::integer[]) w (job_id, lane_id)
    ),
    ${lockedJobs(segment, ids)},
    ${lockedRuns(part`to_wait`, part`punctual.waiting`, segment)},
    ${lockedRuns(part`to_start`, part`punctual.ready`, segment)},
    waited as (
      update punctual.waiting r
      set lane_id = w.lane_id, updated_at = now()
      from wanted w
      where r.segment = ${segment}::smallint and r.run_id = any (array(select t.run_id from to_wait t)) and r.job_id = w.job_id
        and r.reason in (${plainReasons})
      returning r.job_id
    ),
    due as (
      delete from punctual.ready r
      using wanted w
      where r.segment = ${segment}::smallint and r.run_id = any (array(select t.run_id from to_start t)) and r.job_id = w.job_id
      returning r.run_id, r.job_id, w.lane_id, r.attempts, r.cause, r.seq, r.scheduled_for, r.due_at
    ),
    put as (
      insert into punctual.ready (segment, run_id, job_id, lane_id, attempts, cause, scheduled_for, due_at)
      select ${segment}::smallint, run_id, job_id, lane_id, attempts, cause, scheduled_for, due_at
      from due
      order by seq
    ),
    moved as (select job_id from waited union all select job_id from due),
    ${touchJobs(segment, part`priority = coalesce(${priority}::smallint, priority), queue = coalesce(${queue}::text, queue)`)}
    select job_id
    from moved`);
  return rows.map((row) => row.job_id);
}
