// What happens after an attempt that failed: again, and when, or the end. Pure; dispatch/settle.ts asks it.
import { type Backoff, defaults } from '@punctual/contract';

export interface FailedAttempt {
  /** The attempt that failed: 1, 2, 3, … */
  attempt: number;
  max_retries: number;
  backoff: Backoff | null;
  retryable: boolean;
  /** The other side said when to come back; never sooner than that. */
  retry_after_ms: number | null;
}

/** Milliseconds until the next attempt, or null when there is none. `random` is in [0, 1). */
export function nextAttemptDelayMs(failed: FailedAttempt, random: number): number | null {
  if (!failed.retryable || failed.attempt > failed.max_retries) return null;
  const { base_ms, factor, max_ms, jitter } = { ...defaults.backoff, ...failed.backoff };
  const plain = Math.min(max_ms, base_ms * factor ** Math.min(failed.attempt - 1, 1000));
  const spread = plain * (1 + jitter * (2 * random - 1));
  return Math.round(Math.max(Math.min(spread, max_ms), failed.retry_after_ms ?? 0));
}
