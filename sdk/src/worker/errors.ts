// The errors of handlers: what a handler throws to say how a failure is to be treated, and what the signal of its context
// carries as its reason.
import { limits } from '@punctual/contract/plain';
import type { AbortReason } from './messages.ts';

/** Throw it when trying again is of no use: the run ends as FAILED whatever attempts are left. */
export class FatalError extends Error {
  override name = 'FatalError';
}

/** Throw it to choose how long to wait before the next attempt. */
export class RetryError extends Error {
  override name = 'RetryError';
  readonly retryAfterMs: number | undefined;

  constructor(message: string, options: { retryAfterMs?: number | undefined; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.retryAfterMs = options.retryAfterMs;
  }
}

/** Throw it to have the run start again after so many milliseconds, without using up an attempt. */
export class Snooze extends Error {
  override name = 'Snooze';
  readonly ms: number;

  constructor(ms: number) {
    if (!(ms >= 0 && ms <= limits.max_delay_ms)) {
      throw new RangeError(
        `A run can snooze for 0 to ${limits.max_delay_ms} milliseconds (ten years), not for ${String(ms)}.`,
      );
    }
    super(`The run snoozes for ${ms} ms.`);
    this.ms = Math.ceil(ms);
  }
}

/** Why `ctx.signal` was aborted; it is the signal's `reason`. */
export class RunAbortedError extends Error {
  override name = 'RunAbortedError';
  readonly reason: AbortReason;

  constructor(reason: AbortReason, message: string = meanings[reason]) {
    super(message);
    this.reason = reason;
  }
}

const meanings: Record<AbortReason, string> = {
  cancelled: 'The run was cancelled.',
  timed_out: 'The attempt took longer than its timeout.',
  lease_lost:
    'The lease of this run was lost: another worker may be running it. Nothing this attempt reports counts any more.',
  shutdown: 'The worker was stopped before the run ended.',
};
