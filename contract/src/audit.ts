// The audit log: who changed what through the API, when and from where. Schemas and the route.
import type { Static } from 'typebox';
import { auditNouns } from './access.ts';
import { limits } from './limits.ts';
import { route } from './route.ts';
import { closed, described, Id, Label, NextCursor, nullable, PageQuery, Timestamp } from './shapes.ts';
import { Type } from './type.ts';

const Noun = Type.Enum([...auditNouns], { description: 'What was changed' });

export const AuditEntry = Type.Object(
  {
    audit_id: Id,
    at: Timestamp,
    key_id: nullable(Type.String({ description: 'null: the server asked for no key' })),
    key_name: Type.String(),
    user_id: nullable(Type.String({ description: 'Of the key' })),
    address: nullable(Type.String({ description: 'Where the request came from, as the server saw it' })),
    operation: Type.String({ description: 'The operation of the API' }),
    noun: Noun,
    id: Type.String({ description: 'The id or name of what was changed; empty for several' }),
    before: Type.Unknown({ description: 'How it was; null when it was not there, or is not kept' }),
    after: Type.Unknown({
      description: `How it is, or what was answered. Over ${limits.max_audit_bytes} bytes only the size is kept; payloads, results and secrets never are`,
    }),
  },
  { description: 'A change made through the API' },
);
export type AuditEntry = Static<typeof AuditEntry>;

export const AuditQuery = closed({
  ...PageQuery,
  noun: Type.Optional(Noun),
  id: Type.Optional(Type.String({ minLength: 1, maxLength: 300, description: 'The id or name of what was changed' })),
  key_id: Type.Optional(Id),
  user_id: Type.Optional(Label),
  operation: Type.Optional(Label),
  from: Type.Optional(described(Timestamp, { description: 'At or after this time' })),
  to: Type.Optional(described(Timestamp, { description: 'Before this time' })),
});
export type AuditQuery = Static<typeof AuditQuery>;

export const AuditPage = Type.Object({ entries: Type.Array(AuditEntry), next_cursor: NextCursor });
export type AuditPage = Static<typeof AuditPage>;

export const auditRoutes = {
  listAudit: route({
    method: 'GET',
    path: '/audit',
    operation: 'listAudit',
    access: { role: 'admin', rows: 'all' },
    tag: 'keys',
    summary: 'Who changed what, newest first',
    description: 'Submits of jobs and what workers say are not in it: the jobs and runs themselves tell of them.',
    query: AuditQuery,
    success: 200,
    response: AuditPage,
    errors: ['invalid_input', 'invalid_cursor'],
  }),
} as const;
