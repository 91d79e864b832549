// The calls about workflows, as `client.workflows`.
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
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
import { type WaitOptions, WaitTimeoutError } from './wait.ts';

const default_timeout_ms = 60_000;
const first_pause_ms = 10;
const max_pause_ms = 1_000;
const pause_growth = 1.5;

export function workflowCalls(call: Call) {
  const get = (workflow_id: string, query?: RevealQuery) =>
    call(routes.getWorkflow, { params: { workflow_id }, query });
  const list = (query?: WorkflowQuery) => call(routes.listWorkflows, { query });
  return {
    /** Begins a workflow. With a key, asking twice makes one. */
    create: (body: CreateWorkflow, options: { idempotencyKey?: string | undefined } = {}) =>
      call(routes.createWorkflow, {
        body,
        ...(options.idempotencyKey === undefined ? {} : { headers: { 'idempotency-key': options.idempotencyKey } }),
      }),
    /** Makes a job whose runs begin workflows: at a time, or again and again. */
    schedule: (body: ScheduleWorkflow, options: { idempotencyKey?: string | undefined } = {}) =>
      call(routes.scheduleWorkflow, {
        body,
        ...(options.idempotencyKey === undefined ? {} : { headers: { 'idempotency-key': options.idempotencyKey } }),
      }),
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
    waitFor: (workflow_id: string, options: WaitOptions = {}): Promise<Workflow> =>
      waitForEnd(() => get(workflow_id, options.reveal === true ? { reveal: true } : {}), options),
  };
}

async function waitForEnd(ask: () => Promise<Workflow>, options: WaitOptions): Promise<Workflow> {
  const { timeoutMs = default_timeout_ms, signal } = options;
  const deadline = performance.now() + timeoutMs;
  for (let pause = first_pause_ms; ; pause = Math.min(pause * pause_growth, max_pause_ms)) {
    signal?.throwIfAborted();
    const workflow = await ask();
    if (workflow.ended_at !== null) return workflow;
    const left = deadline - performance.now();
    if (left <= 0)
      throw new WaitTimeoutError(
        `Workflow ${workflow.workflow_id} did not end within ${timeoutMs} ms: it is ${workflow.state}.`,
      );
    await sleep(Math.min(pause, left), undefined, signal === undefined ? {} : { signal });
  }
}
