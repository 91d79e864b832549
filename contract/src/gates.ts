// Gates: an operator's switches that hold or drop the due runs of a type or a queue. Schemas and routes.
import type { Static } from 'typebox';
import { defaults, limits } from './limits.ts';
import { route } from './route.ts';
import { closed, described, Id, Label, nullable, Timestamp, Title } from './shapes.ts';
import { Type } from './type.ts';

export const GateKind = Type.Enum(['type', 'queue'], { description: 'What the gate stands before' });
export type GateKind = Static<typeof GateKind>;

export const GateState = Type.Enum(['open', 'hold', 'drop'], {
  description: 'open: runs start. hold: due runs wait, in their order. drop: due runs end as DROPPED without starting',
});
export type GateState = Static<typeof GateState>;

export const SetGate = closed(
  {
    state: GateState,
    note: Type.Optional(described(Title, { description: 'Why, for those who come later' })),
    author: Type.Optional(described(Label, { description: 'Who did it' })),
  },
  { description: 'What the gate is to do' },
);
export type SetGate = Static<typeof SetGate>;

export const SetBreaker = closed(
  {
    error_rate: Type.Number({
      minimum: 0.01,
      maximum: 1,
      description: 'Trips when this share of attempts failed, such as 0.5',
    }),
    min_attempts: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 1_000_000,
        default: defaults.breaker.min_attempts,
        description: 'but not with fewer attempts',
      }),
    ),
    window_ms: Type.Optional(
      Type.Integer({
        minimum: 1_000,
        maximum: limits.max_breaker_ms,
        default: defaults.breaker.window_ms,
        description: 'within so long',
      }),
    ),
    cool_down_ms: Type.Optional(
      Type.Integer({
        minimum: 1_000,
        maximum: limits.max_breaker_ms,
        default: defaults.breaker.cool_down_ms,
        description: 'So long the gate stays held before one run is let through to see',
      }),
    ),
  },
  { description: 'When to hold the gate of the type without being asked' },
);
export type SetBreaker = Static<typeof SetBreaker>;

export const Breaker = Type.Object(
  {
    type: Type.String(),
    error_rate: Type.Number(),
    min_attempts: Type.Integer(),
    window_ms: Type.Integer(),
    cool_down_ms: Type.Integer(),
    state: Type.Enum(['closed', 'open', 'probing'], {
      description: 'closed: runs start. open: it holds the gate. probing: one run was let through, its outcome decides',
    }),
    changed_at: Timestamp,
    probe_run_id: nullable(Id),
    succeeded: Type.Integer({ description: 'Attempts within the window' }),
    failed: Type.Integer({ description: 'Failed attempts within the window' }),
  },
  { description: 'A circuit breaker of a type' },
);
export type Breaker = Static<typeof Breaker>;

export const Gate = Type.Object(
  {
    kind: GateKind,
    name: Type.String(),
    state: GateState,
    note: nullable(Type.String()),
    author: nullable(Type.String()),
    changed_at: Timestamp,
  },
  { description: 'A switch before a type or a queue' },
);
export type Gate = Static<typeof Gate>;

const Params = closed({ kind: GateKind, name: Label });
const BreakerParams = closed({ type: Label });

export const gateRoutes = {
  listGates: route({
    method: 'GET',
    path: '/gates',
    operation: 'listGates',
    access: { role: 'viewer', rows: 'shared' },
    tag: 'flow',
    summary: 'The gates that were ever closed, and their state',
    success: 200,
    response: Type.Object({ gates: Type.Array(Gate) }),
    errors: [],
  }),
  setGate: route({
    method: 'PUT',
    path: '/gates/{kind}/{name}',
    operation: 'setGate',
    access: { role: 'operator', rows: 'all' },
    audit: 'gate',
    tag: 'flow',
    summary: 'Open, hold or drop a type or a queue',
    description:
      'Effective on every server within a second. What runs already is not touched. A held gate costs nothing, however much waits behind it; opened again, its runs start in their order.',
    params: Params,
    body: SetGate,
    success: 200,
    response: Gate,
    errors: ['invalid_json', 'invalid_input', 'too_many_rules'],
    example: { state: 'hold', note: 'mail provider is down', author: 'ann' },
  }),
  listBreakers: route({
    method: 'GET',
    path: '/breakers',
    operation: 'listBreakers',
    access: { role: 'viewer', rows: 'shared' },
    tag: 'flow',
    summary: 'The circuit breakers of types',
    success: 200,
    response: Type.Object({ breakers: Type.Array(Breaker) }),
    errors: [],
  }),
  setBreaker: route({
    method: 'PUT',
    path: '/breakers/{type}',
    operation: 'setBreaker',
    access: { role: 'operator', rows: 'all' },
    audit: 'breaker',
    tag: 'flow',
    summary: 'Hold the gate of a type by itself when too many attempts fail',
    description:
      'When it trips, the gate of the type is held with a note. After the cool-down one run is let through: if it succeeds the gate is opened again, else it stays held for another cool-down. Opening the gate by hand closes the breaker.',
    params: BreakerParams,
    body: SetBreaker,
    success: 200,
    response: Breaker,
    errors: ['invalid_json', 'invalid_input', 'too_many_rules'],
    example: { error_rate: 0.5, min_attempts: 20, window_ms: 60_000, cool_down_ms: 30_000 },
  }),
  deleteBreaker: route({
    method: 'DELETE',
    path: '/breakers/{type}',
    operation: 'deleteBreaker',
    access: { role: 'operator', rows: 'all' },
    audit: 'breaker',
    tag: 'flow',
    summary: 'Remove a breaker; a gate that it holds is opened',
    params: BreakerParams,
    success: 200,
    response: Type.Object({ type: Type.String() }),
    errors: ['invalid_input', 'breaker_not_found'],
  }),
} as const;
