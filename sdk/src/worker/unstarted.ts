// Runs that a worker holds and has not started: those whose time has not come yet, those that have to wait because handlers
// block, and those for which no slot is free, which happens only when handlers outlive their runs. worker.ts owns it.
//
// Of those whose time has come as many start in one turn of the event loop as start in a moment. What was told meanwhile, such
// as that a run is cancelled or that its lease is lost, is heard before the next.
import { performance } from 'node:perf_hooks';
import type { Grant } from '@punctual/contract';
import { sharedNow } from './shared-clock.ts';

/** Runs start one after the other for so long before others have their turn: many quick ones, one that blocks. */
export const max_turn_ms = 20;

export interface UnstartedRun {
  key: number;
  run: Grant;
}

export class Unstarted {
  /** `startAt`: by the clock that threads share. */
  readonly #early = new Map<number, { run: Grant; startAt: number }>();
  readonly #queued = new Map<number, Grant>();
  readonly #onTime: (key: number, run: Grant) => void;
  #timer: NodeJS.Timeout | undefined;
  #timerAt = Number.POSITIVE_INFINITY;

  constructor(onTime: (key: number, run: Grant) => void) {
    this.#onTime = onTime;
  }

  /** Until `startAt` of the clock that threads share; never less. Those of one time start in the order of their keys. */
  holdUntil(startAt: number, key: number, run: Grant): void {
    this.#early.set(key, { run, startAt });
    if (startAt < this.#timerAt) this.#setTimer(startAt);
  }

  #setTimer(at: number): void {
    clearTimeout(this.#timer);
    this.#timerAt = at;
    this.#timer = setTimeout(() => this.#startDue(), Math.max(0, Math.ceil(at - sharedNow())));
  }

  /** Some whose time has come have not started. */
  get isLate(): boolean {
    return this.#timerAt <= sharedNow();
  }

  #startDue(): void {
    const now = sharedNow();
    const until = performance.now() + max_turn_ms;
    const due = [...this.#early].filter(([, { startAt }]) => startAt <= now);
    due.sort(([aKey, a], [bKey, b]) => a.startAt - b.startAt || aKey - bKey);
    this.#timerAt = Number.POSITIVE_INFINITY;
    for (const [key, { run }] of due) {
      if (this.#early.delete(key)) this.#onTime(key, run);
      if (performance.now() > until) break;
    }
    if (this.#early.size > 0) this.#setTimer(Math.min(...[...this.#early.values()].map(({ startAt }) => startAt)));
  }

  /** Until a slot is free. */
  queue(key: number, run: Grant): void {
    this.#queued.set(key, run);
  }

  /** The next for a slot that is free. */
  shift(): UnstartedRun | null {
    if (this.#queued.size === 0) return null;
    const [first] = this.#queued;
    if (first === undefined) return null;
    const [key, run] = first;
    this.#queued.delete(key);
    return { key, run };
  }

  /** It is not to be started any more; undefined when it is not here. */
  take(key: number): Grant | undefined {
    const run = this.#early.get(key)?.run ?? this.#queued.get(key);
    this.#early.delete(key);
    this.#queued.delete(key);
    if (this.#early.size === 0) {
      clearTimeout(this.#timer);
      this.#timerAt = Number.POSITIVE_INFINITY;
    }
    return run;
  }

  takeAll(): UnstartedRun[] {
    return [...this.#early.keys(), ...this.#queued.keys()].map((key) => ({ key, run: this.take(key) as Grant }));
  }
}
