// Runs at the door.
import {
  defaults,
  explainRoutes,
  PunctualError,
  type Run,
  type RunPage,
  type RunQuery,
  runRoutes,
  type WaitReason,
} from '@punctual/contract';
import type { FastifyInstance } from 'fastify';
import { kindOf, segmentOf } from '../base/ids.ts';
import { hidden, type Show } from '../base/vault.ts';
import { explainRun } from '../dispatch/explain.ts';
import { fillTraceUrl } from '../rules/trace_url.ts';
import { getCheckpoint } from '../store/checkpoints.ts';
import type { Queryable } from '../store/database.ts';
import { redriveOne } from '../store/dead_letters.ts';
import { listLogs } from '../store/logs.ts';
import { listPendingNeeds } from '../store/needs.ts';
import { ownRuns, owns } from '../store/owners.ts';
import { cancelRun, hurryRun } from '../store/run_moves.ts';
import { listAttempts } from '../store/run_records.ts';
import { getRun, listJobRuns, listRuns } from '../store/runs.ts';
import { databaseNow } from '../store/schedules.ts';
import { idShape, makeCursor, numberShape, readCursor } from './cursor.ts';
import { register } from './register.ts';
import type { ApiParts } from './server.ts';
import { sendEvents } from './stream.ts';

export function isRunId(id: string, segments: number): boolean {
  const kind = kindOf(id);
  return (kind === 'first_run' || kind === 'run') && segmentOf(id) < segments;
}

export function registerRuns(
  app: FastifyInstance,
  {
    config,
    db,
    vault,
    lanes,
    segments,
    allSegments,
    admitter,
    sync,
    followers,
    keyring,
    announcer,
    tell,
    ended: tellEnded,
    retried,
    workflows,
  }: ApiParts,
): void {
  const showIf = (reveal = false): Show => (reveal ? vault.reveal : hidden);
  const requireRun = async (runId: string, show: Show = hidden) => {
    const run = isRunId(runId, segments) ? await getRun(db, runId, show) : null;
    if (run !== null) return run;
    throw new PunctualError('run_not_found', {
      detail: `No run has the id ${runId}.${kindOf(runId) === 'job' ? ' It is the id of a job.' : ''}`,
    });
  };

  const list = async ({ limit = defaults.page, cursor, job_id, ...filter }: RunQuery): Promise<RunPage> => {
    const below = readCursor(cursor, { job_id, ...filter }, idShape);
    if (job_id !== undefined) return listOfJob(job_id, filter, { below, limit });
    const page = await listRuns(db, filter, { below, limit, segments: allSegments });
    return { runs: page.items, next_cursor: page.below === null ? null : makeCursor(page.below, filter) };
  };

  /** The runs of one job have an index of their own; the other filters then look at a page of them. */
  const listOfJob = async (
    job_id: string,
    filter: Omit<RunQuery, 'limit' | 'cursor' | 'job_id'>,
    { below, limit }: { below: string | null; limit: number },
  ): Promise<RunPage> => {
    if (kindOf(job_id) !== 'job' || segmentOf(job_id) >= segments) return { runs: [], next_cursor: null };
    if (filter.user_id !== undefined && !(await owns(db, filter.user_id, 'job', job_id)))
      return { runs: [], next_cursor: null };
    const found = await listJobRuns(db, job_id, { below, limit: limit + 1 });
    const last = found.length > limit ? found[limit - 1] : undefined;
    const { worker_id, status, type, queue, user_id, created_after, created_before } = filter;
    const runs = found
      .slice(0, limit)
      .filter(
        (run) =>
          (worker_id === undefined || run.executor_id === worker_id) &&
          (status === undefined || run.status === status) &&
          (type === undefined || run.type === type) &&
          (queue === undefined || run.queue === queue) &&
          (user_id === undefined || run.user_id === user_id) &&
          (created_after === undefined || createdMs(run.run_id) >= Date.parse(created_after)) &&
          (created_before === undefined || createdMs(run.run_id) < Date.parse(created_before)),
      );
    return { runs, next_cursor: last === undefined ? null : makeCursor(last.run_id, { job_id, ...filter }) };
  };

  register(app, runRoutes.listRuns, ({ query }) => list(query));
  register(app, runRoutes.listExecutions, ({ query }) => list(query));
  register(app, runRoutes.getRun, async ({ params, query }) => {
    const found = await requireRun(params.run_id, showIf(query.reveal));
    const { trace_id } = found;
    const isShown = trace_id !== undefined && config.trace_url !== null;
    const run = isShown ? { ...found, trace_url: fillTraceUrl(config.trace_url, trace_id) } : found;
    return run.status === 'BLOCKED' ? { ...run, waits_for: await listPendingNeeds(db, run.job_id) } : run;
  });
  register(app, explainRoutes.explainRun, async ({ params, caller: { user_id } }) => {
    const run = await requireRun(params.run_id);
    const told = await explainRun({ db, lanes, allSegments }, run, await databaseNow(db));
    return user_id === null ? told : { ...told, reasons: await withOwnRuns(db, user_id, told.reasons) };
  });
  register(app, runRoutes.cancelRun, async ({ params: { run_id } }) => {
    const { job_id } = await requireRun(run_id);
    const answer = await cancelRun(db, run_id);
    if (answer === 'cancelled') {
      admitter.left([{ run_id }]);
      tellEnded(segmentOf(run_id), [run_id]);
      workflows.ended([{ job_id }]);
      return { run_id, status: 'CANCELLED' as const };
    }
    if (answer === 'ended') throw ended(await requireRun(run_id));
    sync.cancel(answer.session_id, answer);
    announcer.say({ cancels: [answer] });
    return { run_id, status: 'RUNNING' as const };
  });

  register(app, runRoutes.retryRun, async ({ params: { run_id } }) => {
    const run = await requireRun(run_id);
    if (run.status === 'FAILED') {
      const retried_run_id = await redriveOne(db, run_id);
      retried(segmentOf(run_id));
      tell({ segments: [segmentOf(run_id)] });
      return { run_id, status: run.status, retried_run_id };
    }
    const answer = await hurryRun(db, run_id);
    if (answer === 'running') throw new PunctualError('job_running');
    if (answer === 'blocked') throw new PunctualError('run_blocked');
    if (answer === 'paused') throw new PunctualError('job_paused');
    if (answer === 'ended') throw ended(await requireRun(run_id));
    tell({ segments: [segmentOf(run_id)] });
    return { run_id, status: 'QUEUED' as const };
  });

  register(app, runRoutes.getRunCheckpoint, async ({ params: { run_id }, query }) => {
    const checkpoint = await getCheckpoint(db, await requireRun(run_id), showIf(query.reveal));
    if (checkpoint === null) throw new PunctualError('checkpoint_not_found');
    return checkpoint;
  });
  register(app, runRoutes.listRunAttempts, async ({ params: { run_id }, query }) => {
    return { attempts: await listAttempts(db, await requireRun(run_id), showIf(query.reveal)) };
  });
  register(app, runRoutes.listRunLogs, async ({ params: { run_id }, query, caller, request, reply }) => {
    const { limit = defaults.page, cursor, follow = false } = query;
    await requireRun(run_id);
    const after = readCursor(cursor, { run_id }, numberShape);
    if (follow) {
      const lastSeen = request.headers['last-event-id'];
      if (lastSeen !== undefined && !numberShape.test(String(lastSeen))) throw badEventId();
      return sendEvents(reply, followers.follow(run_id, String(lastSeen ?? after ?? '0')), keyring.watch(caller));
    }
    const { lines, last, more } = await listLogs(db, run_id, { after, limit });
    return { lines, next_cursor: more && last !== null ? makeCursor(last, { run_id }) : null };
  });
}

/** Names no runs of others, which may hold what this one waits for. */
async function withOwnRuns(db: Queryable, userId: string, reasons: readonly WaitReason[]): Promise<WaitReason[]> {
  const owned = await ownRuns(
    db,
    userId,
    reasons.flatMap(({ run_ids = [] }) => run_ids),
  );
  return reasons.map((reason) =>
    reason.run_ids === undefined ? reason : { ...reason, run_ids: reason.run_ids.filter((id) => owned.has(id)) },
  );
}

function ended(run: Run): PunctualError {
  return new PunctualError('run_ended', { detail: `The run had ended as ${run.status} at ${run.end_time}.` });
}

function badEventId(): PunctualError {
  return new PunctualError('invalid_input', { detail: 'Last-Event-ID is no id of an event of this stream.' });
}

/** Ids begin with the time they were made at. */
function createdMs(id: string): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}
