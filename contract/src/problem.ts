// How errors look on the wire: problem+json. Schemas; the codes and the class that the SDK throws are in errors.ts.
import type { Static } from 'typebox';
import { Type } from './type.ts';

/** One wrong place in the input. */
export const FieldError = Type.Object(
  {
    path: Type.String({ description: 'Where: `payload`, `backoff.base_ms`, `jobs[3].type`' }),
    message: Type.String({ description: 'What is wrong there, and how to mend it' }),
  },
  { description: 'One wrong place in the input' },
);
export type FieldError = Static<typeof FieldError>;

export const Problem = Type.Object(
  {
    type: Type.String({ description: 'A link to the meaning of the code' }),
    title: Type.String(),
    status: Type.Integer(),
    code: Type.String({ description: 'Stable; branch on this' }),
    detail: Type.Optional(Type.String()),
    errors: Type.Optional(Type.Array(FieldError)),
    job_id: Type.Optional(Type.String({ description: 'unique_key_taken: the job that holds the key' })),
    request_id: Type.Optional(Type.String()),
  },
  { description: 'What went wrong, as application/problem+json (RFC 9457)' },
);
export type Problem = Static<typeof Problem>;
