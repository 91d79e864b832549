// Backfills: runs for past times of a recurring job, a few at a time. Schemas and routes.
import type { Static } from 'typebox';
import { IdempotencyHeader } from './jobs.ts';
import { limits } from './limits.ts';
import { route } from './route.ts';
import { closed, described, Id, NextCursor, nullable, PageQuery, Timestamp } from './shapes.ts';
import { Type } from './type.ts';

const BackfillOrder = Type.Enum(['oldest_first', 'newest_first'], {
  default: 'oldest_first',
  description: 'In which order the runs are made',
});

const MaxConcurrency = Type.Integer({
  minimum: 1,
  maximum: limits.max_backfill_concurrency,
  default: 1,
  description: 'So many of its runs at once, at most; the runs of the schedule itself do not count',
});

export const CreateBackfill = closed(
  {
    from: described(Timestamp, { description: 'The first instant of the range' }),
    to: described(Timestamp, { description: 'The last instant of the range; not in the future' }),
    order: Type.Optional(BackfillOrder),
    max_concurrency: Type.Optional(MaxConcurrency),
    include_done: Type.Optional(
      Type.Boolean({
        default: false,
        description: 'Also times that have a run already, from the schedule or from another backfill',
      }),
    ),
    dry_run: Type.Optional(Type.Boolean({ default: false, description: 'Only say what would be done' })),
  },
  { description: 'Which past times of a job to make runs for' },
);
export type CreateBackfill = Static<typeof CreateBackfill>;

export const BackfillPlan = Type.Object(
  {
    backfill_id: nullable(described(Id, { description: 'Null for a dry run' })),
    times: Type.Integer({ description: 'Times of the schedule in the range, excluded ones left out' }),
    first: nullable(Timestamp),
    last: nullable(Timestamp),
    already: Type.Integer({ description: 'Those that have a run already' }),
    runs: Type.Integer({ description: 'How many runs are made' }),
  },
  { description: 'What a backfill does' },
);
export type BackfillPlan = Static<typeof BackfillPlan>;

export const Backfill = Type.Object(
  {
    backfill_id: Id,
    job_id: Id,
    state: Type.Enum(['RUNNING', 'DONE', 'CANCELLED'], {
      description: 'CANCELLED makes no further runs; those that had started go on',
    }),
    from: Timestamp,
    to: Timestamp,
    order: BackfillOrder,
    max_concurrency: Type.Integer(),
    include_done: Type.Boolean(),
    already: Type.Integer({ description: 'Times of the range that had a run before' }),
    total: Type.Integer({ description: 'Runs to make' }),
    made: Type.Integer(),
    running: Type.Integer({ description: 'Made and not known to have ended' }),
    succeeded: Type.Integer(),
    failed: Type.Integer(),
    cancelled: Type.Integer({ description: 'Cancelled or dropped' }),
    created_at: Timestamp,
    ended_at: nullable(described(Timestamp, { description: 'When nothing was left to do' })),
  },
  { description: 'Runs for past times of a job, and how far they are' },
);
export type Backfill = Static<typeof Backfill>;

export const BackfillPageQuery = closed(PageQuery);
export type BackfillPageQuery = Static<typeof BackfillPageQuery>;

export const BackfillPage = Type.Object({ backfills: Type.Array(Backfill), next_cursor: NextCursor });
export type BackfillPage = Static<typeof BackfillPage>;

const JobParams = closed({ job_id: Id });
const BackfillParams = closed({ backfill_id: Id });

export const backfillRoutes = {
  createBackfill: route({
    method: 'POST',
    path: '/jobs/{job_id}/backfills',
    operation: 'createBackfill',
    access: { role: 'submitter', rows: 'own' },
    audit: 'backfill',
    tag: 'schedules',
    summary: 'Make runs for past times of a recurring job',
    description:
      'Its times are those of the schedule as it is now; each makes exactly one run, whose scheduled_for is that time. They run besides those of the schedule, whatever its overlap says, and wait while the job is paused.',
    params: JobParams,
    headers: IdempotencyHeader,
    body: CreateBackfill,
    success: 201,
    response: BackfillPlan,
    errors: [
      'invalid_id',
      'invalid_json',
      'invalid_input',
      'invalid_schedule',
      'job_not_found',
      'job_ended',
      'idempotency_key_reused',
    ],
    example: { from: '2026-01-01T00:00:00Z', to: '2026-01-31T23:59:59Z', max_concurrency: 2, dry_run: true },
  }),
  listBackfills: route({
    method: 'GET',
    path: '/jobs/{job_id}/backfills',
    operation: 'listBackfills',
    access: { role: 'viewer', rows: 'own' },
    tag: 'schedules',
    summary: 'The backfills of a job, newest first',
    params: JobParams,
    query: BackfillPageQuery,
    success: 200,
    response: BackfillPage,
    errors: ['invalid_id', 'invalid_input', 'invalid_cursor', 'job_not_found'],
  }),
  getBackfill: route({
    method: 'GET',
    path: '/backfills/{backfill_id}',
    operation: 'getBackfill',
    access: { role: 'viewer', rows: 'own' },
    tag: 'schedules',
    summary: 'One backfill and how far it is',
    params: BackfillParams,
    success: 200,
    response: Backfill,
    errors: ['invalid_id', 'backfill_not_found'],
  }),
  cancelBackfill: route({
    method: 'POST',
    path: '/backfills/{backfill_id}/cancel',
    operation: 'cancelBackfill',
    access: { role: 'submitter', rows: 'own' },
    audit: 'backfill',
    tag: 'schedules',
    summary: 'Make no further runs, and cancel those that have not started',
    description: 'Runs that are running go on. Cancelling again changes nothing.',
    params: BackfillParams,
    success: 202,
    response: Backfill,
    errors: ['invalid_id', 'backfill_not_found'],
  }),
} as const;
