// The calls about workflows.
import type {
  CompleteStep,
  StepCompleted,
  StepDetail,
  Workflow,
  WorkflowAccepted,
  WorkflowCreated,
  WorkflowPage,
  WorkflowPlan,
} from '@punctual/contract';
import { at, get, type Query, send } from './request.ts';

export const listWorkflows = (query: Query, signal: AbortSignal) => get<WorkflowPage>('workflows', signal, query);
export const getWorkflow = (id: string, signal: AbortSignal) => get<Workflow>(at('workflows', id), signal);
export const getStep = (id: string, step: string, query: Query, signal: AbortSignal) =>
  get<StepDetail>(at('workflows', id, 'steps', step), signal, query);

export const validateWorkflow = (definition: unknown) => send<WorkflowPlan>('POST', 'workflows/validate', definition);
export const createWorkflow = (definition: unknown) => send<WorkflowCreated>('POST', 'workflows', definition);
export const moveWorkflow = (id: string, move: 'pause' | 'resume' | 'cancel') =>
  send<WorkflowAccepted>('POST', at('workflows', id, move));
export const retryWorkflow = (id: string, from?: string) =>
  send<WorkflowAccepted>('POST', at('workflows', id, 'retry'), from === undefined ? {} : { from });
export const completeStep = (id: string, step: string, body: CompleteStep) =>
  send<StepCompleted>('POST', at('workflows', id, 'steps', step, 'complete'), body);
