// Schedules that start runs together, pure: most schedules of a house share a few hundred rules, so the forecaster keeps for
// each no more than its pattern and what is its own, and computes the times of a pattern once for all of them.
import { type Ahead, type ForecastSchedule, minuteOf, timesPerCall } from './forecast.ts';
import { occurrencesAfter } from './schedule/occurrences.ts';
import type { ScheduleRule } from './schedule/rule.ts';
import { cronsOf } from './schedule/source.ts';
import { spread } from './schedule/spread.ts';

/**
 * `same`: all its schedules start runs at the same times, those of `schedule`. `delayed`: at those of `schedule`, each later by
 * a delay of its own. `every`: from a time of its own on, at a distance that is the same for all.
 */
export type Pattern = { kind: 'same' | 'delayed'; schedule: ForecastSchedule } | Every;

export interface Every {
  kind: 'every';
  schedule: ForecastSchedule;
  /** Infinite for what starts once: a fixed delay, whose later times depend on the ends of its runs. */
  every_ms: number;
}

/** What is a schedule's own: where an `every` begins, and how much later than planned its runs start. */
export interface Own {
  begin_ms: number;
  delay_ms: number;
}

export interface Placed extends Own {
  /** The same for schedules of the same pattern. */
  key: string;
  kind: Pattern['kind'];
}

const together: Own = { begin_ms: 0, delay_ms: 0 };
const own = /"(?:jitter_key":"[^"]*"|anchor_ms":-?\d+)/g;

/** A rule as it is stored, without what is the schedule's own. */
export function bareRule(text: string): string {
  return text.replace(own, '');
}

/** Which pattern a schedule has, whose rule is stored as `text`; the id is for one that shares its pattern with nobody. */
export function placeOf(schedule: ForecastSchedule, text: string, id: string): Placed {
  const { rule, fixed_delay, next_ms, runs_left } = schedule;
  const bare = bareRule(text);
  if (fixed_delay) return { kind: 'every', key: `once ${rule.end_at}`, begin_ms: next_ms, delay_ms: 0 };
  const alone = { kind: 'same', key: id, ...together } as const;
  const delay_ms = rule.jitter_ms === 0 ? 0 : spread(rule.jitter_key, rule.jitter_ms + 1);
  if (rule.type === 'INTERVAL') {
    if (runs_left !== null || rule.calendar !== null) return alone;
    return { kind: 'every', key: bare, begin_ms: rule.anchor_ms, delay_ms };
  }
  const key = `${bare} ${hashesOf(rule)}`;
  if (rule.jitter_ms === 0) return { kind: 'same', key: `${key} ${runs_left}`, ...together };
  return runs_left === null ? { kind: 'delayed', key, begin_ms: 0, delay_ms } : alone;
}

/** Do all schedules with this bare rule share one pattern, and nothing is their own? Then only the first need be looked at. */
export function isPlain({ rule, fixed_delay, runs_left }: ForecastSchedule): boolean {
  return !fixed_delay && runs_left === null && rule.type === 'CRON' && rule.jitter_ms === 0 && !hasHash(rule);
}

export function patternOf(kind: Pattern['kind'], schedule: ForecastSchedule): Pattern {
  if (kind !== 'every') return { kind, schedule };
  const { rule, fixed_delay } = schedule;
  const every_ms = fixed_delay || rule.type === 'CRON' ? Number.POSITIVE_INFINITY : rule.every_ms;
  return { kind, schedule, every_ms };
}

/** `H` stands for a number that the schedule's key decides. */
function hasHash(rule: ScheduleRule): boolean {
  return rule.type === 'CRON' && rule.expressions.some((expression) => /\bH\b/i.test(expression));
}

/** What each `H` stands for. */
function hashesOf(rule: ScheduleRule): string {
  if (rule.type === 'INTERVAL' || !hasHash(rule)) return '';
  const fields = cronsOf(rule).flatMap((cron) => Object.values(cron.fields));
  return JSON.stringify(fields.map((field) => (field.hashed ? field.parts : 0)));
}

/** Told of runs that start in a minute. */
export type Add = (minute: number, runs: number) => void;

/** Tells of each run that a schedule of an `every` starts. */
export function everyMinute(pattern: Every, { begin_ms, delay_ms }: Own, ahead: Ahead, add: Add): void {
  const { every_ms } = pattern;
  const { start_at, end_at } = pattern.schedule.rule;
  const { window, nowMs } = ahead;
  const isOnce = every_ms === Number.POSITIVE_INFINITY;
  const first = isOnce ? window.from_ms : Math.max(nowMs + 1, window.from_ms - delay_ms, start_at ?? 0);
  const end = Math.min(window.to_ms - delay_ms, (end_at ?? Number.POSITIVE_INFINITY) + 1);
  const behind = isOnce ? 0 : Math.max(0, Math.ceil((first - begin_ms) / every_ms)) * every_ms;
  for (let at = begin_ms + behind; at < end; at += every_ms) if (at >= first) add(minuteOf(at + delay_ms, window), 1);
}

/** The times that schedules of a `delayed` share, before their delays. Yields now and then, as minuteCounts does. */
export function* sharedTimes({ schedule: { rule } }: Pattern, { window, nowMs }: Ahead): Generator<void, number[]> {
  const times: number[] = [];
  let after = Math.max(nowMs, window.from_ms - rule.jitter_ms - 1);
  for (;;) {
    const found = occurrencesAfter(rule, after, { limit: timesPerCall, untilMs: window.to_ms - 1 });
    for (const { nominal_ms, excluded } of found.items) if (!excluded) times.push(nominal_ms);
    if (found.exhausted) return times;
    after = found.lookedUntilMs;
    yield;
  }
}

/** Tells of each run that a schedule of a `delayed` starts. */
export function delayedMinute(times: readonly number[], { delay_ms }: Own, { window }: Ahead, add: Add): void {
  for (const time of times) {
    const at = time + delay_ms;
    if (at >= window.from_ms && at < window.to_ms) add(minuteOf(at, window), 1);
  }
}
