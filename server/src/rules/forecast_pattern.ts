// Schedules that start runs together, pure: most schedules of a house share a few hundred rules, so the forecaster keeps for
// each no more than its pattern and what is its own, and computes the times of a pattern once for all of them.
import { type Ahead, type ForecastSchedule, type ForecastWindow, minuteOf, timesPerCall } from './forecast.ts';
import { occurrencesAfter } from './schedule/occurrences.ts';
import { MINUTE_MS, type ScheduleRule } from './schedule/rule.ts';
import { cronsOf } from './schedule/source.ts';
import { spread } from './schedule/spread.ts';

/**
 * `same`: all its schedules start runs at the same times, those of `schedule`. `delayed`: at those of `schedule`, each later by
 * a delay of its own. `every`: from a time of its own on, at a distance that is the same for all.
 */
export type Pattern = Same | Shifted;

export interface Same {
  kind: 'same';
  schedule: ForecastSchedule;
}

export type Shifted = Delayed | Every;

export interface Delayed {
  kind: 'delayed';
  schedule: ForecastSchedule;
}

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
const ownParts = /"(?:jitter_key":"[^"]*"|anchor_ms":-?\d+)/g;

/** A rule as it is stored, without what is the schedule's own. */
export function bareRule(text: string): string {
  return text.replace(ownParts, '');
}

/** Which pattern a schedule has, whose rule is stored as `text`; the id is for one that shares its pattern with nobody. */
export function placeOf(schedule: ForecastSchedule, text: string, id: string): Placed {
  const { rule, fixed_delay, next_ms, runs_left } = schedule;
  const bare = bareRule(text);
  const alone = { kind: 'same', key: id, ...together } as const;
  if (fixed_delay && runs_left !== 0)
    return { kind: 'every', key: `once ${rule.end_at}`, begin_ms: next_ms, delay_ms: 0 };
  if (fixed_delay) return alone;
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

/** What schedules of a `delayed` or an `every` share: times that each of them moves by a shift of its own. */
export interface SharedTimes {
  times: readonly number[];
  /** All begin a minute: then whole minutes of a shift move all of them alike. */
  areWholeMinutes: boolean;
}

/** Yields now and then, as minuteCounts does. */
export function* sharedTimes(pattern: Shifted, ahead: Ahead): Generator<void, SharedTimes> {
  const times = pattern.kind === 'every' ? grid(pattern, ahead) : yield* nominalTimes(pattern.schedule, ahead);
  return { times, areWholeMinutes: times.every((time) => time % MINUTE_MS === 0) };
}

/** Multiples of the distance: each schedule of it begins somewhere between two of these. */
function grid({ schedule: { rule }, every_ms }: Every, { window, nowMs }: Ahead): number[] {
  if (every_ms === Number.POSITIVE_INFINITY) return [0];
  const from = Math.max(nowMs, window.from_ms - rule.jitter_ms) - every_ms;
  const times: number[] = [];
  for (let at = Math.ceil(from / every_ms) * every_ms; at < window.to_ms; at += every_ms) times.push(at);
  return times;
}

function* nominalTimes({ rule }: ForecastSchedule, { window, nowMs }: Ahead): Generator<void, number[]> {
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

/** Runs of one schedule: one for each of the shared times from `first` up to before `end`, later by `shift_ms`. */
export interface Span {
  first: number;
  end: number;
  shift_ms: number;
}

export function spanOf(pattern: Shifted, { times }: SharedTimes, own: Own, { window, nowMs }: Ahead): Span {
  const { begin_ms, delay_ms } = own;
  const { rule, fixed_delay } = pattern.schedule;
  const isOnce = pattern.kind === 'every' && fixed_delay;
  // Where in the distance it begins.
  const phase = pattern.kind !== 'every' ? 0 : isOnce ? begin_ms : modulo(begin_ms, pattern.every_ms);
  const shift_ms = phase + delay_ms;
  let from = window.from_ms - shift_ms;
  let to = window.to_ms - shift_ms;
  if (pattern.kind === 'every') {
    if (!isOnce) from = Math.max(from, Math.max(nowMs + 1, begin_ms, rule.start_at ?? 0) - phase);
    if (rule.end_at !== null) to = Math.min(to, rule.end_at + 1 - phase);
  }
  return { first: firstFrom(times, from), end: firstFrom(times, to), shift_ms };
}

/** The place of the first time that is not before another. */
function firstFrom(times: readonly number[], ms: number): number {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((times[middle] ?? 0) < ms) low = middle + 1;
    else high = middle;
  }
  return low;
}

function modulo(value: number, by: number): number {
  return ((value % by) + by) % by;
}

/** Told of runs that start in a minute. */
export type Add = (minute: number, runs: number) => void;

/** Tells of the runs of a span, as those of `schedules` that have the same. */
export function addSpan({ times }: SharedTimes, span: Span, window: ForecastWindow, add: Add, schedules = 1): void {
  for (let i = span.first; i < span.end; i++) add(minuteOf((times[i] ?? 0) + span.shift_ms, window), schedules);
}
