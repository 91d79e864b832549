// Once-ness by a key: the fields of a job of which there may be only one at a time, and what is done when there is one
// already. Part of CreateJob, Job and JobCreated. How it differs from Idempotency-Key is told in docs/once.md.
import type { Static } from 'typebox';
import { labelPattern } from './label.ts';
import { limits } from './limits.ts';
import { described } from './shapes.ts';
import { Type } from './type.ts';

export const UniqueKey = Type.String({
  minLength: 1,
  maxLength: limits.max_unique_key_chars,
  pattern: labelPattern,
  description:
    'At most one job of a user holds a key at a time, whatever its type. Letters, digits and . _ : / @ + -, beginning with a letter or digit',
});

export const UniqueScope = Type.Enum(['waiting', 'live', 'period'], {
  description:
    'How long the job holds its unique_key: until its run starts, until it has ended, or for unique_period_ms after it was created. A cancelled job gives it back',
});
export type UniqueScope = Static<typeof UniqueScope>;

export const OnConflict = Type.Enum(['reject', 'return_existing', 'replace_payload', 'reschedule'], {
  description:
    'What to do when another job holds the unique_key: refuse with 409; answer that job; give that job this payload; or also this due time. The last two are refused once its run has started',
});
export type OnConflict = Static<typeof OnConflict>;

const period = Type.Integer({
  minimum: 1,
  maximum: limits.max_unique_period_ms,
  description: 'unique_scope period: how long after its creation the job holds its unique_key',
});

/** Of a job to create. */
export const uniqueFields = {
  unique_key: Type.Optional(UniqueKey),
  unique_scope: Type.Optional(described(UniqueScope, { default: 'live' })),
  unique_period_ms: Type.Optional(period),
  on_conflict: Type.Optional(described(OnConflict, { default: 'reject' })),
};

/** Of a job as it is shown. */
export const shownUniqueFields = {
  unique_key: Type.Optional(Type.String()),
  unique_scope: Type.Optional(UniqueScope),
  unique_period_ms: Type.Optional(period),
};

/** Of the answer to a submit that met another job. */
export const conflictFields = {
  existing: Type.Optional(
    Type.Literal(true, { description: 'No job was created: this one holds the unique_key already' }),
  ),
  conflict_action: Type.Optional(
    Type.Enum(['returned', 'payload_replaced', 'rescheduled'], {
      description: 'With existing: what was done to the job that holds the unique_key',
    }),
  ),
};
