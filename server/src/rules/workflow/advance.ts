// What a workflow does next: from its graph and how its steps stand follows which steps begin, with which payload, and which
// are skipped, and whether the whole has ended. Pure, and the same whoever asks: the caller holds the workflow's row.
//
// A step is decided once all it needs have ended, in an order in which each comes after those, so one walk decides
// everything that can be decided. Results that templates refer to are asked for (`wanted`) and the walk is done again.
import { type InnerWorkflow, limits, type Step } from '@punctual/contract';
import { type PreparedJob, prepareJob, type Refusal } from '../job.ts';
import type { Graph, GraphStep } from './definition.ts';
import type { Edge } from './graph.ts';
import { type FailReason, isPlain, type Scope, type Template, TemplateError } from './template.ts';

export type StepOutcome = 'SUCCESS' | 'FAILED' | 'CANCELLED' | 'SKIPPED';
export type SkipReason = 'condition' | 'not_needed' | 'upstream_failed';

export interface MapNow {
  items: number;
  made: number;
  succeeded: number;
  failed: number;
}

/** How a step stands that has begun or was skipped. */
export interface StepNow {
  outcome: StepOutcome | null;
  reason: string | null;
  map: MapNow | null;
}

export interface Loaded {
  result: unknown;
  error: string | null;
  /** The result was not kept, or is more than can be read at once. */
  tooLarge: boolean;
  /** It is encrypted and cannot be decrypted, or could not be encrypted and was not kept. */
  unreadable?: { reason: FailReason; message: string };
}

export interface Situation {
  name: string;
  user_id: string | null;
  input: unknown;
  standing: 'live' | 'paused' | 'cancelled';
  /** By the number of the step; undefined for those that have not begun. */
  states: readonly (StepNow | undefined)[];
  /** Results and errors read so far, by the name of the step. */
  loaded: ReadonlyMap<string, Loaded>;
  defaultPriority?: (queue: string) => number;
  /** The jobs of its steps are encrypted. */
  encrypted?: boolean;
  /** Why its definition cannot be decrypted: the graph is of its outline, and no step can begin. */
  unopened?: string | null;
}

export type Move =
  | { move: 'skip'; step: number; reason: SkipReason }
  | { move: 'fail'; step: number; reason: FailReason; error: string }
  | { move: 'job'; step: number; job: PreparedJob }
  | { move: 'map'; step: number; jobs: PreparedJob[] }
  | { move: 'items'; step: number; count: number }
  | { move: 'end'; step: number; outcome: StepOutcome; reason: string | null; error: string | null }
  | { move: 'wait'; step: number; timeout_ms: number | null }
  | { move: 'workflow'; step: number; inner: InnerWorkflow; input: string | null };

export interface Ended {
  outcome: 'SUCCESS' | 'FAILED' | 'CANCELLED';
  /** JSON; null when there is none, or it is too large. */
  result: string | null;
}

export type Advance = { wanted: string[] } | Advanced;

export interface Advanced {
  wanted: null;
  moves: Move[];
  /** How the steps stand once the moves are made. */
  states: (StepNow | undefined)[];
  ended: Ended | null;
}

export function advance(graph: Graph, situation: Situation): Advance {
  const walk: Walk = {
    graph,
    situation,
    states: [...situation.states],
    loaded: new Map(situation.loaded),
    wanted: new Set(),
    moves: [],
  };
  for (const [number, step] of graph.steps.entries()) {
    const now = walk.states[number];
    if (now === undefined) {
      if (situation.standing === 'live') begin(walk, number, step);
    } else if (now.map !== null && now.outcome === null) goOn(walk, number, now.map);
  }
  const ended = walk.wanted.size === 0 ? endOf(walk) : null;
  if (walk.wanted.size > 0) return { wanted: [...walk.wanted] };
  return { wanted: null, moves: walk.moves, states: walk.states, ended };
}

interface Walk {
  graph: Graph;
  situation: Situation;
  states: (StepNow | undefined)[];
  loaded: Map<string, Loaded>;
  wanted: Set<string>;
  moves: Move[];
}

function begin(walk: Walk, number: number, step: GraphStep): void {
  const verdict = judgeNeeds(walk.states, step.needs);
  if (verdict === 'later') return;
  if (verdict !== 'go') return note(walk, number, { move: 'skip', step: number, reason: verdict });
  const { unopened = null } = walk.situation;
  if (unopened !== null)
    return note(walk, number, { move: 'fail', step: number, reason: 'cannot_decrypt', error: unopened });
  const missing = [...step.loads].filter((name) => !walk.loaded.has(name) && !isEmpty(walk, name));
  for (const name of missing) walk.wanted.add(name);
  if (missing.length > 0) return;
  const scope = scopeOf(walk);
  try {
    if (step.condition !== null && !step.condition.holds(scope))
      return note(walk, number, { move: 'skip', step: number, reason: 'condition' });
    note(walk, number, makeMove(walk.situation, number, step, scope));
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    note(walk, number, { move: 'fail', step: number, reason: error.reason, error: error.message });
  }
}

/** A step that was skipped has no result and no error. */
function isEmpty({ graph, states }: Walk, name: string): boolean {
  return states[graph.numberOf.get(name) ?? -1]?.outcome === 'SKIPPED';
}

type Verdict = 'later' | 'go' | 'not_needed' | 'upstream_failed';

/** All needs must have ended; a failure that nobody waited for weighs more than a success nobody waited for. */
function judgeNeeds(states: readonly (StepNow | undefined)[], needs: readonly Edge[]): Verdict {
  let verdict: Verdict = 'go';
  for (const { step, on } of needs) {
    const now = states[step];
    if (now === undefined || now.outcome === null) return 'later';
    if (on === 'any_end') continue;
    const failed = isFailure(now);
    if (failed && on === 'success') verdict = 'upstream_failed';
    if (!failed && on === 'failure' && verdict === 'go') verdict = 'not_needed';
  }
  return verdict;
}

/** It failed, was cancelled, or could not run because something before it failed. */
export function isFailure({ outcome, reason }: StepNow): boolean {
  return outcome === 'FAILED' || outcome === 'CANCELLED' || (outcome === 'SKIPPED' && reason === 'upstream_failed');
}

function scopeOf({ graph, situation, states, loaded }: Walk): Scope {
  return {
    input: situation.input,
    stepField(name, field, path) {
      if (field === 'outcome') return states[graph.numberOf.get(name) ?? -1]?.outcome ?? null;
      const found = loaded.get(name);
      if (found?.unreadable !== undefined)
        throw new TemplateError(`{{${path}}}: ${found.unreadable.message}`, found.unreadable.reason);
      if (field === 'error') return found?.error ?? null;
      if (found?.tooLarge === true)
        throw new TemplateError(`{{${path}}}: the result of ${name} is too large to be passed on; pass a reference.`);
      return found?.result ?? null;
    },
  };
}

function makeMove(situation: Situation, number: number, step: GraphStep, scope: Scope): Move {
  const { definition } = step;
  if (step.kind === 'job')
    return { move: 'job', step: number, job: prepare(situation, step, render(step.payload, scope)) };
  if (step.kind === 'map') return { move: 'map', step: number, jobs: itemJobs(situation, step, scope) };
  if (step.kind === 'wait') return { move: 'wait', step: number, timeout_ms: definition.wait?.timeout_ms ?? null };
  const input = render(step.payload, scope);
  const text = input === undefined ? null : JSON.stringify(input);
  requireSize(text, limits.max_payload_bytes, 'The input');
  return { move: 'workflow', step: number, inner: definition.workflow as InnerWorkflow, input: text };
}

function render(template: Template | null, scope: Scope): unknown {
  return template === null ? undefined : template.render(scope);
}

function prepare(situation: Situation, step: GraphStep, payload: unknown): PreparedJob {
  const { name, user_id, defaultPriority, encrypted = false } = situation;
  const prepared = prepareJob(
    {
      ...jobFields(step.definition),
      name: step.definition.name ?? `${name}.${step.name}`.slice(0, limits.max_name_chars),
      ...(user_id === null ? {} : { user_id }),
      ...(payload === undefined ? {} : { payload }),
      ...(encrypted ? { encrypted } : {}),
    },
    0,
    defaultPriority,
  );
  if ('refused' in prepared) throw new TemplateError(refusalText(prepared));
  return prepared;
}

function jobFields(step: Step): Omit<Step, 'needs' | 'if' | 'map' | 'wait' | 'workflow' | 'payload'> {
  const { needs: _needs, if: _if, map: _map, wait: _wait, workflow: _workflow, payload: _payload, ...fields } = step;
  return fields;
}

function refusalText({ refused }: Refusal): string {
  return refused.map(({ path, message }) => `The ${path} ${message}.`).join(' ');
}

/** The job of an item whose payload was rendered before. */
export function itemJob(situation: Situation, step: GraphStep, payload: string | null): PreparedJob {
  return { ...prepare(situation, step, undefined), payload };
}

/** A job for each item, with what they share prepared once. */
function itemJobs(situation: Situation, step: GraphStep, scope: Scope): PreparedJob[] {
  const items = render(step.over, scope);
  if (!Array.isArray(items)) throw new TemplateError('What map goes over is not an array.');
  if (items.length > limits.max_items)
    throw new TemplateError(`There are ${items.length} items to map over; ${limits.max_items} is the most.`);
  const shared = prepare(
    situation,
    step,
    step.payload !== null && isPlain(step.payload) ? render(step.payload, scope) : undefined,
  );
  let bytes = 0;
  return items.map((item: unknown, index) => {
    if (step.payload === null || isPlain(step.payload)) return shared;
    const payload = JSON.stringify(step.payload.render({ ...scope, item, index }));
    requireSize(payload, limits.max_payload_bytes, `The payload of item ${index}`);
    bytes += payload.length;
    if (bytes > limits.max_items_bytes)
      throw new TemplateError(`The payloads of all items are larger than ${limits.max_items_bytes} bytes together.`);
    return { ...shared, payload };
  });
}

function requireSize(text: string | null, most: number, what: string): void {
  if (text !== null && text.length * 3 > most && Buffer.byteLength(text) > most)
    throw new TemplateError(`${what} is larger than ${most} bytes; pass a reference to large data.`);
}

/** Writes a move down, and what the steps that come after see of it. */
function note(walk: Walk, number: number, move: Move): void {
  walk.moves.push(move);
  const { name } = walk.graph.steps[number] as GraphStep;
  const now = { outcome: null, reason: null, map: null };
  if (move.move === 'skip') walk.states[number] = { ...now, outcome: 'SKIPPED', reason: move.reason };
  else if (move.move === 'fail') {
    walk.states[number] = { ...now, outcome: 'FAILED' };
    walk.loaded.set(name, { result: null, error: move.error, tooLarge: false });
  } else if (move.move === 'map') {
    const map = { items: move.jobs.length, made: 0, succeeded: 0, failed: 0 };
    walk.states[number] = { ...now, map };
    goOn(walk, number, map);
    if (map.items === 0) walk.loaded.set(name, { result: [], error: null, tooLarge: false });
  } else walk.states[number] = now;
}

/** A map begins as many items as it may, and ends when all have. */
function goOn(walk: Walk, number: number, map: MapNow): void {
  const { items, made, succeeded, failed } = map;
  const states = walk.states;
  if (succeeded + failed === items) {
    const outcome = failed === 0 ? 'SUCCESS' : 'FAILED';
    const reason = failed === 0 ? null : 'items_failed';
    const error = failed === 0 ? null : `${failed} of ${items} items failed.`;
    states[number] = { outcome, reason, map };
    if (failed > 0)
      walk.loaded.set((walk.graph.steps[number] as GraphStep).name, { result: null, error, tooLarge: false });
    walk.moves.push({ move: 'end', step: number, outcome, reason, error });
    return;
  }
  const parallel = walk.graph.steps[number]?.definition.map?.max_parallel ?? items;
  const count = Math.min(items - made, parallel - (made - succeeded - failed));
  if (count <= 0 || walk.situation.standing !== 'live') return;
  states[number] = { outcome: null, reason: null, map: { ...map, made: made + count } };
  walk.moves.push({ move: 'items', step: number, count });
}

function endOf(walk: Walk): Ended | null {
  const { graph, states, situation } = walk;
  if (states.some((now) => now !== undefined && isLive(now))) return null;
  if (situation.standing === 'cancelled') return { outcome: 'CANCELLED', result: null };
  if (graph.steps.some((_, number) => states[number] === undefined)) return null;
  const last = graph.steps.filter(
    ({ dependents }, number) => dependents.length === 0 && states[number]?.outcome === 'SUCCESS',
  );
  for (const { name } of last) if (!walk.loaded.has(name)) walk.wanted.add(name);
  if (walk.wanted.size > 0) return null;
  return { outcome: judgeWhole(graph, states), result: resultOf(last, walk.loaded) };
}

/** Items of a map may still run when the map itself has ended, because it was cancelled. */
function isLive({ outcome, map }: StepNow): boolean {
  return outcome === null || (map !== null && map.made > map.succeeded + map.failed);
}

/**
 * A failure is handled when a step that needs it `on: failure` has succeeded, or one that could not run because of it is
 * handled in turn.
 */
export function judgeWhole(graph: Graph, states: readonly (StepNow | undefined)[]): 'SUCCESS' | 'FAILED' {
  const handled = graph.steps.map(() => false);
  let whole: 'SUCCESS' | 'FAILED' = 'SUCCESS';
  for (let number = graph.steps.length - 1; number >= 0; number--) {
    const now = states[number];
    if (now === undefined || !isFailure(now)) continue;
    handled[number] = (graph.steps[number]?.dependents ?? []).some(({ step, on }) => {
      const theirs = states[step];
      if (on === 'failure') return theirs?.outcome === 'SUCCESS';
      return on === 'success' && theirs?.reason === 'upstream_failed' && handled[step] === true;
    });
    if (now.outcome !== 'SKIPPED' && handled[number] !== true) whole = 'FAILED';
  }
  return whole;
}

function resultOf(last: readonly GraphStep[], loaded: ReadonlyMap<string, Loaded>): string | null {
  const found = last.map(({ name }) => [name, loaded.get(name)] as const);
  if (found.some(([, one]) => one?.tooLarge === true || one?.unreadable !== undefined)) return null;
  const text = JSON.stringify(Object.fromEntries(found.map(([name, one]) => [name, one?.result ?? null])));
  return Buffer.byteLength(text) > limits.max_result_bytes ? null : text;
}
