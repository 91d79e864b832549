// Runs: one promise to do a job once. Schemas and routes.
import type { Static } from 'typebox';
import { WaitsFor } from './dependencies.ts';
import { limits } from './limits.ts';
import { LogPage, LogPageQuery } from './logs.ts';
import { route } from './route.ts';
import { closed, described, Id, Json, Label, NextCursor, nullable, PageQuery, Timestamp } from './shapes.ts';
import { Type } from './type.ts';

export const RunStatus = Type.Enum(['BLOCKED', 'QUEUED', 'RUNNING', 'SUCCESS', 'FAILED', 'CANCELLED', 'DROPPED'], {
  description:
    'QUEUED → RUNNING → SUCCESS, FAILED, CANCELLED or DROPPED; back to QUEUED before a further attempt; BLOCKED before all of it while it waits for the end of other runs',
});
export type RunStatus = Static<typeof RunStatus>;

export const RunCause = Type.Enum(['submit', 'schedule', 'run_now', 'redrive', 'backfill', 'workflow'], {
  description: 'Why the run exists',
});
export type RunCause = Static<typeof RunCause>;

const Encrypted = Type.Boolean({
  description: 'The job is encrypted: what it stored is null here unless `reveal` is asked for',
});

const reveal = Type.Optional(Type.Boolean({ default: false, description: 'Show what is encrypted in the clear' }));
export const RevealQuery = closed({ reveal });
export type RevealQuery = Static<typeof RevealQuery>;

export const Progress = Type.Object(
  {
    percent: Type.Number({ minimum: 0, maximum: 100 }),
    message: nullable(Type.String()),
    at: described(Timestamp, { description: 'When it was reported' }),
  },
  { description: 'How far the attempt that runs says it is' },
);
export type Progress = Static<typeof Progress>;

export const Checkpoint = Type.Object(
  {
    run_id: Id,
    version: Type.Integer({ description: 'Grows with every checkpoint of the run, over all attempts' }),
    value: Json,
    encrypted: Type.Optional(Encrypted),
    attempt_number: Type.Integer({ description: 'The attempt that saved it' }),
    saved_at: Timestamp,
  },
  { description: 'What a run saved last; its next attempt gets it' },
);
export type Checkpoint = Static<typeof Checkpoint>;

export const Run = Type.Object(
  {
    run_id: Id,
    job_id: Id,
    name: Type.String(),
    type: Type.String(),
    queue: Type.String(),
    priority: Type.Integer(),
    user_id: nullable(Type.String()),
    cause: RunCause,
    status: RunStatus,
    reason: nullable(
      Type.String({
        description:
          'More about the status: due_later, retry, snooze, paused, overlap, limit, dependency, upstream_failed, cancelling, timed_out, run_timed_out, lost, …',
      }),
    ),
    due_at: nullable(Timestamp),
    attempt_number: Type.Integer({ description: 'The attempt it is in, or will be in next; the last one once ended' }),
    max_attempts: Type.Integer(),
    start_time: nullable(Timestamp),
    end_time: nullable(Timestamp),
    modified_time: Timestamp,
    executor_id: nullable(Type.String({ description: 'The worker that has it, or had it last' })),
    error_message: nullable(Type.String()),
    result: Type.Optional(
      described(Json, { description: 'What the handler returned, once it succeeded; any JSON up to 1 MB' }),
    ),
    encrypted: Type.Optional(Encrypted),
    trace_id: Type.Optional(
      Type.String({
        description: 'The trace of its spans: that of the submit, or its own; left out when nothing traces it',
      }),
    ),
    trace_url: Type.Optional(
      Type.String({
        description: 'Where to look at the trace, if the server knows; given for a single run, not in lists',
      }),
    ),
    progress: Type.Optional(described(Progress, { description: 'While it runs, once it has reported some' })),
    snoozes: Type.Optional(
      Type.Integer({ description: 'How often it has put itself off, when it did and has not ended' }),
    ),
    waits_for: Type.Optional(
      Type.Array(WaitsFor, {
        description: `BLOCKED: runs it waits for, ${limits.max_waits_for} of them at most; given for a single run, not in lists`,
      }),
    ),
  },
  { description: 'A run: one promise to do a job once' },
);
export type Run = Static<typeof Run>;

export const RunPage = Type.Object({ runs: Type.Array(Run), next_cursor: NextCursor });
export type RunPage = Static<typeof RunPage>;

export const RunPageQuery = closed({ ...PageQuery, reveal });
export type RunPageQuery = Static<typeof RunPageQuery>;

export const RunQuery = closed({
  ...PageQuery,
  worker_id: Type.Optional(Label),
  status: Type.Optional(RunStatus),
  job_id: Type.Optional(Id),
  type: Type.Optional(Label),
  queue: Type.Optional(Label),
  user_id: Type.Optional(Label),
  created_after: Type.Optional(Timestamp),
  created_before: Type.Optional(Timestamp),
});
export type RunQuery = Static<typeof RunQuery>;

export const Attempt = Type.Object({
  attempt_number: Type.Integer(),
  outcome: Type.Enum(['failed', 'timed_out', 'lost', 'cancelled'], { description: 'How the attempt ended' }),
  executor_id: Type.String(),
  start_time: Timestamp,
  end_time: Timestamp,
  error_message: nullable(Type.String()),
  encrypted: Type.Optional(Encrypted),
});
export type Attempt = Static<typeof Attempt>;
export const AttemptList = Type.Object(
  { attempts: Type.Array(Attempt) },
  { description: 'Attempts that did not succeed, oldest first' },
);

export const RunAccepted = Type.Object({
  run_id: Id,
  status: RunStatus,
  retried_run_id: Type.Optional(described(Id, { description: 'The run that does it again' })),
});
export type RunAccepted = Static<typeof RunAccepted>;

const RunParams = closed({ run_id: Id });

export const runRoutes = {
  listRuns: route({
    method: 'GET',
    path: '/runs',
    operation: 'listRuns',
    access: { role: 'viewer', rows: 'own' },
    tag: 'runs',
    summary: 'Runs by worker, status, job or time, newest first',
    query: RunQuery,
    success: 200,
    response: RunPage,
    errors: ['invalid_input', 'invalid_cursor'],
  }),
  listExecutions: route({
    method: 'GET',
    path: '/job/executions',
    operation: 'listExecutions',
    access: { role: 'viewer', rows: 'own' },
    tag: 'runs',
    summary: 'The same list as GET /runs',
    query: RunQuery,
    success: 200,
    response: RunPage,
    errors: ['invalid_input', 'invalid_cursor'],
  }),
  getRun: route({
    method: 'GET',
    path: '/runs/{run_id}',
    operation: 'getRun',
    access: { role: 'viewer', rows: 'own' },
    tag: 'runs',
    summary: 'One run',
    params: RunParams,
    query: RevealQuery,
    success: 200,
    response: Run,
    errors: ['invalid_id', 'invalid_input', 'run_not_found', 'cannot_decrypt'],
  }),
  cancelRun: route({
    method: 'POST',
    path: '/runs/{run_id}/cancel',
    operation: 'cancelRun',
    access: { role: 'submitter', rows: 'own' },
    audit: 'run',
    tag: 'runs',
    summary: 'Cancel one run, also while it runs',
    description:
      'CANCELLED: it had not started. RUNNING: its worker has been told; the run ends with what the worker reports.',
    params: RunParams,
    success: 202,
    response: RunAccepted,
    errors: ['invalid_id', 'run_not_found', 'run_ended'],
  }),
  retryRun: route({
    method: 'POST',
    path: '/runs/{run_id}/retry',
    operation: 'retryRun',
    access: { role: 'submitter', rows: 'own' },
    audit: 'run',
    tag: 'runs',
    summary: 'Try again now',
    description:
      'A run that waits for its next attempt becomes due now. A run that failed for good is redriven from its dead letter.',
    params: RunParams,
    success: 202,
    response: RunAccepted,
    errors: [
      'invalid_id',
      'run_not_found',
      'run_ended',
      'run_blocked',
      'job_running',
      'job_paused',
      'job_ended',
      'job_in_workflow',
    ],
  }),
  getRunCheckpoint: route({
    method: 'GET',
    path: '/runs/{run_id}/checkpoint',
    operation: 'getRunCheckpoint',
    access: { role: 'viewer', rows: 'own' },
    tag: 'runs',
    summary: 'The last checkpoint of a run that has not ended',
    params: RunParams,
    query: RevealQuery,
    success: 200,
    response: Checkpoint,
    errors: ['invalid_id', 'invalid_input', 'run_not_found', 'checkpoint_not_found', 'cannot_decrypt'],
  }),
  listRunAttempts: route({
    method: 'GET',
    path: '/runs/{run_id}/attempts',
    operation: 'listRunAttempts',
    access: { role: 'viewer', rows: 'own' },
    tag: 'runs',
    summary: 'The attempts of a run that did not succeed',
    params: RunParams,
    query: RevealQuery,
    success: 200,
    response: AttemptList,
    errors: ['invalid_id', 'invalid_input', 'run_not_found', 'cannot_decrypt'],
  }),
  listRunLogs: route({
    method: 'GET',
    path: '/runs/{run_id}/logs',
    operation: 'listRunLogs',
    access: { role: 'viewer', rows: 'own' },
    tag: 'runs',
    summary: 'What a run logged, oldest first; with `follow` as it comes',
    description:
      'With `follow=true` the answer is a stream of events (`text/event-stream`): `lines` with `{"lines": […]}`, and `end` with `{"status": …, "error_message": …}` once the run has ended and everything was sent. Each event has an id; give the last one as `Last-Event-ID` to go on after it. A comment comes at least every 15 seconds.',
    params: RunParams,
    query: LogPageQuery,
    success: 200,
    response: LogPage,
    errors: ['invalid_id', 'invalid_input', 'invalid_cursor', 'run_not_found', 'too_many_followers'],
  }),
} as const;
