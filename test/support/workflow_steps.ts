// Steps of a workflow as tests look at them: one by its name, waiting until it stands as said, completing one that waits.
import assert from 'node:assert/strict';
import type { Workflow, WorkflowStep } from '@punctual/contract';
import { eventually } from './eventually.ts';
import type { House } from './house.ts';

export function stepOf(workflow: Workflow, name: string): WorkflowStep | undefined {
  return workflow.steps.find(({ step }) => step === name);
}

/** Waits until a step stands as said. */
export function stepIn(house: House, id: string, name: string, state: string): Promise<Workflow> {
  return eventually(async () => {
    const workflow = await house.client.workflows.get(id);
    const step = stepOf(workflow, name);
    assert.equal(step?.state, state, `${step?.reason} ${step?.error_message}`);
    return workflow;
  });
}

/** Completes a step that waits, twice. */
export async function approve(house: House, id: string, name: string, result: unknown): Promise<void> {
  const token = stepOf(await stepIn(house, id, name, 'WAITING'), name)?.token ?? '';
  await house.client.workflows.complete(id, name, { token, result });
  // The same again gets the same answer, something else does not.
  await house.client.workflows.complete(id, name, { token, result });
  await assert.rejects(house.client.workflows.complete(id, name, { token, result: 'other' }), { code: 'step_ended' });
}
