// Limits per concurrency key, and queues that are shared fairly between users. Schemas and routes.
import type { Static } from 'typebox';
import { labelPattern } from './label.ts';
import { defaults, limits } from './limits.ts';
import { Rate } from './rates.ts';
import { route } from './route.ts';
import { closed, described, Id, Label, NextCursor, nullable, PageQuery, Timestamp, Title } from './shapes.ts';
import { Type } from './type.ts';

export const LimitKey = Type.String({
  minLength: 1,
  maxLength: limits.max_label_chars,
  pattern: labelPattern.replace('^', '^(\\*|').replace('$', ')$'),
  description: 'The concurrency_key of jobs, or * for all keys that have no limit of their own',
});

export const PutKeyLimit = closed(
  {
    max_concurrency: Type.Optional(
      nullable(
        Type.Integer({
          minimum: 0,
          maximum: limits.max_key_concurrency,
          description: 'Runs of the key at once; null for any number, 0 for none',
        }),
      ),
    ),
    rate: Type.Optional(nullable(Rate)),
    note: Type.Optional(nullable(described(Title, { description: 'Why, for people' }))),
  },
  { description: 'The whole limit; what is left out does not limit' },
);
export type PutKeyLimit = Static<typeof PutKeyLimit>;

const limitProperties = {
  max_concurrency: nullable(Type.Integer()),
  rate: nullable(Type.Object({ units: Type.Integer(), per_ms: Type.Integer(), burst: Type.Integer() })),
  note: nullable(Type.String()),
  blocked_until: nullable(
    described(Timestamp, { description: 'A worker was told Retry-After: nothing of this key starts before then' }),
  ),
  updated_at: nullable(Timestamp),
};

export const KeyLimit = Type.Object(
  { key: Type.String(), ...limitProperties },
  { description: 'A limit for runs with a concurrency key' },
);
export type KeyLimit = Static<typeof KeyLimit>;

export const KeyLimitPage = Type.Object({ limits: Type.Array(KeyLimit), next_cursor: NextCursor });
export type KeyLimitPage = Static<typeof KeyLimitPage>;

export const KeyLimitQuery = closed(PageQuery);
export type KeyLimitQuery = Static<typeof KeyLimitQuery>;

export const KeyUse = Type.Object(
  {
    key: Type.String(),
    source: Type.Enum(['own', 'default', 'none'], {
      description: 'Where its limit comes from: set for this key, the default *, or there is none',
    }),
    ...limitProperties,
    in_use: Type.Integer({ description: 'Runs that hold a place: they run, or wait for a worker' }),
    holders: Type.Array(Id, { description: `The runs that hold a place, ${limits.max_shown_holders} at most` }),
    tokens: nullable(Type.Number({ description: 'Units that may start now; null without a rate' })),
    waiting: Type.Integer({
      description: `Runs that wait for a place; ${limits.max_counted} stands for that many or more`,
    }),
  },
  { description: 'A limit and how it is used now' },
);
export type KeyUse = Static<typeof KeyUse>;

export const PutFairQueue = closed({
  share: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: limits.max_key_concurrency,
      default: defaults.fair_share,
      description: 'Runs that one user may have ready for workers in each segment, at weight 1',
    }),
  ),
  weights: Type.Optional(
    Type.Record(Label, Type.Number({ minimum: 0.01, maximum: 100 }), {
      maxProperties: limits.max_fair_weights,
      additionalProperties: false,
      description: 'By user: how many times the share; 1 unless given',
    }),
  ),
  note: Type.Optional(nullable(described(Title, { description: 'Why, for people' }))),
});
export type PutFairQueue = Static<typeof PutFairQueue>;

export const FairQueue = Type.Object(
  {
    queue: Type.String(),
    share: Type.Integer(),
    weights: Type.Record(Type.String(), Type.Number()),
    note: nullable(Type.String()),
    updated_at: Timestamp,
  },
  { description: 'A queue that is shared fairly between users' },
);
export type FairQueue = Static<typeof FairQueue>;

export const FairQueueList = Type.Object({ fair_queues: Type.Array(FairQueue) });
export type FairQueueList = Static<typeof FairQueueList>;

const KeyParams = closed({ key: LimitKey });
const QueueParams = closed({ queue: Label });

export const keyLimitRoutes = {
  listKeyLimits: route({
    method: 'GET',
    path: '/limits',
    operation: 'listKeyLimits',
    access: { role: 'viewer', rows: 'all' },
    tag: 'limits',
    summary: 'All limits of keys, by key; the default is *',
    query: KeyLimitQuery,
    success: 200,
    response: KeyLimitPage,
    errors: ['invalid_input', 'invalid_cursor'],
  }),
  getKeyLimit: route({
    method: 'GET',
    path: '/limits/key/{key}',
    operation: 'getKeyLimit',
    access: { role: 'viewer', rows: 'all' },
    tag: 'limits',
    summary: 'The limit of a key and how it is used now',
    description: 'Any key is answered, also one without a limit of its own.',
    params: KeyParams,
    success: 200,
    response: KeyUse,
    errors: ['invalid_id'],
  }),
  putKeyLimit: route({
    method: 'PUT',
    path: '/limits/key/{key}',
    operation: 'putKeyLimit',
    access: { role: 'operator', rows: 'all' },
    audit: 'limit',
    tag: 'limits',
    summary: 'Limit the runs of jobs with a concurrency key',
    description:
      'Takes effect at once, on all servers. Lowering ends nothing that runs; it only admits no more. The key * is the default for all keys without a limit of their own.',
    params: KeyParams,
    body: PutKeyLimit,
    success: 200,
    response: KeyLimit,
    errors: ['invalid_json', 'invalid_input', 'invalid_id'],
    example: { max_concurrency: 5, rate: { units: 100, per_ms: 60_000, burst: 10 }, note: 'What the supplier allows' },
  }),
  deleteKeyLimit: route({
    method: 'DELETE',
    path: '/limits/key/{key}',
    operation: 'deleteKeyLimit',
    access: { role: 'operator', rows: 'all' },
    audit: 'limit',
    tag: 'limits',
    summary: 'Remove the limit of a key: the default applies to it, if there is one',
    params: KeyParams,
    success: 200,
    response: Type.Object({ key: Type.String() }),
    errors: ['invalid_id', 'limit_not_found'],
  }),
  listFairQueues: route({
    method: 'GET',
    path: '/limits/fair',
    operation: 'listFairQueues',
    access: { role: 'viewer', rows: 'all' },
    tag: 'limits',
    summary: 'All queues that are shared fairly between users',
    success: 200,
    response: FairQueueList,
    errors: [],
  }),
  putFairQueue: route({
    method: 'PUT',
    path: '/limits/fair/{queue}',
    operation: 'putFairQueue',
    access: { role: 'operator', rows: 'all' },
    audit: 'limit',
    tag: 'limits',
    summary: 'Share a queue fairly between users',
    description:
      'No user then has more than share × weight runs ready for workers in a segment; the others wait with reason `limit`. Jobs without user_id share one place among the users.',
    params: QueueParams,
    body: PutFairQueue,
    success: 200,
    response: FairQueue,
    errors: ['invalid_json', 'invalid_input', 'invalid_id', 'too_many_fair_queues'],
    example: { share: 20, weights: { 'big-customer': 4 } },
  }),
  deleteFairQueue: route({
    method: 'DELETE',
    path: '/limits/fair/{queue}',
    operation: 'deleteFairQueue',
    access: { role: 'operator', rows: 'all' },
    audit: 'limit',
    tag: 'limits',
    summary: 'Let the runs of a queue start in the order in which they become due again, whoever their user is',
    params: QueueParams,
    success: 200,
    response: Type.Object({ queue: Type.String() }),
    errors: ['invalid_id', 'limit_not_found'],
  }),
} as const;
