// Unblock: the ends of runs decide about those that depend on them. For a batch of ended parents:
//
//   1. whom they concern is read from `dependents`, one segment of parents at a time (readConcerned);
//   2. for each segment of children, needs that are met are marked, and runs whose needs are all met released (release.ts);
//      needs that can no longer be met are marked, and their runs dropped (drop.ts);
//   3. the rows of `dependents` that were dealt with go, or are marked as told (forgetMet, noteFailed).
//
// A server that dies between two steps leaves rows of `dependents` that are not told. Doing a step again changes
// nothing: a need is marked only while it is pending, and a run moves only while it is blocked.
//
// In all of it rows are found by lateral look-ups, one for each id, and changed by their ctid: in the minutes before a new
// table is analyzed, a plan made from a plain join would go through all that is blocked for each of them. A row that
// somebody else has changed in that moment is then passed by, so this is done only where the other's change is as good.
import type { NeedCondition, RunStatus } from '@punctual/contract';
import { uuids } from './arrays.ts';
import type { Queryable } from './database.ts';
import { isLive } from './history.ts';
import { type Fragment, ofSegment, part, sqlPlannedOnce } from './sql.ts';

/** A job that is concerned by the end of a run. */
export interface Concerned {
  /** The parent. */
  run_id: string;
  job_id: string;
  on: NeedCondition;
  status: RunStatus;
  /** The run that does the parent again, when it failed and was redriven already. */
  retried_run_id: string | null;
}

/**
 * Jobs that depend on those of the runs that have ended, and have not been told. A run that is in no table was removed by
 * retention just before a job came to depend on it: nobody knows any more how it ended, which is as if it had been dropped.
 */
export async function readConcerned(
  db: Queryable,
  segment: number,
  runIds: readonly string[],
  limit: number,
): Promise<Concerned[]> {
  return db.query<Concerned>(sqlPlannedOnce`
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
      select d.run_id, coalesce(e.status, 'DROPPED') as status
      from depended d
      left join lateral (
        select r.status from punctual.ended_runs r where r.segment = ${segment}::smallint and r.run_id = d.run_id limit 1
      ) e on true
      where e.status is not null or not ${isLive(part`${segment}::smallint`, part`d.run_id`)}
    )
    select o.run_id, c.job_id, c.on_condition::text as on, o.status::text as status,
           case when o.status = 'FAILED' and c.on_condition = 'success' then (
             select l.redriven_run_id from punctual.dead_letters l
             where l.segment = ${segment}::smallint and l.run_id = o.run_id)
           end as retried_run_id
    from over o
    cross join lateral (
      select d.job_id, d.on_condition
      from punctual.dependents d
      where d.segment = ${segment}::smallint and d.run_id = o.run_id and not d.told and d.was is null
      limit ${limit}::integer
    ) c
    limit ${limit}::integer`);
}

interface Told {
  run_id: string;
  job_id: string;
}

/** The jobs whose needs these runs of a segment have met are told: the rows that named them go. */
export async function forgetMet(db: Queryable, segment: number, told: readonly Told[]): Promise<void> {
  await db.query(sqlPlannedOnce`
    delete from punctual.dependents d
    where ${ofSegment(part`d.segment`, segment)} and d.ctid = any (array(${toldRows(segment, told)})) and d.was is null`);
}

/** The jobs whose needs these runs of a segment have failed are told: the rows stay, for a retry. */
export async function noteFailed(db: Queryable, segment: number, told: readonly Told[]): Promise<void> {
  await db.query(sqlPlannedOnce`
    update punctual.dependents d
    set told = true
    where ${ofSegment(part`d.segment`, segment)} and d.ctid = any (array(${toldRows(segment, told)})) and d.was is null`);
}

function toldRows(segment: number, told: readonly Told[]): Fragment {
  return part`
      select r.row
      from unnest(${uuids(told, (row) => row.run_id)}::uuid[], ${uuids(told, (row) => row.job_id)}::uuid[]) t (run_id, job_id)
      cross join lateral (
        select d.ctid as row
        from punctual.dependents d
        where d.segment = ${segment}::smallint and d.run_id = t.run_id and d.job_id = t.job_id
        limit 1
      ) r`;
}
