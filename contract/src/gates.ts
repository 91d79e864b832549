// Gates: an operator's switches that hold or drop the due runs of a type or a queue. Schemas and routes.
import { type Static, Type } from 'typebox';
import { route } from './route.ts';
import { closed, described, Label, nullable, Timestamp, Title } from './shapes.ts';

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

export const gateRoutes = {
  listGates: route({
    method: 'GET',
    path: '/gates',
    operation: 'listGates',
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
} as const;
