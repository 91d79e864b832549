// A cron expression as tables that answer quickly. Written by hand and not with croner 11: that one loses several fixed
// times in one gap (10,20,30 2 * * * in Berlin's spring) and the day Apia left out, takes 170 µs for a next time in a
// zone, and knows no H. What is asked here is small: which wall-clock times match. Zones and clock changes are decided
// in cron_times.ts. The meaning of the fields is Vixie cron's: if both day fields are restricted, either may match; a
// day field that begins with * restricts nothing by itself, so that */2 in one narrows the other.
import { closest } from '../closest.ts';
import { type Field, FieldError, type FieldKind, fieldKinds, type Part, parseField } from './field.ts';
import { scheduleLimits } from './rule.ts';

export interface Cron {
  text: string;
  fields: Record<keyof typeof fieldKinds, Field>;
  /** For every value the next one that matches, itself included, or -1. */
  nextSecond: Int8Array;
  nextMinute: Int8Array;
  nextHour: Int8Array;
  /** Bit 1 is January; bit 1 the first day; bit 0 Sunday. */
  months: number;
  daysOfMonth: number;
  weekdays: number;
  /** L, LW, 15W, 5L and 5#2: what depends on the month. */
  specialDays: Part[];
  specialWeekdays: Part[];
  /** Both day fields are restricted: either may match. */
  either: boolean;
  /** Fires whenever the clock shows a match; nothing is moved out of a gap, nothing left out in an overlap. */
  follows: boolean;
}

const macros: Record<string, string> = {
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
  '@monthly': '0 0 1 * *',
  '@weekly': '0 0 * * 0',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@hourly': '0 * * * *',
};

const order = ['second', 'minute', 'hour', 'dayOfMonth', 'month', 'dayOfWeek'] as const;

/** `key` decides what H stands for. */
export function parseCron(text: string, key: string): { cron: Cron } | { refused: string[] } {
  const words = splitWords(text);
  if (typeof words === 'string') return { refused: [words] };
  const refused: string[] = [];
  const fields: Partial<Cron['fields']> = {};
  for (const [i, name] of order.entries()) {
    const kind: FieldKind = fieldKinds[name];
    try {
      fields[name] = parseField(words[i] ?? '', kind, key);
    } catch (error) {
      if (!(error instanceof FieldError)) throw error;
      refused.push(`${kind.name} field "${words[i]}": ${error.message}`);
    }
  }
  if (refused.length > 0) return { refused };
  return { cron: tablesOf(text, fields as Cron['fields']) };
}

/** The six fields, or what is wrong. */
function splitWords(text: string): string[] | string {
  if (text.length > scheduleLimits.max_expression_chars) {
    return `is longer than ${scheduleLimits.max_expression_chars} characters; split it into several expressions, or use ranges and steps`;
  }
  const strange = /[^\t\x20-\x7e]/.exec(text)?.[0];
  if (strange !== undefined) {
    const code = (strange.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0');
    return `holds the character U+${code}; write only plain letters, digits, spaces and * , - / ? # ( ) @`;
  }
  const trimmed = text.trim();
  if (trimmed === '') return 'is empty; write five fields, such as 0 9 * * MON-FRI';
  if (trimmed.startsWith('@')) return macroOf(trimmed.toLowerCase());
  const words = trimmed.split(/[\t ]+/);
  if (words.length === 5) return ['0', ...words];
  if (words.length === 6) return words;
  const hint =
    words.length === 7
      ? 'a year is not a field here, use start_at and end_at'
      : 'write minute, hour, day of month, month, day of week, and before them a second if you want one';
  return `has ${words.length} field${words.length === 1 ? '' : 's'} instead of 5 or 6: ${hint}`;
}

function macroOf(word: string): string[] | string {
  const meaning = Object.hasOwn(macros, word) ? macros[word] : undefined;
  if (meaning !== undefined) return ['0', ...meaning.split(' ')];
  if (word === '@reboot') return '@reboot has no time; submit an immediate job when your machine starts';
  const near = closest(word, Object.keys(macros));
  return `${word} is not known; ${near === null ? `write one of ${Object.keys(macros).join(' ')}` : `did you mean ${near}?`}`;
}

function tablesOf(text: string, fields: Cron['fields']): Cron {
  const { second, minute, hour, dayOfMonth, month, dayOfWeek } = fields;
  return {
    text,
    fields,
    nextSecond: nextTable(second, 60),
    nextMinute: nextTable(minute, 60),
    nextHour: nextTable(hour, 24),
    months: bitsOf(month, 13),
    daysOfMonth: bitsOf(dayOfMonth, 32),
    weekdays: bitsOf(dayOfWeek, 7),
    specialDays: dayOfMonth.parts.filter((part) => part.kind !== 'range'),
    specialWeekdays: dayOfWeek.parts.filter((part) => part.kind !== 'range'),
    either: !dayOfMonth.star && !dayOfWeek.star,
    follows: second.follows || minute.follows || hour.follows,
  };
}

export function valuesOf(field: Field): number[] {
  const values: number[] = [];
  for (const part of field.parts) {
    if (part.kind === 'range') for (let value = part.from; value <= part.to; value += part.step) values.push(value);
  }
  return [...new Set(values)].sort((a, b) => a - b);
}

/** Values are taken modulo `count`, which makes Sunday of 7. */
function bitsOf(field: Field, count: number): number {
  return valuesOf(field).reduce((bits, value) => bits | (1 << (value % count)), 0);
}

function nextTable(field: Field, count: number): Int8Array {
  const matches = new Set(valuesOf(field));
  const table = new Int8Array(count + 1).fill(-1);
  for (let value = count - 1; value >= 0; value--) table[value] = matches.has(value) ? value : (table[value + 1] ?? -1);
  return table;
}
