// Many runs of jobs of their own cancelled in a few statements, for workflows that are cancelled. As takeRun in run_moves.ts
// does for one: whoever deletes a run's row first has it, and one that moved on while we looked is looked for again.
import { PunctualError } from '@punctual/contract';
import { segmentOf } from '../base/ids.ts';
import { uuids } from './arrays.ts';
import type { Queryable } from './database.ts';
import type { CancelOrder } from './run_moves.ts';
import { sql } from './sql.ts';

const maxLooks = 20;

interface JobAndRun {
  job_id: string;
  run_id: string;
}

/** Answers the runs that ended without having started, and those that run: their workers must be told. */
export async function cancelRuns(
  tx: Queryable,
  runs: readonly JobAndRun[],
  reason: string,
): Promise<{ ended: string[]; orders: CancelOrder[] }> {
  const ended: string[] = [];
  const orders: CancelOrder[] = [];
  for (const segment of new Set(runs.map(({ run_id }) => segmentOf(run_id)))) {
    const mine = runs.filter(({ run_id }) => segmentOf(run_id) === segment);
    await markJobs(
      tx,
      segment,
      mine.map(({ job_id }) => job_id),
    );
    let left = mine.map(({ run_id }) => run_id);
    for (let look = 0; left.length > 0; look++) {
      if (look === maxLooks)
        throw new PunctualError('unavailable', {
          detail: 'The runs change too quickly right now; try again.',
          retryAfterSeconds: 1,
        });
      const taken = await endWaiting(tx, segment, left, reason);
      const running = await orderCancels(tx, segment, left);
      const over = await endedOf(tx, segment, left);
      ended.push(...taken);
      orders.push(...running);
      const found = new Set([...taken, ...running.map(({ run_id }) => run_id), ...over]);
      left = left.filter((id) => !found.has(id));
    }
  }
  return { ended, orders };
}

/** Whoever claims one of their runs in this moment settles it as cancelled. */
async function markJobs(tx: Queryable, segment: number, ids: readonly string[]): Promise<void> {
  await tx.query(sql`
    update punctual.jobs
    set cancelled_at = coalesce(cancelled_at, now()), version = version + 1, updated_at = now()
    where segment = ${segment}::smallint and job_id = any (${uuids(ids, (id) => id)}::uuid[])`);
}

async function endWaiting(tx: Queryable, segment: number, ids: readonly string[], reason: string): Promise<string[]> {
  const wanted = uuids(ids, (id) => id);
  const rows = await tx.query<{ run_id: string }>(sql`
    with taken as (
      delete from punctual.waiting
      where segment = ${segment}::smallint and run_id = any (${wanted}::uuid[])
      returning segment, run_id, job_id, lane_id, attempts, cause, scheduled_for, due_at
    ),
    unstarted as (
      delete from punctual.ready
      where segment = ${segment}::smallint and run_id = any (${wanted}::uuid[])
      returning segment, run_id, job_id, lane_id, attempts, cause, scheduled_for, due_at
    )
    insert into punctual.ended_runs (segment, run_id, job_id, lane_id, attempt, cause, status, reason, scheduled_for, due_at)
    select segment, run_id, job_id, lane_id, attempts, cause, 'CANCELLED', ${reason}, scheduled_for, due_at
    from (select * from taken union all select * from unstarted) both_states
    returning run_id`);
  return rows.map((row) => row.run_id);
}

async function orderCancels(tx: Queryable, segment: number, ids: readonly string[]): Promise<CancelOrder[]> {
  return tx.query<CancelOrder>(sql`
    update punctual.running
    set cancel_at = coalesce(cancel_at, now())
    where segment = ${segment}::smallint and run_id = any (${uuids(ids, (id) => id)}::uuid[])
    returning run_id, lease_id, session_id`);
}

async function endedOf(tx: Queryable, segment: number, ids: readonly string[]): Promise<string[]> {
  const rows = await tx.query<{ run_id: string }>(sql`
    select run_id
    from punctual.ended_runs
    where segment = ${segment}::smallint and run_id = any (${uuids(ids, (id) => id)}::uuid[])`);
  return rows.map((row) => row.run_id);
}
