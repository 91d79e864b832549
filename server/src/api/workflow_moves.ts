// What people do to workflows, at the door: complete a step, cancel, pause, resume, retry.
import { limits, PunctualError, type WorkflowState, workflowRoutes } from '@punctual/contract';
import type { FastifyInstance } from 'fastify';
import { cancelWorkflow, completeStep, pauseWorkflow, resumeWorkflow } from '../store/workflow_moves.ts';
import { retryWorkflow } from '../store/workflow_retry.ts';
import { getState } from '../store/workflows.ts';
import { register } from './register.ts';
import type { ApiParts } from './server.ts';
import { requireFlat, requireWorkflowId } from './workflows.ts';

export function registerWorkflowMoves(
  app: FastifyInstance,
  { db, segments, workflows, sync, announcer }: ApiParts,
): void {
  const standing = async (workflow_id: string): Promise<{ workflow_id: string; state: WorkflowState }> => ({
    workflow_id,
    state: (await getState(db, workflow_id)) ?? 'RUNNING',
  });

  register(app, workflowRoutes.completeStep, async ({ params, body }) => {
    requireWorkflowId(params.workflow_id, segments);
    requireFlat(body.result, 'result');
    if (Buffer.byteLength(JSON.stringify(body.result) ?? '') > limits.max_result_bytes)
      throw new PunctualError('body_too_large', {
        detail: `The result is larger than ${limits.max_result_bytes} bytes.`,
      });
    const { answer, outlook } = await completeStep(workflows.parts, params, body);
    workflows.follow(outlook);
    if (answer === 'timed_out') throw new PunctualError('step_ended', { detail: 'The step has timed out already.' });
    return { ...params, state: answer };
  });

  register(app, workflowRoutes.cancelWorkflow, async ({ params: { workflow_id } }) => {
    requireWorkflowId(workflow_id, segments);
    const { answer: orders, outlook } = await cancelWorkflow(workflows.parts, workflow_id);
    for (const order of orders) sync.cancel(order.session_id, order);
    if (orders.length > 0) announcer.say({ cancels: orders });
    workflows.follow(outlook);
    return standing(workflow_id);
  });

  register(app, workflowRoutes.pauseWorkflow, async ({ params: { workflow_id } }) => {
    requireWorkflowId(workflow_id, segments);
    await pauseWorkflow(workflows.parts, workflow_id);
    return standing(workflow_id);
  });

  register(app, workflowRoutes.resumeWorkflow, async ({ params: { workflow_id } }) => {
    requireWorkflowId(workflow_id, segments);
    workflows.follow(await resumeWorkflow(workflows.parts, workflow_id));
    return standing(workflow_id);
  });

  register(app, workflowRoutes.retryWorkflow, async ({ params: { workflow_id }, body }) => {
    requireWorkflowId(workflow_id, segments);
    workflows.follow(await retryWorkflow(workflows.parts, workflow_id, body.from ?? null));
    return standing(workflow_id);
  });
}
