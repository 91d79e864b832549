// Runs of jobs that begin workflows: they wait in lanes that no worker serves, and the servers themselves take them. The run is
// taken, the workflow created and the run ended in one transaction, so each run begins one workflow, whoever dies when.
import { type InnerWorkflow, PunctualError } from '@punctual/contract';
import { newId } from '../base/ids.ts';
import { beginWorkflowTrace } from '../base/tracing.ts';
import { isSealed } from '../base/vault.ts';
import { parseBegins } from '../rules/job.ts';
import { compileWorkflow } from '../rules/workflow/definition.ts';
import type { Database, Queryable } from './database.ts';
import { endTakenRun, putBack, type TakenRun } from './run_moves.ts';
import type { EndedJob } from './settle.ts';
import { sql } from './sql.ts';
import { type Outlook, type WorkflowParts, withLanes } from './workflow_batch.ts';
import { type Given, parseWhole } from './workflow_seal.ts';
import { createWorkflow } from './workflows.ts';

export interface Begun {
  ended: EndedJob;
  outlook: Outlook | null;
}

/** Takes one due run of these lanes and begins its workflow; null when there is none, or others have them. */
export async function beginOne(
  parts: WorkflowParts,
  segment: number,
  laneIds: readonly number[],
): Promise<Begun | null> {
  return withLanes(parts.lanes, () => parts.db.transaction((tx) => beginWithin(tx, parts, { segment, laneIds })));
}

async function beginWithin(
  tx: Queryable,
  parts: WorkflowParts,
  { segment, laneIds }: { segment: number; laneIds: readonly number[] },
): Promise<Begun | null> {
  const run = await takeReady(tx, segment, laneIds);
  if (run === null) return null;
  const ended: EndedJob = { job_id: run.job_id, cause: run.cause };
  const job = await readJob(tx, run);
  if (job === null || job.cancelled) {
    await endTakenRun(tx, run, { status: 'CANCELLED', reason: 'job_cancelled' });
    return { ended, outlook: null };
  }
  if (job.paused) {
    await putBack(tx, run, { paused: true });
    return { ended, outlook: null };
  }
  const given = readGiven(parts, run, job);
  if (given instanceof PunctualError) {
    await endRun(tx, run, { status: 'FAILED', reason: given.code, error: given.message, result: null });
    return { ended, outlook: null };
  }
  const graph = compileWorkflow(JSON.parse(given.definition) as InnerWorkflow, () => []);
  if ('refused' in graph) {
    const [first] = graph.refused;
    const error = `The workflow cannot be run: ${first?.path} ${first?.message}`;
    await endRun(tx, run, { status: 'FAILED', reason: 'failed', error, result: null });
    return { ended, outlook: null };
  }
  const fresh = newId('workflow', segment);
  const { workflow_id, outlook } = await createWorkflow(
    { ...parts, db: withinOne(tx), nested: true },
    {
      ...{ workflow_id: fresh, name: job.name, user_id: job.user_id, once: null },
      traceparent: job.traceparent ?? beginWorkflowTrace(fresh),
      ...{ ...given, graph, encrypted: isSealed(job.payload), job_id: run.job_id, run_id: run.run_id },
    },
  );
  const result = JSON.stringify({ workflow_id });
  const { job_id, run_id } = run;
  await endRun(tx, run, {
    ...{ status: 'SUCCESS', reason: null, error: null },
    result: isSealed(job.payload) ? parts.vault.seal(result, { kind: 'result', job_id, run_id }) : result,
  });
  return { ended, outlook };
}

/** The workflow as it was given: in the place of an executor, or sealed as the payload. */
function readGiven({ vault }: WorkflowParts, { job_id }: TakenRun, job: BeginningJob): Given | PunctualError {
  if (isSealed(job.payload)) {
    try {
      return parseWhole(vault.open(job.payload, { kind: 'payload', job_id }));
    } catch (error) {
      if (error instanceof PunctualError) return error;
      throw error;
    }
  }
  const { steps = {}, input } = parseBegins(job.executor) ?? {};
  return { definition: JSON.stringify({ steps }), input: input === undefined ? null : JSON.stringify(input) };
}

/** A database whose transactions are parts of this one. */
function withinOne(tx: Queryable): Database {
  return {
    query: (statement, deadlineMs) => tx.query(statement, deadlineMs),
    transaction: (work) => work(tx),
    close: async () => {},
  };
}

async function takeReady(tx: Queryable, segment: number, laneIds: readonly number[]): Promise<TakenRun | null> {
  const rows = await tx.query<TakenRun>(sql`
    delete from punctual.ready
    where segment = ${segment}::smallint
      and ctid = any (array(
        select r.ctid
        from punctual.ready r
        where r.segment = ${segment}::smallint and r.lane_id = any (${laneIds}::integer[])
        order by r.seq
        limit 1
        for update skip locked
      ))
    returning segment, run_id, job_id, lane_id, attempts, cause::text as cause, scheduled_for::text as scheduled_for, due_at::text as due_at,
              false as blocked`);
  return rows[0] ?? null;
}

interface BeginningJob {
  name: string;
  user_id: string | null;
  executor: string | null;
  payload: string | null;
  traceparent: string | null;
  paused: boolean;
  cancelled: boolean;
}

async function readJob(tx: Queryable, { segment, job_id }: TakenRun): Promise<BeginningJob | null> {
  const rows = await tx.query<BeginningJob>(sql`
    select name, user_id, executor, payload, traceparent, paused_at is not null as paused, cancelled_at is not null as cancelled
    from punctual.jobs
    where segment = ${segment}::smallint and job_id = ${job_id}
    for share`);
  return rows[0] ?? null;
}

async function endRun(
  tx: Queryable,
  run: TakenRun,
  end: { status: 'SUCCESS' | 'FAILED'; reason: string | null; error: string | null; result: string | null },
): Promise<void> {
  await tx.query(sql`
    insert into punctual.ended_runs (segment, run_id, job_id, lane_id, attempt, cause, status, reason, scheduled_for, due_at, started_at, error, result)
    values (${run.segment}::smallint, ${run.run_id}::uuid, ${run.job_id}::uuid, ${run.lane_id}::integer, (${run.attempts}::smallint + 1)::smallint,
            ${run.cause}::punctual.run_cause, ${end.status}::punctual.run_outcome, ${end.reason},
            ${run.scheduled_for}::timestamptz, ${run.due_at}::timestamptz, now(), ${end.error}, ${end.result})`);
}
