// The forecast of one schedule, pure: the window that is looked at, and the minutes in which the schedule starts runs. The
// forecaster (scheduler/forecast.ts) reads the book and asks here; forecast_tally.ts adds up.
import { countBetween, occurrencesAfter } from './schedule/occurrences.ts';
import { MINUTE_MS, type ScheduleRule } from './schedule/rule.ts';

const HOUR_MS = 60 * MINUTE_MS;
/** Times found before others may go first: some milliseconds. */
const perCall = 1000;
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
  planned_until_ms: number;
  /** How many runs it may still make; null for any number. */
  runs_left: number | null;
}

/** Runs that start in a minute, by the number of the minute since base_ms. */
export type MinuteCounts = Map<number, number>;

/** Yields now and then, so that the caller may let others go first, or give up. */
export function* minuteCounts(schedule: ForecastSchedule, window: ForecastWindow): Generator<void, MinuteCounts> {
  const { rule, fixed_delay, next_ms, runs_left } = schedule;
  const counts: MinuteCounts = new Map();
  let left = runs_left ?? Number.POSITIVE_INFINITY;
  const add = (ms: number, runs: number): void => {
    if (ms < window.from_ms || ms >= window.to_ms || runs === 0 || left <= 0) return;
    const minute = minuteOf(ms, window);
    counts.set(minute, (counts.get(minute) ?? 0) + Math.min(runs, left));
    left -= runs;
  };
  if (fixed_delay) {
    if (rule.end_at === null || next_ms <= rule.end_at) add(next_ms, 1);
    return counts;
  }
  // Times up to planned_until have their runs already; with a spread these may wait for a start within the window.
  let after = Math.max(schedule.planned_until_ms, window.from_ms - rule.jitter_ms - 1);
  if (runs_left === null && rule.type === 'INTERVAL' && rule.calendar === null && rule.every_ms < MINUTE_MS) {
    for (const [ms, runs] of frequentStarts(rule, after, window)) add(ms, runs);
    return counts;
  }
  for (;;) {
    const found = occurrencesAfter(rule, after, { limit: perCall, untilMs: window.to_ms - 1 });
    for (const item of found.items) if (!item.excluded) add(item.effective_ms, 1);
    if (found.exhausted || left <= 0) return counts;
    after = found.lookedUntilMs;
    yield;
  }
}

/** An interval under a minute is counted by the minute, not time by time. */
function* frequentStarts(rule: ScheduleRule, afterMs: number, window: ForecastWindow): Generator<[number, number]> {
  const [first] = occurrencesAfter(rule, afterMs).items;
  if (first === undefined) return;
  const delay = first.effective_ms - first.nominal_ms;
  for (let at = window.base_ms; at < window.to_ms; at += MINUTE_MS) {
    const from = Math.max(at, window.from_ms);
    const until = Math.min(at + MINUTE_MS, window.to_ms);
    const { count } = countBetween(rule, Math.max(from - 1 - delay, afterMs), until - 1 - delay, MINUTE_MS);
    yield [from, count];
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

/** A rule as it is stored, without what is the job's own. */
export function bareRule(text: string): string {
  return text.replace(/"jitter_key":"[^"]*"/, '');
}

/** Do all schedules with this bare rule start runs in the same minutes? */
export function isShared({ rule, fixed_delay, runs_left }: ForecastSchedule): boolean {
  if (fixed_delay || runs_left !== null || rule.jitter_ms > 0) return false;
  // `H` stands for a number that the job's key decides.
  return rule.type === 'INTERVAL' || !rule.expressions.some((expression) => /\bH\b/i.test(expression));
}

export function minuteOf(ms: number, { base_ms }: ForecastWindow): number {
  return Math.floor((ms - base_ms) / MINUTE_MS);
}
