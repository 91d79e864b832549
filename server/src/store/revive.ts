// Revive: what follows the retry of a parent. The redrive has moved its rows of `dependents` to the new run, with the old
// one as `was` (dead_letters.ts, in the same statement). Then, for each segment of children, in one transaction:
//
//   the rows are taken by clearing `was`;
//   the needs name the new run and are pending again;
//   a job whose latest run was dropped for this, and that nothing else keeps from running, gets a new run that waits;
//   what depends on the dropped run moves to the new one in the same way, and is dealt with next.
//
// So a whole tree comes back, level by level, and whoever dies in between leaves rows with `was` for another. Two of us
// take each row once. The job's row orders us with cancel, run now and redrives of the child.
//
// Rows that others change at the same time are matched by their keys, never by ctid: who waited for the other then goes on
// with the row as it is now.
import { newId } from '../base/ids.ts';
import { uuids } from './arrays.ts';
import type { Database, Queryable } from './database.ts';
import { firstRunOfJob, jobHasLiveRun } from './jobs.ts';
import { type Fragment, part, sql } from './sql.ts';

/** A job that depended on the run `was`, and now on `run_id`. */
export interface Moved {
  run_id: string;
  job_id: string;
  was: string;
}

/**
 * Part of a statement: what waits for the success of the runs `from.run_id` waits for `from.new_run_id` instead. Those
 * that waited for another end of it have had that.
 */
export function moveDependents(
  segment: number,
  from: Fragment,
  on: Fragment = part`d.on_condition = 'success'`,
): Fragment {
  return part`
      update punctual.dependents d
      set run_id = f.new_run_id, was = coalesce(d.was, d.run_id), told = false
      from ${from} f
      where d.segment = ${segment}::smallint and d.run_id = f.run_id and d.run_id = any (array(select run_id from ${from})) and ${on}`;
}

/** The parent was redriven before the child came to depend on it, or before anybody was told. */
export async function followRetries(
  db: Queryable,
  segment: number,
  rows: readonly { run_id: string; job_id: string; retried_run_id: string }[],
): Promise<void> {
  await db.query(sql`
    with retried as (
      delete from punctual.dependents d
      using unnest(
        ${uuids(rows, (row) => row.run_id)}::uuid[], ${uuids(rows, (row) => row.job_id)}::uuid[],
        ${uuids(rows, (row) => row.retried_run_id)}::uuid[]) r (run_id, job_id, retried_run_id)
      where d.segment = ${segment}::smallint and d.run_id = r.run_id and d.job_id = r.job_id and d.was is null
        and d.run_id = any (${uuids(rows, (row) => row.run_id)}::uuid[])
      returning d.job_id, d.run_id, d.on_condition, r.retried_run_id
    )
    insert into punctual.dependents as d (segment, run_id, job_id, on_condition, was)
    select ${segment}::smallint, retried_run_id, job_id, on_condition, run_id
    from retried
    on conflict (segment, run_id, job_id) do update
    set was = coalesce(d.was, excluded.was), told = false`);
}

export async function readMoved(db: Queryable, segment: number, limit: number): Promise<Moved[]> {
  return db.query<Moved>(sql`
    select run_id, job_id, was
    from punctual.dependents
    where segment = ${segment}::smallint and was is not null
    order by job_id
    limit ${limit}::integer`);
}

/**
 * Follows moves of one segment of parents for the jobs of one segment of children; answers the runs that were made.
 */
export async function reviveJobs(
  db: Database,
  { parents, children }: { parents: number; children: number },
  moved: readonly Moved[],
): Promise<string[]> {
  const jobIds = [...new Set(moved.map((row) => row.job_id))];
  return db.transaction(async (tx) => {
    await tx.query(sql`
      select
      from punctual.jobs
      where segment = ${children}::smallint and job_id = any (${uuids(jobIds, (id) => id)}::uuid[])
      order by job_id
      for update`);
    await renameNeeds(tx, children, await takeMoved(tx, parents, moved));
    const dropped = await readDropped(tx, children, jobIds);
    if (dropped.length === 0) return [];
    const made = dropped.map(({ run_id }) => ({ run_id, new_run_id: newId('run', children) }));
    await makeBlocked(tx, children, made);
    return made.map((run) => run.new_run_id);
  });
}

/** Those of the moves that nobody else has followed. */
async function takeMoved(tx: Queryable, segment: number, moved: readonly Moved[]): Promise<Moved[]> {
  return tx.query<Moved>(sql`
    update punctual.dependents d
    set was = null
    from unnest(
      ${uuids(moved, (row) => row.run_id)}::uuid[], ${uuids(moved, (row) => row.job_id)}::uuid[],
      ${uuids(moved, (row) => row.was)}::uuid[]) m (run_id, job_id, was)
    where d.segment = ${segment}::smallint and d.run_id = m.run_id and d.job_id = m.job_id and d.was = m.was
      and d.run_id = any (${uuids(moved, (row) => row.run_id)}::uuid[])
    returning d.run_id, d.job_id, m.was`);
}

async function renameNeeds(tx: Queryable, segment: number, moved: readonly Moved[]): Promise<void> {
  await tx.query(sql`
    with renamed as (
      delete from punctual.needs n
      using unnest(
        ${uuids(moved, (row) => row.job_id)}::uuid[], ${uuids(moved, (row) => row.was)}::uuid[],
        ${uuids(moved, (row) => row.run_id)}::uuid[]) m (job_id, was, run_id)
      where n.segment = ${segment}::smallint and n.job_id = m.job_id and n.parent_run_id = m.was
        and n.job_id = any (${uuids(moved, (row) => row.job_id)}::uuid[]) and n.parent_run_id = any (${uuids(moved, (row) => row.was)}::uuid[])
      returning n.job_id, m.run_id, n.place, n.on_condition
    )
    insert into punctual.needs (segment, job_id, parent_run_id, place, on_condition)
    select ${segment}::smallint, job_id, run_id, place, on_condition
    from renamed
    on conflict do nothing`);
}

/** The latest runs of those jobs that ended for want of a parent, when nothing keeps the job from another. */
async function readDropped(tx: Queryable, segment: number, jobIds: readonly string[]): Promise<{ run_id: string }[]> {
  return tx.query<{ run_id: string }>(sql`
    select last.run_id
    from punctual.jobs j
    cross join lateral (
      select e.run_id, e.status, e.reason
      from (
        (select e.run_id, e.status, e.reason from punctual.ended_runs e where e.segment = j.segment and e.run_id = ${firstRunOfJob})
        union all
        (select e.run_id, e.status, e.reason from punctual.ended_runs e
         where e.segment = j.segment and e.job_id = j.job_id and e.cause <> 'submit' order by e.run_id desc limit 1)
      ) e
      order by e.run_id desc
      limit 1
    ) last
    where j.segment = ${segment}::smallint and j.job_id = any (${uuids(jobIds, (id) => id)}::uuid[])
      and last.status = 'DROPPED' and last.reason = 'upstream_failed' and j.cancelled_at is null and not ${jobHasLiveRun}
      and not exists (select from punctual.needs n where n.segment = j.segment and n.job_id = j.job_id and n.state = 'failed')`);
}

/** New runs in place of dropped ones, blocked like those. */
async function makeBlocked(
  tx: Queryable,
  segment: number,
  runs: readonly { run_id: string; new_run_id: string }[],
): Promise<void> {
  const given = part`unnest(${uuids(runs, (run) => run.run_id)}::uuid[], ${uuids(runs, (run) => run.new_run_id)}::uuid[]) f (run_id, new_run_id)`;
  await tx.query(sql`
    with made as materialized (select * from ${given}),
    blocked as (
      insert into punctual.waiting (segment, run_id, job_id, lane_id, attempts, cause, reason, scheduled_for, due_at, wake_at)
      select e.segment, m.new_run_id, e.job_id, e.lane_id, 0, 'redrive', 'dependency', e.scheduled_for, e.due_at, 'infinity'
      from made m
      cross join lateral (
        select * from punctual.ended_runs e where e.segment = ${segment}::smallint and e.run_id = m.run_id limit 1
      ) e
    )
    ${moveDependents(segment, part`made`, part`d.on_condition <> 'any_end'`)}`);
}
