// The calls about limits of keys, queues and types, and about fair queues, as `client.limits`.
import type { GateKind, KeyLimitQuery, PutFairQueue, PutKeyLimit, SetLaneLimit } from '@punctual/contract';
import { routes } from '@punctual/contract/plain';
import type { Call } from './client.ts';

export function limitCalls(call: Call) {
  return {
    list: (query?: KeyLimitQuery) => call(routes.listKeyLimits, { query }),
    /** The limit of a concurrency key and how it is used now; `*` is the default. */
    get: (key: string) => call(routes.getKeyLimit, { params: { key } }),
    /** Sets the whole limit of a key; what is left out does not limit. */
    put: (key: string, body: PutKeyLimit) => call(routes.putKeyLimit, { params: { key }, body }),
    delete: (key: string) => call(routes.deleteKeyLimit, { params: { key } }),
    /** The limits of queues and types. */
    listLanes: () => call(routes.listLaneLimits, {}),
    /** Limits a queue or a type; null takes a limit away. */
    setLane: (kind: GateKind, name: string, body: SetLaneLimit) =>
      call(routes.setLaneLimit, { params: { kind, name }, body }),
    listFair: () => call(routes.listFairQueues, {}),
    /** Shares a queue fairly between users. */
    putFair: (queue: string, body: PutFairQueue = {}) => call(routes.putFairQueue, { params: { queue }, body }),
    deleteFair: (queue: string) => call(routes.deleteFairQueue, { params: { queue } }),
  };
}
