// Alerts: rules that watch runs, queues and workers, what they found, and silences. Schemas and routes; the channels by which
// people are told stand in alert_channels.ts.
import type { Static } from 'typebox';
import { limits } from './limits.ts';
import { route } from './route.ts';
import { closed, described, Id, Label, NextCursor, nullable, PageQuery, Timestamp, Title } from './shapes.ts';
import { Type } from './type.ts';

export const AlertKind = Type.Enum(
  [
    'failure',
    'failure_rate',
    'late_start',
    'missed',
    'running_long',
    'backlog_age',
    'no_worker',
    'dead_letters',
    'breaker_open',
  ],
  {
    description:
      'failure: a run failed for good · failure_rate: too many of the runs in a window failed · late_start: runs started too long after they were due · missed: nothing succeeded for too long · running_long: a run takes too long · backlog_age: a due run waits too long · no_worker: due runs, and no worker that serves them · dead_letters: too many stand open · breaker_open: a circuit breaker has tripped',
  },
);
export type AlertKind = Static<typeof AlertKind>;

export const AlertGroupBy = Type.Enum(['rule', 'type', 'queue', 'job'], {
  description: 'What is judged by itself and makes an alert of its own; rule: everything together',
});
export type AlertGroupBy = Static<typeof AlertGroupBy>;

const duration = (description: string, minimum = 0) =>
  Type.Integer({ minimum, maximum: limits.max_alert_ms, description });

export const PutAlertRule = closed(
  {
    kind: AlertKind,
    note: Type.Optional(described(Title, { description: 'What to do about it, for those who are told' })),
    enabled: Type.Optional(Type.Boolean({ default: true })),
    channels: Type.Optional(
      Type.Array(Label, { maxItems: limits.max_rule_channels, uniqueItems: true, description: 'Who is told' }),
    ),
    type: Type.Optional(described(Label, { description: 'Only runs of this type' })),
    queue: Type.Optional(described(Label, { description: 'Only runs of this queue' })),
    job_id: Type.Optional(described(Id, { description: 'Only runs of this job' })),
    user_id: Type.Optional(described(Label, { description: 'Only runs of jobs of this user' })),
    tag: Type.Optional(described(Label, { description: 'Only runs of jobs with this tag' })),
    group_by: Type.Optional(AlertGroupBy),
    rate: Type.Optional(
      Type.Number({
        exclusiveMinimum: 0,
        maximum: 1,
        description: 'failure_rate: the share of failures that is too much',
      }),
    ),
    window_ms: Type.Optional(duration('failure_rate: over how long', 1000)),
    min_runs: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 1_000_000, description: 'failure_rate: of fewer runs nothing is said' }),
    ),
    over_ms: Type.Optional(duration('late_start, running_long, backlog_age, no_worker: longer than this', 1)),
    p95_factor: Type.Optional(
      Type.Number({
        minimum: 1,
        maximum: 1000,
        description: 'running_long: longer than so many times what 95 of 100 runs of the type lately took',
      }),
    ),
    period_ms: Type.Optional(duration('missed: at least one run must succeed within so long', 100)),
    threshold: Type.Optional(
      Type.Integer({ minimum: 1, maximum: limits.max_counted, description: 'dead_letters: so many are too many' }),
    ),
    wait_ms: Type.Optional(duration('How long to gather before somebody is told; 10 seconds unless given')),
    cool_down_ms: Type.Optional(
      duration('After somebody was told of a group, nobody is told of it again for so long; 5 minutes unless given'),
    ),
    repeat_ms: Type.Optional(
      duration('While it goes on and nobody has acknowledged it, tell again after so long; 0 unless given: never', 0),
    ),
    resolve_after_ms: Type.Optional(
      duration('failure, late_start: over when it has not happened for so long; 10 minutes unless given', 1),
    ),
    notify_resolved: Type.Optional(Type.Boolean({ default: true, description: 'Tell also when it is over' })),
  },
  { description: 'The whole rule' },
);
export type PutAlertRule = Static<typeof PutAlertRule>;

export const AlertRule = Type.Object(
  {
    name: Type.String(),
    kind: AlertKind,
    wording: Type.String({ description: 'The rule as a sentence' }),
    definition: Type.Unsafe<PutAlertRule>(Type.Object({}, { description: 'As it was put' })),
    enabled: Type.Boolean(),
    channels: Type.Array(Type.String()),
    firing: Type.Integer({ description: 'Alerts of this rule that go on now' }),
    checked_at: nullable(Timestamp),
    error: nullable(Type.String({ description: 'Why the last check failed' })),
    updated_at: Timestamp,
  },
  { description: 'A rule that is checked again and again' },
);
export type AlertRule = Static<typeof AlertRule>;

export const Alert = Type.Object(
  {
    alert_id: Id,
    rule: Type.String(),
    kind: AlertKind,
    group: Type.String({ description: 'The type, queue or job it is about; empty: everything the rule watches' }),
    state: Type.Enum(['firing', 'resolved']),
    summary: Type.String(),
    value: Type.Number({ description: 'What was found last: a share, a count, or milliseconds' }),
    count: Type.Integer({ description: 'How often it was found, or how many runs' }),
    job_id: nullable(Id),
    run_id: nullable(described(Id, { description: 'One of the runs' })),
    since: Timestamp,
    last_at: Timestamp,
    resolved_at: nullable(Timestamp),
    notified_at: nullable(Timestamp),
    silenced: Type.Boolean(),
    acknowledged_at: nullable(Timestamp),
    acknowledged_by: nullable(Type.String()),
    note: nullable(Type.String()),
  },
  { description: 'A rule and what it found in one group' },
);
export type Alert = Static<typeof Alert>;

export const PutSilence = closed({
  rule: Type.Optional(described(Label, { description: 'Alerts of this rule; of all rules unless given' })),
  group: Type.Optional(Type.String({ minLength: 1, maxLength: limits.max_label_chars, description: 'Of this group' })),
  until: Timestamp,
  note: Type.Optional(described(Title, { description: 'Why' })),
  author: Type.Optional(Title),
});
export type PutSilence = Static<typeof PutSilence>;

export const Silence = Type.Object(
  {
    name: Type.String(),
    rule: nullable(Type.String()),
    group: nullable(Type.String()),
    until: Timestamp,
    active: Type.Boolean(),
    note: nullable(Type.String()),
    author: nullable(Type.String()),
    created_at: Timestamp,
  },
  { description: 'Alerts of which nobody is told for a while' },
);
export type Silence = Static<typeof Silence>;

const Named = closed({ name: Label });
const ByName = Type.Object({ name: Type.String() });
const tag = 'alerts';

export const alertRoutes = {
  listAlerts: route({
    method: 'GET',
    path: '/alerts',
    operation: 'listAlerts',
    access: { role: 'viewer', rows: 'all' },
    tag,
    summary: 'What is wrong now, and what lately was',
    query: closed({
      state: Type.Optional(Type.Enum(['firing', 'resolved'])),
      rule: Type.Optional(Label),
      ...PageQuery,
    }),
    success: 200,
    response: Type.Object({ alerts: Type.Array(Alert), next_cursor: NextCursor }),
    errors: ['invalid_input', 'invalid_cursor'],
  }),
  acknowledgeAlert: route({
    method: 'POST',
    path: '/alerts/{alert_id}/acknowledge',
    operation: 'acknowledgeAlert',
    access: { role: 'operator', rows: 'all' },
    audit: 'alert',
    tag,
    summary: 'Somebody looks after it: it is not repeated',
    params: closed({ alert_id: Id }),
    body: closed({ by: Type.Optional(Title), note: Type.Optional(Title) }),
    bodyOptional: true,
    success: 200,
    response: Alert,
    errors: ['invalid_json', 'invalid_input', 'invalid_id', 'alert_not_found'],
    example: { by: 'ana', note: 'the mail server is being restarted' },
  }),
  listAlertRules: route({
    method: 'GET',
    path: '/alerts/rules',
    operation: 'listAlertRules',
    access: { role: 'viewer', rows: 'all' },
    tag,
    summary: 'All rules',
    success: 200,
    response: Type.Object({ rules: Type.Array(AlertRule) }),
    errors: [],
  }),
  getAlertRule: route({
    method: 'GET',
    path: '/alerts/rules/{name}',
    operation: 'getAlertRule',
    access: { role: 'viewer', rows: 'all' },
    tag,
    summary: 'One rule',
    params: Named,
    success: 200,
    response: AlertRule,
    errors: ['invalid_input', 'alert_rule_not_found'],
  }),
  putAlertRule: route({
    method: 'PUT',
    path: '/alerts/rules/{name}',
    operation: 'putAlertRule',
    access: { role: 'operator', rows: 'all' },
    audit: 'alert_rule',
    tag,
    summary: 'Watch something',
    description:
      'The whole rule: what is left out has its default. It is checked every PUNCTUAL_ALERT_INTERVAL_MS by one of the servers. A rule that is put again begins to count anew.',
    params: Named,
    body: PutAlertRule,
    success: 200,
    response: AlertRule,
    errors: ['invalid_json', 'invalid_input', 'alert_channel_not_found', 'too_many_rules'],
    example: { kind: 'backlog_age', queue: 'default', over_ms: 60_000, note: 'start more workers' },
  }),
  deleteAlertRule: route({
    method: 'DELETE',
    path: '/alerts/rules/{name}',
    operation: 'deleteAlertRule',
    access: { role: 'operator', rows: 'all' },
    audit: 'alert_rule',
    tag,
    summary: 'Watch it no longer',
    description: 'Its alerts that go on are over; nobody is told of that.',
    params: Named,
    success: 200,
    response: ByName,
    errors: ['invalid_input', 'alert_rule_not_found'],
  }),
  listSilences: route({
    method: 'GET',
    path: '/alerts/silences',
    operation: 'listSilences',
    access: { role: 'viewer', rows: 'all' },
    tag,
    summary: 'All silences',
    success: 200,
    response: Type.Object({ silences: Type.Array(Silence) }),
    errors: [],
  }),
  putSilence: route({
    method: 'PUT',
    path: '/alerts/silences/{name}',
    operation: 'putSilence',
    access: { role: 'operator', rows: 'all' },
    audit: 'silence',
    tag,
    summary: 'Tell nobody until a time',
    description: 'Alerts go on being kept and shown. What still goes on when the silence is over is told then.',
    params: Named,
    body: PutSilence,
    success: 200,
    response: Silence,
    errors: ['invalid_json', 'invalid_input', 'too_many_rules'],
    example: { rule: 'old-runs', until: '2030-01-31T09:00:00Z', note: 'the queue is drained for the move' },
  }),
  deleteSilence: route({
    method: 'DELETE',
    path: '/alerts/silences/{name}',
    operation: 'deleteSilence',
    access: { role: 'operator', rows: 'all' },
    audit: 'silence',
    tag,
    summary: 'Tell again',
    params: Named,
    success: 200,
    response: ByName,
    errors: ['invalid_input', 'silence_not_found'],
  }),
} as const;
