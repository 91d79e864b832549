// One field of a cron expression: its text becomes parts, or a sentence that says what is wrong and how to mend it.
// Names are case-insensitive. `H` is resolved here: it stands for a value that the key decides.
import { closest } from '../closest.ts';
import { spread } from './spread.ts';

export interface FieldKind {
  name: 'second' | 'minute' | 'hour' | 'day of month' | 'month' | 'day of week';
  min: number;
  max: number;
  names: readonly string[];
  /** `H` alone stays below this, so that it exists in every month. */
  hashMax: number;
}

export const weekdayNames = ['SUN', 'MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT'] as const;
export const monthNames = ['JAN', 'FEB', 'MAR', 'APR', 'MAY', 'JUN', 'JUL', 'AUG', 'SEP', 'OCT', 'NOV', 'DEC'] as const;

export const fieldKinds = {
  second: { name: 'second', min: 0, max: 59, names: [], hashMax: 59 },
  minute: { name: 'minute', min: 0, max: 59, names: [], hashMax: 59 },
  hour: { name: 'hour', min: 0, max: 23, names: [], hashMax: 23 },
  dayOfMonth: { name: 'day of month', min: 1, max: 31, names: [], hashMax: 28 },
  month: { name: 'month', min: 1, max: 12, names: monthNames, hashMax: 12 },
  dayOfWeek: { name: 'day of week', min: 0, max: 6, names: weekdayNames, hashMax: 6 },
} as const satisfies Record<string, FieldKind>;

/** A range of one value is a value. In days of the week `to` may be 7, which is Sunday again. */
export interface Range {
  kind: 'range';
  from: number;
  to: number;
  step: number;
}

export type Part =
  | Range
  | { kind: 'last_day' }
  | { kind: 'last_weekday' }
  | { kind: 'nearest_weekday'; day: number }
  | { kind: 'last_of'; weekday: number }
  | { kind: 'nth'; weekday: number; nth: number };

export interface Field {
  text: string;
  parts: Part[];
  /** Begins with `*` or `?`: does not restrict the days. */
  star: boolean;
  /** Holds `*` or a step: follows the time that passes, not the clock on the wall. */
  follows: boolean;
  hashed: boolean;
}

/** Thrown and caught within this folder only: the sentence for the person who wrote the field. */
export class FieldError extends Error {}

export function parseField(text: string, kind: FieldKind, key: string): Field {
  const field: Field = { text, parts: [], star: /^[*?]/.test(text), follows: false, hashed: false };
  for (const item of text.toUpperCase().split(',')) {
    if (item === '') throw new FieldError('has an empty place in its list; remove the comma that is too many');
    if (item.startsWith('H')) {
      field.parts.push(parseHash(item, kind, key));
      field.hashed = true;
    } else {
      field.parts.push(parseSpecial(item, kind) ?? parseRange(item, kind));
    }
    if (/[*?/]/.test(item)) field.follows = true;
  }
  return field;
}

function parseRange(item: string, kind: FieldKind): Range {
  const [base = '', step, ...more] = item.split('/');
  if (more.length > 0) throw new FieldError(`"${item}" has more than one step; write one, such as */5`);
  const by = step === undefined ? 1 : parseStep(step, kind);
  if (base === '*') return { kind: 'range', from: kind.min, to: kind.max, step: by };
  if (base === '?') {
    const instead = step === undefined ? '*' : `*/${step}`;
    const isDay = kind.name === 'day of month' || kind.name === 'day of week';
    if (!isDay || step !== undefined) throw new FieldError(`"${item}" is not known here; write ${instead}`);
    return { kind: 'range', from: kind.min, to: kind.max, step: 1 };
  }
  const [first = '', last, ...rest] = base.split('-');
  if (rest.length > 0 || first === '' || last === '') {
    throw new FieldError(`"${item}" is not a value or a range; write ${exampleOf(kind)}`);
  }
  const from = parseValue(first, kind);
  if (last === undefined) return { kind: 'range', from, to: step === undefined ? from : kind.max, step: by };
  const named = last === 'SUN' && from > 0;
  const to = named ? 7 : parseValue(last, kind);
  if (to < from) {
    throw new FieldError(`"${item}" runs backwards; write ${turned(first, last, { from, to }, kind)}`);
  }
  return { kind: 'range', from, to, step: by };
}

function parseStep(text: string, kind: FieldKind): number {
  const count = kind.max - kind.min + 1;
  const step = /^\d{1,4}$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isNaN(step)) throw new FieldError(`the step "${text}" is not a number; write 1 to ${count}`);
  if (step === 0) throw new FieldError(`a step of 0 never moves on; write 1 to ${count}`);
  if (step > count) {
    throw new FieldError(
      `a step of ${step} is longer than the field, which starts anew after ${count}; write 1 to ${count}, or use INTERVAL`,
    );
  }
  return step;
}

function parseValue(word: string, kind: FieldKind): number {
  if (/^\d{1,4}$/.test(word)) {
    const value = Number(word);
    const max = kind.name === 'day of week' ? 7 : kind.max;
    if (value < kind.min || value > max) {
      throw new FieldError(`${value} is outside ${kind.min} to ${max}`);
    }
    return value;
  }
  const at = kind.names.indexOf(word);
  if (at !== -1) return at + kind.min;
  const near = closest(word, kind.names);
  throw new FieldError(
    `"${word}" is not known; ${near === null ? `write ${exampleOf(kind)}` : `did you mean ${near}?`}`,
  );
}

/** What only days know: L, LW, 15W in the month; 5L, FRIL, 5#2, FRI#2 in the week. */
function parseSpecial(item: string, kind: FieldKind): Part | null {
  if (kind.name === 'day of month') {
    if (item === 'L') return { kind: 'last_day' };
    if (item === 'LW' || item === 'WL') return { kind: 'last_weekday' };
    const nearest = /^(\d{1,4})W$/.exec(item);
    if (nearest !== null) return { kind: 'nearest_weekday', day: parseValue(nearest[1] ?? '', kind) };
    if (/^L|W/.test(item)) {
      throw new FieldError(`"${item}" is not known; write L (last day), LW (last weekday) or 15W (weekday nearest 15)`);
    }
  }
  if (kind.name === 'day of week') {
    const nth = /^(\w+)#(\w*)$/.exec(item);
    if (nth !== null) {
      if (!/^[1-5]$/.test(nth[2] ?? '')) throw new FieldError(`"${item}": after # stands a number from 1 to 5`);
      return { kind: 'nth', weekday: parseValue(nth[1] ?? '', kind) % 7, nth: Number(nth[2]) };
    }
    if (item === 'L') throw new FieldError('"L" alone is not clear; write the day before it, such as FRIL');
    const last = /^(\d|[A-Z]{3})L$/.exec(item);
    if (last !== null) return { kind: 'last_of', weekday: parseValue(last[1] ?? '', kind) % 7 };
    if (item.includes('#')) throw new FieldError(`"${item}" is not known; write one day before #, such as FRI#2`);
  }
  return null;
}

/** As in Jenkins: H, H/15, H(0-29), H(0-29)/10. */
function parseHash(item: string, kind: FieldKind, key: string): Range {
  const match = /^H(?:\((\w+)-(\w+)\))?(?:\/(\w+))?$/.exec(item);
  if (match === null) throw new FieldError(`"${item}" is not known; write H, H/15, H(0-29) or H(0-29)/10`);
  const from = match[1] === undefined ? kind.min : parseValue(match[1], kind);
  const to = match[2] === undefined ? kind.hashMax : parseValue(match[2], kind);
  if (to < from) throw new FieldError(`"${item}" runs backwards; write the smaller value first`);
  const count = to - from + 1;
  if (match[3] === undefined) {
    const value = from + spread(`${kind.name} ${key}`, count);
    return { kind: 'range', from: value, to: value, step: 1 };
  }
  const step = parseStep(match[3], kind);
  if (step > count) throw new FieldError(`"${item}": the step is longer than the range; write 1 to ${count}`);
  return { kind: 'range', from: from + spread(`${kind.name} ${key}`, step), to, step };
}

function exampleOf(kind: FieldKind): string {
  const { names, min, max } = kind;
  if (names.length === 0) return `numbers from ${min} to ${max}, such as ${min},${min + 5} or ${min + 1}-${min + 4}`;
  return `${min} to ${max} or ${names[0]} to ${names.at(-1)}`;
}

/** The two ranges that say what a backward one meant. */
function turned(first: string, last: string, range: { from: number; to: number }, kind: FieldKind): string {
  const named = !/^\d+$/.test(first + last);
  const word = (value: number): string => (named ? (kind.names[value - kind.min] ?? `${value}`) : `${value}`);
  const left = range.from >= kind.max ? word(range.from) : `${word(range.from)}-${word(kind.max)}`;
  const right = range.to === kind.min ? word(range.to) : `${word(kind.min)}-${word(range.to)}`;
  return `${left},${right}`;
}
