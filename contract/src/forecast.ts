// The forecast: how many runs start when, and how many slots they will need. Schemas and routes.
import type { Static } from 'typebox';
import { limits } from './limits.ts';
import { route } from './route.ts';
import { closed, described, Id, Label, nullable, Timestamp } from './shapes.ts';
import { Type } from './type.ts';

export const ForecastQuery = closed({
  hours: Type.Optional(Type.Integer({ minimum: 1, maximum: 168, default: 24, description: 'How far to look' })),
  from: Type.Optional(described(Timestamp, { description: 'Where to begin; now unless given, and never before now' })),
  queue: Type.Optional(Label),
  type: Type.Optional(Label),
  user_id: Type.Optional(Label),
});
export type ForecastQuery = Static<typeof ForecastQuery>;

const Slots = nullable(
  Type.Number({ description: 'Slots busy on average; null when no type among these runs has a history' }),
);

export const ForecastBucket = Type.Object({
  at: Timestamp,
  runs: Type.Integer({ description: 'Runs that start in it' }),
  slots: described(Slots, { description: 'Slots that are busy on average, by the mean duration of each type' }),
  slots_p95: described(Slots, { description: 'The same if every run took as long as the slowest twentieth' }),
});
export type ForecastBucket = Static<typeof ForecastBucket>;

export const ForecastGroup = Type.Object(
  {
    queue: Type.String(),
    type: Type.String(),
    runs: Type.Integer(),
    counts: Type.Array(Type.Integer(), { description: 'Runs that start in each bucket, in the order of `buckets`' }),
    mean_ms: nullable(Type.Number({ description: 'How long runs of the type took lately' })),
    median_ms: nullable(Type.Number()),
    p95_ms: nullable(Type.Number()),
    sample: Type.Integer({ description: 'How many ended runs these durations come from' }),
    note: nullable(Type.String({ description: 'Why there are no durations' })),
  },
  { description: 'The runs of one type in one queue' },
);
export type ForecastGroup = Static<typeof ForecastGroup>;

export const Forecast = Type.Object(
  {
    from: Timestamp,
    to: Timestamp,
    bucket_ms: Type.Integer({ description: 'A minute up to 3 hours, 5 minutes up to 24, else 15 minutes' }),
    runs: Type.Integer({ description: 'All runs that start' }),
    runs_with_history: Type.Integer({ description: 'Those whose type has a history; `slots` is about these' }),
    buckets: Type.Array(ForecastBucket),
    groups: Type.Array(ForecastGroup, { description: 'The largest ones, the largest first' }),
    other_groups: Type.Integer({ description: 'Further pairs of queue and type, counted in `buckets` only' }),
    busiest_minutes: Type.Array(Type.Object({ at: Timestamp, runs: Type.Integer() }), {
      description: 'The ten minutes in which most runs start, the busiest first',
    }),
    complete: Type.Boolean({
      description:
        'false: there was more than could be looked at in time, and the counts are too low. Ask again: the next answer goes on from there',
    }),
    schedules: Type.Integer({ description: 'Schedules that were looked at' }),
    waiting: Type.Integer({ description: 'Runs among these that wait already' }),
    computed_at: described(Timestamp, {
      description:
        'What was changed later may not be counted: an answer is kept for some seconds, and what is known of schedules for a minute, or five, when there are hundreds of thousands',
    }),
  },
  { description: 'How many runs start when, and the slots they need' },
);
export type Forecast = Static<typeof Forecast>;

export const MinuteQuery = closed({
  at: described(Timestamp, { description: 'A time within the minute, such as one of `busiest_minutes`' }),
  queue: Type.Optional(Label),
  type: Type.Optional(Label),
});
export type MinuteQuery = Static<typeof MinuteQuery>;

export const MinuteJob = Type.Object(
  {
    job_id: Id,
    name: Type.String(),
    queue: Type.String(),
    type: Type.String(),
    runs: Type.Integer({ description: 'Runs that it starts in this minute' }),
    jitter_ms: Type.Integer(),
    spread_ms: nullable(
      Type.Integer({
        description:
          'A `jitter_ms` that would take it out of the crowd: half the time to its next run, ten minutes at most. null: it is spread already, or runs too often',
      }),
    ),
  },
  { description: 'A schedule that starts runs in this minute' },
);
export type MinuteJob = Static<typeof MinuteJob>;

export const Minute = Type.Object(
  {
    at: described(Timestamp, { description: 'Where the minute begins' }),
    jobs: Type.Array(MinuteJob, { description: `The first ${limits.max_minute_jobs} that were found` }),
    complete: Type.Boolean({ description: 'false: there are more' }),
  },
  { description: 'Which schedules start runs in a minute' },
);
export type Minute = Static<typeof Minute>;

export const forecastRoutes = {
  getForecastMinute: route({
    method: 'GET',
    path: '/forecast/minute',
    operation: 'getForecastMinute',
    access: { role: 'viewer', rows: 'all' },
    tag: 'schedules',
    summary: 'Which schedules start runs in a minute, and which of them could be spread',
    query: MinuteQuery,
    success: 200,
    response: Minute,
    errors: ['invalid_input', 'overloaded'],
  }),
  getForecast: route({
    method: 'GET',
    path: '/forecast',
    operation: 'getForecast',
    access: { role: 'viewer', rows: 'own' },
    tag: 'schedules',
    summary: 'How many runs start when, by queue and type, and how many slots they need',
    description:
      'Counts the times of schedules, spread included and excluded ones left out, and runs that wait for their time. A fixed delay counts once: its later times depend on the ends of its runs. What overlap leaves out is counted.',
    query: ForecastQuery,
    success: 200,
    response: Forecast,
    errors: ['invalid_input', 'overloaded'],
  }),
} as const;
