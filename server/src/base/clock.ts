// Time as the server may use it: monotonic durations, waits that can be stopped, and what time it is, which the database says.
import { setTimeout as delay } from 'node:timers/promises';

/** Milliseconds on a clock that never jumps. */
export function monotonicMs(): number {
  return performance.now();
}

/** The time in ms since 1970 less that of the monotonic clock. Until the database was heard, by the machine. */
let epochMs = Date.now() - performance.now();

/**
 * What time it is, in whole ms since 1970: by the database's clock, as far as this process knows it. The machine's may be wrong by
 * any amount.
 */
export function timeMs(): number {
  return Math.floor(performance.now() + epochMs);
}

/** The database's clock shows so much more than the monotonic one. */
export function setTime(moreMs: number): void {
  epochMs = moreMs;
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

/** The time for the header Date, which is in seconds: clients take it for ours, whichever server they ask. */
export function httpDate(): string {
  const now = timeMs();
  const at = now - (now % 1000);
  if (dated.at !== at) dated = { at, text: new Date(at).toUTCString() };
  return dated.text;
}

const restFactor = 200;
const longRestMs = 600_000;
const quickMs = 100;

/**
 * How long to leave what took so long and is a precaution only: it must not become the work. What reads a small table takes seconds
 * while a snapshot is held and rows that are gone cannot be removed.
 */
export function restAfter(tookMs: number): number {
  return tookMs < quickMs ? 0 : Math.min(longRestMs, tookMs * restFactor);
}

export function randomBetween(low: number, high: number): number {
  return low + Math.random() * (high - low);
}
