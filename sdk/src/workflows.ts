// The calls about workflows, as `client.workflows`.
import type {
  CompleteStep,
  CreateWorkflow,
  RetryWorkflow,
  RevealQuery,
  ScheduleWorkflow,
  Workflow,
  WorkflowQuery,
} from '@punctual/contract';
import { routes } from '@punctual/contract/plain';
import type { Call } from './client.ts';
import { eachRow } from './pages.ts';
import { keyed, type SubmitOptions } from './submit-options.ts';
import type { WaitOptions, Waits } from './wait.ts';

export function workflowCalls(call: Call, waits: Waits) {
  const get = (workflow_id: string, query?: RevealQuery) =>
    call(routes.getWorkflow, { params: { workflow_id }, query });
  const list = (query?: WorkflowQuery) => call(routes.listWorkflows, { query });
  return {
    /** Begins a workflow. With the same key, asking twice makes one. */
    create: (body: CreateWorkflow, options: SubmitOptions = {}) =>
      call(routes.createWorkflow, { body, ...keyed(options) }),
    /** Makes a job whose runs begin workflows: at a time, or again and again. */
    schedule: (body: ScheduleWorkflow, options: SubmitOptions = {}) =>
      call(routes.scheduleWorkflow, { body, ...keyed(options) }),
    /** Checks a workflow without beginning it; answers the order in which it would go. */
    validate: (body: CreateWorkflow) => call(routes.validateWorkflow, { body }),
    /** With `{ reveal: true }` also what is encrypted, in the clear; here and wherever it is taken. */
    get,
    list,
    /** Every workflow that fits, over all pages. */
    all: (query: WorkflowQuery = {}) =>
      eachRow(
        (cursor) => list({ ...query, ...(cursor === undefined ? {} : { cursor }) }),
        (page) => page.workflows,
      ),
    /** One step, its result, and the items of a map. */
    step: (workflow_id: string, step: string, query?: { limit?: number; cursor?: string; reveal?: boolean }) =>
      call(routes.getWorkflowStep, { params: { workflow_id, step }, query }),
    /** Ends a step that waits; its token stands in the step. */
    complete: (workflow_id: string, step: string, body: CompleteStep) =>
      call(routes.completeStep, { params: { workflow_id, step }, body }),
    cancel: (workflow_id: string) => call(routes.cancelWorkflow, { params: { workflow_id } }),
    pause: (workflow_id: string) => call(routes.pauseWorkflow, { params: { workflow_id } }),
    resume: (workflow_id: string) => call(routes.resumeWorkflow, { params: { workflow_id } }),
    /** Runs the steps that failed again, or everything from a step on. */
    retry: (workflow_id: string, body: RetryWorkflow = {}) =>
      call(routes.retryWorkflow, { params: { workflow_id }, body }),
    /** The workflow once it has ended. */
    waitFor: (
      workflow_id: string,
      options: Pick<WaitOptions, 'timeoutMs' | 'signal' | 'reveal'> = {},
    ): Promise<Workflow> =>
      waits.until(
        {
          ask: (how) =>
            call(routes.getWorkflow, {
              params: { workflow_id },
              query: options.reveal === true ? { reveal: true } : {},
              ...how,
            }),
          hasEnded: (workflow) => workflow.ended_at !== null,
          missed: `Workflow ${workflow_id} did not end`,
          standing: ({ state }) => `it is ${state}`,
        },
        options,
      ),
  };
}
