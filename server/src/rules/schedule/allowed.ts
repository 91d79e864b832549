// What a calendar says about an instant, and where the time it excludes begins and ends. Searches go day by day, are
// bounded by the caller, and charge their steps to the call.
import { dayNumber } from './local.ts';
import { type CompiledCalendar, type CompiledWindow, DAY_MS, MINUTE_MS } from './rule.ts';
import { type Piece, pieceAt, within, zoneOf } from './zone.ts';

/** Work that is left in a call. */
export interface Budget {
  steps: number;
}

const MINUTES = 24 * 60;

export function isAllowed(calendar: CompiledCalendar, ms: number): boolean {
  const at = within(ms);
  const local = at + pieceAt(zoneOf(calendar.timezone), at).offset;
  const day = dayNumber(local);
  const minute = Math.floor((local - day * DAY_MS) / MINUTE_MS);
  const { exclude, include } = calendar;
  if (exclude.some((window) => covers(window, day, minute))) return false;
  return include.length === 0 || include.some((window) => covers(window, day, minute));
}

function covers(window: CompiledWindow, day: number, minute: number): boolean {
  const { hours } = window;
  let today = false;
  let yesterday = false;
  for (let i = 0; i < hours.length; i += 2) {
    const from = hours[i] ?? 0;
    const to = hours[i + 1] ?? 0;
    if (to > from) today ||= minute >= from && minute < to;
    else {
      today ||= minute >= from;
      yesterday ||= minute < to;
    }
  }
  return (today && matchesDay(window, day)) || (yesterday && matchesDay(window, day - 1));
}

function matchesDay(window: CompiledWindow, day: number): boolean {
  // 1970-01-01 was a Thursday.
  if ((window.weekdays & (1 << ((((day + 4) % 7) + 7) % 7))) === 0) return false;
  const { spans, yearly } = window;
  if (spans === null || yearly === null) return true;
  // How many bounds lie at or below the day: odd inside a span, where `to` still belongs to it.
  const below = countBelow(spans, day);
  if (below % 2 === 1 || spans[below] === day) return true;
  if (yearly.length === 0) return false;
  const date = new Date(day * DAY_MS);
  const key = (date.getUTCMonth() + 1) * 100 + date.getUTCDate();
  return yearly[countBelow(yearly, key)] === key;
}

/** How many of the sorted numbers are smaller. */
function countBelow(sorted: readonly number[], value: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] ?? 0) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The minutes of a day that are allowed, as from, to, from, to, … sorted and apart. */
function allowedMinutes(calendar: CompiledCalendar, day: number): number[] {
  const marks = new Uint8Array(MINUTES);
  if (calendar.include.length === 0) marks.fill(1);
  for (const window of calendar.include) mark(marks, window, day, 1);
  for (const window of calendar.exclude) mark(marks, window, day, 0);
  const allowed: number[] = [];
  for (let minute = 0; minute < MINUTES; ) {
    const from = marks.indexOf(1, minute);
    if (from === -1) break;
    const end = marks.indexOf(0, from);
    minute = end === -1 ? MINUTES : end;
    allowed.push(from, minute);
  }
  return allowed;
}

function mark(marks: Uint8Array, window: CompiledWindow, day: number, value: 0 | 1): void {
  const { hours } = window;
  const today = matchesDay(window, day);
  const yesterday = matchesDay(window, day - 1);
  for (let i = 0; i < hours.length; i += 2) {
    const from = hours[i] ?? 0;
    const to = hours[i + 1] ?? 0;
    if (today) marks.fill(value, from, to > from ? to : MINUTES);
    if (yesterday && to <= from) marks.fill(value, 0, to);
  }
}

/** What judging a day costs, in steps. */
function stepsOf(calendar: CompiledCalendar): number {
  return 1 + Math.floor((calendar.exclude.length + calendar.include.length) / 4);
}

/** The first allowed instant in [from, latest], or null. */
export function nextAllowed(calendar: CompiledCalendar, from: number, latest: number, budget: Budget): number | null {
  const zone = zoneOf(calendar.timezone);
  for (let at = from; at <= latest; budget.steps -= stepsOf(calendar)) {
    const piece = pieceAt(zone, at);
    const day = dayNumber(at + piece.offset);
    const midnight = day * DAY_MS - piece.offset;
    const end = Math.min(piece.to, midnight + DAY_MS);
    const minutes = allowedMinutes(calendar, day);
    for (let i = 0; i < minutes.length; i += 2) {
      const first = Math.max(at, midnight + (minutes[i] ?? 0) * MINUTE_MS);
      if (first < midnight + (minutes[i + 1] ?? 0) * MINUTE_MS && first < end) return first <= latest ? first : null;
    }
    at = end;
  }
  return null;
}

/** The first instant of the excluded time that holds `until`, or null if it begins before `earliest`. */
export function excludedSince(
  calendar: CompiledCalendar,
  until: number,
  earliest: number,
  budget: Budget,
): number | null {
  const zone = zoneOf(calendar.timezone);
  for (let at = until; at >= earliest - 1; budget.steps -= stepsOf(calendar)) {
    const piece: Piece = pieceAt(zone, at);
    const day = dayNumber(at + piece.offset);
    const midnight = day * DAY_MS - piece.offset;
    const begin = Math.max(piece.from, midnight);
    const minutes = allowedMinutes(calendar, day);
    for (let i = minutes.length - 2; i >= 0; i -= 2) {
      const from = Math.max(begin, midnight + (minutes[i] ?? 0) * MINUTE_MS);
      const to = Math.min(at + 1, midnight + (minutes[i + 1] ?? 0) * MINUTE_MS);
      if (from < to) return to >= earliest ? to : null;
    }
    at = begin - 1;
  }
  return null;
}
