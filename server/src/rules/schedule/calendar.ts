// Calendars as people write them become compiled windows, or refusals that say how to mend them. A calendar allows a
// time that lies in some `include` window (or none is given) and in no `exclude` window. Judging is in allowed.ts.
import { closest } from '../closest.ts';
import { FieldError, fieldKinds, parseField } from './field.ts';
import {
  type CompiledCalendar,
  type CompiledWindow,
  DAY_MS,
  type FieldRefusal,
  LAST_MS,
  scheduleLimits,
} from './rule.ts';
import { zoneProblem } from './zone.ts';

export interface Calendar {
  /** UTC when left out. */
  timezone?: string;
  exclude?: Window[];
  include?: Window[];
}

/** All parts that are given must match; at least one is given. */
export interface Window {
  /** `2026-12-25`, `12-25` (every year), `2026-12-24/2026-12-31`, `12-24/01-02` (every year) */
  dates?: string[];
  /** `MON-FRI`, `SAT` */
  days?: string[];
  /** `09:00-17:00`, `22:00-06:00` (ends on the next day); the end itself is outside */
  hours?: string[];
}

export function compileCalendar(input: Calendar): { calendar: CompiledCalendar } | { refused: FieldRefusal[] } {
  if (!isObject(input)) return { refused: [{ path: '', message: 'is not an object' }] };
  const refused: FieldRefusal[] = [];
  refuseUnknown(input, ['timezone', 'exclude', 'include'], '', refused);
  const timezone: unknown = input.timezone ?? 'UTC';
  const wrongZone = typeof timezone === 'string' ? zoneProblem(timezone) : 'is not text';
  if (wrongZone !== null) refused.push({ path: 'timezone', message: wrongZone });
  const exclude = compileWindows(input.exclude, 'exclude', refused);
  const include = compileWindows(input.include, 'include', refused);
  if (refused.length > 0) return { refused };
  return { calendar: { timezone: timezone as string, exclude, include } };
}

function compileWindows(input: unknown, path: string, refused: FieldRefusal[]): CompiledWindow[] {
  const windows = listOf(input, path, scheduleLimits.max_windows, refused);
  return windows.map((window, i) => compileWindow(window, `${path}[${i}]`, refused));
}

function compileWindow(input: unknown, path: string, refused: FieldRefusal[]): CompiledWindow {
  const window: Record<string, unknown> = isObject(input) ? input : {};
  refuseUnknown(window, ['dates', 'days', 'hours'], `${path}.`, refused);
  const part = (name: string, max: number): string[] => textsOf(window[name], `${path}.${name}`, max, refused);
  const dates = part('dates', scheduleLimits.max_dates);
  const days = part('days', scheduleLimits.max_hours);
  const hours = part('hours', scheduleLimits.max_hours);
  if (dates.length + days.length + hours.length === 0) {
    refused.push({ path, message: 'is empty and would mean every time; give dates, days or hours' });
  }
  const spans: number[] = [];
  const yearly: number[] = [];
  let weekdays = days.length === 0 ? 127 : 0;
  const minutes = hours.length === 0 ? [0, MINUTES] : [];
  each(dates, `${path}.dates`, refused, (text) => parseDates(text, spans, yearly));
  each(days, `${path}.days`, refused, (text) => {
    weekdays |= parseDays(text);
  });
  each(hours, `${path}.hours`, refused, (text) => minutes.push(...parseHours(text)));
  return {
    weekdays,
    spans: dates.length === 0 ? null : merge(spans),
    yearly: dates.length === 0 ? null : [...new Set(yearly)].sort((a, b) => a - b),
    hours: minutes,
  };
}

const MINUTES = 24 * 60;

/** Runs `parse` on every text and gathers what it refuses. */
function each(texts: string[], path: string, refused: FieldRefusal[], parse: (text: string) => void): void {
  for (const [i, text] of texts.entries()) {
    try {
      parse(text);
    } catch (error) {
      if (!(error instanceof FieldError)) throw error;
      refused.push({ path: `${path}[${i}]`, message: error.message });
    }
  }
}

function parseDates(text: string, spans: number[], yearly: number[]): void {
  const [first = '', last = first, ...more] = text.split('/');
  const isFull = first.length === 10;
  if (more.length > 0 || isFull !== (last.length === 10)) {
    throw new FieldError('is not a date; write 2026-12-25, 12-25 (every year) or 2026-12-24/2026-12-31');
  }
  if (isFull) {
    const [from, to] = [parseDate(first), parseDate(last)];
    if (to < from) throw new FieldError('ends before it begins; write the earlier date first');
    spans.push(from, to);
    return;
  }
  // 2000 was a leap year: 02-29 is a day of it. An end before the beginning lies in the next year.
  const from = parseDate(`2000-${first}`);
  const to = parseDate(`2000-${last}`);
  const count = (to - from + 366) % 366;
  for (let i = 0; i <= count; i++) {
    const date = new Date((((from + i - DAY_2000) % 366) + DAY_2000) * DAY_MS);
    yearly.push((date.getUTCMonth() + 1) * 100 + date.getUTCDate());
  }
}

const DAY_2000 = Date.UTC(2000, 0, 1) / DAY_MS;

/** Days since 1970. */
function parseDate(text: string): number {
  const match = /^(\d{4})-(\d{2})-(\d{2})$/.exec(text);
  if (match === null) throw new FieldError('is not a date; write 2026-12-25, or 12-25 for every year');
  const ms = Date.UTC(Number(match[1]), Number(match[2]) - 1, Number(match[3]));
  if (new Date(ms).toISOString().slice(0, 10) !== text) throw new FieldError('is a date that does not exist');
  if (ms < 0 || ms > LAST_MS) throw new FieldError('is outside the years 1970 to 9999');
  return ms / DAY_MS;
}

function parseDays(text: string): number {
  if (!/^[\w,-]{1,40}$/.test(text)) throw new FieldError('is not a day; write MON, SAT,SUN or MON-FRI');
  let bits = 0;
  for (const part of parseField(text, fieldKinds.dayOfWeek, '').parts) {
    if (part.kind !== 'range') throw new FieldError('is not a day; write MON, SAT,SUN or MON-FRI');
    for (let day = part.from; day <= part.to; day += part.step) bits |= 1 << (day % 7);
  }
  return bits;
}

function parseHours(text: string): [number, number] {
  const match = /^([01]\d|2[0-3]):([0-5]\d)-(?:([01]\d|2[0-3]):([0-5]\d)|24:00)$/.exec(text);
  if (match === null) throw new FieldError('is not a range of hours; write 09:00-17:00, or 22:00-06:00 over midnight');
  const from = Number(match[1]) * 60 + Number(match[2]);
  const to = match[3] === undefined ? MINUTES : Number(match[3]) * 60 + Number(match[4]);
  if (from === to) throw new FieldError('begins and ends at the same time; for the whole day leave hours out');
  return [from, to];
}

/** Sorted, and joined where they touch. */
function merge(spans: readonly number[]): number[] {
  const pairs: [number, number][] = [];
  for (let i = 0; i < spans.length; i += 2) pairs.push([spans[i] ?? 0, spans[i + 1] ?? 0]);
  pairs.sort((a, b) => a[0] - b[0]);
  const merged: [number, number][] = [];
  for (const [from, to] of pairs) {
    const last = merged.at(-1);
    if (last !== undefined && from <= last[1] + 1) last[1] = Math.max(last[1], to);
    else merged.push([from, to]);
  }
  return merged.flat();
}

function listOf(input: unknown, path: string, max: number, refused: FieldRefusal[]): unknown[] {
  if (input === undefined || input === null) return [];
  if (!Array.isArray(input)) {
    refused.push({ path, message: 'is not a list' });
    return [];
  }
  if (input.length <= max) return input as unknown[];
  refused.push({ path, message: `has ${input.length} entries; ${max} at most` });
  return [];
}

function textsOf(input: unknown, path: string, max: number, refused: FieldRefusal[]): string[] {
  const list = listOf(input, path, max, refused);
  if (list.every((item) => typeof item === 'string' && item.length <= 40)) return list as string[];
  refused.push({ path, message: 'is not a list of short texts' });
  return [];
}

function isObject(input: unknown): input is Record<string, unknown> {
  return typeof input === 'object' && input !== null && !Array.isArray(input);
}

export function refuseUnknown(input: object, known: readonly string[], path: string, refused: FieldRefusal[]): void {
  for (const name of Object.keys(input).slice(0, 100)) {
    if (known.includes(name)) continue;
    const near = closest(name.slice(0, 40), known);
    refused.push({
      path: `${path}${name.slice(0, 40)}`,
      message: `is not known; ${near === null ? `known are ${known.join(', ')}` : `did you mean ${near}?`}`,
    });
  }
}
