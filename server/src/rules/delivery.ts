// When a delivery that failed is sent again, and when it is given up. Pure; called by the deliverer.

export interface DeliveryPolicy {
  /** The first pause; each further one is twice as long. */
  backoff_ms: number;
  max_attempts: number;
}

/** Longest pause, in first pauses: an hour of five seconds. */
const longest = 720;
/** A receiver that asks for more than a day is not waited for longer. */
const maxRetryAfterMs = 24 * 3600 * 1000;

/** The pause before the next attempt in ms, or null: it is given up. `random` is between 0 and 1. */
export function nextAttemptMs(
  policy: DeliveryPolicy,
  {
    attempts,
    final,
    retry_after_ms,
    random,
  }: { attempts: number; final: boolean; retry_after_ms: number | null; random: number },
): number | null {
  if (final || attempts >= policy.max_attempts) return null;
  const pause = policy.backoff_ms * Math.min(longest, 2 ** (attempts - 1));
  // Between half and all of it, so that deliveries that failed together do not come together again.
  const spread = pause * (0.5 + random / 2);
  return Math.round(Math.max(spread, Math.min(retry_after_ms ?? 0, maxRetryAfterMs)));
}
