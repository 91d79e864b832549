// The calls about what decides which runs start: queues, gates, breakers, limits, and the workers that take them.
import type {
  Breaker,
  FairQueue,
  FairQueueList,
  Gate,
  GateKind,
  KeyLimit,
  KeyLimitPage,
  KeyUse,
  LaneLimit,
  PutFairQueue,
  PutKeyLimit,
  Queue,
  RunPage,
  SetBreaker,
  SetGate,
  SetLaneLimit,
  SetQueue,
  WorkerDrained,
} from '@punctual/contract';
import { at, get, type Query, send } from './request.ts';

export const listQueues = (signal: AbortSignal) => get<{ queues: Queue[] }>('queues', signal);
export const getQueue = (name: string, signal: AbortSignal) => get<Queue>(at('queues', name), signal);
export const setQueue = (name: string, body: SetQueue) => send<Queue>('PUT', at('queues', name), body);

export const listGates = (signal: AbortSignal) => get<{ gates: Gate[] }>('gates', signal);
export const setGate = (kind: GateKind, name: string, body: SetGate) =>
  send<Gate>('PUT', at('gates', kind, name), body);
export const listBreakers = (signal: AbortSignal) => get<{ breakers: Breaker[] }>('breakers', signal);
export const setBreaker = (type: string, body: SetBreaker) => send<Breaker>('PUT', at('breakers', type), body);
export const deleteBreaker = (type: string) => send<{ type: string }>('DELETE', at('breakers', type));

export const listLaneLimits = (signal: AbortSignal) => get<{ limits: LaneLimit[] }>('limits/lanes', signal);
export const setLaneLimit = (kind: GateKind, name: string, body: SetLaneLimit) =>
  send<LaneLimit>('PUT', at('limits', kind, name), body);
export const listKeyLimits = (query: Query, signal: AbortSignal) => get<KeyLimitPage>('limits', signal, query);
export const getKeyLimit = (key: string, signal: AbortSignal) => get<KeyUse>(at('limits', 'key', key), signal);
export const putKeyLimit = (key: string, body: PutKeyLimit) => send<KeyLimit>('PUT', at('limits', 'key', key), body);
export const deleteKeyLimit = (key: string) => send<{ key: string }>('DELETE', at('limits', 'key', key));
export const listFairQueues = (signal: AbortSignal) => get<FairQueueList>('limits/fair', signal);
export const putFairQueue = (queue: string, body: PutFairQueue) =>
  send<FairQueue>('PUT', at('limits', 'fair', queue), body);
export const deleteFairQueue = (queue: string) => send<{ queue: string }>('DELETE', at('limits', 'fair', queue));

export const drainWorker = (id: string) => send<WorkerDrained>('POST', at('workers', id, 'drain'));
export const runsOfWorker = (id: string, query: Query, signal: AbortSignal) =>
  get<RunPage>('runs', signal, { worker_id: id, ...query });
