// Stats: how the whole house stands, on one page: what starts and ends, how late, what waits, what changed. Schemas and the
// route.
import type { Static } from 'typebox';
import { GateState } from './gates.ts';
import { route } from './route.ts';
import { closed, described, Id, nullable, Timestamp } from './shapes.ts';
import { Type } from './type.ts';

const Late = nullable(
  Type.Number({ description: 'Milliseconds from due to started; null when nothing started, or nothing is known' }),
);

export const StatsMinute = Type.Object({
  at: described(Timestamp, { description: 'When the minute began' }),
  started: Type.Integer({ description: 'Attempts that were granted to workers' }),
  ended: Type.Integer({ description: 'Runs that ended, however' }),
  failed: Type.Integer({ description: 'Runs that failed for good' }),
  late_p50_ms: Late,
  late_p99_ms: Late,
});
export type StatsMinute = Static<typeof StatsMinute>;

export const StatsQueue = Type.Object({
  name: Type.String(),
  state: GateState,
  ready: Type.Integer({ description: 'Due runs that wait' }),
  exact: Type.Boolean({ description: 'false: there are more; not all were counted' }),
  running: Type.Integer(),
  oldest_due_at: nullable(
    described(Timestamp, { description: 'When the run that waits longest became due; null when none waits' }),
  ),
});
export type StatsQueue = Static<typeof StatsQueue>;

export const StatsChange = Type.Object(
  {
    at: Timestamp,
    kind: Type.Enum(['run_failed', 'worker_joined', 'worker_left', 'worker_lost', 'gate_set', 'operation_begun']),
    text: Type.String({ description: 'What happened, in words' }),
    name: Type.String({ description: 'Of what: the job of the run, the worker, the queue or type, the action' }),
    id: nullable(described(Id, { description: 'Of the run or the operation' })),
  },
  { description: 'Something that happened lately' },
);
export type StatsChange = Static<typeof StatsChange>;

export const Stats = Type.Object(
  {
    version: Type.String({
      description: 'Another one than before: something has changed, here or in what other calls answer; also the ETag',
    }),
    at: described(Timestamp, { description: 'When it was read; it is read at most once a second' }),
    server: Type.Object({ server_id: Type.String(), version: Type.String(), database: Type.String() }),
    started_per_s: Type.Number({ description: 'Over the last minute' }),
    ended_per_s: Type.Number({ description: 'Over the last minute' }),
    late_p50_ms: described(Late, {
      description: 'Of runs that started lately: half of them started no later after they were due',
    }),
    late_p99_ms: Late,
    ready: Type.Integer({ description: 'Due runs that wait in all queues' }),
    exact: Type.Boolean({ description: 'false: more wait; not all were counted' }),
    running: Type.Integer(),
    dead_letters: Type.Integer({ description: 'Open ones; 1000 stands for that many or more' }),
    workers: Type.Object({
      alive: Type.Integer(),
      draining: Type.Integer(),
      lost: Type.Integer({ description: 'Within the last hour' }),
      slots: Type.Integer({ description: 'Of those that are alive' }),
      busy: Type.Integer({ description: 'Slots in use' }),
    }),
    queues: Type.Array(StatsQueue, { description: 'Those with most that waits, twenty at most' }),
    minutes: Type.Array(StatsMinute, {
      description: 'The last hour, oldest first; minutes nothing is known of are left out',
    }),
    changes: Type.Array(StatsChange, { description: 'What happened lately, newest first' }),
  },
  { description: 'How the whole house stands' },
);
export type Stats = Static<typeof Stats>;

export const statsRoutes = {
  getStats: route({
    method: 'GET',
    path: '/stats',
    operation: 'getStats',
    access: { role: 'viewer', rows: 'shared' },
    tag: 'service',
    summary: 'What starts and ends, how late, what waits, what changed lately',
    description:
      'Read at most once a second, whoever asks, and bounded: with millions of runs counts may be lower bounds and delays come from a sample of the newest runs. With `If-None-Match` it is answered 304 as long as nothing has changed. With `follow=true` the answer is a stream of events (`text/event-stream`): `stats` with the stats now and each time something has changed, its id the version. A comment comes at least every 15 seconds.',
    query: closed({
      follow: Type.Optional(Type.Boolean({ description: 'Go on: a stream of events' })),
    }),
    success: 200,
    response: Stats,
    errors: ['invalid_input', 'unavailable', 'too_many_followers'],
  }),
} as const;
