// The order of steps: which need which, cycles, levels, and who is upstream of whom. Pure.
import { type FieldError, limits } from '@punctual/contract';

export type On = 'success' | 'failure' | 'any_end';

export interface Edge {
  step: number;
  on: On;
}

export interface Order {
  /** The numbers of the steps, each after all it needs. */
  sorted: number[];
  levels: number[];
  /** Is the first upstream of the second? */
  isUpstream: (ancestor: number, step: number) => boolean;
}

/** `needs[n]` are the steps that step n needs. */
export function orderSteps(names: readonly string[], needs: readonly (readonly Edge[])[]): Order | FieldError {
  const left = needs.map((list) => list.length);
  const dependents = names.map((): number[] => []);
  for (const [step, list] of needs.entries()) for (const need of list) dependents[need.step]?.push(step);
  const levels = names.map(() => 0);
  const sorted = left.flatMap((count, step) => (count === 0 ? [step] : []));
  for (const step of sorted) {
    for (const next of dependents[step] ?? []) {
      levels[next] = Math.max(levels[next] ?? 0, (levels[step] ?? 0) + 1);
      left[next] = (left[next] ?? 0) - 1;
      if (left[next] === 0) sorted.push(next);
    }
  }
  if (sorted.length < names.length) return describeCycle(names, needs, new Set(sorted));
  return { sorted, levels, isUpstream: ancestry(sorted, needs) };
}

/** Names one cycle: from any step that is left, walk along needs that are left until one comes again. */
function describeCycle(
  names: readonly string[],
  needs: readonly (readonly Edge[])[],
  done: ReadonlySet<number>,
): FieldError {
  const way: number[] = [];
  let at = names.findIndex((_, step) => !done.has(step));
  while (!way.includes(at)) {
    way.push(at);
    at = needs[at]?.find((need) => !done.has(need.step))?.step ?? at;
  }
  const cycle = [...way.slice(way.indexOf(at)), at].map((step) => names[step]);
  const shown = cycle.length > maxShown ? [...cycle.slice(0, maxShown), '…'] : cycle;
  return { path: `steps.${names[at]}.needs`, message: `makes a cycle: ${shown.join(' needs ')}` };
}

const maxShown = 20;

/** A bit for each ancestor of each step: at most a thousand times a thousand. */
function ancestry(sorted: readonly number[], needs: readonly (readonly Edge[])[]): Order['isUpstream'] {
  const words = Math.ceil(limits.max_steps / 32);
  const bits = needs.map(() => new Uint32Array(words));
  for (const step of sorted) {
    const mine = bits[step] as Uint32Array;
    for (const need of needs[step] ?? []) {
      const theirs = bits[need.step] as Uint32Array;
      for (let i = 0; i < words; i++) mine[i] = (mine[i] ?? 0) | (theirs[i] ?? 0);
      mine[need.step >>> 5] = (mine[need.step >>> 5] ?? 0) | (1 << (need.step & 31));
    }
  }
  return (ancestor, step) => (((bits[step]?.[ancestor >>> 5] ?? 0) >>> (ancestor & 31)) & 1) === 1;
}
