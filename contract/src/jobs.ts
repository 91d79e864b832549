// Jobs: what to do and how, whose, and when. Schemas and routes.
import type { Static } from 'typebox';
import { Dependency, DependsOn } from './dependencies.ts';
import { Executor } from './executors.ts';
import { defaults, limits } from './limits.ts';
import { route } from './route.ts';
import { RevealQuery, Run, RunPage, RunPageQuery } from './runs.ts';
import { Schedule, scheduleFields } from './schedules.ts';
import { closed, described, Id, Json, Label, NextCursor, nullable, PageQuery, Timestamp, Title } from './shapes.ts';
import { Type } from './type.ts';
import { conflictFields, shownUniqueFields, UniqueKey, uniqueFields } from './unique.ts';

export const ScheduleType = Type.Enum(['IMMEDIATE', 'FUTURE', 'CRON', 'INTERVAL'], {
  description: 'When: at once, at a time, by a cron expression, or again and again',
});
export type ScheduleType = Static<typeof ScheduleType>;

export const JobStatus = Type.Enum(['SCHEDULED', 'PAUSED', 'CANCELLED', 'COMPLETED'], {
  description: 'About the definition. SCHEDULED: has or will have runs to do. COMPLETED: no run is left to do',
});
export type JobStatus = Static<typeof JobStatus>;

export const Backoff = closed(
  {
    base_ms: Type.Optional(
      Type.Integer({ minimum: 0, maximum: limits.max_backoff_ms, default: defaults.backoff.base_ms }),
    ),
    factor: Type.Optional(Type.Number({ minimum: 1, maximum: 10, default: defaults.backoff.factor })),
    max_ms: Type.Optional(
      Type.Integer({ minimum: 0, maximum: limits.max_backoff_ms, default: defaults.backoff.max_ms }),
    ),
    jitter: Type.Optional(
      Type.Number({ minimum: 0, maximum: 1, default: defaults.backoff.jitter, description: '0.2 spreads by ±20 %' }),
    ),
  },
  { description: 'The wait before attempt n + 1 is base_ms × factor^(n−1), at most max_ms, spread by jitter' },
);
export type Backoff = Static<typeof Backoff>;

/** The fields a user sets, at creation or later. */
const settable = {
  name: Type.Optional(described(Title, { description: 'For people; defaults to the type' })),
  queue: Type.Optional(
    described(Label, { default: defaults.queue, description: 'The queue its runs wait in; made on first use' }),
  ),
  priority: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: limits.max_priority,
      default: defaults.priority,
      description: '9 starts before 0',
    }),
  ),
  tags: Type.Optional(Type.Array(Label, { maxItems: limits.max_tags, uniqueItems: true })),
  payload: Type.Optional(Json),
  max_retries: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: limits.max_retries,
      default: defaults.max_retries,
      description: 'Attempts after the first',
    }),
  ),
  backoff: Type.Optional(Backoff),
  timeout_ms: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: limits.max_timeout_ms,
      default: defaults.timeout_ms,
      description: 'The longest one attempt may take',
    }),
  ),
  run_timeout_ms: Type.Optional(
    nullable(
      Type.Integer({
        minimum: 1,
        maximum: limits.max_delay_ms,
        description:
          'The longest the whole run may take from its due time, all attempts and pauses between them included; null for no limit',
      }),
    ),
  ),
  schedule_time: Type.Optional(described(Timestamp, { description: 'FUTURE: when. A time already past runs at once' })),
  delay_ms: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: limits.max_delay_ms,
      description: 'FUTURE: how long from now, instead of schedule_time',
    }),
  ),
  ...scheduleFields,
};

export const CreateJob = closed(
  {
    ...settable,
    type: Type.Optional(
      described(Label, { description: 'Which handler runs it; defaults to the kind of the executor' }),
    ),
    executor: Type.Optional(Executor),
    encrypted: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          'Keep its payload, results, checkpoints and error messages encrypted in the database; it cannot be changed later',
      }),
    ),
    user_id: Type.Optional(described(Label, { description: 'Whose job it is' })),
    requires: Type.Optional(
      Type.Array(Label, {
        maxItems: limits.max_labels,
        uniqueItems: true,
        description: 'Labels a worker must have to run it, such as gpu',
      }),
    ),
    concurrency_key: Type.Optional(
      described(Label, {
        description: 'Runs of jobs with the same key are limited together, whatever their type; see /limits',
      }),
    ),
    units: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: limits.max_units,
        default: defaults.units,
        description: 'How much of a rate limit a run uses',
      }),
    ),
    depends_on: Type.Optional(DependsOn),
    schedule_type: Type.Optional(
      described(ScheduleType, {
        description:
          'Defaults to what the fields given say: cron_expression CRON, interval_ms INTERVAL, schedule_time or delay_ms FUTURE, else IMMEDIATE',
      }),
    ),
    ...uniqueFields,
  },
  { description: 'A job to create' },
);
export type CreateJob = Static<typeof CreateJob>;

export const UpdateJob = closed(settable, { description: 'The fields to change; the others stay as they are' });
export type UpdateJob = Static<typeof UpdateJob>;

export const JobCreated = Type.Object({
  job_id: Id,
  run_id: Type.Optional(Id),
  ...conflictFields,
});
export type JobCreated = Static<typeof JobCreated>;

export const Job = Type.Object(
  {
    job_id: Id,
    name: Type.String(),
    type: Type.String(),
    executor: Type.Optional(Executor),
    user_id: nullable(Type.String()),
    queue: Type.String(),
    priority: Type.Integer(),
    tags: Type.Array(Type.String()),
    requires: Type.Optional(Type.Array(Type.String())),
    concurrency_key: Type.Optional(Type.String()),
    units: Type.Optional(Type.Integer()),
    ...shownUniqueFields,
    payload: Json,
    encrypted: Type.Optional(Type.Boolean({ description: 'Its payload is null here unless `reveal` is asked for' })),
    schedule_type: ScheduleType,
    schedule_time: nullable(Timestamp),
    schedule: Type.Optional(Schedule),
    max_retries: Type.Integer(),
    backoff: Backoff,
    timeout_ms: Type.Integer(),
    run_timeout_ms: nullable(Type.Integer()),
    status: JobStatus,
    depends_on: Type.Optional(
      Type.Array(Dependency, { description: 'What its run waits or waited for; given for a single job, not in lists' }),
    ),
    workflow: Type.Optional(
      Type.Object(
        { workflow_id: Id, step: Type.String(), item: Type.Optional(Type.Integer()) },
        { description: 'The step of a workflow that it is' },
      ),
    ),
    begins: Type.Optional(
      Type.Object(
        { steps: Type.Unknown(), input: Type.Optional(Json) },
        { description: 'The workflow that its runs begin' },
      ),
    ),
    pause_note: Type.Optional(Type.String({ description: 'Why it is paused' })),
    version: Type.Integer({ description: 'Grows with each change; the ETag' }),
    created_at: Timestamp,
    updated_at: Timestamp,
  },
  { description: 'A job: what to do and how, whose, and when' },
);
export type Job = Static<typeof Job>;

export const JobStatusAnswer = Type.Object({
  job_id: Id,
  status: JobStatus,
  latest_run: nullable(Run),
});
export type JobStatusAnswer = Static<typeof JobStatusAnswer>;

export const JobPage = Type.Object({ jobs: Type.Array(Job), next_cursor: NextCursor });
export type JobPage = Static<typeof JobPage>;

export const JobQuery = closed({
  ...PageQuery,
  status: Type.Optional(
    Type.Enum(['pending', 'SCHEDULED', 'PAUSED', 'CANCELLED', 'COMPLETED'], {
      description: '`pending` means scheduled or waiting',
    }),
  ),
  user_id: Type.Optional(Label),
  type: Type.Optional(Label),
  queue: Type.Optional(Label),
  name: Type.Optional(Title),
  tag: Type.Optional(Label),
  recurring: Type.Optional(
    Type.Boolean({ description: 'Only jobs that run again and again (CRON, INTERVAL), or only the others' }),
  ),
  created_after: Type.Optional(Timestamp),
  created_before: Type.Optional(Timestamp),
  unique_key: Type.Optional(
    described(UniqueKey, {
      description: 'The job of the user that holds this key now; without user_id, of the jobs that have no user',
    }),
  ),
  q: Type.Optional(described(Title, { description: 'Text within the name or the payload' })),
});
export type JobQuery = Static<typeof JobQuery>;

export const BulkRequest = closed({
  // Each item is checked as a CreateJob on its own, so that its errors name it.
  jobs: Type.Array(Type.Unknown({ description: 'A job as for POST /jobs' }), {
    minItems: 1,
    maxItems: limits.max_bulk_jobs,
    description: 'Jobs as for POST /jobs; all are created or none',
  }),
});
export type BulkRequest = { jobs: CreateJob[] };

export const BulkCreated = Type.Object({ jobs: Type.Array(JobCreated) });
export type BulkCreated = Static<typeof BulkCreated>;

export const CancelAnswer = Type.Object({
  job_id: Id,
  status: JobStatus,
  cancelled_runs: Type.Array(Id, { description: 'Runs that had not started and now never will' }),
  cancelling_runs: Type.Array(Id, { description: 'Runs that are running; their workers have been told' }),
});
export type CancelAnswer = Static<typeof CancelAnswer>;

export const Accepted = Type.Object({ job_id: Id, status: JobStatus, run_id: Type.Optional(Id) });
export type Accepted = Static<typeof Accepted>;

export const PauseRequest = closed({
  note: Type.Optional(described(Title, { description: 'Why, for those who come later' })),
});
export type PauseRequest = Static<typeof PauseRequest>;

const JobParams = closed({ job_id: Id });
export const IdempotencyHeader = Type.Object({
  'idempotency-key': Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: limits.max_idempotency_key_chars,
      pattern: '^[\\x21-\\x7e]+$',
      description: 'Chosen by you: what is sent again with the same key and body is done once',
    }),
  ),
});
export const traceHeader = {
  traceparent: Type.Optional(
    Type.String({
      description:
        'The trace it comes from (W3C Trace Context): the spans of its runs belong to it. One that does not fit is passed over',
    }),
  ),
};
const SubmitHeader = Type.Object({ ...IdempotencyHeader.properties, ...traceHeader });
const IfMatchHeader = Type.Object({
  'if-match': Type.Optional(
    Type.String({ maxLength: 100, description: 'The ETag you read; a later change is then not overwritten' }),
  ),
});

const example = { name: 'hello', type: 'echo', payload: { greeting: 'hello, world' } };

export const jobRoutes = {
  createJob: route({
    method: 'POST',
    path: '/jobs',
    operation: 'createJob',
    access: { role: 'submitter', rows: 'own' },
    tag: 'jobs',
    summary: 'Create a job and schedule it',
    description: 'The answer is sent after the commit: a job that was acknowledged is never lost.',
    headers: SubmitHeader,
    body: CreateJob,
    success: 201,
    response: JobCreated,
    errors: [
      'invalid_json',
      'invalid_input',
      'body_too_large',
      'unique_key_taken',
      'idempotency_key_reused',
      'too_many_lanes',
      'artifact_missing',
      'invalid_schedule',
      'invalid_dependency',
      'encryption_off',
      'calendar_not_found',
      'overloaded',
    ],
    example,
  }),
  createJobs: route({
    method: 'POST',
    path: '/jobs/bulk',
    operation: 'createJobs',
    access: { role: 'submitter', rows: 'own' },
    tag: 'jobs',
    summary: 'Create many jobs, all or none',
    description: 'A unique_key is judged in the order of the jobs, also between them; one that is refused refuses all.',
    headers: SubmitHeader,
    body: BulkRequest,
    success: 201,
    response: BulkCreated,
    errors: [
      'invalid_json',
      'invalid_input',
      'bulk_refused',
      'body_too_large',
      'unique_key_taken',
      'idempotency_key_reused',
      'too_many_lanes',
      'artifact_missing',
      'invalid_schedule',
      'encryption_off',
      'calendar_not_found',
      'overloaded',
    ],
    example: { jobs: [example, { ...example, delay_ms: 60_000 }] },
  }),
  listJobs: route({
    method: 'GET',
    path: '/jobs',
    operation: 'listJobs',
    access: { role: 'viewer', rows: 'own' },
    tag: 'jobs',
    summary: 'Search jobs, newest first',
    query: JobQuery,
    success: 200,
    response: JobPage,
    errors: ['invalid_input', 'invalid_cursor'],
  }),
  getJob: route({
    method: 'GET',
    path: '/jobs/{job_id}',
    operation: 'getJob',
    access: { role: 'viewer', rows: 'own' },
    tag: 'jobs',
    summary: 'One job',
    params: JobParams,
    query: RevealQuery,
    success: 200,
    response: Job,
    errors: ['invalid_id', 'invalid_input', 'job_not_found', 'cannot_decrypt'],
  }),
  updateJob: route({
    method: 'PUT',
    path: '/jobs/{job_id}',
    operation: 'updateJob',
    access: { role: 'submitter', rows: 'own' },
    audit: 'job',
    tag: 'jobs',
    summary: 'Change the fields given',
    description:
      'A run that waits follows the change. A run that is running keeps what it started with; its later attempts follow the change.',
    params: JobParams,
    headers: IfMatchHeader,
    body: UpdateJob,
    success: 200,
    response: Job,
    errors: [
      'invalid_id',
      'invalid_json',
      'invalid_input',
      'job_not_found',
      'job_ended',
      'job_running',
      'version_conflict',
      'invalid_schedule',
      'encryption_off',
      'calendar_not_found',
    ],
    example: { priority: 9 },
  }),
  cancelJob: route({
    method: 'DELETE',
    path: '/jobs/{job_id}',
    operation: 'cancelJob',
    access: { role: 'submitter', rows: 'own' },
    audit: 'job',
    tag: 'jobs',
    summary: 'Cancel a job, also what is running',
    params: JobParams,
    success: 200,
    response: CancelAnswer,
    errors: ['invalid_id', 'job_not_found', 'job_ended'],
  }),
  runJobNow: route({
    method: 'POST',
    path: '/jobs/{job_id}/runNow',
    operation: 'runJobNow',
    access: { role: 'submitter', rows: 'own' },
    audit: 'job',
    tag: 'jobs',
    summary: 'Run it now',
    description: 'A run that waits for its time becomes due now; a job with no run left to do gets a new one.',
    params: JobParams,
    success: 202,
    response: Accepted,
    errors: ['invalid_id', 'job_not_found', 'job_paused', 'job_running', 'job_ended', 'run_blocked', 'job_in_workflow'],
  }),
  pauseJob: route({
    method: 'POST',
    path: '/jobs/{job_id}/pause',
    operation: 'pauseJob',
    access: { role: 'submitter', rows: 'own' },
    audit: 'job',
    tag: 'jobs',
    summary: 'Pause a job: nothing of it starts until it is resumed',
    description: 'Times of its schedule that come meanwhile are recorded as paused and make no runs.',
    params: JobParams,
    body: PauseRequest,
    bodyOptional: true,
    success: 202,
    response: Accepted,
    errors: ['invalid_id', 'invalid_input', 'job_not_found', 'job_ended'],
    example: { note: 'until the new mail server is up' },
  }),
  resumeJob: route({
    method: 'POST',
    path: '/jobs/{job_id}/resume',
    operation: 'resumeJob',
    access: { role: 'submitter', rows: 'own' },
    audit: 'job',
    tag: 'jobs',
    summary: 'Resume a paused job',
    params: JobParams,
    success: 202,
    response: Accepted,
    errors: ['invalid_id', 'job_not_found', 'job_ended'],
  }),
  getJobStatus: route({
    method: 'GET',
    path: '/jobs/{job_id}/status',
    operation: 'getJobStatus',
    access: { role: 'viewer', rows: 'own' },
    tag: 'jobs',
    summary: 'The status of a job and its latest run',
    params: JobParams,
    query: RevealQuery,
    success: 200,
    response: JobStatusAnswer,
    errors: ['invalid_id', 'invalid_input', 'job_not_found', 'cannot_decrypt'],
  }),
  listJobRuns: route({
    method: 'GET',
    path: '/jobs/{job_id}/runs',
    operation: 'listJobRuns',
    access: { role: 'viewer', rows: 'own' },
    tag: 'jobs',
    summary: 'All runs of a job, newest first',
    params: JobParams,
    query: RunPageQuery,
    success: 200,
    response: RunPage,
    errors: ['invalid_id', 'invalid_input', 'invalid_cursor', 'job_not_found', 'cannot_decrypt'],
  }),
} as const;
