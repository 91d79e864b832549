// What a backfill does: it notices how its runs ended, makes the next ones, and is cancelled.
//
// Each time makes one run, and never more than max_concurrency of them are live, with any number of servers: a step is one
// transaction that holds the row of its backfill. A server that finds the row locked leaves the step to the other. A
// server that dies in a step leaves nothing of it behind: the run, its mark in backfill_times and the counts of the
// backfill are committed together. What is live is only ever overestimated, because a run is noticed after it has ended.
//
// `= any (array(…))` beside a join says nothing new, but makes it an index condition: in the minutes before a new table is
// analyzed the plan would else go through all times of the backfill for each of them.
import { newId, segmentOf } from '../base/ids.ts';
import { type BackfillStep, nextStep } from '../rules/backfill.ts';
import { uuids } from './arrays.ts';
import type { Database, Queryable } from './database.ts';
import { type LaneKey, type Lanes, laneOfJob } from './lanes.ts';
import { endTakenRun, takeRun } from './run_moves.ts';
import { part, sql } from './sql.ts';

export interface ActiveBackfill {
  backfill_id: string;
  job_id: string;
}

/** Those that may have something to do, so many of each segment, the oldest first; not those that wait for a resume. */
export async function activeBackfills(
  db: Queryable,
  segments: readonly number[],
  perSegment: number,
): Promise<ActiveBackfill[]> {
  return db.query<ActiveBackfill>(sql`
    select b.backfill_id, b.job_id
    from unnest(${segments}::smallint[]) s (segment)
    cross join lateral (
      select a.backfill_id, a.job_id
      from punctual.backfills a
      join punctual.jobs j using (segment, job_id)
      where a.segment = s.segment and a.ended_at is null
        and (j.paused_at is null or j.cancelled_at is not null or a.made > a.succeeded + a.failed + a.cancelled)
      order by a.backfill_id
      limit ${perSegment}::integer
    ) b`);
}

interface LockedBackfill extends LaneKey {
  segment: number;
  backfill_id: string;
  job_id: string;
  state: 'RUNNING' | 'CANCELLED';
  newest_first: boolean;
  max_concurrency: number;
  total: number;
  made: number;
  ended: number;
  created_at: string;
  job: 'live' | 'paused' | 'cancelled';
}

/** One step; answers what was done, or null when somebody else is at it. */
export async function stepBackfill(db: Database, lanes: Lanes, backfillId: string): Promise<BackfillStep | null> {
  return db.transaction(async (tx) => {
    const backfill = await lockBackfill(tx, backfillId);
    if (backfill === null) return null;
    const ends = await noteEnds(tx, backfill);
    const noted = ends.succeeded + ends.failed + ends.cancelled;
    const live = backfill.made - backfill.ended - noted;
    const step = nextStep({ ...backfill, live, unmade: backfill.total - backfill.made });
    if (noted + step.make === 0 && step.state === backfill.state && !step.ended) return step;
    if (step.make > 0) await makeRuns(tx, lanes, backfill, step.make);
    await tx.query(sql`
      update punctual.backfills
      set state = ${step.state}, made = made + ${step.make}::integer, succeeded = succeeded + ${ends.succeeded}::integer,
          failed = failed + ${ends.failed}::integer, cancelled = cancelled + ${ends.cancelled}::integer,
          ended_at = case when ${step.ended}::boolean then now() end
      where segment = ${backfill.segment}::smallint and backfill_id = ${backfillId}`);
    return step;
  });
}

/** The job's row is held too, so that it is not paused or cancelled meanwhile; nothing is waited for. */
async function lockBackfill(tx: Queryable, backfillId: string): Promise<LockedBackfill | null> {
  const rows = await tx.query<LockedBackfill>(sql`
    select b.segment, b.backfill_id, b.job_id, b.state, b.newest_first, b.max_concurrency, b.total, b.made,
           b.succeeded + b.failed + b.cancelled as ended, b.created_at::text as created_at, ${laneOfJob},
           case when j.cancelled_at is not null then 'cancelled' when j.paused_at is not null then 'paused' else 'live' end as job
    from punctual.backfills b
    join punctual.jobs j using (segment, job_id)
    where b.segment = ${segmentOf(backfillId)}::smallint and b.backfill_id = ${backfillId} and b.ended_at is null
    for update of b skip locked
    for share of j skip locked`);
  return rows[0] ?? null;
}

async function noteEnds(
  tx: Queryable,
  { segment, backfill_id, created_at }: LockedBackfill,
): Promise<{ succeeded: number; failed: number; cancelled: number }> {
  const rows = await tx.query<{ succeeded: number; failed: number; cancelled: number }>(sql`
    with live as materialized (
      select run_id
      from punctual.backfill_times
      where segment = ${segment}::smallint and backfill_id = ${backfill_id} and run_id is not null and outcome is null
    ),
    noted as (
      update punctual.backfill_times t
      set outcome = e.status
      from punctual.ended_runs e
      where t.segment = ${segment}::smallint and t.backfill_id = ${backfill_id} and t.run_id is not null and t.outcome is null
        and e.segment = ${segment}::smallint and e.run_id = t.run_id and e.ended_at >= ${created_at}::timestamptz
        and e.run_id = any (array(select run_id from live))
      returning e.status
    )
    select count(*) filter (where status = 'SUCCESS')::integer as succeeded,
           count(*) filter (where status = 'FAILED')::integer as failed,
           count(*) filter (where status not in ('SUCCESS', 'FAILED'))::integer as cancelled
    from noted`);
  return rows[0] ?? { succeeded: 0, failed: 0, cancelled: 0 };
}

async function makeRuns(tx: Queryable, lanes: Lanes, backfill: LockedBackfill, count: number): Promise<void> {
  const { segment, backfill_id, job_id, newest_first } = backfill;
  const [lane] = await lanes.ensure([backfill]);
  const runIds = Array.from({ length: count }, () => newId('run', segment));
  const inOrder = newest_first ? part`order by scheduled_for desc` : part`order by scheduled_for`;
  await tx.query(sql`
    with next as materialized (
      select scheduled_for, row_number() over (${inOrder}) as place
      from punctual.backfill_times
      where segment = ${segment}::smallint and backfill_id = ${backfill_id} and run_id is null
      ${inOrder}
      limit ${count}::integer
    ),
    marked as (
      update punctual.backfill_times t
      set run_id = r.run_id
      from next n
      join unnest(${uuids(runIds, (id) => id)}::uuid[]) with ordinality r (run_id, place) using (place)
      where t.segment = ${segment}::smallint and t.backfill_id = ${backfill_id} and t.scheduled_for = n.scheduled_for
        and t.scheduled_for = any (array(select scheduled_for from next))
      returning r.run_id, t.scheduled_for
    )
    insert into punctual.ready (segment, run_id, job_id, lane_id, attempts, cause, scheduled_for, due_at)
    select ${segment}::smallint, run_id, ${job_id}::uuid, ${lane?.lane_id ?? 0}::integer, 0, 'backfill', scheduled_for, now()
    from marked
    order by run_id`);
}

/**
 * It makes no further runs, and those that have not started end. Answers whether it exists. The job's row comes first, as
 * for everything else that takes runs of a job, so that two of them never wait for each other.
 */
export async function cancelBackfill(db: Database, backfillId: string): Promise<boolean> {
  const segment = segmentOf(backfillId);
  return db.transaction(async (tx) => {
    await tx.query(sql`
      select
      from punctual.backfills b
      join punctual.jobs j using (segment, job_id)
      where b.segment = ${segment}::smallint and b.backfill_id = ${backfillId}
      for update of j`);
    const found = await tx.query<{ state: string }>(sql`
      update punctual.backfills
      set state = case when state = 'RUNNING' then 'CANCELLED' else state end
      where segment = ${segment}::smallint and backfill_id = ${backfillId}
      returning state`);
    if (found[0]?.state !== 'CANCELLED') return found.length > 0;
    const live = await tx.query<{ run_id: string }>(sql`
      select run_id
      from punctual.backfill_times
      where segment = ${segment}::smallint and backfill_id = ${backfillId} and run_id is not null and outcome is null`);
    for (const { run_id } of live) {
      const run = await takeRun(tx, run_id);
      if (typeof run !== 'string') await endTakenRun(tx, run, { status: 'CANCELLED', reason: 'backfill_cancelled' });
    }
    return true;
  });
}
