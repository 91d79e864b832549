// What a workflow means: its definition is checked and compiled into a graph whose templates and conditions can be evaluated
// without looking at the definition again. Pure; the API calls it to refuse, the advance to decide.
import { deeperThan, type FieldError, type InnerWorkflow, limits, type Step, stepJobFields } from '@punctual/contract';
import { prepareJob } from '../job.ts';
import { type Condition, compileCondition } from './condition.ts';
import { type Edge, orderSteps } from './graph.ts';
import { compileTemplate, type Reference, type Template } from './template.ts';

export type StepKind = 'job' | 'map' | 'wait' | 'workflow';

export interface GraphStep {
  name: string;
  kind: StepKind;
  level: number;
  needs: readonly Edge[];
  dependents: readonly Edge[];
  definition: Step;
  condition: Condition | null;
  /** The payload; for a map that of each item, for a workflow within its input. */
  payload: Template | null;
  /** For a map: its items. */
  over: Template | null;
  /** The steps whose results or errors it refers to. */
  loads: ReadonlySet<string>;
}

export interface Graph {
  /** Each after all it needs. */
  steps: readonly GraphStep[];
  numberOf: ReadonlyMap<string, number>;
  edges: number;
}

/** Checks the definition of a workflow within against its schema. */
export type CheckInner = (inner: unknown) => FieldError[];

export function compileWorkflow(
  definition: InnerWorkflow,
  checkInner: CheckInner,
  depth = 1,
): Graph | { refused: FieldError[] } {
  const errors: FieldError[] = [];
  const names = Object.keys(definition.steps);
  const numberOf = new Map(names.map((name, number) => [name, number]));
  const needs = names.map((name) => needsOf(name, definition.steps[name] as Step, numberOf, errors));
  const edges = needs.reduce((sum, list) => sum + list.length, 0);
  if (edges > limits.max_edges)
    errors.push({ path: 'steps', message: `have ${edges} needs together; ${limits.max_edges} is the most` });
  const order = errors.length === 0 ? orderSteps(names, needs) : null;
  if (order !== null && 'path' in order) errors.push(order);
  const compiled = names.map((name) => {
    const step = definition.steps[name] as Step;
    checkKind(step, `steps.${name}`, errors);
    if (step.workflow !== undefined)
      checkWorkflow(step.workflow, `steps.${name}.workflow`, { checkInner, depth, errors });
    return compileStep(name, step, errors);
  });
  if (order !== null && !('path' in order)) {
    const { isUpstream } = order;
    for (const [number, { name, kind, references }] of compiled.entries())
      for (const { path, reference } of references) {
        const isItem = kind === 'map' && path === 'payload';
        checkReference(reference, `steps.${name}.${path}`, { numberOf, number, isUpstream, isItem, errors });
      }
    if (errors.length === 0) return toGraph({ compiled, needs, sorted: order.sorted, levels: order.levels, edges });
  }
  return { refused: errors.slice(0, maxErrors) };
}

const maxErrors = 50;

function needsOf(name: string, step: Step, numberOf: ReadonlyMap<string, number>, errors: FieldError[]): Edge[] {
  const edges = new Map<number, Edge>();
  for (const [i, need] of (step.needs ?? []).entries()) {
    const { step: needed, on = 'success' } = typeof need === 'string' ? { step: need } : need;
    const number = numberOf.get(needed);
    const path = `steps.${name}.needs[${i}]`;
    if (number === undefined) errors.push({ path, message: `names ${needed}, which is no step of this workflow` });
    else if (edges.has(number)) errors.push({ path, message: `names ${needed} again; one need a step` });
    else edges.set(number, { step: number, on });
  }
  return [...edges.values()];
}

function kindOf(step: Step): StepKind {
  if (step.wait !== undefined) return 'wait';
  if (step.workflow !== undefined) return 'workflow';
  return step.map === undefined ? 'job' : 'map';
}

function checkKind(step: Step, path: string, errors: FieldError[]): void {
  const kind = kindOf(step);
  if (kind === 'job' || kind === 'map') {
    const { needs: _needs, if: _if, map: _map, wait: _wait, workflow: _workflow, ...job } = step;
    const prepared = prepareJob(job, 0);
    if ('refused' in prepared) errors.push(...prepared.refused.map((one) => ({ ...one, path: `${path}.${one.path}` })));
    return;
  }
  const others = [...Object.keys(stepJobFields), ...(['map', 'wait', 'workflow'] as const).filter((it) => it !== kind)];
  for (const field of others)
    if (Object.hasOwn(step, field)) errors.push({ path: `${path}.${field}`, message: `does not go with ${kind}` });
}

function checkWorkflow(
  inner: unknown,
  path: string,
  { checkInner, depth, errors }: { checkInner: CheckInner; depth: number; errors: FieldError[] },
): void {
  if (depth >= limits.max_workflow_depth) {
    errors.push({ path, message: `is nested deeper than ${limits.max_workflow_depth} levels` });
    return;
  }
  const wrong = checkInner(inner);
  const compiled =
    wrong.length > 0 ? { refused: wrong } : compileWorkflow(inner as InnerWorkflow, checkInner, depth + 1);
  if ('refused' in compiled)
    errors.push(...compiled.refused.map((one) => ({ ...one, path: one.path === '' ? path : `${path}.${one.path}` })));
}

interface CompiledStep extends Pick<GraphStep, 'name' | 'kind' | 'definition' | 'condition' | 'payload' | 'over'> {
  references: { path: string; reference: Reference }[];
}

function compileStep(name: string, definition: Step, errors: FieldError[]): CompiledStep {
  const kind = kindOf(definition);
  const references: CompiledStep['references'] = [];
  const template = (value: unknown, path: string): Template | null => {
    if (value === undefined) return null;
    const at = `steps.${name}.${path}`;
    if (deeperThan(value, limits.max_payload_depth)) {
      errors.push({ path: at, message: `is nested deeper than ${limits.max_payload_depth} levels` });
      return null;
    }
    const compiled = compileTemplate(value, (message) => errors.push({ path: at, message }));
    references.push(...compiled.references.map((reference) => ({ path, reference })));
    return compiled;
  };
  const inner = kind === 'workflow' ? (definition.workflow as Partial<InnerWorkflow> | null) : null;
  const payload =
    kind === 'workflow' ? template(inner?.input, 'workflow.input') : template(definition.payload, 'payload');
  const over = template(definition.map?.over, 'map.over');
  const tooDeep = deeperThan(definition.if, limits.max_payload_depth);
  if (tooDeep) errors.push({ path: `steps.${name}.if`, message: 'is nested too deep' });
  const condition =
    definition.if === undefined || tooDeep
      ? null
      : compileCondition(definition.if, `steps.${name}.if`, (path, message) => errors.push({ path, message }));
  references.push(...(condition?.references ?? []).map((reference) => ({ path: 'if', reference })));
  return { name, kind, definition, condition, payload, over, references };
}

function checkReference(
  { path: text, root, step }: Reference,
  path: string,
  context: {
    numberOf: ReadonlyMap<string, number>;
    number: number;
    isUpstream: (ancestor: number, step: number) => boolean;
    /** It stands where there is an item. */
    isItem: boolean;
    errors: FieldError[];
  },
): void {
  const { numberOf, number, isUpstream, isItem, errors } = context;
  if (root === 'item' || root === 'index') {
    if (!isItem) errors.push({ path, message: `{{${text}}} stands only in the payload of a step with map` });
    return;
  }
  if (root !== 'steps') return;
  const named = numberOf.get(step);
  if (named === undefined)
    errors.push({ path, message: `{{${text}}} names ${step}, which is no step of this workflow` });
  else if (!isUpstream(named, number))
    errors.push({
      path,
      message: `{{${text}}} names ${step}, which need not have ended by then; add it to needs`,
    });
}

function toGraph(parts: {
  compiled: readonly CompiledStep[];
  needs: readonly (readonly Edge[])[];
  sorted: readonly number[];
  levels: readonly number[];
  edges: number;
}): Graph {
  const { compiled, needs, sorted, levels, edges } = parts;
  const place = new Map(sorted.map((number, at) => [number, at]));
  const dependents = sorted.map((): Edge[] => []);
  const steps = sorted.map((number, at): GraphStep => {
    const { references, ...step } = compiled[number] as CompiledStep;
    const mine = (needs[number] ?? []).map((need) => ({ step: place.get(need.step) as number, on: need.on }));
    for (const need of mine) dependents[need.step]?.push({ step: at, on: need.on });
    const loads = references.flatMap(({ reference: { root, field, step: named } }) =>
      root === 'steps' && field !== 'outcome' ? [named] : [],
    );
    return {
      ...step,
      level: levels[number] ?? 0,
      needs: mine,
      dependents: dependents[at] as Edge[],
      loads: new Set(loads),
    };
  });
  return { steps, numberOf: new Map(steps.map((step, at) => [step.name, at])), edges };
}
