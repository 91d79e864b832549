// API keys, and the sessions of the dashboard that are opened with one. Schemas and routes.
import type { Static } from 'typebox';
import { roles } from './access.ts';
import { limits } from './limits.ts';
import { route } from './route.ts';
import { closed, described, Id, Label, nullable, Timestamp, Title } from './shapes.ts';
import { Type } from './type.ts';

const RoleName = Type.Enum([...roles], {
  description:
    'viewer reads; submitter also creates and changes jobs; operator also changes queues, gates and limits, and does operations; admin does everything; worker takes runs and nothing else',
});

const RatePerSecond = Type.Integer({
  minimum: 1,
  maximum: limits.max_key_rate,
  description: 'Requests a second over all servers; as configured for the role unless given',
});
const Burst = Type.Integer({
  minimum: 1,
  maximum: limits.max_key_rate,
  description: 'Requests at once after a pause; twice the rate unless given',
});

export const CreateKey = closed({
  name: described(Title, { description: 'What it is for, for people' }),
  role: RoleName,
  user_id: Type.Optional(
    described(Label, {
      description: 'Whose key it is: it meets only the jobs of this user. Not for the roles admin and worker',
    }),
  ),
  expires_at: Type.Optional(described(Timestamp, { description: 'From then on it is refused; never unless given' })),
  rate_per_second: Type.Optional(RatePerSecond),
  rate_burst: Type.Optional(Burst),
});
export type CreateKey = Static<typeof CreateKey>;

export const RotateKey = closed({
  overlap_seconds: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: limits.max_key_overlap_seconds,
      default: 0,
      description: 'How long the old secret is still accepted, so that those who use it can change',
    }),
  ),
});
export type RotateKey = Static<typeof RotateKey>;

export const ApiKey = Type.Object(
  {
    key_id: Id,
    name: Type.String(),
    role: RoleName,
    user_id: nullable(Type.String()),
    hint: Type.String({ description: 'The last characters of the secret, to tell keys apart' }),
    state: Type.Enum(['active', 'expired', 'revoked']),
    created_at: Timestamp,
    created_by: nullable(Type.String({ description: 'The key that made it; null when it was made on the database' })),
    expires_at: nullable(Timestamp),
    revoked_at: nullable(Timestamp),
    last_used_at: nullable(described(Timestamp, { description: 'To a minute or two' })),
    rate_per_second: nullable(RatePerSecond),
    rate_burst: nullable(Burst),
  },
  { description: 'An API key, without its secret' },
);
export type ApiKey = Static<typeof ApiKey>;

export const NewApiKey = Type.Object(
  {
    ...ApiKey.properties,
    secret: Type.String({ description: 'The key itself. It is shown now and never again: only its hash is kept' }),
  },
  { description: 'A new API key with its secret' },
);
export type NewApiKey = Static<typeof NewApiKey>;

export const KeyList = Type.Object({ keys: Type.Array(ApiKey) });
export type KeyList = Static<typeof KeyList>;

const KeyParams = closed({ key_id: Id });

export const keyRoutes = {
  createKey: route({
    method: 'POST',
    path: '/keys',
    operation: 'createKey',
    access: { role: 'admin', rows: 'all' },
    audit: 'key',
    tag: 'keys',
    summary: 'Make an API key',
    description: 'As soon as there is a key, every request needs one.',
    body: CreateKey,
    success: 201,
    response: NewApiKey,
    errors: ['invalid_json', 'invalid_input', 'too_many_keys'],
    example: { name: 'reports service', role: 'submitter', user_id: 'u003' },
  }),
  listKeys: route({
    method: 'GET',
    path: '/keys',
    operation: 'listKeys',
    access: { role: 'admin', rows: 'all' },
    tag: 'keys',
    summary: 'All API keys, newest first, without their secrets',
    success: 200,
    response: KeyList,
    errors: [],
  }),
  getKey: route({
    method: 'GET',
    path: '/keys/{key_id}',
    operation: 'getKey',
    access: { role: 'admin', rows: 'all' },
    tag: 'keys',
    summary: 'One API key',
    params: KeyParams,
    success: 200,
    response: ApiKey,
    errors: ['invalid_id', 'key_not_found'],
  }),
  revokeKey: route({
    method: 'DELETE',
    path: '/keys/{key_id}',
    operation: 'revokeKey',
    access: { role: 'admin', rows: 'all' },
    audit: 'key',
    tag: 'keys',
    summary: 'Revoke an API key: within a second no server accepts it any more',
    description: 'Sessions of the dashboard that were opened with it end too. Revoking twice is revoking once.',
    params: KeyParams,
    success: 200,
    response: ApiKey,
    errors: ['invalid_id', 'key_not_found'],
  }),
  rotateKey: route({
    method: 'POST',
    path: '/keys/{key_id}/rotate',
    operation: 'rotateKey',
    access: { role: 'admin', rows: 'all' },
    audit: 'key',
    tag: 'keys',
    summary: 'Give an API key a new secret',
    params: KeyParams,
    body: RotateKey,
    bodyOptional: true,
    success: 200,
    response: NewApiKey,
    errors: ['invalid_json', 'invalid_input', 'invalid_id', 'key_not_found', 'key_ended'],
    example: { overlap_seconds: 3600 },
  }),
} as const;

export const Session = Type.Object(
  {
    key_id: nullable(Type.String({ description: 'null: the server asks for no keys' })),
    name: Type.String(),
    role: RoleName,
    user_id: nullable(Type.String()),
    expires_at: nullable(described(Timestamp, { description: 'Of a session of the dashboard, or of the key' })),
  },
  { description: 'Who is asking' },
);
export type Session = Static<typeof Session>;

export const CreateSession = closed({ key: Type.String({ minLength: 1, maxLength: 200 }) });
export type CreateSession = Static<typeof CreateSession>;

export const sessionRoutes = {
  createSession: route({
    method: 'POST',
    path: '/session',
    operation: 'createSession',
    access: 'open',
    audit: 'session',
    tag: 'keys',
    summary: 'Open a session of the dashboard with an API key',
    description: 'Answers with a cookie that scripts cannot read and that other sites cannot send.',
    body: CreateSession,
    success: 201,
    response: Session,
    errors: ['invalid_json', 'invalid_input', 'key_invalid', 'too_many_attempts', 'host_not_allowed'],
  }),
  getSession: route({
    method: 'GET',
    path: '/session',
    operation: 'getSession',
    access: { role: 'any', rows: 'shared' },
    tag: 'keys',
    summary: 'Who am I?',
    success: 200,
    response: Session,
    errors: [],
  }),
  deleteSession: route({
    method: 'DELETE',
    path: '/session',
    operation: 'deleteSession',
    access: { role: 'any', rows: 'shared' },
    audit: 'session',
    tag: 'keys',
    summary: 'End the session of the dashboard',
    success: 200,
    response: Type.Object({ ended: Type.Boolean() }),
    errors: [],
  }),
} as const;
