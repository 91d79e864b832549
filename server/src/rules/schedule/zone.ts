// Time zones as pieces of time with one offset each, found by asking Intl every three days of a year and searching where
// the answers differ. The tables of a year are kept, so that a warm question costs a look into two maps. Promises for
// every instant from 1970 to 9999: the offset, what the clocks left out before the piece, what they show twice.
import { closest } from '../closest.ts';
import { DAY_MS, LAST_MS, scheduleLimits } from './rule.ts';

/** The time between two changes of the clocks, cut at the turn of the year (in UTC). */
export interface Piece {
  year: number;
  /** First instant, and the first that no longer belongs to it. */
  from: number;
  to: number;
  /** Local time minus UTC. */
  offset: number;
  /** Local times from here to the piece's first were left out right before it; equal to its first when none were. */
  gap_from: number;
  /** Local times below this are shown for the second time. */
  seen_below: number;
  /** Local times from here on will be shown again. */
  again_from: number;
  /** The change before it and the one after it, if they are near: for words. */
  before: Change | null;
  after: Change | null;
}

/** The first instant with the new offset. */
export interface Change {
  at: number;
  before: number;
  after: number;
}

export interface Zone {
  name: string;
  years: Map<number, Piece[]>;
}

/** The shortest time two opposite changes were ever apart is a week (Boa Vista, 2000). */
const SAMPLE_MS = 3 * DAY_MS;
/** Changes this near to the turn of a year are seen from both sides; a change moves clocks by a day at most. */
const MARGIN_MS = 2 * DAY_MS;
/** All names that are known, and some more. */
const MAX_ZONES = 700;
const MAX_YEARS = 64;
/** A formatter is heavy (some 50 KB) and needed only for a year that is new. */
const MAX_FORMATTERS = 32;

const zones = new Map<string, Zone>();
const formatters = new Map<string, Intl.DateTimeFormat>();

/** Throws if Intl does not know the name: ask zoneProblem first. */
export function zoneOf(name: string): Zone {
  let zone = zones.get(name);
  if (zone === undefined) {
    formatterOf(name);
    zone = { name, years: new Map() };
    keep(zones, name, zone, MAX_ZONES);
  }
  return zone;
}

/** The piece that holds an instant. */
export function pieceAt(zone: Zone, ms: number): Piece {
  const year = new Date(ms).getUTCFullYear();
  const pieces = piecesOf(zone, year);
  for (const piece of pieces) if (ms < piece.to) return piece;
  throw new RangeError(`no offset of ${zone.name} is known at ${ms}`);
}

export function piecesOf(zone: Zone, year: number): Piece[] {
  let pieces = zone.years.get(year);
  if (pieces === undefined) {
    pieces = makePieces(zone.name, year);
    keep(zone.years, year, pieces, MAX_YEARS);
  }
  return pieces;
}

function makePieces(name: string, year: number): Piece[] {
  const start = Date.UTC(year, 0, 1);
  const end = Date.UTC(year + 1, 0, 1);
  const { first, changes } = changesBetween(name, start - MARGIN_MS, end + MARGIN_MS);
  const inside = changes.filter(({ at }) => at > start && at < end).map(({ at }) => at);
  const edges = [start, ...inside, end];
  return inside.concat(end).map((to, i) => {
    const from = edges[i] ?? start;
    const before = changes.findLast(({ at }) => at <= from);
    const after = changes.find(({ at }) => at >= to);
    const offset = before?.after ?? first;
    const isGap = before !== undefined && before.at === from && before.after > before.before;
    return {
      year,
      from,
      to,
      offset,
      gap_from: from + (isGap ? before.before : offset),
      seen_below: before === undefined || before.after > before.before ? -Infinity : before.at + before.before,
      again_from: after === undefined || after.after > after.before ? Infinity : after.at + after.after,
      before: before ?? null,
      after: after ?? null,
    };
  });
}

function changesBetween(name: string, from: number, to: number): { first: number; changes: Change[] } {
  const formatter = formatterOf(name);
  const first = offsetAt(formatter, from);
  const changes: Change[] = [];
  let before = first;
  for (let low = from; low < to; low += SAMPLE_MS) {
    const high = Math.min(low + SAMPLE_MS, to);
    const after = offsetAt(formatter, high);
    if (after === before) continue;
    changes.push({ at: firstOther(formatter, low, high), before, after });
    before = after;
  }
  return { first, changes };
}

/** The first instant in (low, high] with the offset of `high`; changes happen at whole seconds. */
function firstOther(formatter: Intl.DateTimeFormat, low: number, high: number): number {
  const wanted = offsetAt(formatter, high);
  let before = low / 1000;
  let after = high / 1000;
  while (after - before > 1) {
    const middle = Math.floor((before + after) / 2);
    if (offsetAt(formatter, middle * 1000) === wanted) after = middle;
    else before = middle;
  }
  return after * 1000;
}

function offsetAt(formatter: Intl.DateTimeFormat, ms: number): number {
  const [month, day, year, hour, minute, second] = (formatter.format(ms).match(/\d+/g) ?? []).map(Number);
  return Date.UTC(year ?? 0, (month ?? 0) - 1, day, hour, minute, second) - ms;
}

function formatterOf(name: string): Intl.DateTimeFormat {
  let formatter = formatters.get(name);
  if (formatter === undefined) {
    formatter = new Intl.DateTimeFormat('en-US', {
      timeZone: name,
      calendar: 'gregory',
      numberingSystem: 'latn',
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
    keep(formatters, name, formatter, MAX_FORMATTERS);
  }
  return formatter;
}

/** The oldest goes when the map is full. */
function keep<K, V>(map: Map<K, V>, key: K, value: V, max: number): void {
  if (map.size >= max) {
    const [oldest] = map.keys();
    map.delete(oldest as K);
  }
  map.set(key, value);
}

/** Of the abbreviations Intl knows only these are names of IANA: BST would be Bangladesh, IST India and Israel. */
const abbreviations = new Set('UTC UCT GMT CET MET EET WET EST MST HST PRC ROC ROK'.split(' '));

/** What is wrong with the name of a zone and how to mend it, or null. */
export function zoneProblem(name: string): string | null {
  const advice = 'write a name such as Europe/Paris or UTC';
  if (name === '') return `is empty; ${advice}`;
  if (name.length > scheduleLimits.max_timezone_chars) return `is too long to be a time zone; ${advice}`;
  if (/^(UTC|GMT)?[+-]?\d/i.test(name) && !/^GMT[+-]?0$/i.test(name)) {
    return 'is an offset, which knows no clock changes; write a name such as Europe/Paris, or Etc/GMT-1 for UTC+1';
  }
  if (!/^[A-Za-z][\w+-]*(\/[A-Za-z0-9][\w+-]*){0,2}$/.test(name)) return `is not a time zone; ${advice}`;
  const upper = name.toUpperCase();
  if (name.length === 3 && !abbreviations.has(upper)) {
    return `"${name}" is an abbreviation that means several zones; ${advice}`;
  }
  if (!upper.startsWith('SYSTEMV/') && isKnown(name)) return null;
  const near = closest(name, Intl.supportedValuesOf('timeZone'));
  return `"${name}" is not a known time zone; ${near === null ? advice : `did you mean ${near}?`}`;
}

function isKnown(name: string): boolean {
  try {
    zoneOf(name);
    return true;
  } catch {
    return false;
  }
}

/** Into the time that tables know. */
export function within(ms: number): number {
  return Math.min(Math.max(ms, 0), LAST_MS);
}
