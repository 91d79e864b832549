// The calls about queues, gates and circuit breakers, as `client.queues`, `client.gates` and `client.breakers`.
import type { GateKind, SetBreaker, SetGate, SetQueue } from '@punctual/contract';
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
