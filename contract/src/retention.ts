// Retention: how long history is kept, for the installation and for single queues and types. Schemas and routes.
import type { Static } from 'typebox';
import { GateKind } from './gates.ts';
import { limits } from './limits.ts';
import { route } from './route.ts';
import { closed, described, Label, nullable, Timestamp, Title } from './shapes.ts';
import { Type } from './type.ts';

const days = (description: string) =>
  Type.Integer({ minimum: 0, maximum: limits.max_retention_days, description: `${description}; 0 is for ever` });

export const SetRetention = closed(
  {
    runs_days: Type.Optional(days('Whole days that ended runs are kept, with all that belongs to them')),
    logs_days: Type.Optional(days('Whole days that log lines are kept, but not longer than their run')),
    note: Type.Optional(described(Title, { description: 'Why, for those who come later' })),
  },
  { description: 'The whole rule: what is left out is as for the installation' },
);
export type SetRetention = Static<typeof SetRetention>;

export const RetentionRule = Type.Object(
  {
    kind: GateKind,
    name: Type.String(),
    runs_days: nullable(Type.Integer({ description: 'null: as for the installation, or for the queue; 0: for ever' })),
    logs_days: nullable(Type.Integer({ description: 'null: as for the installation, or for the queue; 0: for ever' })),
    note: nullable(Type.String()),
    changed_at: Timestamp,
  },
  { description: 'How long the history of a queue or a type is kept' },
);
export type RetentionRule = Static<typeof RetentionRule>;

export const RetentionPolicy = Type.Object(
  {
    runs_days: Type.Integer({ description: 'PUNCTUAL_RETAIN_RUNS_DAYS of the server that answers' }),
    logs_days: Type.Integer({ description: 'PUNCTUAL_RETAIN_LOGS_DAYS' }),
    submissions_days: Type.Integer({ description: 'PUNCTUAL_RETAIN_SUBMISSIONS_DAYS' }),
    operations_days: Type.Integer({ description: 'PUNCTUAL_RETAIN_OPERATIONS_DAYS' }),
    artifacts_days: Type.Integer({ description: 'PUNCTUAL_RETAIN_ARTIFACTS_DAYS' }),
  },
  { description: 'What holds where no rule says otherwise; 0 is for ever' },
);
export type RetentionPolicy = Static<typeof RetentionPolicy>;

const Params = closed({ kind: GateKind, name: Label });

export const retentionRoutes = {
  listRetention: route({
    method: 'GET',
    path: '/retention',
    operation: 'listRetention',
    access: { role: 'viewer', rows: 'shared' },
    tag: 'retention',
    summary: 'How long history is kept: for the installation, and by queue and type',
    description: 'For each field the rule of the type is asked first, then that of the queue, then the installation.',
    success: 200,
    response: Type.Object({ installation: RetentionPolicy, rules: Type.Array(RetentionRule) }),
    errors: [],
  }),
  setRetention: route({
    method: 'PUT',
    path: '/retention/{kind}/{name}',
    operation: 'setRetention',
    access: { role: 'admin', rows: 'all' },
    audit: 'retention',
    tag: 'retention',
    summary: 'Keep the history of a queue or a type for longer or shorter',
    description:
      'Once it is answered, nothing is removed that the rule keeps. Days are whole days in UTC. Only what has ended is ever removed, and never a dead letter.',
    params: Params,
    body: SetRetention,
    success: 200,
    response: RetentionRule,
    errors: ['invalid_json', 'invalid_input', 'too_many_rules'],
    example: { runs_days: 365, logs_days: 30, note: 'auditors ask for a year' },
  }),
  deleteRetention: route({
    method: 'DELETE',
    path: '/retention/{kind}/{name}',
    operation: 'deleteRetention',
    access: { role: 'admin', rows: 'all' },
    audit: 'retention',
    tag: 'retention',
    summary: 'Keep it as the installation does again',
    params: Params,
    success: 200,
    response: Type.Object({ kind: GateKind, name: Type.String() }),
    errors: ['invalid_input', 'retention_not_found'],
  }),
} as const;
