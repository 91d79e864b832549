// What people do to a workflow: complete a step that waits, cancel, pause, resume, retry. Each is one transaction that first
// takes the workflow's row, as an advance does, so it comes wholly before or after each of those. Cancel, pause and resume
// take the workflows within too.
import { hash, timingSafeEqual } from 'node:crypto';
import { type CompleteStep, PunctualError, type StepState } from '@punctual/contract';
import { segmentOf } from '../base/ids.ts';
import { isSealed } from '../base/vault.ts';
import { cancelRuns } from './cancel_runs.ts';
import type { CancelOrder } from './run_moves.ts';
import { type Fragment, part, sql } from './sql.ts';
import { noteStep, walkOn } from './workflow_advance.ts';
import {
  type Batch,
  type LockedWorkflow,
  lockWorkflows,
  type Outlook,
  requireLocked,
  requireOpened,
  type WorkflowParts,
  withWorkflows,
} from './workflow_batch.ts';
import { stepPlace } from './workflow_seal.ts';
import { momentOf } from './workflow_steps.ts';

interface WaitRow {
  kind: string;
  token: string | null;
  expired: boolean;
  outcome: StepState | null;
  reason: string | null;
  result: string | null;
}

/** Ends a wait as asked. Asked again in the same way it answers the same. */
export async function completeStep(
  parts: WorkflowParts,
  { workflow_id, step }: { workflow_id: string; step: string },
  { token, outcome = 'success', result }: CompleteStep,
): Promise<{ answer: StepState | 'timed_out'; outlook: Outlook }> {
  const segment = segmentOf(workflow_id);
  const wanted = {
    outcome: outcome === 'success' ? 'SUCCESS' : 'FAILED',
    result: JSON.stringify(result) ?? null,
  } as const;
  return withWorkflows(parts, { segment, ids: [workflow_id] }, async (batch) => {
    const workflow = requireOpened(batch, workflow_id);
    const place = stepPlace('step_result', { workflow_id, step });
    const rows = await batch.tx.query<WaitRow>(sql`
      select kind, token, coalesce(expires_at <= now(), false) as expired, outcome, reason, result
      from punctual.workflow_steps
      where segment = ${segment}::smallint and workflow_id = ${workflow_id} and step = ${step} and item = -1`);
    const [row] = rows;
    if (row === undefined || row.kind !== 'wait')
      throw new PunctualError('step_not_found', { detail: notWaiting(workflow, step) });
    if (!sameToken(token, row)) throw new PunctualError('wrong_token');
    if (row.outcome !== null)
      return repeat(
        { ...row, result: isSealed(row.result) ? parts.vault.open(row.result, place) : row.result },
        wanted,
      );
    const end = row.expired
      ? ({ outcome: 'FAILED', reason: 'timed_out', result: null, error: 'Nobody completed the step in time.' } as const)
      : ({
          ...wanted,
          result:
            wanted.result !== null && workflow.known.encrypted ? parts.vault.seal(wanted.result, place) : wanted.result,
          reason: outcome === 'success' ? null : 'refused',
          error: outcome === 'success' ? null : 'It was completed as a failure.',
        } as const);
    await batch.tx.query(sql`
      update punctual.workflow_steps
      set outcome = ${end.outcome}, reason = ${end.reason}, error = ${end.error}, result = ${end.result}, ended_at = ${momentOf(batch.at)}, token = ${hashOf(token)}
      where segment = ${segment}::smallint and workflow_id = ${workflow_id} and step = ${step} and item = -1`);
    noteStep(workflow, { workflow_id, step, item: -1, outcome: end.outcome, reason: end.reason });
    await walkOn(batch, workflow);
    return row.expired ? 'timed_out' : end.outcome;
  });
}

function notWaiting({ known }: LockedWorkflow, step: string): string {
  const number = known.graph.numberOf.get(step);
  if (number === undefined) return `The workflow has no step ${step}.`;
  return known.graph.steps[number]?.kind === 'wait'
    ? `The step ${step} has not begun to wait.`
    : `The step ${step} does not wait to be completed.`;
}

function hashOf(token: string): string {
  return hash('sha256', token, 'hex');
}

/** While it waits the token itself is kept, afterwards its hash. */
function sameToken(given: string, { token, outcome }: WaitRow): boolean {
  if (token === null) return false;
  const kept = outcome === null ? hashOf(token) : token;
  return timingSafeEqual(Buffer.from(hashOf(given)), Buffer.from(kept));
}

function repeat(row: WaitRow, wanted: { outcome: StepState; result: string | null }): StepState {
  if (row.outcome === wanted.outcome && row.result === wanted.result && row.reason !== 'timed_out')
    return wanted.outcome;
  const how = row.reason === 'timed_out' ? 'timed out' : `ended as ${row.outcome}`;
  throw new PunctualError('step_ended', { detail: `The step has ${how} already.` });
}

/** The workflow and those within it that go on, all held. */
async function lockTree(batch: Batch, workflowId: string): Promise<LockedWorkflow[]> {
  const root = requireLocked(batch, workflowId);
  const tree = [root];
  for (let level = [root]; level.length > 0; ) {
    const rows = await batch.tx.query<{ child_id: string }>(sql`
      select child_id
      from punctual.workflow_steps
      where segment = ${batch.segment}::smallint and workflow_id = any (${level.map(({ known }) => known.workflow_id)}::uuid[])
        and (run_id is not null or child_id is not null) and outcome is null and child_id is not null`);
    await lockWorkflows(
      batch,
      rows.map((row) => row.child_id),
    );
    level = rows.flatMap(({ child_id }) => batch.locked.get(child_id) ?? []).filter(({ ended }) => !ended);
    tree.push(...level);
  }
  return tree;
}

async function mark(batch: Batch, tree: readonly LockedWorkflow[], change: Fragment): Promise<void> {
  await batch.tx.query(sql`
    update punctual.workflows
    set ${change}
    where segment = ${batch.segment}::smallint and workflow_id = any (${tree.map(({ known }) => known.workflow_id)}::uuid[])`);
}

/** No further step begins; what has not started ends, what runs is told. */
export async function cancelWorkflow(
  parts: WorkflowParts,
  workflowId: string,
): Promise<{ answer: CancelOrder[]; outlook: Outlook }> {
  return withWorkflows(parts, { segment: segmentOf(workflowId), ids: [workflowId] }, async (batch) => {
    const root = requireLocked(batch, workflowId);
    if (root.standing === 'cancelled') return [];
    if (root.ended) throw new PunctualError('workflow_ended');
    const tree = await lockTree(batch, workflowId);
    await mark(batch, tree, part`cancelled_at = coalesce(cancelled_at, now())`);
    const orders: CancelOrder[] = [];
    for (const workflow of tree) {
      workflow.standing = 'cancelled';
      orders.push(...(await cancelSteps(batch, workflow)));
    }
    // Those within first, so that the ones that hold them see their end.
    for (const workflow of tree.toReversed()) await walkOn(batch, workflow);
    return orders;
  });
}

/** Ends waits, maps and runs that have not started; answers the runs whose workers must be told. */
async function cancelSteps(batch: Batch, { known, states }: LockedWorkflow): Promise<CancelOrder[]> {
  const { tx, segment } = batch;
  const live = await tx.query<{ step: string; item: number; job_id: string; run_id: string }>(sql`
    select step, item, job_id, run_id
    from punctual.workflow_steps
    where segment = ${segment}::smallint and workflow_id = ${known.workflow_id}
      and (run_id is not null or child_id is not null) and outcome is null and run_id is not null`);
  const { ended, orders } = await cancelRuns(tx, live, 'workflow_cancelled');
  const rows = await tx.query<{ step: string; item: number }>(sql`
    update punctual.workflow_steps
    set outcome = 'CANCELLED', reason = 'workflow_cancelled', ended_at = ${momentOf(batch.at)},
        token = case when token is not null then encode(sha256(token::bytea), 'hex') end
    where segment = ${segment}::smallint and workflow_id = ${known.workflow_id} and outcome is null and child_id is null
      and (run_id is null or run_id = any (${ended}::uuid[]))
    returning step, item`);
  const begun = new Set(live.map(({ step, item }) => `${step} ${item}`));
  const workflow = batch.locked.get(known.workflow_id) as LockedWorkflow;
  workflow.states = states;
  for (const { step, item } of rows.toSorted((a, b) => b.item - a.item))
    if (item < 0 || begun.has(`${step} ${item}`))
      noteStep(workflow, {
        workflow_id: known.workflow_id,
        step,
        item,
        outcome: 'CANCELLED',
        reason: 'workflow_cancelled',
      });
  return orders;
}

export async function pauseWorkflow(parts: WorkflowParts, workflowId: string): Promise<void> {
  await withWorkflows(parts, { segment: segmentOf(workflowId), ids: [workflowId] }, async (batch) => {
    requireGoing(batch, workflowId);
    await mark(batch, await lockTree(batch, workflowId), part`paused_at = coalesce(paused_at, now())`);
  });
}

export async function resumeWorkflow(parts: WorkflowParts, workflowId: string): Promise<Outlook> {
  const { outlook } = await withWorkflows(
    parts,
    { segment: segmentOf(workflowId), ids: [workflowId] },
    async (batch) => {
      requireGoing(batch, workflowId);
      requireOpened(batch, workflowId);
      const tree = await lockTree(batch, workflowId);
      await mark(batch, tree, part`paused_at = null`);
      for (const workflow of tree) {
        workflow.standing = 'live';
        await walkOn(batch, workflow);
      }
    },
  );
  return outlook;
}

function requireGoing(batch: Batch, workflowId: string): void {
  const { standing, ended } = requireLocked(batch, workflowId);
  if (standing === 'cancelled') throw new PunctualError('workflow_ended', { detail: 'The workflow is cancelled.' });
  if (ended) throw new PunctualError('workflow_ended');
}
