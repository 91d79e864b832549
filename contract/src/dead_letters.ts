// Dead letters: runs that failed for good. They stay until a person redrives or discards them. Schemas and routes.
import type { Static } from 'typebox';
import { limits } from './limits.ts';
import { route } from './route.ts';
import { closed, described, Id, Json, Label, NextCursor, nullable, PageQuery, Timestamp, Title } from './shapes.ts';
import { Type } from './type.ts';

export const DeadLetter = Type.Object(
  {
    run_id: Id,
    job_id: Id,
    name: Type.String(),
    type: Type.String(),
    queue: Type.String(),
    priority: Type.Integer(),
    user_id: nullable(Type.String()),
    payload: Json,
    encrypted: Type.Optional(
      Type.Boolean({
        description: 'The job is encrypted: payload and error message are null here; its run can be revealed',
      }),
    ),
    reason: Type.String({ description: 'failed, timed_out, run_timed_out, lost or cannot_decrypt' }),
    error_message: nullable(Type.String()),
    attempts: Type.Integer({ description: 'How often it was started' }),
    executor_id: nullable(Type.String()),
    failed_at: Timestamp,
    redriven_run_id: nullable(Id),
    redriven_at: nullable(Timestamp),
  },
  { description: 'A run that failed for good' },
);
export type DeadLetter = Static<typeof DeadLetter>;

const filters = {
  type: Type.Optional(Label),
  queue: Type.Optional(Label),
  user_id: Type.Optional(Label),
  reason: Type.Optional(Type.Enum(['failed', 'timed_out', 'run_timed_out', 'lost', 'cannot_decrypt'])),
  q: Type.Optional(described(Title, { description: 'Text within the error message' })),
};

export const DeadLetterQuery = closed({
  ...PageQuery,
  ...filters,
  redriven: Type.Optional(Type.Boolean({ default: false, description: 'true: show those that were redriven too' })),
});
export type DeadLetterQuery = Static<typeof DeadLetterQuery>;

export const DeadLetterPage = Type.Object({ dead_letters: Type.Array(DeadLetter), next_cursor: NextCursor });
export type DeadLetterPage = Static<typeof DeadLetterPage>;

export const DeadLetterGroup = Type.Object(
  {
    type: Type.String(),
    reason: Type.String(),
    error: nullable(
      Type.String({ description: 'The first line of their error messages, with … for numbers and ids that differ' }),
    ),
    q: nullable(Type.String({ description: 'Text that stands in each of their error messages, for the filter `q`' })),
    count: Type.Integer(),
    first_failed_at: Timestamp,
    last_failed_at: Timestamp,
    latest_run_id: Id,
  },
  { description: 'Dead letters of one type that failed alike' },
);
export type DeadLetterGroup = Static<typeof DeadLetterGroup>;

export const DeadLetterGroups = Type.Object({
  groups: Type.Array(DeadLetterGroup, { description: `The largest first, ${limits.max_dead_letter_groups} at most` }),
  looked_at: Type.Integer({ description: 'How many dead letters were looked at, the newest of each segment' }),
  complete: Type.Boolean({ description: 'false: there are more dead letters or groups than these' }),
});
export type DeadLetterGroups = Static<typeof DeadLetterGroups>;

export const DeadLetterGroupQuery = closed(filters);
export type DeadLetterGroupQuery = Static<typeof DeadLetterGroupQuery>;

export const RedriveMany = closed(
  {
    ...filters,
    limit: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 10_000, default: 1000, description: 'How many at most in this call' }),
    ),
  },
  { description: 'Which dead letters to redrive; all of them when no filter is given' },
);
export type RedriveMany = Static<typeof RedriveMany>;

export const RedriveAnswer = Type.Object({ run_id: Id, redriven_run_id: Id });
export const RedriveManyAnswer = Type.Object({
  redriven: Type.Integer(),
  done: Type.Boolean({ description: 'false: there may be more; call again' }),
});

const Params = closed({ run_id: Id });

export const deadLetterRoutes = {
  listDeadLetters: route({
    method: 'GET',
    path: '/dead-letters',
    operation: 'listDeadLetters',
    access: { role: 'viewer', rows: 'own' },
    tag: 'dead letters',
    summary: 'Runs that failed for good, newest first',
    query: DeadLetterQuery,
    success: 200,
    response: DeadLetterPage,
    errors: ['invalid_input', 'invalid_cursor'],
  }),
  listDeadLetterGroups: route({
    method: 'GET',
    path: '/dead-letters/groups',
    operation: 'listDeadLetterGroups',
    access: { role: 'viewer', rows: 'own' },
    tag: 'dead letters',
    summary: 'Dead letters that were not redriven yet, put together by type and error',
    query: DeadLetterGroupQuery,
    success: 200,
    response: DeadLetterGroups,
    errors: ['invalid_input'],
  }),
  getDeadLetter: route({
    method: 'GET',
    path: '/dead-letters/{run_id}',
    operation: 'getDeadLetter',
    access: { role: 'viewer', rows: 'own' },
    tag: 'dead letters',
    summary: 'One dead letter',
    params: Params,
    success: 200,
    response: DeadLetter,
    errors: ['invalid_id', 'dead_letter_not_found'],
  }),
  redriveDeadLetter: route({
    method: 'POST',
    path: '/dead-letters/{run_id}/redrive',
    operation: 'redriveDeadLetter',
    access: { role: 'submitter', rows: 'own' },
    audit: 'dead_letter',
    tag: 'dead letters',
    summary: 'Run it again',
    description: 'Makes a new run of the job. Redriving again answers the same new run.',
    params: Params,
    success: 202,
    response: RedriveAnswer,
    errors: ['invalid_id', 'dead_letter_not_found', 'job_running', 'job_ended', 'job_in_workflow'],
  }),
  redriveDeadLetters: route({
    method: 'POST',
    path: '/dead-letters/redrive',
    operation: 'redriveDeadLetters',
    access: { role: 'submitter', rows: 'own' },
    audit: 'dead_letter',
    tag: 'dead letters',
    summary: 'Run many of them again, by filter',
    body: RedriveMany,
    success: 202,
    response: RedriveManyAnswer,
    errors: ['invalid_json', 'invalid_input'],
    example: { type: 'echo', limit: 100 },
  }),
  discardDeadLetter: route({
    method: 'DELETE',
    path: '/dead-letters/{run_id}',
    operation: 'discardDeadLetter',
    access: { role: 'submitter', rows: 'own' },
    audit: 'dead_letter',
    tag: 'dead letters',
    summary: 'Forget a dead letter; the run stays in the history',
    params: Params,
    success: 200,
    response: Type.Object({ run_id: Id }),
    errors: ['invalid_id', 'dead_letter_not_found'],
  }),
} as const;
