// The calls about queues, gates and the limits of queues and types, as `client.queues`, `client.gates`,
// `client.breakers` and `client.limits`.
import type { GateKind, SetBreaker, SetGate, SetLaneLimit, SetQueue } from '@punctual/contract';
import { routes } from '@punctual/contract/plain';
import type { Call } from './client.ts';

export function queueCalls(call: Call) {
  return {
    list: () => call(routes.listQueues, {}),
    get: (name: string) => call(routes.getQueue, { params: { name } }),
    /** Changes the settings given. */
    set: (name: string, body: SetQueue) => call(routes.setQueue, { params: { name }, body }),
  };
}

export function gateCalls(call: Call) {
  return {
    list: () => call(routes.listGates, {}),
    /** Opens, holds or drops a type or a queue. */
    set: (kind: GateKind, name: string, body: SetGate) => call(routes.setGate, { params: { kind, name }, body }),
  };
}

export function breakerCalls(call: Call) {
  return {
    list: () => call(routes.listBreakers, {}),
    set: (type: string, body: SetBreaker) => call(routes.setBreaker, { params: { type }, body }),
    delete: (type: string) => call(routes.deleteBreaker, { params: { type } }),
  };
}

export function limitCalls(call: Call) {
  return {
    list: () => call(routes.listLaneLimits, {}),
    /** Limits a queue or a type; null takes a limit away. */
    set: (kind: GateKind, name: string, body: SetLaneLimit) =>
      call(routes.setLaneLimit, { params: { kind, name }, body }),
  };
}
