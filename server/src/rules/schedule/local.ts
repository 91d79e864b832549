// Wall-clock times without zones: a local time is the number of milliseconds since 1970 that a clock in UTC would have
// when it shows the same. Finds the next local time that a cron expression matches, in a bounded number of steps.
import type { Cron } from './cron.ts';
import type { Part } from './field.ts';
import { DAY_MS, LAST_MS } from './rule.ts';

/** The rarest kind of year, a leap year that begins on a given day, may be forty years away (from 2088 to 2128). */
const MAX_MONTHS = 41 * 12;

/** The first match at or after `from`; null if there is none before the year 10000, or none at all. */
export function nextLocal(cron: Cron, from: number): number | null {
  const start = new Date(Math.ceil(from / 1000) * 1000);
  let year = start.getUTCFullYear();
  let month = start.getUTCMonth() + 1;
  let day = start.getUTCDate();
  let days = daysOf(cron, year, month);
  const midnight = Date.UTC(year, month - 1, day);
  const second = (start.getTime() - midnight) / 1000;
  if (second > 0) {
    const time = (days & (1 << day)) === 0 ? -1 : nextTimeOfDay(cron, second);
    if (time !== -1) return midnight + time * 1000;
    day += 1;
  }
  for (let months = 0; months < MAX_MONTHS && year <= 9999; months++) {
    for (; day <= 31; day++) {
      if ((days & (1 << day)) !== 0) return Date.UTC(year, month - 1, day) + nextTimeOfDay(cron, 0) * 1000;
    }
    day = 1;
    month = month === 12 ? 1 : month + 1;
    if (month === 1) year += 1;
    days = daysOf(cron, year, month);
  }
  return null;
}

export function matchesMonth(cron: Cron, month: number): boolean {
  return (cron.months & (1 << month)) !== 0;
}

/** Seconds since midnight, or -1 if none is left on the day. */
function nextTimeOfDay(cron: Cron, from: number): number {
  let hour = cron.nextHour[Math.floor(from / 3600)] ?? -1;
  if (hour === Math.floor(from / 3600)) {
    let minute = cron.nextMinute[Math.floor((from % 3600) / 60)] ?? -1;
    if (minute === Math.floor((from % 3600) / 60)) {
      const second = cron.nextSecond[from % 60] ?? -1;
      if (second !== -1) return hour * 3600 + minute * 60 + second;
      minute = cron.nextMinute[minute + 1] ?? -1;
    }
    if (minute !== -1) return hour * 3600 + minute * 60 + (cron.nextSecond[0] ?? 0);
    hour = cron.nextHour[hour + 1] ?? -1;
  }
  if (hour === -1) return -1;
  return hour * 3600 + (cron.nextMinute[0] ?? 0) * 60 + (cron.nextSecond[0] ?? 0);
}

/** The days of a month that match, bit 1 the first. */
export function daysOf(cron: Cron, year: number, month: number): number {
  if (!matchesMonth(cron, month)) return 0;
  const begin = Date.UTC(year, month - 1, 1);
  const length = (Date.UTC(year, month, 1) - begin) / DAY_MS;
  const existing = length === 31 ? -2 : (1 << (length + 1)) - 2;
  // 1970-01-01 was a Thursday.
  const first = (((begin / DAY_MS + 4) % 7) + 7) % 7;
  let byMonth = cron.daysOfMonth;
  for (const part of cron.specialDays) byMonth |= 1 << specialDay(part, first, length);
  let byWeek = cron.weekdays === 127 ? existing : 0;
  for (let weekday = 0; weekday < 7 && byWeek !== existing; weekday++) {
    if ((cron.weekdays & (1 << weekday)) === 0) continue;
    for (let day = firstOf(weekday, first); day <= length; day += 7) byWeek |= 1 << day;
  }
  for (const part of cron.specialWeekdays) byWeek |= 1 << specialDay(part, first, length);
  return (cron.either ? byMonth | byWeek : byMonth & byWeek) & existing;
}

/** The first day of the month that is this weekday. */
function firstOf(weekday: number, first: number): number {
  return 1 + ((weekday - first + 7) % 7);
}

/** The day that L, LW, 15W, 5L or 5#2 means in a month, or 0 (a day that no month has) for none. */
function specialDay(part: Part, first: number, length: number): number {
  const weekdayOf = (day: number): number => (first + day - 1) % 7;
  switch (part.kind) {
    case 'range':
      return 0;
    case 'last_day':
      return length;
    case 'last_weekday':
      return length - (weekdayOf(length) === 6 ? 1 : weekdayOf(length) === 0 ? 2 : 0);
    case 'nearest_weekday': {
      const { day } = part;
      if (day > length) return 0;
      if (weekdayOf(day) === 6) return day === 1 ? 3 : day - 1;
      if (weekdayOf(day) === 0) return day === length ? day - 2 : day + 1;
      return day;
    }
    case 'last_of': {
      const day = firstOf(part.weekday, first) + 28;
      return day <= length ? day : day - 7;
    }
    case 'nth': {
      const day = firstOf(part.weekday, first) + 7 * (part.nth - 1);
      return day <= length ? day : 0;
    }
    default:
      return part satisfies never;
  }
}

/** `2026-03-29T02:30:00`, with milliseconds only where there are some. */
export function localText(local: number): string {
  return new Date(local).toISOString().slice(0, local % 1000 === 0 ? 19 : 23);
}

export function dateText(local: number): string {
  return new Date(Math.min(local, LAST_MS)).toISOString().slice(0, 10);
}

/** `02:30`, with seconds only where there are some. */
export function timeText(local: number): string {
  return new Date(local).toISOString().slice(11, local % 60_000 === 0 ? 16 : 19);
}

export function dayNumber(local: number): number {
  return Math.floor(local / DAY_MS);
}
