// The steps of a workflow as they are shown: in order, with what they need; and the plan of one that was only checked. Pure.
import type { InnerWorkflow, WorkflowPlan, WorkflowStep } from '@punctual/contract';
import { compileWorkflow, type Graph } from './definition.ts';

export function parseSteps(definition: string): (Pick<WorkflowStep, 'kind' | 'needs' | 'level'> & { name: string })[] {
  const graph = compileWorkflow(JSON.parse(definition) as InnerWorkflow, () => []);
  if ('refused' in graph) throw new Error(`the definition is wrong: ${graph.refused[0]?.message}`);
  return graph.steps.map(({ name, kind, level, needs }) => ({
    ...{ name, kind, level },
    needs: needs.map(({ step, on }) => ({ step: graph.steps[step]?.name ?? '', on })),
  }));
}

export function planOf({ steps, edges }: Graph): WorkflowPlan {
  const levels: string[][] = [];
  for (const { name, level } of steps) (levels[level] ??= []).push(name);
  return { steps: steps.length, edges, levels };
}
