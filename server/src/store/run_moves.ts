// A run taken out of the state it waits in and put into another, for the moves people ask for. The hot moves (claim,
// settle, due, reap) have statements of their own.
import { PunctualError, type RunCause } from '@punctual/contract';
import { firstRunId, segmentOf } from '../base/ids.ts';
import { apart } from './checkpoints.ts';
import type { Database, Queryable } from './database.ts';
import { entryLane } from './lanes.ts';
import { part, sql } from './sql.ts';

/** A run between two tables, held by the transaction that took it. */
export interface TakenRun {
  segment: number;
  run_id: string;
  job_id: string;
  lane_id: number;
  attempts: number;
  cause: RunCause;
  scheduled_for: string;
  due_at: string;
  /** It waits for the end of another run: of its job, or of one it depends on. */
  blocked: 'overlap' | 'dependency' | null;
  /** Its place in the lane, when it was ready. */
  seq: string | null;
}

/** A run crosses from table to table in one direction a few times at most while we look for it. */
const maxLooks = 20;

/**
 * The job's runs that have not ended; one snapshot shows each of them in exactly one table. Those of backfills stand
 * beside the schedule: who asks for runs before a time of it does not mean them.
 */
export async function liveRunIds(
  tx: Queryable,
  jobId: string,
  scheduledBeforeMs = Number.POSITIVE_INFINITY,
  withBackfills = scheduledBeforeMs === Number.POSITIVE_INFINITY,
): Promise<string[]> {
  const segment = segmentOf(jobId);
  const first = firstRunId(jobId);
  const before =
    scheduledBeforeMs === Number.POSITIVE_INFINITY ? 'infinity' : new Date(scheduledBeforeMs).toISOString();
  const rows = await tx.query<{ run_id: string }>(sql`
    select distinct run_id
    from (
    select run_id, scheduled_for, cause from punctual.waiting where segment = ${segment}::smallint and run_id = ${first}
    union all select run_id, scheduled_for, cause from punctual.ready where segment = ${segment}::smallint and run_id = ${first}
    union all select run_id, scheduled_for, cause from punctual.running where segment = ${segment}::smallint and run_id = ${first}
    union all select run_id, scheduled_for, cause from punctual.waiting where segment = ${segment}::smallint and job_id = ${jobId} and cause <> 'submit'
    union all select run_id, scheduled_for, cause from punctual.ready where segment = ${segment}::smallint and job_id = ${jobId} and cause <> 'submit'
    union all select run_id, scheduled_for, cause from punctual.running where segment = ${segment}::smallint and job_id = ${jobId} and cause <> 'submit') live
    where scheduled_for < ${before}::timestamptz and (${withBackfills}::boolean or cause <> 'backfill')`);
  return rows.map((row) => row.run_id);
}

/** Takes a run that has not started, out of any place it holds under its keys; says so when it has started or ended. */
export async function takeRun(tx: Queryable, runId: string): Promise<TakenRun | 'running' | 'ended'> {
  const segment = segmentOf(runId);
  for (let look = 0; look < maxLooks; look++) {
    const taken = await tx.query<TakenRun>(sql`
      delete from punctual.waiting
      where segment = ${segment}::smallint and run_id = ${runId}
      returning segment, run_id, job_id, lane_id, attempts, cause::text as cause, scheduled_for::text as scheduled_for, due_at::text as due_at,
                case when reason in ('overlap', 'dependency') then reason::text end as blocked, null as seq`);
    if (taken[0] !== undefined) return taken[0];
    const ready = await tx.query<TakenRun>(sql`
      delete from punctual.ready
      where segment = ${segment}::smallint and run_id = ${runId}
      returning segment, run_id, job_id, ${entryLane(part`ready.lane_id`)} as lane_id, attempts, cause::text as cause, scheduled_for::text as scheduled_for, due_at::text as due_at, null as blocked, seq::text as seq`);
    if (ready[0] !== undefined) return ready[0];
    // The row lock orders us with the settle of this run: either it is ours until we commit, or it has moved on.
    const running = await tx.query(sql`
      select from punctual.running
      where segment = ${segment}::smallint and run_id = ${runId}
      for update`);
    if (running.length > 0) return 'running';
    const ended = await tx.query(sql`
      select from punctual.ended_runs
      where segment = ${segment}::smallint and run_id = ${runId}`);
    if (ended.length > 0) return 'ended';
  }
  throw new PunctualError('unavailable', {
    detail: 'The run changes too quickly right now; try again.',
    retryAfterSeconds: 1,
  });
}

export async function takePausedRun(tx: Queryable, runId: string): Promise<TakenRun | null> {
  const rows = await tx.query<TakenRun>(sql`
    delete from punctual.waiting
    where segment = ${segmentOf(runId)}::smallint and run_id = ${runId} and reason = 'paused'
    returning segment, run_id, job_id, lane_id, attempts, cause::text as cause, scheduled_for::text as scheduled_for, due_at::text as due_at,
              null as blocked, null as seq`);
  return rows[0] ?? null;
}

/**
 * Puts a taken run where it belongs now: ready when due, else waiting; paused and blocked ones wait without end. One that
 * was ready comes last in its lane, unless it keeps its place.
 */
export async function putBack(
  tx: Queryable,
  run: TakenRun,
  to: { paused: boolean; schedule_time?: string | null; delay_ms?: number | null; keepPlace?: boolean },
): Promise<void> {
  await tx.query(sql`
    with asked as (
      select coalesce(${to.schedule_time ?? null}::timestamptz, now() + ${to.delay_ms ?? null}::bigint * interval '1 millisecond',
                      ${run.due_at}::timestamptz) as due_at,
             ${run.scheduled_for}::timestamptz as scheduled_for
    ),
    run as (
      -- Once they differ they stay so: the claim then looks for what the run has kept (checkpoints.ts).
      select case when ${run.due_at}::timestamptz <> scheduled_for then ${apart(part`due_at`, part`scheduled_for`)} else due_at end as due_at,
             ${to.paused || run.blocked !== null}::boolean as held
      from asked
    ),
    due as (
      insert into punctual.ready (segment, run_id, job_id, lane_id, attempts, cause, seq, scheduled_for, due_at)
      select ${run.segment}::smallint, ${run.run_id}::uuid, ${run.job_id}::uuid, ${run.lane_id}::integer, ${run.attempts}::smallint,
             ${run.cause}::punctual.run_cause, coalesce(${to.keepPlace === true ? run.seq : null}::bigint, nextval('punctual.arrivals') * 4096),
             ${run.scheduled_for}::timestamptz, run.due_at
      from run
      where not held and due_at <= now()
    )
    insert into punctual.waiting (segment, run_id, job_id, lane_id, attempts, cause, reason, scheduled_for, due_at, wake_at)
    select ${run.segment}::smallint, ${run.run_id}::uuid, ${run.job_id}::uuid, ${run.lane_id}::integer, ${run.attempts}::smallint,
           ${run.cause}::punctual.run_cause,
           coalesce(${run.blocked}, case when held then 'paused' when ${run.attempts}::smallint > 0 then 'retry' else 'due_later' end)::punctual.waiting_reason,
           ${run.scheduled_for}::timestamptz, run.due_at, case when held then 'infinity' else run.due_at end
    from run
    where held or due_at > now()`);
}

/** Ends a run that is not running. */
export async function endTakenRun(
  tx: Queryable,
  run: TakenRun,
  end: { status: 'CANCELLED' | 'DROPPED'; reason: string },
): Promise<void> {
  await tx.query(sql`
    with forgotten as (
      delete from punctual.checkpoints
      where segment = ${run.segment}::smallint and run_id = ${run.run_id}
    )
    insert into punctual.ended_runs (segment, run_id, job_id, lane_id, attempt, cause, status, reason, scheduled_for, due_at)
    values (${run.segment}::smallint, ${run.run_id}::uuid, ${run.job_id}::uuid, ${run.lane_id}::integer, ${run.attempts}::smallint,
            ${run.cause}::punctual.run_cause, ${end.status}::punctual.run_outcome, ${end.reason},
            ${run.scheduled_for}::timestamptz, ${run.due_at}::timestamptz)`);
}

/** A further run of a job, due now. */
export async function makeRun(
  tx: Queryable,
  run: { segment: number; run_id: string; job_id: string; lane_id: number; cause: RunCause },
): Promise<void> {
  await tx.query(sql`
    insert into punctual.ready (segment, run_id, job_id, lane_id, attempts, cause, scheduled_for, due_at)
    values (${run.segment}::smallint, ${run.run_id}::uuid, ${run.job_id}::uuid, ${run.lane_id}::integer, 0,
            ${run.cause}::punctual.run_cause, now(), now())`);
}

/** A running run whose worker must be told to stop. */
export interface CancelOrder {
  run_id: string;
  lease_id: string;
  session_id: string;
}

/** Marks a running run: its worker is told, and however the attempt ends, no other follows. */
export async function orderCancel(tx: Queryable, runId: string): Promise<CancelOrder[]> {
  return tx.query<CancelOrder>(sql`
    update punctual.running
    set cancel_at = coalesce(cancel_at, now())
    where segment = ${segmentOf(runId)}::smallint and run_id = ${runId}
    returning run_id, lease_id, session_id`);
}

/** Cancels one run, if it is still to be cancelled: the row lock decides between us and the settle. */
export async function cancelRun(db: Database, runId: string): Promise<'cancelled' | 'ended' | CancelOrder> {
  return db.transaction(async (tx) => {
    const run = await takeRun(tx, runId);
    if (run === 'ended') return 'ended';
    if (run !== 'running') {
      await endTakenRun(tx, run, { status: 'CANCELLED', reason: 'cancelled' });
      return 'cancelled';
    }
    const [order] = await orderCancel(tx, runId);
    return order ?? 'ended';
  });
}

/** Makes a run that waits for its next attempt due now. */
export async function hurryRun(
  db: Database,
  runId: string,
): Promise<'due' | 'running' | 'ended' | 'paused' | 'blocked'> {
  return db.transaction(async (tx) => {
    const run = await takeRun(tx, runId);
    if (typeof run === 'string') return run;
    const jobs = await tx.query<{ paused: boolean }>(sql`
      select paused_at is not null as paused
      from punctual.jobs
      where segment = ${run.segment}::smallint and job_id = ${run.job_id}
      for share`);
    const paused = jobs[0]?.paused === true;
    const dependent = run.blocked === 'dependency';
    await putBack(tx, run, { paused, ...(paused || dependent ? {} : { delay_ms: 0 }) });
    if (dependent) return 'blocked';
    return paused ? 'paused' : run.blocked === 'overlap' ? 'running' : 'due';
  });
}
