// The time of a TestScheduler: it stands still until the test moves it, and then stops at each moment for which something was
// set. Handlers sleep by it, so that hours pass at once. The same timers fire in the order in which they were set.
import { AsyncLocalStorage } from 'node:async_hooks';
import type { RunClock } from '@punctual/sdk/internal';

/** Milliseconds, or text such as `2h`, `1h30m`, `10s` and `500ms`. */
export type Duration = number | string;

/** What is going on in a handler: while it sleeps by the clock, time may pass. */
export interface Activity {
  sleeping: number;
}

/** Which handler the code that runs belongs to. */
export const activities = new AsyncLocalStorage<Activity>();

interface Timer {
  at: number;
  act: () => void;
}

const units: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

export function toMs(duration: Duration): number {
  if (typeof duration === 'number') {
    if (duration >= 0) return duration;
  } else if (/^(\d+(\.\d+)?(ms|s|m|h|d))+$/.test(duration)) {
    const parts = [...duration.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d)/g)];
    return parts.reduce((sum, [, count, unit]) => sum + Number(count) * (units[unit ?? ''] ?? 0), 0);
  }
  throw new RangeError(
    `${JSON.stringify(duration)} is not a duration; give milliseconds, or text such as 2h or 1h30m.`,
  );
}

/** The clock as tests and handlers see it. */
export type TestClock = Pick<VirtualClock, 'now' | 'date' | 'sleep'>;

export class VirtualClock implements RunClock {
  #now: number;
  /** By time, then by when they were set. */
  readonly #timers: Timer[] = [];

  constructor(startMs: number) {
    this.#now = startMs;
  }

  /** Milliseconds since 1970. */
  now(): number {
    return this.#now;
  }

  date(): Date {
    return new Date(this.#now);
  }

  /** Calls a function later; answers what calls it off. */
  after(delayMs: number, then: () => void): () => void {
    const timer: Timer = { at: this.#now + delayMs, act: then };
    const place = this.#timers.findLastIndex((other) => other.at <= timer.at) + 1;
    this.#timers.splice(place, 0, timer);
    return () => {
      const at = this.#timers.indexOf(timer);
      if (at !== -1) this.#timers.splice(at, 1);
    };
  }

  /** For handlers: sleeps until the time has passed, or the signal is aborted. `Infinity` waits for the signal alone. */
  sleep(duration: Duration, options: { signal?: AbortSignal | undefined } = {}): Promise<void> {
    const ms = toMs(duration);
    const { signal } = options;
    return asleep(
      new Promise((resolve, reject) => {
        if (signal?.aborted === true) return reject(signal.reason as Error);
        const off = ms === Number.POSITIVE_INFINITY ? () => undefined : this.after(ms, () => wake(resolve));
        const abort = (): void => wake(() => reject(signal?.reason as Error));
        const wake = (then: () => void): void => {
          off();
          signal?.removeEventListener('abort', abort);
          then();
        };
        signal?.addEventListener('abort', abort);
      }),
    );
  }

  /** Moves to the next moment for which something was set, at most to this one, and does it. False: there was none. */
  step(untilMs: number): boolean {
    const next = this.#timers[0];
    if (next === undefined || next.at > untilMs) return false;
    this.#timers.shift();
    this.#now = Math.max(this.#now, next.at);
    next.act();
    return true;
  }

  moveTo(ms: number): void {
    this.#now = Math.max(this.#now, ms);
  }
}

/** The handler that waits for this sleeps meanwhile. */
export async function asleep<T>(waiting: Promise<T>): Promise<T> {
  const activity = activities.getStore();
  if (activity === undefined) return waiting;
  activity.sleeping += 1;
  try {
    return await waiting;
  } finally {
    activity.sleeping -= 1;
  }
}
