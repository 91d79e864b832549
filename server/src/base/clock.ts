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

/**
 * A signal that is aborted when the other is, or with a TimeoutError when the time is over; `end` when it is of no use any
 * more. With AbortSignal.timeout in AbortSignal.any Node 20 forgets the time when it tidies its memory up.
 */
export function deadline(ms: number, outer: AbortSignal): { signal: AbortSignal; end: () => void } {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(new DOMException('The time is over.', 'TimeoutError')), ms);
  return { signal: AbortSignal.any([outer, late.signal]), end: () => clearTimeout(timer) };
}

let dated = { at: Number.NEGATIVE_INFINITY, text: '' };

/** The machine's time for the header Date, which is in seconds. */
export function httpDate(): string {
  const now = Date.now();
  const at = now - (now % 1000);
  if (dated.at !== at) dated = { at, text: new Date(at).toUTCString() };
  return dated.text;
}

export function randomBetween(low: number, high: number): number {
  return low + Math.random() * (high - low);
}
