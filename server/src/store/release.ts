// Releases blocked runs: what they depend on has ended as asked for. They become ready, or wait for their own time, which
// counts from here: while they were blocked they could not begin.
//
// A need that is met stays met, so nothing has to be held: each parent's end is marked and committed (markNeeds), and only
// then looked whether all needs of a child are met (releaseMet). Of two parents that end at once the one that looks last
// sees both; if both see it, one of them deletes the row from `waiting`. Who dies between the two leaves a run that is
// blocked although it waits for nothing, which the safety net finds.
import { uuids } from './arrays.ts';
import type { Queryable } from './database.ts';
import { firstRunOf } from './jobs.ts';
import { part, sql } from './sql.ts';

export interface Released {
  /** Milliseconds until it is due; null when it is ready. */
  in_ms: number | null;
}

/** Marks pending needs of jobs of one segment as met, or as failed. */
export async function markNeeds(
  db: Queryable,
  segment: number,
  marks: readonly { job_id: string; parent_run_id: string }[],
  state: 'met' | 'failed',
): Promise<void> {
  // In one order, so that two of us who mark the same never wait for each other.
  const inOrder = marks.map((mark) => mark.job_id + mark.parent_run_id).sort();
  await db.query(sql`
    with pending as materialized (
      select p.row
      from unnest(
        ${uuids(inOrder, (ids) => ids.slice(0, 36))}::uuid[], ${uuids(inOrder, (ids) => ids.slice(36))}::uuid[]) m (job_id, parent_run_id)
      cross join lateral (
        select n.ctid as row
        from punctual.needs n
        where n.segment = ${segment}::smallint and n.job_id = m.job_id and n.parent_run_id = m.parent_run_id and n.state = 'pending'
        limit 1
        for update
      ) p
    )
    update punctual.needs n
    set state = ${state}::punctual.need_state
    from pending p
    where n.segment = ${segment}::smallint and n.ctid = p.row`);
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
    select case when due_at > now() then extract(epoch from due_at - now())::float8 * 1000 end as in_ms
    from freed`;

/** Releases the blocked runs of those of the jobs whose needs are all met. */
export async function releaseMet(db: Queryable, segment: number, jobIds: readonly string[]): Promise<Released[]> {
  return db.query<Released>(sql`
    with free as materialized (
      select j.job_id
      from unnest(${uuids(jobIds, (id) => id)}::uuid[]) j (job_id)
      where (
        select 1
        from punctual.needs n
        where n.segment = ${segment}::smallint and n.job_id = j.job_id and n.state <> 'met'
        limit 1) is null
    ),
    child as materialized (
      select ${firstRunOf(part`job_id`)} as run_id
      from free
      union all
      select r.run_id
      from free f
      cross join lateral (
        select w.run_id
        from punctual.waiting w
        where w.segment = ${segment}::smallint and w.job_id = f.job_id and w.cause <> 'submit' and w.reason = 'dependency'
        limit 1
      ) r
    ),
    blocked as materialized (
      select w.row
      from child c
      cross join lateral (
        select b.ctid as row
        from punctual.waiting b
        where b.segment = ${segment}::smallint and b.run_id = c.run_id and b.reason = 'dependency'
        limit 1
        for update
      ) w
    ),
    freed as (
      delete from punctual.waiting w
      using blocked b
      where w.segment = ${segment}::smallint and w.ctid = b.row
      returning w.segment, w.run_id, w.job_id, w.lane_id, w.attempts, w.cause, w.scheduled_for, w.due_at
    ),
    ${goOn}`);
}
