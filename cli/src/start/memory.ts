// Memory of a process that serves. A call that waits for seconds outlives the young part of the heap, so what it leaves is found by
// a full collection only, and V8 begins one when the heap is up to four times as large as what was alive at the last. A server
// with a thousand idle workers has 40 MB alive and would take 250 of memory. So it begins at twice as much, except while there is
// much to do, when collections cost more than memory. Called by `start` and `server`: it concerns all of the process, so it is
// not for whoever uses the server as a library.
import { performance } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';

/** By how much the heap may grow between two full collections; V8 reads it at each. 0: as V8 thinks best. */
const growth_percent = { calm: 100, busy: 0 };
const busy_share = 0.5;
const look_ms = 1_000;

export function boundGarbage(): void {
  let before = performance.eventLoopUtilization();
  const follow = (busy: boolean): void =>
    setFlagsFromString(`--heap-growing-percent=${busy ? growth_percent.busy : growth_percent.calm}`);
  follow(false);
  setInterval(() => {
    const now = performance.eventLoopUtilization();
    follow(performance.eventLoopUtilization(now, before).utilization > busy_share);
    before = now;
  }, look_ms).unref();
}
