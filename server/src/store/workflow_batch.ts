// What one transaction does to workflows of a segment: it holds their rows, gathers everything that follows from the rule, and
// writes it in a statement for each table. workflow_advance.ts says what follows; the moves of people use it too.
import { PunctualError } from '@punctual/contract';
import type { Vault } from '../base/vault.ts';
import { type Ended, type Situation, type StepNow } from '../rules/workflow/advance.ts';
import type { Graph } from '../rules/workflow/definition.ts';
import { texts, uuids } from './arrays.ts';
import type { Database, Queryable } from './database.ts';
import { type CreatedJobs, createJobs, type HandOver, type NewJob, type Offer } from './jobs.ts';
import { type LaneKey, type Lanes, laneKeyOf } from './lanes.ts';
import { sqlPlannedOnce } from './sql.ts';
import type { KnownWorkflow, WorkflowMemory, WorkflowText } from './workflow_memory.ts';
import { openWorkflow, sealResult } from './workflow_seal.ts';
import {
  type BegunItem,
  beginItems,
  type Held,
  type MapCount,
  type NewStep,
  readSteps,
  type StepOfJob,
  writeMap,
  writeSteps,
  writeTurns,
} from './workflow_steps.ts';

export interface WorkflowParts {
  db: Database;
  lanes: Lanes;
  memory: WorkflowMemory;
  vault: Vault;
  segments: number;
  defaultPriority: (queue: string) => number;
  handOver: HandOver;
  /** Its transactions are parts of another, which makes the lanes. */
  nested?: true;
}

export interface Outlook {
  /** Segments with new runs. */
  ready: Set<number>;
  /** Workflows of which one within has ended. */
  parents: Set<string>;
  /** How many steps began, were skipped or went on, and workflows ended. */
  moves: number;
  /** The steps that began. */
  begun: readonly StepOfJob[];
}

/** A workflow whose row is held. */
export interface LockedWorkflow {
  known: KnownWorkflow;
  turn: number;
  standing: Situation['standing'];
  ended: boolean;
  states: (StepNow | undefined)[];
  /** As the steps stand in the book. */
  stored: readonly (StepNow | undefined)[];
}

/** Everything that one transaction will write, and the workflows it holds. */
export interface Batch extends Held {
  parts: WorkflowParts;
  locked: Map<string, LockedWorkflow>;
  jobs: NewJob[];
  steps: NewStep[];
  items: { workflow_id: string; step: string; items: BegunItem[] }[];
  maps: MapCount[];
  inner: (WorkflowText & { parent_step: string })[];
  changed: Map<string, Ended | null>;
  moves: number;
}

/** Lanes that do not exist yet: they are made outside of the transaction, which is then done again. */
class MissingLanes extends Error {
  readonly keys: readonly LaneKey[];
  constructor(keys: readonly LaneKey[]) {
    super('lanes are missing');
    this.keys = keys;
  }
}

const maxTries = 3;

/**
 * Does a transaction, and again when it lacks lanes. Making them within it would need a second connection while others may
 * hold all of them, waiting for this one.
 */
export async function withLanes<T>(lanes: Lanes, transaction: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await transaction();
    } catch (error) {
      if (!(error instanceof MissingLanes) || tries === maxTries) throw error;
      await lanes.ensure(error.keys);
    }
  }
}

/**
 * Does the work with the rows of these workflows held, writes what it gathered, and commits. What `ask` sends travels with
 * the statement that takes the rows, and is done once they are held; the work gets its answer.
 */
export async function withWorkflows<T, Asked = void>(
  parts: WorkflowParts,
  { segment, ids, ask }: { segment: number; ids: readonly string[]; ask?: (held: Held) => Promise<Asked> },
  work: (batch: Batch, asked: Asked | undefined) => Promise<T>,
): Promise<{ answer: T; outlook: Outlook }> {
  const locked: Batch['locked'] = new Map();
  const changed: Batch['changed'] = new Map();
  const hand: { offer: Offer | null } = { offer: null };
  const once = (): Promise<{ answer: T; outlook: Outlook; created: Promise<CreatedJobs> | null }> => {
    locked.clear();
    changed.clear();
    return parts.db.transaction(async (tx) => {
      const empty = { jobs: [], steps: [], items: [], maps: [], inner: [], moves: 0 };
      const batch: Batch = { parts, tx, segment, at: null, locked, changed, ...empty };
      const [, asked] = await Promise.all([ids.length > 0 ? lockWorkflows(batch, ids) : null, ask?.(batch)]);
      const answer = await work(batch, asked);
      placeJobs(batch.jobs, parts.lanes);
      // Within another transaction it is not known here when that is committed.
      if (parts.nested !== true) hand.offer = parts.handOver(batch.jobs);
      return { answer, ...writeBatch(batch, hand.offer) };
    });
  };
  try {
    const { answer, outlook, created } = await (parts.nested === true ? once() : withLanes(parts.lanes, once));
    if (created !== null) hand.offer?.committed(await created);
    // Only what is committed is remembered.
    for (const workflowId of changed.keys()) {
      const { known, turn, states } = locked.get(workflowId) as LockedWorkflow;
      known.steps = { turn: turn + 1, states };
    }
    return { answer, outlook };
  } catch (error) {
    hand.offer?.failed(false);
    throw error;
  }
}

/** The workflow, or the error that there is none. */
export function requireLocked(batch: Batch, workflowId: string): LockedWorkflow {
  const workflow = batch.locked.get(workflowId);
  if (workflow === undefined)
    throw new PunctualError('workflow_not_found', { detail: `No workflow has the id ${workflowId}.` });
  return workflow;
}

/** The workflow, or the error that what it stores cannot be decrypted here: whoever would go on with it must be able to. */
export function requireOpened(batch: Batch, workflowId: string): LockedWorkflow {
  const workflow = requireLocked(batch, workflowId);
  const { unopened } = workflow.known;
  if (unopened !== null) throw new PunctualError('cannot_decrypt', { detail: unopened });
  return workflow;
}

/** Remembers a workflow of the book, in the clear. */
export function learn({ memory, vault }: WorkflowParts, text: WorkflowText, compiled?: Graph): KnownWorkflow {
  return memory.learn({ ...text, ...openWorkflow(vault, text.workflow_id, text) }, compiled);
}

interface LockedRow {
  workflow_id: string;
  turn: number;
  standing: Situation['standing'];
  ended: boolean;
  at: string;
}

/** Takes the rows of workflows, and learns of them what is not remembered. */
export async function lockWorkflows(batch: Batch, workflowIds: readonly string[]): Promise<void> {
  const { tx, segment, locked, parts } = batch;
  const rows = await tx.query<LockedRow>(sqlPlannedOnce`
    with held as materialized (
      select workflow_id, turn, ended_at is not null as ended,
             case when cancelled_at is not null then 'cancelled' when paused_at is not null then 'paused' else 'live' end as standing
      from punctual.workflows
      where segment = ${segment}::smallint and workflow_id = any (${workflowIds}::uuid[])
      order by workflow_id
      for update
    )
    select *, clock_timestamp()::text as at
    from held`);
  batch.at = rows.at(-1)?.at ?? batch.at;
  const missing = rows.filter(({ workflow_id }) => parts.memory.get(workflow_id) === undefined);
  if (missing.length > 0)
    for (const text of await readTexts(
      tx,
      segment,
      missing.map((row) => row.workflow_id),
    ))
      learn(parts, text);
  for (const { workflow_id, at: _at, ...row } of rows) {
    const known = parts.memory.get(workflow_id);
    if (known === undefined) continue;
    const states = known.steps?.turn === row.turn ? known.steps.states : null;
    locked.set(workflow_id, { known, ...row, states: states === null ? [] : [...states], stored: states ?? [] });
  }
  const unread = rows.filter(({ workflow_id, turn }) => locked.get(workflow_id)?.known.steps?.turn !== turn);
  if (unread.length === 0) return;
  for (const { workflow_id, step, ...now } of await readSteps(
    tx,
    segment,
    unread.map((row) => row.workflow_id),
  )) {
    const one = locked.get(workflow_id);
    const number = one?.known.graph.numberOf.get(step);
    if (one !== undefined && number !== undefined) one.states[number] = now;
  }
  for (const { workflow_id } of unread) {
    const one = locked.get(workflow_id);
    if (one !== undefined) one.stored = [...one.states];
  }
}

async function readTexts(tx: Queryable, segment: number, ids: readonly string[]): Promise<WorkflowText[]> {
  return tx.query<WorkflowText>(sqlPlannedOnce`
    select workflow_id, name, user_id, parent_id, definition, input, traceparent
    from punctual.workflows
    where segment = ${segment}::smallint and workflow_id = any (${ids}::uuid[])`);
}

/** Jobs of one statement: the numbers under which they arrive have room for so many. */
const maxChunk = 1000;

/** None of the statements needs the answer of another: they travel with the commit, which waits for them. */
function writeBatch(batch: Batch, offer: Offer | null): { outlook: Outlook; created: Promise<CreatedJobs> | null } {
  const { tx, segment } = batch;
  const begun = batch.jobs.flatMap(({ job_id, step }) =>
    step === undefined ? [] : [{ workflow_id: step.workflow_id, step: step.step, item: step.item ?? -1, job_id }],
  );
  const outlook: Outlook = { ready: new Set(), parents: new Set(), moves: batch.moves, begun };
  if (offer === null) for (const job of batch.jobs) outlook.ready.add(job.segment);
  const turns = [...batch.changed].map(([workflow_id, ended]) => ({
    workflow_id,
    outcome: ended?.outcome ?? null,
    result: resultOf(batch, workflow_id, ended),
  }));
  const writes: Promise<unknown>[] = [];
  if (batch.inner.length > 0) writes.push(insertInner(tx, segment, batch.inner));
  const creates = [...chunks(batch.jobs)].map((some) => createJobs(tx, some, [], { grant: offer?.grant ?? null }));
  const [first, ...rest] = chunks(batch.steps);
  if (first !== undefined) writes.push(writeSteps(batch, { steps: first, turns }));
  else if (turns.length > 0) writes.push(writeTurns(batch, turns));
  for (const steps of rest) writes.push(writeSteps(batch, { steps, turns: [] }));
  for (const map of batch.items) writes.push(beginItems(batch, map));
  for (const map of batch.maps) writes.push(writeMap(batch, map));
  for (const [workflowId, ended] of batch.changed) {
    const { known } = batch.locked.get(workflowId) as LockedWorkflow;
    if (ended !== null) outlook.moves++;
    if (ended !== null && known.parent_id !== null) outlook.parents.add(known.parent_id);
  }
  // The transaction fails with any of them, and says why.
  Promise.all([...writes, ...creates]).catch(() => {});
  return { outlook, created: creates[0] ?? null };
}

function resultOf({ parts, locked }: Batch, workflowId: string, ended: Ended | null): string | null {
  const result = ended?.result ?? null;
  return locked.get(workflowId)?.known.encrypted === true ? sealResult(parts.vault, workflowId, result) : result;
}

function placeJobs(jobs: readonly NewJob[], lanes: Lanes): void {
  const missing: LaneKey[] = [];
  for (const row of jobs) {
    const key = laneKeyOf(row.job);
    const lane = lanes.known(key);
    if (lane === undefined) missing.push(key);
    else row.lane_id = lane.lane_id;
  }
  if (missing.length > 0) throw new MissingLanes(missing);
}

function* chunks<T>(all: readonly T[]): Generator<readonly T[]> {
  for (let at = 0; at < all.length; at += maxChunk) yield all.slice(at, at + maxChunk);
}

async function insertInner(tx: Queryable, segment: number, inner: Batch['inner']): Promise<void> {
  await tx.query(sqlPlannedOnce`
    insert into punctual.workflows (segment, workflow_id, name, user_id, definition, input, parent_id, parent_step, traceparent)
    select ${segment}::smallint, *
    from unnest(
      ${uuids(inner, (one) => one.workflow_id)}::uuid[], ${texts(inner, (one) => one.name)}::text[],
      ${texts(inner, (one) => one.user_id)}::text[], ${texts(inner, (one) => one.definition)}::text[],
      ${texts(inner, (one) => one.input)}::text[], ${uuids(inner, (one) => one.parent_id)}::uuid[],
      ${texts(inner, (one) => one.parent_step)}::text[], ${texts(inner, (one) => one.traceparent)}::text[])`);
}
