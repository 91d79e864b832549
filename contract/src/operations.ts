// Operations: one action done to all jobs or runs that fit a filter. Counted first with `dry_run`, then done in the
// background in batches; what an operation did stays on record. Schemas and routes.
import type { Static } from 'typebox';
import { IdempotencyHeader } from './jobs.ts';
import { limits } from './limits.ts';
import { route } from './route.ts';
import { closed, described, Id, Label, NextCursor, nullable, PageQuery, Timestamp, Title } from './shapes.ts';
import { Type } from './type.ts';

export const OperationAction = Type.Enum(['cancel', 'retry', 'redrive', 'reprioritise', 'move_queue'], {
  description:
    'cancel: jobs, or single runs with a status of runs. retry: runs that wait for their next attempt become due, failed ones are redriven. redrive: dead letters. reprioritise, move_queue: jobs and their runs that have not started',
});
export type OperationAction = Static<typeof OperationAction>;

export const OperationFilter = closed(
  {
    user_id: Type.Optional(Label),
    type: Type.Optional(Label),
    queue: Type.Optional(Label),
    name: Type.Optional(Title),
    tag: Type.Optional(Label),
    status: Type.Optional(
      Type.Enum(['SCHEDULED', 'PAUSED', 'QUEUED', 'RUNNING', 'FAILED'], {
        description:
          'SCHEDULED, PAUSED: of jobs. QUEUED, RUNNING, FAILED: of runs; cancel then cancels those runs and leaves their jobs',
      }),
    ),
    reason: Type.Optional(
      Type.Enum(
        [
          ...['failed', 'timed_out', 'run_timed_out', 'lost', 'cannot_decrypt'],
          ...['due_later', 'retry', 'paused', 'overlap', 'limit', 'dependency', 'snooze'],
        ],
        { description: 'Why the run failed (retry, redrive), or why it waits (cancel with status QUEUED)' },
      ),
    ),
    created_after: Type.Optional(Timestamp),
    created_before: Type.Optional(Timestamp),
    q: Type.Optional(
      described(Title, {
        description: 'Text within the name or the payload; for retry and redrive within the error message',
      }),
    ),
    all: Type.Optional(Type.Boolean({ description: 'true, and no other condition: everything' })),
  },
  { description: 'At least one condition, or `all: true`; of several all must hold' },
);
export type OperationFilter = Static<typeof OperationFilter>;

export const CreateOperation = closed(
  {
    action: OperationAction,
    filter: OperationFilter,
    priority: Type.Optional(
      Type.Integer({ minimum: 0, maximum: limits.max_priority, description: 'reprioritise: the new priority' }),
    ),
    queue: Type.Optional(described(Label, { description: 'move_queue: the new queue' })),
    dry_run: Type.Optional(Type.Boolean({ default: false, description: 'Only count, and change nothing' })),
    user_id: Type.Optional(described(Label, { description: 'Who asks for it, for the record' })),
    note: Type.Optional(described(Title, { description: 'Why, for those who come later' })),
  },
  { description: 'What to do, and to which jobs or runs' },
);
export type CreateOperation = Static<typeof CreateOperation>;

const ActsOn = Type.Enum(['jobs', 'runs'], { description: 'What is counted' });
export type ActsOn = Static<typeof ActsOn>;

export const OperationPlan = Type.Object(
  {
    operation_id: nullable(described(Id, { description: 'Null for a dry run' })),
    acts_on: ActsOn,
    count: Type.Optional(Type.Integer({ description: 'Of a dry run: how many fit now' })),
    exact: Type.Optional(
      Type.Boolean({
        description: `Of a dry run: false when there may be more, since only ${limits.max_operation_preview} rows were looked at`,
      }),
    ),
    sample: Type.Optional(Type.Array(Id, { description: 'Of a dry run: the ids of some that fit' })),
  },
  { description: 'The operation that was begun, or what it would act on' },
);
export type OperationPlan = Static<typeof OperationPlan>;

export const OperationState = Type.Enum(['RUNNING', 'DONE', 'CANCELLED'], {
  description: 'CANCELLED: it goes no further; what it had done stays done',
});

export const Operation = Type.Object(
  {
    operation_id: Id,
    action: OperationAction,
    acts_on: ActsOn,
    filter: OperationFilter,
    priority: nullable(Type.Integer()),
    queue: nullable(Type.String()),
    user_id: nullable(Type.String()),
    note: nullable(Type.String()),
    state: OperationState,
    looked_at: Type.Integer({ description: 'Rows it has looked at so far' }),
    matched: Type.Integer({
      description: 'Of those, how many fitted; each is done, skipped, or about to be one of them',
    }),
    done: Type.Integer(),
    skipped: Type.Integer({ description: 'Those that could no longer be moved' }),
    skipped_reasons: Type.Array(Type.Object({ reason: Type.String(), count: Type.Integer() }), {
      description: 'Why: an error code as of the single call, or `unchanged`',
    }),
    started_at: Timestamp,
    ended_at: nullable(Timestamp),
  },
  { description: 'One action done to many jobs or runs, and how far it is' },
);
export type Operation = Static<typeof Operation>;

export const OperationQuery = closed({
  ...PageQuery,
  state: Type.Optional(OperationState),
  user_id: Type.Optional(described(Label, { description: 'Who asked for it' })),
});
export type OperationQuery = Static<typeof OperationQuery>;

export const OperationPage = Type.Object({ operations: Type.Array(Operation), next_cursor: NextCursor });
export type OperationPage = Static<typeof OperationPage>;

const Params = closed({ operation_id: Id });

export const operationRoutes = {
  createOperation: route({
    method: 'POST',
    path: '/operations',
    operation: 'createOperation',
    access: { role: 'operator', rows: 'own' },
    audit: 'operation',
    tag: 'operations',
    summary: 'Cancel, retry, redrive, reprioritise or move many jobs or runs by filter',
    description:
      'Acts on what exists now; what is created later is left alone. Ask with `dry_run` first. The work is done in the background, the oldest first, each item by the same rules as a single call.',
    headers: IdempotencyHeader,
    body: CreateOperation,
    success: 202,
    response: OperationPlan,
    errors: ['invalid_json', 'invalid_input', 'idempotency_key_reused', 'too_many_operations'],
    example: { action: 'cancel', filter: { type: 'echo', tag: 'old' }, dry_run: true },
  }),
  listOperations: route({
    method: 'GET',
    path: '/operations',
    operation: 'listOperations',
    access: { role: 'viewer', rows: 'own' },
    tag: 'operations',
    summary: 'Operations, newest first: who did what to which, and how far it is',
    query: OperationQuery,
    success: 200,
    response: OperationPage,
    errors: ['invalid_input', 'invalid_cursor'],
  }),
  getOperation: route({
    method: 'GET',
    path: '/operations/{operation_id}',
    operation: 'getOperation',
    access: { role: 'viewer', rows: 'own' },
    tag: 'operations',
    summary: 'One operation and how far it is',
    params: Params,
    success: 200,
    response: Operation,
    errors: ['invalid_id', 'operation_not_found'],
  }),
  cancelOperation: route({
    method: 'POST',
    path: '/operations/{operation_id}/cancel',
    operation: 'cancelOperation',
    access: { role: 'operator', rows: 'own' },
    audit: 'operation',
    tag: 'operations',
    summary: 'Let it go no further; what it has done stays done',
    description: 'Once this is answered nothing more is done. Cancelling again, or after its end, changes nothing.',
    params: Params,
    success: 202,
    response: Operation,
    errors: ['invalid_id', 'operation_not_found'],
  }),
} as const;
