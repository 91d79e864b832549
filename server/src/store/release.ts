// Releases blocked runs: what they depend on has ended as asked for. They become ready, or wait for their own time, which
// counts from here: while they were blocked they could not begin.
//
// A need that is met stays met, so nothing has to be held. The end of a parent is marked, and in the same statement the
// children go on that wait for nothing else (meetNeeds). A child of which two parents end at once may be seen by both as
// waiting for the other: so those that did not go on are looked at again when the marks are committed (releaseMet), and of
// the two the one that looks last sees both. If both see it, one of them deletes the row from `waiting`. Who dies between
// the two leaves a run that is blocked although it waits for nothing, which the safety net finds.
//
// Rows are changed by their ctids, which a scan sorts: two of us that change the same rows take them in the same order, so
// neither ever waits for a row while the other waits for one of its own.
import { uuids } from './arrays.ts';
import type { Queryable } from './database.ts';
import { firstRunOf } from './jobs.ts';
import { type Fragment, ofSegment, part, sqlPlannedOnce, theOne } from './sql.ts';

export interface Released {
  job_id: string;
  /** Milliseconds until it is due; null when it is ready. */
  in_ms: number | null;
}

/** The end of a statement: the blocked runs of the jobs in `free` go on. */
function goOn(segment: number): Fragment {
  return part`
    child as materialized (
      select ${firstRunOf(part`job_id`)} as run_id
      from free
      union all
      select r.run_id
      from free f
      cross join lateral (
        select w.run_id
        from punctual.waiting w
        where w.segment = ${segment}::smallint and w.cause <> 'submit' and w.reason = 'dependency'
          and ${theOne(part`w.job_id`, part`f.job_id`)}
      ) r
    ),
    freed as (
      delete from punctual.waiting w
      where ${ofSegment(part`w.segment`, segment)}
        and w.ctid = any (array(
          select b.row
          from child c
          cross join lateral (
            select b.ctid as row
            from punctual.waiting b
            where b.segment = ${segment}::smallint and b.reason = 'dependency' and ${theOne(part`b.run_id`, part`c.run_id`)}
          ) b
        ))
        and w.reason = 'dependency'
      returning w.segment, w.run_id, w.job_id, w.lane_id, w.attempts, w.cause, w.scheduled_for, w.due_at
    ),
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
}

/**
 * Marks needs of jobs of one segment as met, and releases the blocked runs of those that need nothing else, as far as is
 * known. The others are to be looked at once more.
 */
export async function meetNeeds(
  db: Queryable,
  segment: number,
  marks: readonly { job_id: string; parent_run_id: string }[],
): Promise<Released[]> {
  const jobIds = [...new Set(marks.map((mark) => mark.job_id))];
  return db.query<Released>(sqlPlannedOnce`
    with marked as (
      update punctual.needs n
      set state = 'met'
      where ${ofSegment(part`n.segment`, segment)}
        and n.ctid = any (array(
          select p.row
          from unnest(
            ${uuids(marks, (mark) => mark.job_id)}::uuid[], ${uuids(marks, (mark) => mark.parent_run_id)}::uuid[]) m (job_id, parent_run_id)
          cross join lateral (
            select n.ctid as row
            from punctual.needs n
            where n.segment = ${segment}::smallint and n.job_id = m.job_id and n.parent_run_id = m.parent_run_id and n.state = 'pending'
            limit 1
          ) p
        ))
        and n.state = 'pending'
      returning n.job_id, n.parent_run_id
    ),
    free as materialized (
      select j.job_id
      from unnest(${uuids(jobIds, (id) => id)}::uuid[]) j (job_id)
      where (
        select 1
        from punctual.needs n
        where n.segment = ${segment}::smallint and n.job_id = j.job_id and n.state <> 'met'
          and (n.job_id, n.parent_run_id) not in (select m.job_id, m.parent_run_id from marked m)
        limit 1) is null
    ),
    ${goOn(segment)}`);
}

/** Releases the blocked runs of those of the jobs whose needs are all met. */
export async function releaseMet(db: Queryable, segment: number, jobIds: readonly string[]): Promise<Released[]> {
  return db.query<Released>(sqlPlannedOnce`
    with free as materialized (
      select j.job_id
      from unnest(${uuids(jobIds, (id) => id)}::uuid[]) j (job_id)
      where (
        select 1
        from punctual.needs n
        where n.segment = ${segment}::smallint and n.job_id = j.job_id and n.state <> 'met'
        limit 1) is null
    ),
    ${goOn(segment)}`);
}
