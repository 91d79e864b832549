// What a person should know about a schedule that is right but may surprise: shown when it is made, never a refusal.
import { type Cron, valuesOf } from './cron.ts';
import { changeWords } from './explain.ts';
import { daysOf, matchesMonth, nextLocal, timeText } from './local.ts';
import { type CronRule, DAY_MS, type ScheduleRule } from './rule.ts';
import { cronsOf } from './source.ts';
import { listWords, monthWords } from './words.ts';
import { type Change, piecesOf, within, zoneOf } from './zone.ts';

export interface ScheduleWarning {
  code:
    | 'every_second'
    | 'leap_years_only'
    | 'months_left_out'
    | 'either_day'
    | 'herd'
    | 'dst_gap_moved'
    | 'dst_gap_skipped'
    | 'dst_overlap';
  message: string;
}

/** Looks at the coming year; no more than this many clock changes are told of. */
const MAX_CHANGES = 6;

export function warningsOf(rule: ScheduleRule, nowMs: number): ScheduleWarning[] {
  if (rule.type === 'INTERVAL') return rule.every_ms === 1000 ? [everySecond] : [];
  const warnings = cronsOf(rule).flatMap((cron) => [...ofTimes(cron, rule), ...ofDays(cron)]);
  warnings.push(...ofClockChanges(rule, within(nowMs)));
  // Several expressions may deserve the same one.
  return warnings.filter((warning, i) => warnings.findIndex((other) => other.message === warning.message) === i);
}

const everySecond: ScheduleWarning = {
  code: 'every_second',
  message: 'runs every second: 86,400 times a day; a longer distance is kinder to everything it calls',
};

function ofTimes(cron: Cron, rule: CronRule): ScheduleWarning[] {
  const { second, minute, hour } = cron.fields;
  const [seconds, minutes] = [valuesOf(second), valuesOf(minute)];
  if (seconds.length === 60) return minutes.length === 60 && valuesOf(hour).length === 24 ? [everySecond] : [];
  const isHashed = second.hashed || minute.hashed;
  if (rule.jitter_ms > 0 || isHashed || minutes.length > 1 || minutes[0] !== 0 || seconds[0] !== 0) return [];
  const hours = valuesOf(hour);
  const when = hours.length === 1 && hours[0] === 0 ? 'at midnight' : 'on the hour';
  const advice = 'set jitter_ms, or write H instead of 0 in the minute field';
  return [{ code: 'herd', message: `runs ${when}, as many schedules do; to spread the load, ${advice}` }];
}

function ofDays(cron: Cron): ScheduleWarning[] {
  if (cron.either) {
    const { dayOfMonth, dayOfWeek } = cron.fields;
    if (valuesOf(dayOfMonth).length === 31 || valuesOf(dayOfWeek).length >= 7) return [];
    const message = `runs on days that match the day of month or the day of week of "${cron.text}", not only on days that match both`;
    return [{ code: 'either_day', message }];
  }
  if (cron.weekdays !== 127) return [];
  const months = monthWords.map((_, i) => i + 1).filter((month) => matchesMonth(cron, month));
  const without = months.filter((month) => daysOf(cron, 2001, month) === 0);
  if (without.length === 0) return [];
  const isLeapDay = daysOf(cron, 2000, 2) !== 0 && without.includes(2);
  if (without.length === months.length) {
    return [{ code: 'leap_years_only', message: 'runs only in leap years: no other February has a day 29' }];
  }
  const names = without.map(
    (month) => `${monthWords[month - 1]}${month === 2 && isLeapDay ? ' (but in leap years)' : ''}`,
  );
  const message = `never runs in ${listWords(names)}, which ${names.length === 1 ? 'has' : 'have'} no such day; write L for the last day of every month`;
  return [{ code: 'months_left_out', message }];
}

function ofClockChanges(rule: CronRule, nowMs: number): ScheduleWarning[] {
  const fixed = cronsOf(rule).filter((cron) => !cron.follows);
  if (fixed.length === 0) return [];
  const zone = zoneOf(rule.timezone);
  const year = new Date(nowMs).getUTCFullYear();
  const from = Math.max(nowMs, rule.start_at ?? 0);
  const until = Math.min(nowMs + 366 * DAY_MS, rule.end_at ?? Infinity);
  return [...piecesOf(zone, year), ...piecesOf(zone, year + 1)]
    .flatMap(({ before, from: begin }) => (before !== null && before.at === begin ? [before] : []))
    .filter(({ at }) => at >= from && at <= until)
    .slice(0, MAX_CHANGES)
    .flatMap((change) => fixed.flatMap((cron) => ofChange(cron, change, rule)));
}

function ofChange(cron: Cron, change: Change, rule: CronRule): ScheduleWarning[] {
  const [from, to] = [change.at + change.before, change.at + change.after];
  const local = nextLocal(cron, Math.min(from, to));
  if (local === null || local >= Math.max(from, to)) return [];
  const words = changeWords(local, change, rule.timezone);
  if (from > to) {
    const which = rule.dst_overlap === 'first' ? 'only at the first' : 'at both';
    return [{ code: 'dst_overlap', message: `${words}; runs ${which}` }];
  }
  if (rule.dst_gap === 'skip') return [{ code: 'dst_gap_skipped', message: `${words}; does not run then` }];
  const at = timeText(to);
  return [{ code: 'dst_gap_moved', message: `${words}; runs at ${at}` }];
}
