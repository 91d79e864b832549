// Runs that a worker holds and has not started: those whose time has not come yet, and those for which no slot is free, which
// happens only when handlers outlive their runs. worker.ts owns it.
import type { Grant } from '@punctual/contract';
import { sharedNow } from './shared-clock.ts';

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

  #startDue(): void {
    const now = sharedNow();
    const due = [...this.#early].filter(([, { startAt }]) => startAt <= now);
    due.sort(([aKey, a], [bKey, b]) => a.startAt - b.startAt || aKey - bKey);
    for (const [key] of due) this.#early.delete(key);
    this.#timerAt = Number.POSITIVE_INFINITY;
    if (this.#early.size > 0) this.#setTimer(Math.min(...[...this.#early.values()].map(({ startAt }) => startAt)));
    for (const [key, { run }] of due) this.#onTime(key, run);
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
