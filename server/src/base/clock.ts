// Time as the server may use it: monotonic durations and waits that can be stopped. What time it is, the database says.
import { setTimeout as delay } from 'node:timers/promises';

/** Milliseconds on a clock that never jumps. */
export function monotonicMs(): number {
  return performance.now();
}

/** Ends after the time, or at once when the signal is aborted; never rejects. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await delay(ms, undefined, { signal });
  } catch {
    // aborted: the caller looks at the signal
  }
}

export function randomBetween(low: number, high: number): number {
  return low + Math.random() * (high - low);
}
