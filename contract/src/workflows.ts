// Workflows: steps with an order among them, each a job. Schemas and routes.
import type { Static } from 'typebox';
import { CreateJob, JobCreated, traceHeader } from './jobs.ts';
import { limits } from './limits.ts';
import { route } from './route.ts';
import { RevealQuery } from './runs.ts';
import { scheduleFields } from './schedules.ts';
import { closed, described, Id, Json, Label, NextCursor, nullable, PageQuery, Timestamp, Title } from './shapes.ts';
import { Type } from './type.ts';

export const stepNamePattern = '^[A-Za-z][A-Za-z0-9_-]{0,63}$';

const StepName = Type.String({
  pattern: stepNamePattern,
  description: 'The name of a step: a letter, then letters, digits, _ and -, 64 at most',
});

const On = Type.Enum(['success', 'failure', 'any_end'], {
  default: 'success',
  description:
    'success: it succeeded, or was skipped by its condition. failure: it failed, or could not run because something before it failed. any_end: however it ended',
});

export const Need = Type.Union([StepName, closed({ step: StepName, on: Type.Optional(On) })], {
  description: 'A step that must end first: its name, or {"step": …, "on": …}',
});
export type Need = Static<typeof Need>;

const { name, queue, priority, tags, payload, max_retries, backoff, timeout_ms, run_timeout_ms } = CreateJob.properties;
const { type, executor, requires, concurrency_key, units } = CreateJob.properties;

/** The fields of a job that a step may have: all but those of its schedule, and its user. */
export const stepJobFields = {
  ...{ name, type, executor, queue, priority, tags, requires, concurrency_key, units },
  ...{ max_retries, backoff, timeout_ms, run_timeout_ms },
  payload: described(payload, { description: 'Any JSON; {{…}} in it is filled in when the step begins' }),
};

export const WaitFor = closed(
  {
    event: Type.Optional(described(Label, { description: 'What it waits for, for people; such as approved' })),
    timeout_ms: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: limits.max_delay_ms,
        description: 'How long; then the step fails with timed_out. Without it the step waits for ever',
      }),
    ),
  },
  { description: 'Waits until somebody completes the step with its token' },
);

export const MapOver = closed(
  {
    over: Type.Unknown({
      description: 'An array, or a template for one, such as {{steps.list.result.items}}: a job for each item',
    }),
    max_parallel: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: limits.max_items,
        description: 'So many items at once; all of them unless given',
      }),
    ),
  },
  { description: 'A job for each item of an array; {{item}} and {{index}} in the payload' },
);

export const Step = closed(
  {
    needs: Type.Optional(
      Type.Array(Need, { maxItems: limits.max_steps, description: 'Begins when all of these have ended as said' }),
    ),
    if: Type.Optional(
      Type.Unknown({
        description:
          'A condition: {"value": "{{…}}", "is" | "not" | "gt" | "gte" | "lt" | "lte" | "in" | "exists": …}, or {"all" | "any" | "none": [conditions]}. When it does not hold the step is skipped',
      }),
    ),
    map: Type.Optional(MapOver),
    wait: Type.Optional(WaitFor),
    workflow: Type.Optional(
      Type.Unknown({ description: 'A workflow within the workflow: {"steps": …, "input": …}; five levels at most' }),
    ),
    ...stepJobFields,
  },
  { description: 'A step: a job, a job for each item of an array, a wait, or a workflow of its own' },
);
export type Step = Static<typeof Step>;

const Steps = Type.Record(Type.String({ pattern: stepNamePattern }), Step, {
  minProperties: 1,
  maxProperties: limits.max_steps,
  additionalProperties: false,
  description: 'The steps by their names; a name is a letter, then letters, digits, _ and -',
});

/** What stands under `workflow` of a step; checked like a workflow of its own, so that its errors name it. */
export const InnerWorkflow = closed(
  { steps: Steps, input: Type.Optional(Json) },
  { description: 'A workflow within a workflow' },
);
export type InnerWorkflow = Static<typeof InnerWorkflow>;

const definition = {
  name: Type.Optional(described(Title, { description: 'For people; `workflow` unless given' })),
  user_id: Type.Optional(described(Label, { description: 'Whose it is, and whose the jobs of its steps are' })),
  input: Type.Optional(described(Json, { description: 'Any JSON; steps refer to it as {{input.…}}' })),
  encrypted: Type.Optional(
    Type.Boolean({
      default: false,
      description:
        'Keep its input, and payloads, conditions, results, checkpoints and error messages of its steps, encrypted in the database; it cannot be changed later',
    }),
  ),
  steps: Steps,
};

export const CreateWorkflow = closed(definition, { description: 'A workflow to begin' });
export type CreateWorkflow = Static<typeof CreateWorkflow>;

const { schedule_type, schedule_time, delay_ms } = CreateJob.properties;

export const ScheduleWorkflow = closed(
  { ...definition, queue, priority, schedule_type, schedule_time, delay_ms, ...scheduleFields },
  { description: 'A workflow and when to begin it: the fields of a schedule as for POST /jobs' },
);
export type ScheduleWorkflow = Static<typeof ScheduleWorkflow>;

export const WorkflowState = Type.Enum(['RUNNING', 'PAUSED', 'WAITING', 'SUCCESS', 'FAILED', 'CANCELLED'], {
  description:
    'WAITING: nothing runs, and a step waits to be completed. FAILED: nothing can go on, and a failure has no step that handles it',
});
export type WorkflowState = Static<typeof WorkflowState>;

export const StepState = Type.Enum(
  ['PENDING', 'QUEUED', 'RUNNING', 'WAITING', 'SUCCESS', 'FAILED', 'CANCELLED', 'SKIPPED'],
  { description: 'PENDING has not begun; WAITING waits to be completed' },
);
export type StepState = Static<typeof StepState>;

export const WorkflowStep = Type.Object(
  {
    step: Type.String(),
    kind: Type.Enum(['job', 'map', 'wait', 'workflow'], { description: 'What the step is' }),
    state: StepState,
    reason: nullable(
      Type.String({
        description:
          'More about the state: condition, not_needed, upstream_failed, timed_out, failed, items_failed, cannot_decrypt, …',
      }),
    ),
    error_message: nullable(Type.String()),
    needs: Type.Array(closed({ step: Type.String(), on: On })),
    level: Type.Integer({ description: '0 for steps that need none; else one more than the highest they need' }),
    job_id: nullable(Id),
    run_id: nullable(described(Id, { description: 'Its current run' })),
    workflow_id: nullable(described(Id, { description: 'The workflow within, when it is one' })),
    items: Type.Optional(
      Type.Object(
        { total: Type.Integer(), made: Type.Integer(), succeeded: Type.Integer(), failed: Type.Integer() },
        { description: 'Of a map: how many items, how many have begun, how they ended' },
      ),
    ),
    token: Type.Optional(Type.String({ description: 'While it waits: what completes it' })),
    expires_at: Type.Optional(described(Timestamp, { description: 'While it waits: when it times out' })),
    begun_at: nullable(Timestamp),
    ended_at: nullable(Timestamp),
  },
  { description: 'A step of a workflow and how it stands' },
);
export type WorkflowStep = Static<typeof WorkflowStep>;

const summary = {
  workflow_id: Id,
  name: Type.String(),
  user_id: nullable(Type.String()),
  state: WorkflowState,
  parent: nullable(
    Type.Object({ workflow_id: Id, step: Type.String() }, { description: 'The step it is, of another workflow' }),
  ),
  job_id: nullable(described(Id, { description: 'The job whose schedule began it' })),
  encrypted: Type.Optional(Type.Boolean({ description: 'What it stores is shown only when `reveal` is asked for' })),
  created_at: Timestamp,
  ended_at: nullable(Timestamp),
};

export const WorkflowSummary = Type.Object(summary, { description: 'A workflow as it stands in a list' });
export type WorkflowSummary = Static<typeof WorkflowSummary>;

export const Workflow = Type.Object(
  {
    ...summary,
    input: Json,
    definition: Type.Unknown({
      description:
        'The steps as they were given; of an encrypted workflow without what is encrypted, unless `reveal` is asked for',
    }),
    result: Type.Optional(
      described(Json, { description: 'Once it has ended: {step: result} of the steps that no other step needs' }),
    ),
    steps: Type.Array(WorkflowStep, { description: 'In an order in which each comes after those it needs' }),
  },
  { description: 'A workflow, its steps and how they stand' },
);
export type Workflow = Static<typeof Workflow>;

export const WorkflowItem = Type.Object({
  item: Type.Integer(),
  state: StepState,
  job_id: nullable(Id),
  run_id: nullable(Id),
});
export type WorkflowItem = Static<typeof WorkflowItem>;

export const StepDetail = Type.Object(
  {
    step: WorkflowStep,
    result: Type.Optional(Json),
    encrypted: Type.Optional(Type.Boolean({ description: 'Its result is null here unless `reveal` is asked for' })),
    items: Type.Array(WorkflowItem, { description: 'Of a map: its items in order, a page of them' }),
    next_cursor: NextCursor,
  },
  { description: 'A step, what it resulted in, and the items of a map' },
);
export type StepDetail = Static<typeof StepDetail>;

export const WorkflowPage = Type.Object({ workflows: Type.Array(WorkflowSummary), next_cursor: NextCursor });
export type WorkflowPage = Static<typeof WorkflowPage>;

export const WorkflowQuery = closed({
  ...PageQuery,
  name: Type.Optional(Title),
  state: Type.Optional(WorkflowState),
  user_id: Type.Optional(Label),
  job_id: Type.Optional(described(Id, { description: 'Those that the schedule of this job began' })),
});
export type WorkflowQuery = Static<typeof WorkflowQuery>;

export const WorkflowCreated = Type.Object({ workflow_id: Id });
export type WorkflowCreated = Static<typeof WorkflowCreated>;

export const WorkflowPlan = Type.Object(
  {
    steps: Type.Integer({ description: 'How many, those of workflows within not counted' }),
    edges: Type.Integer(),
    levels: Type.Array(Type.Array(Type.String()), {
      description: 'Steps of one level do not need each other; each level needs only those before it',
    }),
  },
  { description: 'How a workflow would go' },
);
export type WorkflowPlan = Static<typeof WorkflowPlan>;

export const CompleteStep = closed(
  {
    token: Type.String({ minLength: 1, maxLength: 100, description: 'As shown by the step while it waits' }),
    outcome: Type.Optional(Type.Enum(['success', 'failure'], { default: 'success' })),
    result: Type.Optional(described(Json, { description: 'Becomes the result of the step' })),
  },
  { description: 'How a wait ends' },
);
export type CompleteStep = Static<typeof CompleteStep>;

export const StepCompleted = Type.Object({ workflow_id: Id, step: Type.String(), state: StepState });
export type StepCompleted = Static<typeof StepCompleted>;

export const RetryWorkflow = closed({
  from: Type.Optional(
    described(StepName, { description: 'Run this step and all that come after it again, however they ended' }),
  ),
});
export type RetryWorkflow = Static<typeof RetryWorkflow>;

export const WorkflowAccepted = Type.Object({ workflow_id: Id, state: WorkflowState });
export type WorkflowAccepted = Static<typeof WorkflowAccepted>;

const WorkflowParams = closed({ workflow_id: Id });
const StepParams = closed({ workflow_id: Id, step: StepName });
const SubmitHeader = Type.Object({
  ...traceHeader,
  'idempotency-key': Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: limits.max_idempotency_key_chars,
      pattern: '^[\\x21-\\x7e]+$',
      description: 'Chosen by you: the same key and body never make a second workflow',
    }),
  ),
});

const example = {
  name: 'report',
  input: { day: '2030-01-31' },
  steps: {
    extract: { type: 'echo', payload: { rows: [1, 2, 3], day: '{{input.day}}' } },
    load: { type: 'echo', needs: ['extract'], payload: { rows: '{{steps.extract.result.rows}}' } },
  },
};

export const workflowRoutes = {
  createWorkflow: route({
    method: 'POST',
    path: '/workflows',
    operation: 'createWorkflow',
    access: { role: 'submitter', rows: 'own' },
    tag: 'workflows',
    summary: 'Begin a workflow',
    description: 'The answer is sent after the commit; the steps that need no other have begun by then.',
    headers: SubmitHeader,
    body: CreateWorkflow,
    success: 201,
    response: WorkflowCreated,
    errors: [
      'invalid_json',
      'invalid_input',
      'invalid_workflow',
      'body_too_large',
      'idempotency_key_reused',
      'encryption_off',
      'too_many_lanes',
      'artifact_missing',
    ],
    example,
  }),
  scheduleWorkflow: route({
    method: 'POST',
    path: '/workflows/schedule',
    operation: 'scheduleWorkflow',
    access: { role: 'submitter', rows: 'own' },
    tag: 'workflows',
    summary: 'Begin a workflow at a time, or again and again',
    description:
      'Makes a job whose runs begin workflows; it is looked at, changed, paused and cancelled like any other job. A run of it ends when it has begun its workflow, so `overlap` does not wait for the workflow itself.',
    headers: SubmitHeader,
    body: ScheduleWorkflow,
    success: 201,
    response: JobCreated,
    errors: [
      'invalid_json',
      'invalid_input',
      'invalid_workflow',
      'invalid_schedule',
      'calendar_not_found',
      'body_too_large',
      'idempotency_key_reused',
      'encryption_off',
      'too_many_lanes',
      'artifact_missing',
      'overloaded',
    ],
    example: { ...example, cron_expression: '0 6 * * *', timezone: 'Europe/Berlin' },
  }),
  validateWorkflow: route({
    method: 'POST',
    path: '/workflows/validate',
    operation: 'validateWorkflow',
    access: { role: 'viewer', rows: 'shared' },
    tag: 'workflows',
    summary: 'Check a workflow without beginning it',
    description: 'Cycles, unknown steps, templates, conditions and limits; answers the order in which it would go.',
    body: CreateWorkflow,
    success: 200,
    response: WorkflowPlan,
    errors: ['invalid_json', 'invalid_input', 'invalid_workflow', 'body_too_large', 'encryption_off'],
    example,
  }),
  listWorkflows: route({
    method: 'GET',
    path: '/workflows',
    operation: 'listWorkflows',
    access: { role: 'viewer', rows: 'own' },
    tag: 'workflows',
    summary: 'Search workflows, newest first',
    query: WorkflowQuery,
    success: 200,
    response: WorkflowPage,
    errors: ['invalid_input', 'invalid_cursor'],
  }),
  getWorkflow: route({
    method: 'GET',
    path: '/workflows/{workflow_id}',
    operation: 'getWorkflow',
    access: { role: 'viewer', rows: 'own' },
    tag: 'workflows',
    summary: 'One workflow, its steps and how they stand',
    params: WorkflowParams,
    query: RevealQuery,
    success: 200,
    response: Workflow,
    errors: ['invalid_id', 'invalid_input', 'workflow_not_found', 'cannot_decrypt'],
  }),
  getWorkflowStep: route({
    method: 'GET',
    path: '/workflows/{workflow_id}/steps/{step}',
    operation: 'getWorkflowStep',
    access: { role: 'viewer', rows: 'own' },
    tag: 'workflows',
    summary: 'One step, its result, and the items of a map',
    params: StepParams,
    query: closed({ ...PageQuery, ...RevealQuery.properties }),
    success: 200,
    response: StepDetail,
    errors: ['invalid_id', 'invalid_input', 'invalid_cursor', 'workflow_not_found', 'step_not_found', 'cannot_decrypt'],
  }),
  completeStep: route({
    method: 'POST',
    path: '/workflows/{workflow_id}/steps/{step}/complete',
    operation: 'completeStep',
    access: 'open',
    audit: 'workflow',
    tag: 'workflows',
    summary: 'Complete a step that waits',
    description: 'Completing it again in the same way gives the same answer.',
    params: StepParams,
    body: CompleteStep,
    success: 200,
    response: StepCompleted,
    errors: [
      'invalid_id',
      'invalid_json',
      'invalid_input',
      'body_too_large',
      'wrong_token',
      'workflow_not_found',
      'step_not_found',
      'step_ended',
      'cannot_decrypt',
    ],
    example: { token: '00000000-0000-4000-8000-000000000000', outcome: 'success', result: { approved_by: 'kim' } },
  }),
  cancelWorkflow: route({
    method: 'POST',
    path: '/workflows/{workflow_id}/cancel',
    operation: 'cancelWorkflow',
    access: { role: 'submitter', rows: 'own' },
    audit: 'workflow',
    tag: 'workflows',
    summary: 'Cancel what runs, and begin no further step',
    description: 'Cancelling again changes nothing.',
    params: WorkflowParams,
    success: 202,
    response: WorkflowAccepted,
    errors: ['invalid_id', 'workflow_not_found', 'workflow_ended'],
  }),
  pauseWorkflow: route({
    method: 'POST',
    path: '/workflows/{workflow_id}/pause',
    operation: 'pauseWorkflow',
    access: { role: 'submitter', rows: 'own' },
    audit: 'workflow',
    tag: 'workflows',
    summary: 'Begin no further step until it is resumed',
    description: 'Steps that have begun go on, and waits can be completed and time out.',
    params: WorkflowParams,
    success: 202,
    response: WorkflowAccepted,
    errors: ['invalid_id', 'workflow_not_found', 'workflow_ended'],
  }),
  resumeWorkflow: route({
    method: 'POST',
    path: '/workflows/{workflow_id}/resume',
    operation: 'resumeWorkflow',
    access: { role: 'submitter', rows: 'own' },
    audit: 'workflow',
    tag: 'workflows',
    summary: 'Resume a paused workflow',
    params: WorkflowParams,
    success: 202,
    response: WorkflowAccepted,
    errors: ['invalid_id', 'workflow_not_found', 'workflow_ended', 'cannot_decrypt'],
  }),
  retryWorkflow: route({
    method: 'POST',
    path: '/workflows/{workflow_id}/retry',
    operation: 'retryWorkflow',
    access: { role: 'submitter', rows: 'own' },
    audit: 'workflow',
    tag: 'workflows',
    summary: 'Run the steps that failed again, or everything from a step on',
    description:
      'Steps that were skipped because of a failure are decided again. What succeeded is kept, unless it comes after `from`.',
    params: WorkflowParams,
    body: RetryWorkflow,
    bodyOptional: true,
    success: 202,
    response: WorkflowAccepted,
    errors: [
      'invalid_id',
      'invalid_json',
      'invalid_input',
      'workflow_not_found',
      'workflow_ended',
      'step_not_found',
      'step_running',
      'cannot_decrypt',
    ],
    example: { from: 'load' },
  }),
} as const;
