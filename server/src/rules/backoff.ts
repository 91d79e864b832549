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
  /** What is left of the time the whole run may take. */
  left_ms: number | null;
}

export type NextStep =
  | { again: true; delay_ms: number }
  | { again: false; reason: 'out_of_attempts' | 'run_timed_out' };

/** `random` is in [0, 1). */
export function afterFailure(failed: FailedAttempt, random: number): NextStep {
  if (!failed.retryable || failed.attempt > failed.max_retries) return { again: false, reason: 'out_of_attempts' };
  const { base_ms, factor, max_ms, jitter } = { ...defaults.backoff, ...failed.backoff };
  const plain = Math.min(max_ms, base_ms * factor ** Math.min(failed.attempt - 1, 1000));
  const spread = plain * (1 + jitter * (2 * random - 1));
  const delay_ms = Math.round(Math.max(Math.min(spread, max_ms), failed.retry_after_ms ?? 0));
  if (failed.left_ms !== null && delay_ms >= failed.left_ms) return { again: false, reason: 'run_timed_out' };
  return { again: true, delay_ms };
}
