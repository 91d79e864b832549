// Workflows go on: ends are noted, and what follows from them is written, in one transaction for many workflows of a segment.
//
// The transaction first takes the rows of the workflows, in the order of their ids. So of two servers that advance the same
// workflow the second waits, and then finds the ends noted and the steps begun: it writes nothing. Cancel, pause, retry and
// the completion of a step take the same row. A server that dies leaves nothing half done: the outcome of a step and the
// jobs that follow from it are committed together, and who was not told finds what ended (findUntold).
import { limits } from '@punctual/contract';
import { firstRunId, inSegment, newId, newToken, segmentOf } from '../base/ids.ts';
import { isSealed } from '../base/vault.ts';
import type { PreparedJob } from '../rules/job.ts';
import { segmentOfKey } from '../rules/segment.ts';
import {
  type Advanced,
  advance,
  itemJob,
  type Loaded,
  type Move,
  type Situation,
  type StepNow,
} from '../rules/workflow/advance.ts';
import type { GraphStep } from '../rules/workflow/definition.ts';
import { sealJob } from './sealed.ts';
import {
  type Batch,
  type LockedWorkflow,
  learn,
  type Outlook,
  type WorkflowParts,
  withWorkflows,
} from './workflow_batch.ts';
import type { KnownWorkflow } from './workflow_memory.ts';
import { loadResults } from './workflow_results.ts';
import { sealWorkflow, stepPlace } from './workflow_seal.ts';
import {
  type Held,
  type NotedStep,
  nextItems,
  noteExpired,
  noteRuns,
  noteWithin,
  type StepOfJob,
} from './workflow_steps.ts';

/** What may have happened to a workflow. */
export interface News {
  workflow_id: string;
  /** Steps whose runs may have ended. */
  ends: StepOfJob[];
  /** A wait may be over, or a workflow within may have ended. */
  others: boolean;
}

export async function advanceWorkflows(parts: WorkflowParts, segment: number, news: readonly News[]): Promise<Outlook> {
  const ids = news.map((one) => one.workflow_id);
  const ask = (held: Held): Promise<NotedStep[]> => noteNews(held, news);
  const { outlook } = await withWorkflows(parts, { segment, ids, ask }, async (batch, noted = []) => {
    const touched = new Set<string>();
    for (const step of noted) {
      noteStep(batch.locked.get(step.workflow_id), step);
      touched.add(step.workflow_id);
    }
    for (const workflowId of touched) await walkOn(batch, batch.locked.get(workflowId));
  });
  return outlook;
}

async function noteNews(held: Held, news: readonly News[]): Promise<NotedStep[]> {
  const noted = await noteRuns(
    held,
    news.flatMap(({ ends }) => ends),
  );
  const others = news.flatMap((one) => (one.others ? [one.workflow_id] : []));
  if (others.length > 0) noted.push(...(await noteExpired(held, others)), ...(await noteWithin(held, others)));
  return noted;
}

export function noteStep(workflow: LockedWorkflow | undefined, { step, item, outcome, reason }: NotedStep): void {
  const number = workflow?.known.graph.numberOf.get(step);
  if (workflow === undefined || number === undefined) return;
  const now = workflow.states[number];
  if (item < 0) workflow.states[number] = { outcome, reason, map: now?.map ?? null };
  else if (now?.map != null) {
    const { map } = now;
    const count = outcome === 'SUCCESS' ? { succeeded: map.succeeded + 1 } : { failed: map.failed + 1 };
    workflow.states[number] = { ...now, map: { ...map, ...count } };
  }
}

/** Asks the rule what follows, and puts it into the batch. Called for each workflow of which something has changed. */
export async function walkOn(batch: Batch, workflow: LockedWorkflow | undefined): Promise<void> {
  if (workflow === undefined) return;
  const { known } = workflow;
  const loaded = new Map<string, Loaded>();
  for (let wanted: string[] = []; ; ) {
    if (wanted.length > 0)
      for (const [name, one] of await loadResults(batch.tx, known.workflow_id, wanted, batch.parts.vault.reveal))
        loaded.set(name, one);
    const situation: Situation = {
      ...{ name: known.name, user_id: known.user_id, input: known.input, standing: workflow.standing },
      ...{ states: workflow.states, loaded, defaultPriority: batch.parts.defaultPriority },
      ...{ encrypted: known.encrypted, unopened: known.unopened },
    };
    const next = advance(known.graph, situation);
    if (next.wanted === null) return take(batch, workflow, next, situation);
    // A step that was never written down cannot be read; asking again would never end.
    wanted = next.wanted;
    for (const name of wanted) if (!loaded.has(name)) loaded.set(name, { result: null, error: null, tooLarge: false });
  }
}

async function take(batch: Batch, workflow: LockedWorkflow, next: Advanced, situation: Situation): Promise<void> {
  const { known } = workflow;
  workflow.states = next.states;
  batch.moves += next.moves.length;
  const fresh = new Map<number, PreparedJob[]>();
  for (const move of next.moves) {
    const step = known.graph.steps[move.step] as GraphStep;
    if (move.move === 'map') fresh.set(move.step, move.jobs);
    else if (move.move === 'items')
      await takeItems(batch, known, { step, count: move.count, fresh: fresh.get(move.step), situation });
    else takeMove(batch, known, step, move);
  }
  for (const [number, jobs] of fresh) {
    const step = known.graph.steps[number] as GraphStep;
    const made = next.states[number]?.map?.made ?? 0;
    batch.steps.push({ workflow_id: known.workflow_id, step: step.name, item: -1, kind: 'map', items: jobs.length });
    for (let item = made; item < jobs.length; item++)
      batch.steps.push({
        ...of(known, step),
        item,
        kind: 'item',
        payload: itemPayload(batch, known, { step, item, jobs }),
      });
  }
  for (const [number, now] of next.states.entries())
    if (now?.map != null && now !== workflow.stored[number])
      countMap(batch, known, known.graph.steps[number] as GraphStep, { now, next });
  batch.changed.set(known.workflow_id, next.ended);
  for (const { workflow_id } of batch.inner.filter(
    (one) => one.parent_id === known.workflow_id && !batch.locked.has(one.workflow_id),
  ))
    await beginInner(batch, workflow_id);
}

const of = (known: KnownWorkflow, step: GraphStep): { workflow_id: string; step: string } => ({
  workflow_id: known.workflow_id,
  step: step.name,
});

/** The payload of an item that has no job yet, as it is written. */
function itemPayload(
  { parts: { vault } }: Batch,
  known: KnownWorkflow,
  { step, item, jobs }: { step: GraphStep; item: number; jobs: readonly PreparedJob[] },
): string | null {
  const payload = jobs[item]?.payload ?? null;
  return payload !== null && known.encrypted
    ? vault.seal(payload, stepPlace('step_payload', of(known, step), item))
    : payload;
}

/** Why a step could not begin, as it is written: the message may hold words of templates, if those could be read. */
function errorOf(
  { parts: { vault } }: Batch,
  known: KnownWorkflow,
  step: GraphStep,
  move: Move & { move: 'fail' },
): string {
  return known.encrypted && known.unopened === null
    ? vault.seal(move.error, stepPlace('step_error', of(known, step)))
    : move.error;
}

function takeMove(batch: Batch, known: KnownWorkflow, step: GraphStep, move: Move): void {
  const row = { ...of(known, step), item: -1, kind: step.kind };
  switch (move.move) {
    case 'skip':
      batch.steps.push({ ...row, outcome: 'SKIPPED', reason: move.reason });
      break;
    case 'fail':
      batch.steps.push({ ...row, outcome: 'FAILED', reason: move.reason, error: errorOf(batch, known, step, move) });
      break;
    case 'job':
      batch.steps.push({ ...row, ...addJob(batch, known, { step, job: move.job, item: null }) });
      break;
    case 'wait':
      batch.steps.push({ ...row, token: newToken(), timeout_ms: move.timeout_ms });
      break;
    case 'workflow': {
      const child_id = newId('workflow', batch.segment);
      const inner = { definition: JSON.stringify({ steps: move.inner.steps }), input: move.input };
      batch.steps.push({ ...row, child_id });
      batch.inner.push({
        ...{
          workflow_id: child_id,
          name: `${known.name}.${step.name}`.slice(0, limits.max_name_chars),
          user_id: known.user_id,
          traceparent: known.traceparent,
        },
        ...{ parent_id: known.workflow_id, parent_step: step.name },
        ...(known.encrypted ? sealWorkflow(batch.parts.vault, child_id, inner) : inner),
      });
      break;
    }
    case 'map':
    case 'items':
    case 'end':
      break;
  }
}

/** Items of a map begin: the first of a map that begins with them, or the next that wait. */
async function takeItems(
  batch: Batch,
  known: KnownWorkflow,
  wanted: { step: GraphStep; count: number; fresh: PreparedJob[] | undefined; situation: Situation },
): Promise<void> {
  const { step, count, fresh, situation } = wanted;
  const at = of(known, step);
  if (fresh !== undefined) {
    for (const [item, job] of fresh.slice(0, count).entries())
      batch.steps.push({ ...at, item, kind: 'item', ...addJob(batch, known, { step, job, item }) });
    return;
  }
  const items = await nextItems(batch.tx, { segment: batch.segment, ...at, count });
  const begun = items.map(({ item, payload: stored }) => {
    const payload = isSealed(stored) ? batch.parts.vault.open(stored, stepPlace('step_payload', at, item)) : stored;
    return { item, ...addJob(batch, known, { step, job: itemJob(situation, step, payload), item }) };
  });
  batch.items.push({ ...at, items: begun });
}

function addJob(
  batch: Batch,
  { workflow_id, traceparent }: KnownWorkflow,
  { step, job: prepared, item }: { step: GraphStep; job: PreparedJob; item: number | null },
): { job_id: string; run_id: string } {
  const job = traceparent === null ? prepared : { ...prepared, traceparent };
  const fresh = newId('job', batch.segment);
  const key = job.concurrency_key;
  const job_id = key === null ? fresh : inSegment(fresh, segmentOfKey(key, batch.parts.segments));
  const run_id = firstRunId(job_id);
  const where = { segment: segmentOf(job_id), job_id, run_id, lane_id: 0, submission: null };
  batch.jobs.push({
    job: sealJob(batch.parts.vault, job, job_id),
    ...where,
    step: { workflow_id, step: step.name, item },
  });
  return { job_id, run_id };
}

function countMap(
  batch: Batch,
  known: KnownWorkflow,
  step: GraphStep,
  { now, next }: { now: StepNow; next: Advanced },
): void {
  const { made = 0, succeeded = 0, failed = 0 } = now.map ?? {};
  const end = next.moves.find((move) => move.move === 'end' && known.graph.steps[move.step] === step);
  const error = end?.move === 'end' ? end.error : null;
  batch.maps.push({ ...of(known, step), made, succeeded, failed, outcome: now.outcome, reason: now.reason, error });
}

/** A workflow within begins with the step that it is. */
async function beginInner(batch: Batch, workflowId: string): Promise<void> {
  const text = batch.inner.find((one) => one.workflow_id === workflowId);
  if (text === undefined) return;
  const known = learn(batch.parts, text);
  const workflow: LockedWorkflow = { known, turn: 0, standing: 'live', ended: false, states: [], stored: [] };
  batch.locked.set(workflowId, workflow);
  await walkOn(batch, workflow);
}
