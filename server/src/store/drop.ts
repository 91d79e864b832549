// Drops blocked runs that can never start: a need of theirs can no longer be met. Called by unblock.ts within the
// transaction that found it out, which holds these runs.
//
// What depends on a dropped run for its success or failure is dropped with it, level by level in the same transaction, so
// that a long chain does not take a transaction for each of its links. That goes only as far as the segment and as rows that
// nobody else holds: who holds one may be waiting for us. Whatever it leaves out is told as of any other end.
import { texts, uuids } from './arrays.ts';
import type { Queryable } from './database.ts';
import { firstRunOf } from './jobs.ts';
import { type Fragment, part, sql } from './sql.ts';

/** A transaction that has dropped so many leaves what depends on them to the next. */
const maxDropped = 1000;

/** Answers the runs that were dropped: these, and what depends on them. */
export async function dropBlocked(
  tx: Queryable,
  segment: number,
  runs: readonly { run_id: string; failed_run_id: string | null }[],
): Promise<string[]> {
  const dropped: string[] = [];
  let level = runs.length === 0 ? [] : await dropThese(tx, segment, runs);
  while (level.length > 0) {
    dropped.push(...level);
    level = dropped.length < maxDropped ? await dropNext(tx, segment, level) : [];
  }
  return dropped;
}

const found = part`w.ctid as row, w.segment, w.run_id, w.job_id, w.lane_id, w.attempts, w.cause, w.scheduled_for, w.due_at`;

async function dropThese(
  tx: Queryable,
  segment: number,
  runs: readonly { run_id: string; failed_run_id: string | null }[],
): Promise<string[]> {
  const rows = await tx.query<{ run_id: string }>(sql`
    with doomed as materialized (
      select b.*, f.parent_run_id
      from unnest(${uuids(runs, (run) => run.run_id)}::uuid[], ${texts(runs, (run) => run.failed_run_id)}::text[]) f (run_id, parent_run_id)
      cross join lateral (
        select ${found}
        from punctual.waiting w
        where w.segment = ${segment}::smallint and w.run_id = f.run_id and w.reason = 'dependency'
        limit 1
      ) b
    ),
    ${endDoomed(segment)}`);
  return rows.map((row) => row.run_id);
}

async function dropNext(tx: Queryable, segment: number, dropped: readonly string[]): Promise<string[]> {
  const rows = await tx.query<{ run_id: string }>(sql`
    with concerned as materialized (
      select d.job_id, d.run_id as parent_run_id
      from punctual.dependents d
      where d.segment = ${segment}::smallint and d.run_id = any (${uuids(dropped, (id) => id)}::uuid[])
        and d.on_condition <> 'any_end' and not d.told and d.was is null
      limit ${maxDropped}::integer
    ),
    child as materialized (
      select ${firstRunOf(part`job_id`)} as run_id, job_id, parent_run_id
      from concerned
      union all
      select r.run_id, c.job_id, c.parent_run_id
      from concerned c
      cross join lateral (
        select w.run_id
        from punctual.waiting w
        where w.segment = ${segment}::smallint and w.job_id = c.job_id and w.cause <> 'submit' and w.reason = 'dependency'
        limit 1
      ) r
    ),
    doomed as materialized (
      select b.*, c.parent_run_id
      from child c
      cross join lateral (
        select ${found}
        from punctual.waiting w
        where w.segment = ${segment}::smallint and w.run_id = c.run_id and w.reason = 'dependency'
        limit 1
        for update skip locked
      ) b
    ),
    need as materialized (
      select p.row
      from doomed d
      cross join lateral (
        select n.ctid as row
        from punctual.needs n
        where n.segment = ${segment}::smallint and n.job_id = d.job_id and n.parent_run_id = d.parent_run_id
        limit 1
      ) p
    ),
    marked as (
      update punctual.needs n
      set state = 'failed'
      from need p
      where n.segment = ${segment}::smallint and n.ctid = p.row and n.state = 'pending'
    ),
    ${endDoomed(segment)}`);
  return rows.map((row) => row.run_id);
}

/** The end of a statement: the rows of `doomed`, which are held, end. */
function endDoomed(segment: number): Fragment {
  return part`taken as (
      delete from punctual.waiting w
      using doomed d
      where w.segment = ${segment}::smallint and w.ctid = d.row
    )
    insert into punctual.ended_runs (segment, run_id, job_id, lane_id, attempt, cause, status, reason, scheduled_for, due_at, error)
    select distinct on (run_id) segment, run_id, job_id, lane_id, attempts, cause, 'DROPPED'::punctual.run_outcome, 'upstream_failed',
           scheduled_for, due_at, 'It depends on the run ' || parent_run_id || ', which did not end as it should have.'
    from doomed
    returning run_id`;
}
