// Drops blocked runs that can never start: a need of theirs can no longer be met. One transaction marks the needs and ends
// the runs.
//
// The race: a failed need, unlike a met one, becomes pending again when the parent is tried again. The row of the need
// orders the two (revive.ts): the retry, which changes the need first and then looks whether the run was dropped, waits for
// our commit and brings the run back; or we wait for its commit, and find no need to mark, and nothing to drop.
//
// What depends on a dropped run for its success or failure is dropped with it, level by level in the same transaction, so
// that a long chain does not take a transaction for each of its links. That goes only as far as the segment; the rest is
// told as of any other end. A blocked run that somebody else holds, such as a cancel or a pause, is passed by: the safety net
// drops it if it is still there.
import { uuids } from './arrays.ts';
import type { Database, Queryable } from './database.ts';
import { firstRunOf } from './jobs.ts';
import { type Fragment, part, sql } from './sql.ts';

/** A transaction that has dropped so many leaves what depends on them to the next. */
const maxDropped = 1000;

/** A need that can no longer be met. */
export interface Unmet {
  job_id: string;
  parent_run_id: string;
}

/** Marks needs of jobs of one segment as failed and drops the runs of these jobs. Answers all runs that were dropped. */
export async function dropUnmet(
  db: Database,
  segment: number,
  unmet: readonly Unmet[],
  jobIds: readonly string[] = [...new Set(unmet.map((need) => need.job_id))],
): Promise<string[]> {
  return db.transaction(async (tx) => {
    await markFailed(tx, segment, unmet);
    const dropped: string[] = [];
    let level = await drop(tx, segment, failedNeeds(segment, jobIds));
    while (level.length > 0) {
      dropped.push(...level);
      level = dropped.length < maxDropped ? await drop(tx, segment, needsOfDropped(segment, level)) : [];
    }
    return dropped;
  });
}

async function markFailed(tx: Queryable, segment: number, unmet: readonly Unmet[]): Promise<void> {
  // In one order, so that two of us who mark the same never wait for each other.
  const inOrder = unmet.map((need) => need.job_id + need.parent_run_id).sort();
  await tx.query(sql`
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
    set state = 'failed'
    from pending p
    where n.segment = ${segment}::smallint and n.ctid = p.row`);
}

/** For each of the jobs that has one, a need that failed. */
function failedNeeds(segment: number, jobIds: readonly string[]): Fragment {
  return part`
      select j.job_id, n.parent_run_id
      from unnest(${uuids(jobIds, (id) => id)}::uuid[]) j (job_id)
      cross join lateral (
        select f.parent_run_id
        from punctual.needs f
        where f.segment = ${segment}::smallint and f.job_id = j.job_id and f.state = 'failed'
        limit 1
        for update
      ) n`;
}

/** Needs that failed because these runs were dropped just now. */
function needsOfDropped(segment: number, runIds: readonly string[]): Fragment {
  return part`
      select d.job_id, d.run_id as parent_run_id
      from punctual.dependents d
      where d.segment = ${segment}::smallint and d.run_id = any (${uuids(runIds, (id) => id)}::uuid[])
        and d.on_condition <> 'any_end' and not d.told and d.was is null
      limit ${maxDropped}::integer`;
}

/** Ends the blocked runs of the jobs that `unmet` selects, and marks the needs it selects with them. */
async function drop(tx: Queryable, segment: number, unmet: Fragment): Promise<string[]> {
  const rows = await tx.query<{ run_id: string }>(sql`
    with unmet as materialized (${unmet}),
    child as materialized (
      select ${firstRunOf(part`job_id`)} as run_id, job_id, parent_run_id
      from unmet
      union all
      select r.run_id, u.job_id, u.parent_run_id
      from unmet u
      cross join lateral (
        select w.run_id
        from punctual.waiting w
        where w.segment = ${segment}::smallint and w.job_id = u.job_id and w.cause <> 'submit' and w.reason = 'dependency'
        limit 1
      ) r
    ),
    doomed as materialized (
      select b.*, c.parent_run_id
      from child c
      cross join lateral (
        select w.ctid as row, w.segment, w.run_id, w.job_id, w.lane_id, w.attempts, w.cause, w.scheduled_for, w.due_at
        from punctual.waiting w
        where w.segment = ${segment}::smallint and w.run_id = c.run_id and w.reason = 'dependency'
        limit 1
        for update skip locked
      ) b
    ),
    need as materialized (
      select n.row
      from doomed d
      cross join lateral (
        select p.ctid as row
        from punctual.needs p
        where p.segment = ${segment}::smallint and p.job_id = d.job_id and p.parent_run_id = d.parent_run_id
        limit 1
      ) n
    ),
    marked as (
      update punctual.needs n
      set state = 'failed'
      from need p
      where n.segment = ${segment}::smallint and n.ctid = p.row and n.state = 'pending'
    ),
    taken as (
      delete from punctual.waiting w
      using doomed d
      where w.segment = ${segment}::smallint and w.ctid = d.row
    )
    insert into punctual.ended_runs (segment, run_id, job_id, lane_id, attempt, cause, status, reason, scheduled_for, due_at, error)
    select distinct on (run_id) segment, run_id, job_id, lane_id, attempts, cause, 'DROPPED'::punctual.run_outcome, 'upstream_failed',
           scheduled_for, due_at, 'It depends on the run ' || parent_run_id || ', which did not end as it should have.'
    from doomed
    returning run_id`);
  return rows.map((row) => row.run_id);
}
