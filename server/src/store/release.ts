// Releases blocked runs: what they depend on has ended as asked for. They become ready, or wait for their own time, which
// counts from here: while they were blocked they could not begin.
import { uuids } from './arrays.ts';
import type { Queryable } from './database.ts';
import { firstRunOf } from './jobs.ts';
import { part, sql } from './sql.ts';

export interface Released {
  job_id: string;
  /** Milliseconds until it is due; null when it is ready. */
  in_ms: number | null;
}

/** The end of a statement: the rows of `freed`, which it has deleted from `waiting`, go on. */
const goOn = part`
    due as (
      insert into punctual.ready (segment, run_id, job_id, lane_id, attempts, cause, scheduled_for, due_at)
      select segment, run_id, job_id, lane_id, attempts, cause, now(), now()
      from freed
      where due_at <= now()
      order by run_id
    ),
    later as (
      insert into punctual.waiting (segment, run_id, job_id, lane_id, attempts, cause, reason, scheduled_for, due_at, wake_at)
      select segment, run_id, job_id, lane_id, attempts, cause, 'due_later', scheduled_for, due_at, due_at
      from freed
      where due_at > now()
    )
    select job_id, case when due_at > now() then extract(epoch from due_at - now())::float8 * 1000 end as in_ms
    from freed`;

/** Runs that the transaction holds, and that nothing keeps any more. */
export async function releaseBlocked(
  tx: Queryable,
  segment: number,
  runs: readonly { run_id: string }[],
): Promise<Released[]> {
  if (runs.length === 0) return [];
  return tx.query<Released>(sql`
    with freed as (
      delete from punctual.waiting
      where segment = ${segment}::smallint and reason = 'dependency' and run_id = any (${uuids(runs, (run) => run.run_id)}::uuid[])
      returning segment, run_id, job_id, lane_id, attempts, cause, scheduled_for, due_at
    ),
    ${goOn}`);
}

/**
 * First runs of jobs that wait for one run only, which has ended as asked for: nobody else can have a say, so the need is
 * marked and the run released in one statement. Jobs that are not answered were not found blocked: somebody else may have
 * them in hand, and they are to be settled with the others.
 */
export async function releaseSole(
  db: Queryable,
  segment: number,
  marks: readonly { job_id: string; parent_run_id: string }[],
): Promise<Released[]> {
  return db.query<Released>(sql`
    with sole as materialized (
      select n.row, b.row as blocked_row
      from unnest(${uuids(marks, (mark) => mark.job_id)}::uuid[], ${uuids(marks, (mark) => mark.parent_run_id)}::uuid[]) m (job_id, parent_run_id)
      cross join lateral (
        select w.ctid as row
        from punctual.waiting w
        where w.segment = ${segment}::smallint and w.run_id = ${firstRunOf(part`m.job_id`)} and w.reason = 'dependency'
        limit 1
        for update skip locked
      ) b
      cross join lateral (
        select d.ctid as row
        from punctual.needs d
        where d.segment = ${segment}::smallint and d.job_id = m.job_id and d.parent_run_id = m.parent_run_id and d.state = 'pending'
        limit 1
        for update skip locked
      ) n
    ),
    marked as (
      update punctual.needs n
      set state = 'met'
      from sole s
      where n.segment = ${segment}::smallint and n.ctid = s.row
    ),
    freed as (
      delete from punctual.waiting w
      using sole s
      where w.segment = ${segment}::smallint and w.ctid = s.blocked_row
      returning w.segment, w.run_id, w.job_id, w.lane_id, w.attempts, w.cause, w.scheduled_for, w.due_at
    ),
    ${goOn}`);
}
