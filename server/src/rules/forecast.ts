// The forecast of one schedule, pure: the window that is looked at, and the minutes in which the schedule starts runs. The
// forecaster (scheduler/forecast.ts) reads the book and asks here; forecast_pattern.ts says which schedules start runs
// together, forecast_tally.ts adds up.
import { occurrencesAfter } from './schedule/occurrences.ts';
import { MINUTE_MS, type ScheduleRule } from './schedule/rule.ts';

const HOUR_MS = 60 * MINUTE_MS;
/** Times found before others may go first: some milliseconds. */
export const timesPerCall = 1000;
/** Later than that would surprise whoever chose the time. */
const maxSpreadMs = 10 * MINUTE_MS;

export interface ForecastWindow {
  /** Runs that start in [from_ms, to_ms). */
  from_ms: number;
  to_ms: number;
  bucket_ms: number;
  /** Where the first bucket begins: a multiple of bucket_ms, at or before from_ms. */
  base_ms: number;
  buckets: number;
}

/** At most 673 buckets. */
export function windowOf(fromMs: number, hours: number): ForecastWindow {
  const bucket_ms = (hours <= 3 ? 1 : hours <= 24 ? 5 : 15) * MINUTE_MS;
  const to_ms = fromMs + hours * HOUR_MS;
  const base_ms = Math.floor(fromMs / bucket_ms) * bucket_ms;
  return { from_ms: fromMs, to_ms, bucket_ms, base_ms, buckets: Math.ceil((to_ms - base_ms) / bucket_ms) };
}

export interface ForecastSchedule {
  rule: ScheduleRule;
  fixed_delay: boolean;
  next_ms: number;
  /** How many runs it may still make; null for any number. */
  runs_left: number | null;
}

/** Runs that start in a minute, by the number of the minute since base_ms. */
export type MinuteCounts = Map<number, number>;

/** The question: runs that start in the window, of times after `nowMs`. What lies before is a run already. */
export interface Ahead {
  window: ForecastWindow;
  nowMs: number;
}

/** Yields now and then, so that the caller may let others go first, or give up. */
export function* minuteCounts(schedule: ForecastSchedule, { window, nowMs }: Ahead): Generator<void, MinuteCounts> {
  const { rule, fixed_delay, next_ms, runs_left } = schedule;
  const counts: MinuteCounts = new Map();
  let left = runs_left ?? Number.POSITIVE_INFINITY;
  const add = (ms: number): void => {
    if (ms < window.from_ms || ms >= window.to_ms || left <= 0) return;
    const minute = minuteOf(ms, window);
    counts.set(minute, (counts.get(minute) ?? 0) + 1);
    left -= 1;
  };
  if (fixed_delay) {
    if (rule.end_at === null || next_ms <= rule.end_at) add(next_ms);
    return counts;
  }
  // With a spread a time before the window may start a run within it.
  let after = Math.max(nowMs, window.from_ms - rule.jitter_ms - 1);
  for (;;) {
    const found = occurrencesAfter(rule, after, { limit: timesPerCall, untilMs: window.to_ms - 1 });
    for (const item of found.items) if (!item.excluded) add(item.effective_ms);
    if (found.exhausted || left <= 0) return counts;
    after = found.lookedUntilMs;
    yield;
  }
}

/** A spread that takes a schedule out of a crowded minute and leaves it at its pace; null when there is none. */
export function spreadOf({ rule, fixed_delay }: ForecastSchedule, atMs: number): number | null {
  if (fixed_delay || rule.jitter_ms > 0) return null;
  const [first, second] = occurrencesAfter(rule, atMs - 1, { limit: 2 }).items;
  if (first === undefined) return null;
  const gap = second === undefined ? Number.POSITIVE_INFINITY : second.nominal_ms - first.nominal_ms;
  const spread = Math.min(Math.floor(gap / 2 / MINUTE_MS) * MINUTE_MS, maxSpreadMs);
  return spread < MINUTE_MS ? null : spread;
}

export function minuteOf(ms: number, { base_ms }: ForecastWindow): number {
  return Math.floor((ms - base_ms) / MINUTE_MS);
}
