// A rule in plain words: "At 09:00, Monday to Friday, Europe/Paris". The words say exactly what the fields say; where
// there is no short way to say it, they name the values.
import { type Cron, valuesOf } from './cron.ts';
import type { Field, Part } from './field.ts';
import { localText } from './local.ts';
import type { ScheduleRule } from './rule.ts';
import { cronsOf } from './source.ts';
import { capital, everyWords, lengthWords, listWords, monthWords, nthWord, twoDigits, weekdayWords } from './words.ts';

/** More times of day than this are told by their minutes and hours. */
const MAX_TIMES = 6;

/** `fixedDelay`: an interval that counts from the end of the run before. */
export function describe(rule: ScheduleRule, { fixedDelay = false } = {}): string {
  const utc = (ms: number): string => `${localText(ms).replace('T', ' ')} UTC`;
  const words: string[] = [];
  if (rule.type === 'CRON') words.push(cronsOf(rule).map(describeCron).join('; '), rule.timezone);
  else
    words.push(
      fixedDelay
        ? `${capital(lengthWords(rule.every_ms))} after the end of the run before`
        : `Every ${lengthWords(rule.every_ms).replace(/^1 (\w+)$/, '$1')}, counted from ${utc(rule.anchor_ms)}`,
    );
  if (rule.start_at !== null) words.push(`from ${utc(rule.start_at)}`);
  if (rule.end_at !== null) words.push(`until ${utc(rule.end_at)}`);
  if (rule.calendar !== null) words.push(calendarWords[rule.on_excluded]);
  if (rule.jitter_ms > 0) words.push(`spread over ${lengthWords(rule.jitter_ms)}`);
  return words.join(', ');
}

const calendarWords = {
  skip: 'not at times its calendar excludes',
  next: 'moved to the next time its calendar allows',
  previous: 'moved to the last minute before that its calendar allows',
};

export function describeCron(cron: Cron): string {
  return [capital(timeWords(cron)), dayWords(cron), monthsOf(cron)].filter((words) => words !== '').join(', ');
}

function timeWords(cron: Cron): string {
  const { second, minute, hour } = cron.fields;
  const [seconds, minutes, hours] = [valuesOf(second), valuesOf(minute), valuesOf(hour)];
  if (minutes.length * hours.length * seconds.length <= MAX_TIMES) {
    const times = hours.flatMap((h) => minutes.flatMap((m) => seconds.map((s) => clockWords(h, m, s))));
    return `at ${listWords(times)}`;
  }
  const within = hours.length === 24 ? '' : `in the ${valueWords(hour, ['hour', 'hours'], twoDigits)}`;
  const atSecond = seconds.length === 1 && seconds[0] === 0 ? '' : partWords(second, 'second');
  if (minutes.length === 60 && atSecond !== '') return join(atSecond, within);
  if (minutes.length === 1) {
    const past = minutes[0] === 0 ? 'every hour' : `at minute ${minutes[0]} of every hour`;
    const inHours = `at minute ${minutes[0]}`;
    return join(atSecond, within === '' ? past : inHours, within);
  }
  return join(atSecond, partWords(minute, 'minute'), within);
}

function join(...words: string[]): string {
  return words.filter((word) => word !== '').join(', ');
}

function clockWords(hour: number, minute: number, second: number): string {
  const seconds = second === 0 ? '' : `:${twoDigits(second)}`;
  return `${twoDigits(hour)}:${twoDigits(minute)}${seconds}`;
}

/** `every minute`, `every 15 minutes`, `at minutes 5, 10 and 20 to 30` */
function partWords(field: Field, unit: 'second' | 'minute'): string {
  const [part] = field.parts;
  if (field.parts.length === 1 && part?.kind === 'range' && part.from < part.step && part.to === 59) {
    const even = 60 % part.step === 0;
    const start = part.from === 0 ? '' : ` from ${unit} ${part.from}`;
    if (even) return `${everyWords(part.step, unit)}${start}`;
  }
  return `at ${valueWords(field, [unit, `${unit}s`], String)}`;
}

/** `minute 5`, `hours 09 to 17` */
function valueWords(field: Field, [one, many]: [string, string], word: (value: number) => string): string {
  const values = valuesOf(field);
  if (values.length === 1) return `${one} ${word(values[0] ?? 0)}`;
  return `${many} ${valueList(values, word)}`;
}

/** `1, 3, 5 and so on to 31`, `1 to 5 and 9` */
function valueList(values: readonly number[], word: (value: number) => string): string {
  const [first = 0, second = 0] = values;
  const step = second - first;
  if (values.length > 4 && step > 1 && values.every((value, i) => value === first + i * step)) {
    return `${values.slice(0, 3).map(word).join(', ')} and so on to ${word(values.at(-1) ?? 0)}`;
  }
  return listWords(runsOf(values).map(([from, to]) => rangeWords(from, to, word)));
}

function rangeWords(from: number, to: number, word: (value: number) => string): string {
  if (from === to) return word(from);
  return to === from + 1 ? `${word(from)} and ${word(to)}` : `${word(from)} to ${word(to)}`;
}

/** Values that follow each other, as [from, to]. */
function runsOf(values: readonly number[]): [number, number][] {
  const runs: [number, number][] = [];
  for (const value of values) {
    const last = runs.at(-1);
    if (last !== undefined && last[1] === value - 1) last[1] = value;
    else runs.push([value, value]);
  }
  return runs;
}

function dayWords(cron: Cron): string {
  const { dayOfMonth } = cron.fields;
  const allDays = valuesOf(dayOfMonth).length === 31;
  const allWeekdays = cron.weekdays === 127;
  const byMonth = allDays ? '' : listWords(monthDayWords(dayOfMonth));
  const byWeek = allWeekdays ? '' : listWords(weekWords(cron));
  if (cron.either) {
    if (allDays || allWeekdays) return '';
    return `${onDays(byMonth)} or ${onDays(byWeek)}`;
  }
  if (byMonth === '') return cron.specialWeekdays.length > 0 ? onDays(byWeek) : byWeek;
  return byWeek === '' ? onDays(byMonth) : `${onDays(byMonth)}, only if it is ${byWeek}`;
}

function onDays(words: string): string {
  return `on ${words}`;
}

function monthDayWords(field: Field): string[] {
  const values = valuesOf(field);
  const many = values.length === 1 ? 'day' : 'days';
  const words = values.length === 0 ? [] : [`${many} ${valueList(values, String)} of the month`];
  return [...words, ...field.parts.flatMap(specialWords)];
}

function weekWords(cron: Cron): string[] {
  // Sunday goes to the end when Saturday is there too: Friday to Sunday.
  const late = (cron.weekdays & 0b100_0001) === 0b100_0001;
  const values = [0, 1, 2, 3, 4, 5, 6]
    .filter((weekday) => (cron.weekdays & (1 << weekday)) !== 0)
    .map((weekday) => (weekday === 0 && late ? 7 : weekday))
    .sort((a, b) => a - b);
  const word = (weekday: number): string => weekdayWords[weekday % 7] ?? '';
  const days = runsOf(values).map(([from, to]) => rangeWords(from, to, word));
  return [...days, ...cron.fields.dayOfWeek.parts.flatMap(specialWords)];
}

function specialWords(part: Part): string[] {
  switch (part.kind) {
    case 'range':
      return [];
    case 'last_day':
      return ['the last day of the month'];
    case 'last_weekday':
      return ['the last weekday (Monday to Friday) of the month'];
    case 'nearest_weekday':
      return [`the weekday (Monday to Friday) nearest day ${part.day} of the month`];
    case 'last_of':
      return [`the last ${weekdayWords[part.weekday]} of the month`];
    case 'nth':
      return [`the ${nthWord(part.nth)} ${weekdayWords[part.weekday]} of the month`];
    default:
      return part satisfies never;
  }
}

function monthsOf(cron: Cron): string {
  const values = valuesOf(cron.fields.month);
  if (values.length === 12) return '';
  const word = (month: number): string => monthWords[month - 1] ?? '';
  return `in ${listWords(runsOf(values).map(([from, to]) => rangeWords(from, to, word)))}`;
}
