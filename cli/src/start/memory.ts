// Memory of a process that serves. A call that waits for seconds outlives the young part of the heap, so what it leaves is found by
// a full collection only, and V8 begins one when the heap is up to four times as large as what was alive at the last. A server
// with a thousand idle workers has 40 MB alive and would take 250 of memory. So it begins at twice as much, except while there is
// much to do, when collections cost more than memory. Called by `start` and `server`: it concerns all of the process, so it is
// not for whoever uses the server as a library.
//
// How large the heap may grow V8 decides at each collection. What it decided at the start, or while there was much to do, would
// hold until the heap is that large: so there is a collection when that is over.
import { performance } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** By how much the heap may grow between two full collections; V8 reads it at each. 0: as V8 thinks best. */
const growth_percent = { calm: 100, busy: 0 };
const busy_share = 0.5;
const look_ms = 1_000;
/** A collection stops everything for some 20 ms: one whose load comes and goes does not pay that each time. */
const rest_ms = 10_000;

export interface Collector {
  collect: () => void;
  setGrowth: (percent: number) => void;
}

/** Told once a second how much of it there was something to do. */
export class GarbageRule {
  readonly #heap: Collector;
  #owes = true;
  #restUntil = 0;

  constructor(heap: Collector) {
    this.#heap = heap;
    heap.setGrowth(growth_percent.calm);
  }

  look(busyShare: number, nowMs: number): void {
    const busy = busyShare > busy_share;
    this.#heap.setGrowth(busy ? growth_percent.busy : growth_percent.calm);
    if (busy) this.#owes = true;
    if (busy || !this.#owes || nowMs < this.#restUntil) return;
    this.#owes = false;
    this.#restUntil = nowMs + rest_ms;
    this.#heap.collect();
  }
}

export function boundGarbage(): void {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const rule = new GarbageRule({
    collect: () => collect(),
    setGrowth: (percent) => setFlagsFromString(`--heap-growing-percent=${percent}`),
  });
  let before = performance.eventLoopUtilization();
  setInterval(() => {
    const now = performance.eventLoopUtilization();
    rule.look(performance.eventLoopUtilization(now, before).utilization, performance.now());
    before = now;
  }, look_ms).unref();
}
