// Queues: where due runs wait, made on first use; their settings and limits, and the limits of types. Schemas and routes.
import type { Static } from 'typebox';
import { GateKind, GateState } from './gates.ts';
import { limits } from './limits.ts';
import { limitFields, Rate } from './rates.ts';
import { route } from './route.ts';
import { closed, described, Label, nullable, Title } from './shapes.ts';
import { Type } from './type.ts';

const settings = {
  default_priority: Type.Optional(
    nullable(
      Type.Integer({
        minimum: 0,
        maximum: limits.max_priority,
        description: 'Of jobs that say none; null for the usual one',
      }),
    ),
  ),
  ageing_ms: Type.Optional(
    nullable(
      Type.Integer({
        minimum: 1000,
        maximum: limits.max_ageing_ms,
        description:
          'A due run that has waited so long moves up by one priority, and again, so that nothing starves; null for never',
      }),
    ),
  ),
};

export const SetQueue = closed(
  {
    paused: Type.Optional(Type.Boolean({ description: 'true holds the gate of the queue, false opens it' })),
    note: Type.Optional(described(Title, { description: 'Why, for those who come later' })),
    author: Type.Optional(described(Label, { description: 'Who did it' })),
    ...settings,
    ...limitFields,
  },
  { description: 'The settings to change; the others stay as they are' },
);
export type SetQueue = Static<typeof SetQueue>;

export const Queue = Type.Object(
  {
    name: Type.String(),
    state: GateState,
    default_priority: Type.Integer(),
    ageing_ms: nullable(Type.Integer()),
    max_concurrency: nullable(Type.Integer()),
    rate: nullable(Rate),
    ready: Type.Integer({ description: 'Due runs that wait, counted up to 10,000 a segment and lane' }),
    running: Type.Integer({ description: 'Runs that run now' }),
  },
  { description: 'A queue' },
);
export type Queue = Static<typeof Queue>;

export const SetLaneLimit = closed(
  { ...limitFields, note: Type.Optional(Title) },
  { description: 'The limits to change; null takes one away' },
);
export type SetLaneLimit = Static<typeof SetLaneLimit>;

export const LaneLimit = Type.Object(
  {
    kind: GateKind,
    name: Type.String(),
    max_concurrency: nullable(Type.Integer()),
    rate: nullable(Rate),
    note: nullable(Type.String()),
    running: Type.Integer({ description: 'Runs that hold a place now' }),
    tokens: nullable(Type.Number({ description: 'Units that may start at once now' })),
  },
  { description: 'The limits of a queue or a type' },
);
export type LaneLimit = Static<typeof LaneLimit>;

const QueueParams = closed({ name: Label });
const LimitParams = closed({ kind: GateKind, name: Label });
const errors = ['invalid_json', 'invalid_input', 'too_many_rules'] as const;

export const queueRoutes = {
  listQueues: route({
    method: 'GET',
    path: '/queues',
    operation: 'listQueues',
    access: { role: 'viewer', rows: 'shared' },
    tag: 'flow',
    summary: 'The queues, what waits and what runs in them',
    success: 200,
    response: Type.Object({ queues: Type.Array(Queue) }),
    errors: [],
  }),
  getQueue: route({
    method: 'GET',
    path: '/queues/{name}',
    operation: 'getQueue',
    access: { role: 'viewer', rows: 'shared' },
    tag: 'flow',
    summary: 'One queue',
    params: QueueParams,
    success: 200,
    response: Queue,
    errors: ['invalid_input', 'queue_not_found'],
  }),
  setQueue: route({
    method: 'PUT',
    path: '/queues/{name}',
    operation: 'setQueue',
    access: { role: 'operator', rows: 'all' },
    audit: 'queue',
    tag: 'flow',
    summary: 'Pause a queue, or change its settings and limits',
    description: 'A queue is made on first use; its settings may be given before that. Effective within a second.',
    params: QueueParams,
    body: SetQueue,
    success: 200,
    response: Queue,
    errors: [...errors],
    example: { max_concurrency: 20, default_priority: 7 },
  }),
  listLaneLimits: route({
    method: 'GET',
    path: '/limits/lanes',
    operation: 'listLaneLimits',
    access: { role: 'viewer', rows: 'shared' },
    tag: 'limits',
    summary: 'The limits of queues and types',
    success: 200,
    response: Type.Object({ limits: Type.Array(LaneLimit) }),
    errors: [],
  }),
  setLaneLimit: route({
    method: 'PUT',
    path: '/limits/{kind}/{name}',
    operation: 'setLaneLimit',
    access: { role: 'operator', rows: 'all' },
    audit: 'limit',
    tag: 'limits',
    summary: 'Limit how many runs of a queue or a type run at once, and how many start in a while',
    description: 'Effective within a second, over all servers. Lowering a limit stops nothing that runs.',
    params: LimitParams,
    body: SetLaneLimit,
    success: 200,
    response: LaneLimit,
    errors: [...errors],
    example: { max_concurrency: 5, rate: { units: 100, per_ms: 60_000 } },
  }),
} as const;
