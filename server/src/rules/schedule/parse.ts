// A schedule as the API takes it becomes a rule, or refusals that say where, what is wrong and how to mend it. What is
// accepted can run: an expression that names no day that exists, and a calendar that excludes every time, are refused.
// Costs some 50 µs, a millisecond in a zone that is new, and below 50 ms whatever the input.
import { refuseUnknown } from './calendar.ts';
import { type Cron, parseCron, valuesOf } from './cron.ts';
import { dateText, nextLocal } from './local.ts';
import { firstRun } from './occurrences.ts';
import { type CompiledCalendar, type FieldRefusal, LAST_MS, type ScheduleRule, scheduleLimits } from './rule.ts';
import { listWords, monthWords } from './words.ts';
import { zoneProblem } from './zone.ts';

/** Times are milliseconds since 1970. */
export interface ScheduleInput {
  type: 'CRON' | 'INTERVAL';
  /** For CRON: one to ten. */
  expressions?: string[];
  /** For CRON: UTC when left out. */
  timezone?: string;
  /** For INTERVAL. */
  every_ms?: number;
  /** For INTERVAL: start_at, or now, when left out. */
  anchor_ms?: number;
  start_at?: number | null;
  end_at?: number | null;
  dst_gap?: 'run_after' | 'skip';
  dst_overlap?: 'first' | 'both';
  jitter_ms?: number;
  jitter_key: string;
  /** As compileCalendar made it. */
  calendar?: CompiledCalendar | null;
  on_excluded?: 'skip' | 'next' | 'previous';
}

const shared = [
  'type',
  'start_at',
  'end_at',
  'dst_gap',
  'dst_overlap',
  'jitter_ms',
  'jitter_key',
  'calendar',
  'on_excluded',
];
const own = { CRON: ['expressions', 'timezone'], INTERVAL: ['every_ms', 'anchor_ms'] };

/** Takes whatever came as JSON, however wrong. `nowMs`: what lies before it is past. */
export function parseSchedule(
  input: ScheduleInput,
  nowMs: number,
): { rule: ScheduleRule } | { refused: FieldRefusal[] } {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) {
    return { refused: [{ path: '', message: 'is not an object' }] };
  }
  const refused: FieldRefusal[] = [];
  const type = choice(input.type, ['CRON', 'INTERVAL'], 'type', refused);
  if (input.type === undefined) refused.push({ path: 'type', message: 'is missing; write CRON or INTERVAL' });
  if (refused.length > 0) return { refused };
  refuseUnknown(input, [...shared, ...own[type]], '', refused);
  const start_at = timeOf(input.start_at, 'start_at', refused);
  const end_at = timeOf(input.end_at, 'end_at', refused);
  if (start_at !== null && end_at !== null && end_at <= start_at) {
    refused.push({ path: 'end_at', message: 'does not lie after start_at; give a later time, or leave it out' });
  } else if (end_at !== null && end_at < nowMs) {
    refused.push({ path: 'end_at', message: 'lies in the past; give a later time, or leave it out' });
  }
  const rest = {
    start_at,
    end_at,
    dst_gap: choice(input.dst_gap, ['run_after', 'skip'], 'dst_gap', refused),
    dst_overlap: choice(input.dst_overlap, ['first', 'both'], 'dst_overlap', refused),
    jitter_ms: whole(input.jitter_ms ?? 0, { min: 0, max: scheduleLimits.max_jitter_ms }, 'jitter_ms', refused),
    jitter_key: keyOf(input.jitter_key, refused),
    calendar: input.calendar ?? null,
    on_excluded: choice(input.on_excluded, ['skip', 'next', 'previous'], 'on_excluded', refused),
  };
  const rule: ScheduleRule =
    type === 'CRON'
      ? { type, ...cronPart(input, rest.jitter_key, refused), ...rest }
      : { type, ...intervalPart(input, start_at ?? nowMs, refused), ...rest };
  if (refused.length === 0) refused.push(...neverRuns(rule, nowMs));
  return refused.length > 0 ? { refused } : { rule };
}

function cronPart(
  input: ScheduleInput,
  key: string,
  refused: FieldRefusal[],
): { expressions: string[]; timezone: string } {
  const timezone: unknown = input.timezone ?? 'UTC';
  const wrongZone = typeof timezone === 'string' ? zoneProblem(timezone) : 'is not text; write a name as Europe/Paris';
  if (wrongZone !== null) refused.push({ path: 'timezone', message: wrongZone });
  const list: unknown = input.expressions;
  if (!Array.isArray(list) || list.length === 0) {
    refused.push({ path: 'expressions', message: 'is missing; give a list of cron expressions, such as 0 9 * * *' });
    return { expressions: [], timezone: String(timezone) };
  }
  const { max_expressions } = scheduleLimits;
  if (list.length > max_expressions) {
    refused.push({ path: 'expressions', message: `has ${list.length} entries; ${max_expressions} at most` });
    return { expressions: [], timezone: String(timezone) };
  }
  const expressions = list.map((text: unknown, i) => expressionOf(text, `expressions[${i}]`, key, refused));
  return { expressions, timezone: String(timezone) };
}

function expressionOf(text: unknown, path: string, key: string, refused: FieldRefusal[]): string {
  if (typeof text !== 'string') {
    refused.push({ path, message: 'is not text; write a cron expression such as 0 9 * * *' });
    return '';
  }
  const parsed = parseCron(text, key);
  if ('refused' in parsed) refused.push(...parsed.refused.map((message) => ({ path, message })));
  else if (!hasDays(parsed.cron)) {
    const { dayOfMonth, month } = parsed.cron.fields;
    const months = valuesOf(month).map((value) => monthWords[value - 1] ?? '');
    const what = `day of month "${dayOfMonth.text}" does not exist in ${listWords(months, 'or')}`;
    refused.push({ path, message: `would never run: ${what}; mend the day or the month` });
  }
  return text.trim();
}

/** There are 14 kinds of years (leap or not, seven first days): all occur from 2000 to 2040, which one search covers. */
function hasDays(cron: Cron): boolean {
  return nextLocal(cron, Date.UTC(2000, 0, 1)) !== null;
}

function intervalPart(
  input: ScheduleInput,
  anchor: number,
  refused: FieldRefusal[],
): { every_ms: number; anchor_ms: number } {
  const { min_every_ms, max_every_ms } = scheduleLimits;
  if (input.every_ms === undefined) {
    refused.push({ path: 'every_ms', message: 'is missing; give the milliseconds between two times' });
  }
  return {
    every_ms: whole(input.every_ms ?? min_every_ms, { min: min_every_ms, max: max_every_ms }, 'every_ms', refused),
    anchor_ms: whole(input.anchor_ms ?? anchor, { min: 0, max: LAST_MS }, 'anchor_ms', refused),
  };
}

function neverRuns(rule: ScheduleRule, nowMs: number): FieldRefusal[] {
  const from = Math.max(nowMs, rule.start_at ?? 0);
  const { found, lookedUntilMs } = firstRun(rule, from - 1);
  if (found !== null) return [];
  const until = dateText(lookedUntilMs);
  const path = rule.type === 'CRON' ? 'expressions' : 'every_ms';
  if (rule.calendar !== null && firstRun({ ...rule, calendar: null }, from - 1).found !== null) {
    const message = `excludes every time of this schedule that was looked at, up to ${until}; change one of the two`;
    return [{ path: 'calendar', message }];
  }
  if (rule.end_at !== null) return [{ path: 'end_at', message: 'lies before the first time; give a later one' }];
  if (rule.type === 'CRON' && rule.dst_gap === 'skip') {
    const message = `would never run up to ${until}: the clocks leave out every time it names; set dst_gap to run_after`;
    return [{ path, message }];
  }
  return [{ path, message: `would never run up to ${until}` }];
}

function choice<T extends string>(input: unknown, words: readonly [T, ...T[]], path: string, to: FieldRefusal[]): T {
  if (input === undefined) return words[0];
  const found = words.find((word) => word === input);
  if (found === undefined) to.push({ path, message: `is not known; write ${words.join(' or ')}` });
  return found ?? words[0];
}

function whole(input: unknown, range: { min: number; max: number }, path: string, refused: FieldRefusal[]): number {
  const { min, max } = range;
  if (typeof input === 'number' && Number.isSafeInteger(input) && input >= min && input <= max) return input;
  refused.push({ path, message: `is not a whole number of milliseconds from ${min} to ${max}` });
  return min;
}

function timeOf(input: unknown, path: string, refused: FieldRefusal[]): number | null {
  if (input === undefined || input === null) return null;
  if (typeof input === 'number' && Number.isSafeInteger(input) && input >= 0 && input <= LAST_MS) return input;
  refused.push({ path, message: 'is not a time from 1970 to 9999, in whole milliseconds since 1970' });
  return null;
}

function keyOf(input: unknown, refused: FieldRefusal[]): string {
  if (typeof input === 'string' && input.length <= scheduleLimits.max_jitter_key_chars) return input;
  refused.push({ path: 'jitter_key', message: `is not text of ${scheduleLimits.max_jitter_key_chars} characters` });
  return '';
}
