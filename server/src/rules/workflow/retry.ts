// Which steps run again when a workflow is retried. Pure.
import { isFailure, type StepNow } from './advance.ts';
import type { Graph } from './definition.ts';

export interface Retry {
  /** Steps that are decided anew. */
  again: number[];
  /** Maps of which only the items that failed run again. */
  items: number[];
  /** A step among them that has not ended; nothing can be retried then. */
  running: string | null;
}

/**
 * Without `from`: the steps that failed, and those after them that were skipped, whatever for. With it: that step and all
 * after it, however they ended.
 */
export function stepsToRetry(graph: Graph, states: readonly (StepNow | undefined)[], from: number | null): Retry {
  const again: number[] = [];
  const items: number[] = [];
  const reached = graph.steps.map(() => false);
  for (const [number, step] of graph.steps.entries()) {
    const now = states[number];
    const after = step.needs.some((need) => reached[need.step] === true);
    const failed = now !== undefined && now.outcome !== 'SKIPPED' && isFailure(now);
    reached[number] = after || (from === null ? failed : number === from);
    if (now === undefined || !reached[number]) continue;
    if (from !== null) {
      if (isOpen(now)) return { again: [], items: [], running: step.name };
      again.push(number);
    } else if (failed && isOpen(now)) return { again: [], items: [], running: step.name };
    else if (failed && now.map !== null) items.push(number);
    else if (failed || now.outcome === 'SKIPPED') again.push(number);
  }
  return { again, items, running: null };
}

/** A map that was cancelled may have items that still run. */
function isOpen({ outcome, map }: StepNow): boolean {
  return outcome === null || (map !== null && map.made > map.succeeded + map.failed);
}
