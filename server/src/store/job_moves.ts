// What people do to a job: update, pause, resume, cancel, run now. Each is one transaction that first locks the job's row,
// so two of them never mix, and then takes the job's live runs out of the state they are in.
//
// The race: claim, settle and the due mover do not lock the job's row, so a run may change tables while we look for it.
// Taking it is `delete … returning`: whoever deletes the row first has it. A miss means that it moved on, and we look
// again (takeRun). A run that was claimed before our transaction is running, and is treated as such.
import { PunctualError } from '@punctual/contract';
import { newId, segmentOf } from '../base/ids.ts';
import type { PreparedUpdate } from '../rules/job.ts';
import type { PreparedSchedule } from '../rules/schedule_input.ts';
import type { Database, Queryable } from './database.ts';
import { type LaneKey, type Lanes, laneOfJob } from './lanes.ts';
import {
  type CancelOrder,
  endTakenRun,
  liveRunIds,
  makeRun,
  orderCancel,
  putBack,
  type TakenRun,
  takePausedRun,
  takeRun,
} from './run_moves.ts';
import { getSchedule, replaceSchedule, resumeSchedule, stopSchedule, takeTurn } from './schedules.ts';
import { part, sql } from './sql.ts';

export interface LockedJob extends LaneKey {
  job_id: string;
  segment: number;
  version: number;
  paused: boolean;
  cancelled: boolean;
  workflow_id: string | null;
}

/** Times of the schedule have come that are not planned yet: plan them, then try again. */
export class OverdueError extends Error {}

export async function updateJob(
  db: Database,
  lanes: Lanes,
  {
    jobId,
    update,
    ifVersion,
    recurring = null,
  }: { jobId: string; update: PreparedUpdate; ifVersion: number | null; recurring?: PreparedSchedule | null },
): Promise<void> {
  await db.transaction(async (tx) => {
    const job = await lockJob(tx, jobId);
    if (ifVersion !== null && ifVersion !== job.version) {
      throw new PunctualError('version_conflict', {
        detail: `The job is at version ${job.version}, not ${ifVersion}.`,
      });
    }
    const live = await requireLive(tx, job);
    const { changes } = update;
    await tx.query(sql`
      update punctual.jobs j
      set name = coalesce(${changes.name ?? null}, j.name),
          queue = coalesce(${changes.queue ?? null}, j.queue),
          priority = coalesce(${changes.priority ?? null}::smallint, j.priority),
          tags = case when ${changes.tags !== undefined}::boolean then ${changes.tags ?? null}::text[] else j.tags end,
          payload = case when ${changes.payload !== undefined}::boolean then ${changes.payload ?? null} else j.payload end,
          max_retries = coalesce(${changes.max_retries ?? null}::smallint, j.max_retries),
          timeout_ms = coalesce(${changes.timeout_ms ?? null}::integer, j.timeout_ms),
          run_timeout_ms = case when ${changes.run_timeout_ms !== undefined}::boolean then ${changes.run_timeout_ms ?? null}::bigint else j.run_timeout_ms end,
          backoff = coalesce(${changes.backoff ?? null}, j.backoff),
          schedule_type = case when ${update.schedule !== null}::boolean then 'FUTURE' else j.schedule_type end,
          schedule_time = coalesce(${update.schedule?.schedule_time ?? null}::timestamptz,
                                   now() + ${update.schedule?.delay_ms ?? null}::bigint * interval '1 millisecond', j.schedule_time),
          version = j.version + 1,
          updated_at = now()
      where j.segment = ${job.segment}::smallint and j.job_id = ${jobId}`);
    const [lane] = await lanes.ensure([
      { ...job, queue: changes.queue ?? job.queue, priority: changes.priority ?? job.priority },
    ]);
    const laneChanged =
      (changes.queue ?? job.queue) !== job.queue || (changes.priority ?? job.priority) !== job.priority;
    if (recurring !== null && !(await replaceSchedule(tx, { jobId, next: recurring, paused: job.paused })))
      throw new OverdueError();
    if (!laneChanged && update.schedule === null) return;
    for (const runId of live) {
      const run = await takeRun(tx, runId);
      if (run === 'running' && update.schedule !== null)
        throw new PunctualError('job_running', { detail: 'Its run has started; its time can no longer be changed.' });
      if (typeof run === 'string') continue;
      await putBack(
        tx,
        { ...run, lane_id: lane?.lane_id ?? run.lane_id },
        { paused: job.paused, ...(update.schedule ?? {}) },
      );
    }
  });
}

export async function pauseJob(db: Database, jobId: string, note: string | null = null): Promise<void> {
  await db.transaction(async (tx) => {
    const job = await lockJob(tx, jobId);
    if (job.paused) return;
    const live = await requireLive(tx, job);
    await touchJob(tx, job, part`paused_at = now(), pause_note = ${note}`);
    await stopSchedule(tx, jobId, { ended: false });
    for (const runId of live) {
      const run = await takeRun(tx, runId);
      if (typeof run !== 'string') await putBack(tx, run, { paused: true });
    }
  });
}

export async function resumeJob(db: Database, jobId: string): Promise<void> {
  await db.transaction(async (tx) => {
    const job = await lockJob(tx, jobId);
    if (!job.paused) {
      if (job.cancelled) throw new PunctualError('job_ended', { detail: 'The job is cancelled.' });
      return;
    }
    await touchJob(tx, job, part`paused_at = null, pause_note = null`);
    await resumeSchedule(tx, jobId);
    for (const runId of await liveRunIds(tx, jobId)) {
      const run = await takePausedRun(tx, runId);
      if (run !== null) await putBack(tx, run, { paused: false });
    }
  });
}

export async function cancelJob(db: Database, jobId: string): Promise<{ cancelled: string[]; orders: CancelOrder[] }> {
  return db.transaction(async (tx) => {
    const job = await lockJob(tx, jobId, { cancelledIsFine: true });
    const live = job.cancelled ? await liveRunIds(tx, jobId) : await requireLive(tx, job);
    if (!job.cancelled) await touchJob(tx, job, part`cancelled_at = now()`);
    await stopSchedule(tx, jobId, { ended: true });
    const cancelled: string[] = [];
    const orders: CancelOrder[] = [];
    for (const runId of live) {
      const run = await takeRun(tx, runId);
      if (run === 'ended') continue;
      if (run === 'running') {
        orders.push(...(await orderCancel(tx, runId)));
      } else {
        await endTakenRun(tx, run, { status: 'CANCELLED', reason: 'job_cancelled' });
        cancelled.push(runId);
      }
    }
    return { cancelled, orders };
  });
}

/** The run that becomes due now: the one that waits, or a new one when none is left to do. */
export async function runJobNow(db: Database, lanes: Lanes, jobId: string): Promise<{ run_id: string }> {
  return db.transaction(async (tx) => {
    const job = await lockJob(tx, jobId);
    if (job.workflow_id !== null) throw inWorkflow(job.workflow_id);
    if (job.paused) throw new PunctualError('job_paused');
    const schedule = await takeTurn(tx, jobId);
    if (schedule?.overlap !== 'allow') {
      const live = await liveRunIds(tx, jobId, Number.POSITIVE_INFINITY, false);
      if (await isRunning(tx, job.segment, live)) throw new PunctualError('job_running');
      const taken: TakenRun[] = [];
      for (const runId of live) {
        const run = await takeRun(tx, runId);
        if (run === 'running') throw new PunctualError('job_running');
        if (run === 'ended') continue;
        if (run.blocked === 'dependency') throw new PunctualError('run_blocked');
        taken.push(run);
      }
      // One that waits for another has nothing to wait for, when it is the only one.
      const chosen = taken.find((run) => run.blocked === null) ?? taken[0];
      for (const run of taken)
        if (run === chosen) await putBack(tx, { ...run, blocked: null }, { paused: false, delay_ms: 0 });
        else await putBack(tx, run, { paused: false });
      if (chosen !== undefined) return { run_id: chosen.run_id };
    }
    const [lane] = await lanes.ensure([job]);
    const runId = newId('run', job.segment);
    await makeRun(tx, {
      segment: job.segment,
      run_id: runId,
      job_id: jobId,
      lane_id: lane?.lane_id ?? 0,
      cause: 'run_now',
    });
    return { run_id: runId };
  });
}

/** Who runs a step decides its workflow: a run beside it would count for nothing. */
export function inWorkflow(workflowId: string): PunctualError {
  return new PunctualError('job_in_workflow', {
    detail: `The job is a step of workflow ${workflowId}; retry that instead.`,
  });
}

/** Those of the jobs that are paused; nobody resumes them before the transaction ends. */
export async function keepPaused(tx: Queryable, segment: number, jobIds: readonly string[]): Promise<Set<string>> {
  const rows = await tx.query<{ job_id: string }>(sql`
    select j.job_id
    from punctual.jobs j
    where j.segment = ${segment}::smallint and j.job_id = any (${jobIds}::uuid[]) and j.paused_at is not null
    order by j.job_id
    for share`);
  return new Set(rows.map((row) => row.job_id));
}

export async function lockJob(
  tx: Queryable,
  jobId: string,
  options: { cancelledIsFine?: boolean } = {},
): Promise<LockedJob> {
  const rows = await tx.query<LockedJob>(sql`
    select j.job_id, j.segment, ${laneOfJob}, j.version, j.workflow_id, j.paused_at is not null as paused, j.cancelled_at is not null as cancelled
    from punctual.jobs j
    where j.segment = ${segmentOf(jobId)}::smallint and j.job_id = ${jobId}
    for update`);
  const job = rows[0];
  if (job === undefined) throw new PunctualError('job_not_found', { detail: `No job has the id ${jobId}.` });
  if (job.cancelled && options.cancelledIsFine !== true)
    throw new PunctualError('job_ended', { detail: 'The job is cancelled.' });
  return job;
}

async function requireLive(tx: Queryable, job: LockedJob): Promise<string[]> {
  const live = await liveRunIds(tx, job.job_id);
  if (live.length === 0 && (await getSchedule(tx, job.job_id))?.ended !== false)
    throw new PunctualError('job_ended', { detail: 'The job is completed: it has no run left to do.' });
  return live;
}

async function isRunning(tx: Queryable, segment: number, runIds: readonly string[]): Promise<boolean> {
  const rows = await tx.query<{ run_id: string }>(sql`
    select run_id
    from punctual.running
    where segment = ${segment}::smallint and run_id = any (${[...runIds]}::uuid[])
    limit 1`);
  return rows.length > 0;
}

async function touchJob(tx: Queryable, job: LockedJob, change: ReturnType<typeof part>): Promise<void> {
  await tx.query(sql`
    update punctual.jobs
    set ${change}, version = version + 1, updated_at = now()
    where segment = ${job.segment}::smallint and job_id = ${job.job_id}`);
}
