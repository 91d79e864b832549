// The calls about limits of keys and fair queues, as `client.limits`.
import type { KeyLimitQuery, PutFairQueue, PutKeyLimit } from '@punctual/contract';
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
    listFair: () => call(routes.listFairQueues, {}),
    /** Shares a queue fairly between users. */
    putFair: (queue: string, body: PutFairQueue = {}) => call(routes.putFairQueue, { params: { queue }, body }),
    deleteFair: (queue: string) => call(routes.deleteFairQueue, { params: { queue } }),
  };
}
