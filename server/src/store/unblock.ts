// Unblock: the ends of runs decide about those that depend on them. For a batch of ended parents:
//
//   1. whom they concern is read from `dependents`, one segment of parents at a time (readConcerned);
//   2. in one transaction for each segment of children the blocked runs are locked in `waiting`, then their needs are
//      marked and counted, and they go to `ready`, to `waiting` for their own time, or to the end (settleNeeds); those that
//      depend on nothing else need no counting and are released in one statement (release.ts);
//   3. the rows of `dependents` that were dealt with go, or are marked as told (noteTold).
//
// The race: two parents end at once, on two servers. Whoever marks a need of a child that waits holds the row of that
// child until it commits, so the second counts what the first has marked, and sees that nothing is pending. A cancel takes
// that same row: either it was first and there is nothing to release, or it finds the run further on (takeRun). A pause
// or an update takes the row out and puts it back within its transaction: who waited for that finds no row and looks once more.
//
// Rows are found by lateral look-ups, one for each id, and changed by their ctid: in the minutes before a new table is
// analyzed, a plan made from a plain join would go through all that is blocked for each of them.
//
// A server that dies between two steps leaves rows of `dependents` that are not told. Doing a step again changes
// nothing: a need is marked only while it is pending, and a run is judged only while it is blocked.
import type { NeedCondition, RunStatus } from '@punctual/contract';
import { firstRunId } from '../base/ids.ts';
import { childAfter } from '../rules/dependency.ts';
import { texts, uuids } from './arrays.ts';
import type { Database, Queryable } from './database.ts';
import { dropBlocked } from './drop.ts';
import { type Released, releaseBlocked } from './release.ts';
import { sql } from './sql.ts';

/** A job that is concerned by the end of a run. */
export interface Concerned {
  /** The parent. */
  run_id: string;
  job_id: string;
  on: NeedCondition;
  /** It depends on nothing else. */
  sole: boolean;
  status: RunStatus;
  /** The run that does the parent again, when it failed and was redriven already. */
  retried_run_id: string | null;
}

/** Jobs that depend on those of the runs that have ended, and have not been told. */
export async function readConcerned(
  db: Queryable,
  segment: number,
  runIds: readonly string[],
  limit: number,
): Promise<Concerned[]> {
  return db.query<Concerned>(sql`
    with depended as materialized (
      select p.run_id
      from unnest(${uuids(runIds, (id) => id)}::uuid[]) p (run_id)
      cross join lateral (
        select from punctual.dependents d
        where d.segment = ${segment}::smallint and d.run_id = p.run_id and not d.told and d.was is null
        limit 1
      ) one
    ),
    over as materialized (
      select d.run_id, e.status
      from depended d
      cross join lateral (
        select r.status from punctual.ended_runs r where r.segment = ${segment}::smallint and r.run_id = d.run_id limit 1
      ) e
    )
    select o.run_id, c.job_id, c.on_condition::text as on, c.sole, o.status::text as status,
           case when o.status = 'FAILED' and c.on_condition = 'success' then (
             select l.redriven_run_id from punctual.dead_letters l
             where l.segment = ${segment}::smallint and l.run_id = o.run_id)
           end as retried_run_id
    from over o
    cross join lateral (
      select d.job_id, d.on_condition, d.sole
      from punctual.dependents d
      where d.segment = ${segment}::smallint and d.run_id = o.run_id and not d.told and d.was is null
      limit ${limit}::integer
    ) c
    limit ${limit}::integer`);
}

export interface Mark {
  job_id: string;
  parent_run_id: string;
  state: 'met' | 'failed';
}

export interface Unblocked {
  /** Jobs whose runs became ready or wait for their own time. */
  released: Released[];
  /** Runs that ended because a need of theirs can no longer be met. */
  dropped: string[];
}

/** Marks needs of jobs of one segment, and moves the blocked runs of these jobs on where that decides them. */
export async function settleNeeds(
  db: Database,
  segment: number,
  marks: readonly Mark[],
  jobIds: readonly string[] = [...new Set(marks.map((mark) => mark.job_id))],
): Promise<Unblocked> {
  return db.transaction(async (tx) => {
    const blocked = await lockBlocked(tx, segment, jobIds);
    if (blocked.size < jobIds.length) {
      const missed = jobIds.filter((id) => !blocked.has(id));
      for (const [jobId, runId] of await lockBlocked(tx, segment, missed)) blocked.set(jobId, runId);
    }
    const judged = await markAndCount(tx, segment, marks, [...blocked.keys()]);
    const runsThat = (what: string) =>
      judged
        .filter((needs) => blocked.has(needs.job_id) && childAfter(needs) === what)
        .map(({ job_id, failed_run_id }) => ({ run_id: blocked.get(job_id) as string, failed_run_id }));
    return {
      released: await releaseBlocked(tx, segment, runsThat('release')),
      dropped: await dropBlocked(tx, segment, runsThat('drop')),
    };
  });
}

/** The blocked run of each of the jobs that has one, by job; in one order, so that two of us never wait for each other. */
async function lockBlocked(tx: Queryable, segment: number, jobIds: readonly string[]): Promise<Map<string, string>> {
  const rows = await tx.query<{ run_id: string; job_id: string }>(sql`
    select w.run_id, w.job_id
    from punctual.waiting w
    where w.segment = ${segment}::smallint and w.reason = 'dependency'
      and w.run_id = any (array(
        select unnest(${uuids(jobIds, firstRunId)}::uuid[])
        union all
        select r.run_id
        from punctual.waiting r
        where r.segment = ${segment}::smallint and r.job_id = any (${uuids(jobIds, (id) => id)}::uuid[]) and r.cause <> 'submit'))
    order by w.run_id
    for update`);
  return new Map(rows.map((row) => [row.job_id, row.run_id]));
}

interface Counted {
  job_id: string;
  pending: number;
  failed: number;
  failed_run_id: string | null;
}

/** Marks the needs, also of jobs that have no blocked run any more, and counts those of the jobs that have. */
async function markAndCount(
  tx: Queryable,
  segment: number,
  marks: readonly Mark[],
  jobIds: readonly string[],
): Promise<Counted[]> {
  // In one order, for jobs that two of us mark without a blocked run to order them.
  const inOrder = [...marks].sort((a, b) => (a.job_id + a.parent_run_id < b.job_id + b.parent_run_id ? -1 : 1));
  return tx.query<Counted>(sql`
    with pending as materialized (
      select p.row, m.job_id, m.parent_run_id, m.state
      from unnest(
        ${uuids(inOrder, (mark) => mark.job_id)}::uuid[], ${uuids(inOrder, (mark) => mark.parent_run_id)}::uuid[],
        ${texts(inOrder, (mark) => mark.state)}::text[]) m (job_id, parent_run_id, state)
      cross join lateral (
        select n.ctid as row
        from punctual.needs n
        where n.segment = ${segment}::smallint and n.job_id = m.job_id and n.parent_run_id = m.parent_run_id and n.state = 'pending'
        limit 1
        for update
      ) p
    ),
    marked as (
      update punctual.needs n
      set state = p.state::punctual.need_state
      from pending p
      where n.segment = ${segment}::smallint and n.ctid = p.row
    ),
    counted as (
      select j.job_id, c.pending, c.failed, c.failed_run_id
      from unnest(${uuids(jobIds, (id) => id)}::uuid[]) j (job_id)
      cross join lateral (
        select count(*) filter (where n.state = 'pending') as pending, count(*) filter (where n.state = 'failed') as failed,
               min(n.parent_run_id::text) filter (where n.state = 'failed') as failed_run_id
        from punctual.needs n
        where n.segment = ${segment}::smallint and n.job_id = j.job_id
      ) c
      union all
      select job_id, -1, (state = 'failed')::integer, case when state = 'failed' then parent_run_id::text end
      from pending
    )
    select job_id, sum(pending)::integer as pending, sum(failed)::integer as failed, min(failed_run_id) as failed_run_id
    from counted
    group by job_id`);
}

/** The jobs have been told of the ends of runs of this segment: rows of met needs go, those of failed ones stay. */
export async function noteTold(
  db: Queryable,
  segment: number,
  told: readonly { run_id: string; job_id: string; state: 'met' | 'failed' }[],
): Promise<void> {
  await db.query(sql`
    with dealt as materialized (
      select r.row, t.state
      from unnest(
        ${uuids(told, (row) => row.run_id)}::uuid[], ${uuids(told, (row) => row.job_id)}::uuid[],
        ${texts(told, (row) => row.state)}::text[]) t (run_id, job_id, state)
      cross join lateral (
        select d.ctid as row
        from punctual.dependents d
        where d.segment = ${segment}::smallint and d.run_id = t.run_id and d.job_id = t.job_id
        limit 1
      ) r
    ),
    gone as (
      delete from punctual.dependents d
      using dealt t
      where d.segment = ${segment}::smallint and d.ctid = t.row and t.state = 'met' and d.was is null
    )
    update punctual.dependents d
    set told = true
    from dealt t
    where d.segment = ${segment}::smallint and d.ctid = t.row and t.state = 'failed' and d.was is null`);
}
