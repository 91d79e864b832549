// The schedule of a job as the API takes it becomes what is stored: what was asked for with the defaults filled in, the
// rule it means, and its first time; or refusals in the words of the API's fields. Pure.
import type { CreateJob, FieldError, PreviewRequest, PutCalendar } from '@punctual/contract';
import { compileCalendar } from './schedule/calendar.ts';
import { occurrencesAfter } from './schedule/occurrences.ts';
import { parseSchedule, type ScheduleInput } from './schedule/parse.ts';
import type { CompiledCalendar, ScheduleRule } from './schedule/rule.ts';

/** The fields of a schedule, as a job or a preview has them. */
export type ScheduleFields = Pick<
  CreateJob,
  | 'cron_expression'
  | 'timezone'
  | 'interval_ms'
  | 'interval_mode'
  | 'start_at'
  | 'end_at'
  | 'dst_gap'
  | 'dst_overlap'
  | 'jitter_ms'
  | 'calendar'
  | 'on_excluded'
  | 'max_runs'
  | 'catch_up'
  | 'max_catch_up_age_ms'
  | 'max_catch_up_count'
  | 'overlap'
  | 'pause_after_failures'
>;

export interface ScheduleContext {
  now_ms: number;
  /** The definition of the calendar that is named, when one is. */
  calendar: PutCalendar | null;
  /** Decides the offset of the jitter and the value of `H`; the same for the life of the job. */
  key: string;
  /** For an interval that goes on from where it began; else start_at, or now. */
  anchor_ms?: number;
}

/** What is written of a schedule when it is made or changed. */
export interface PreparedSchedule {
  spec: string;
  rule: string;
  calendar: string | null;
  overlap: 'queue_one' | 'skip' | 'cancel_other' | 'allow';
  catch_up: 'latest' | 'all' | 'none';
  max_catch_up_age_ms: number | null;
  max_catch_up_count: number;
  max_runs: number | null;
  fixed_delay: boolean;
  pause_after_failures: number | null;
  /** Its first time after now. */
  next_ms: number | null;
}

export function prepareSchedule(
  type: 'CRON' | 'INTERVAL',
  fields: ScheduleFields,
  context: ScheduleContext,
): PreparedSchedule | { refused: FieldError[] } {
  const parsed = toRule(type, fields, context);
  if ('refused' in parsed) return parsed;
  const fixed_delay = type === 'INTERVAL' && fields.interval_mode === 'fixed_delay';
  if (fixed_delay && fields.calendar != null)
    return { refused: [{ path: 'calendar', message: 'does not go with interval_mode fixed_delay' }] };
  const { rule } = parsed;
  const policy = {
    max_runs: fields.max_runs ?? null,
    catch_up: fields.catch_up ?? 'latest',
    max_catch_up_age_ms: fields.max_catch_up_age_ms ?? null,
    max_catch_up_count: fields.max_catch_up_count ?? 100,
    overlap: fields.overlap ?? 'queue_one',
    pause_after_failures: fields.pause_after_failures ?? null,
  } as const;
  const spec = {
    ...(type === 'CRON'
      ? { cron_expression: fields.cron_expression, timezone: fields.timezone ?? 'UTC' }
      : { interval_ms: fields.interval_ms, interval_mode: fields.interval_mode ?? 'fixed_rate' }),
    start_at: fields.start_at ?? null,
    end_at: fields.end_at ?? null,
    dst_gap: rule.dst_gap,
    dst_overlap: rule.dst_overlap,
    jitter_ms: rule.jitter_ms,
    calendar: fields.calendar ?? null,
    on_excluded: rule.on_excluded,
    ...policy,
  };
  return {
    ...policy,
    spec: JSON.stringify(spec),
    rule: JSON.stringify(rule),
    calendar: spec.calendar,
    fixed_delay,
    next_ms: firstTime(rule, fixed_delay, context.now_ms),
  };
}

function firstTime(rule: ScheduleRule, fixedDelay: boolean, nowMs: number): number | null {
  if (fixedDelay && rule.type === 'INTERVAL')
    return rule.start_at !== null && rule.start_at > nowMs ? rule.start_at : nowMs + rule.every_ms;
  const { items, lookedUntilMs } = occurrencesAfter(rule, nowMs);
  return items[0]?.nominal_ms ?? lookedUntilMs;
}

/** The rule that the fields mean. */
export function toRule(
  type: 'CRON' | 'INTERVAL',
  fields: ScheduleFields | PreviewRequest,
  { now_ms, calendar, key, anchor_ms }: ScheduleContext,
): { rule: ScheduleRule } | { refused: FieldError[] } {
  const refused: FieldError[] = [];
  const compiled = calendar === null ? null : compile(calendar, refused);
  const expressions = typeof fields.cron_expression === 'string' ? [fields.cron_expression] : fields.cron_expression;
  const start_at = timeOf(fields.start_at, 'start_at', refused);
  const end_at = timeOf(fields.end_at, 'end_at', refused);
  if (refused.length > 0) return { refused };
  const input: ScheduleInput = {
    type,
    start_at,
    end_at,
    jitter_key: key,
    calendar: compiled,
    ...given('dst_gap', fields.dst_gap),
    ...given('dst_overlap', fields.dst_overlap),
    ...given('jitter_ms', fields.jitter_ms),
    ...given('on_excluded', fields.on_excluded),
    ...(type === 'CRON'
      ? { ...given('expressions', expressions), ...given('timezone', fields.timezone) }
      : { ...given('every_ms', fields.interval_ms), ...given('anchor_ms', anchor_ms) }),
  };
  const parsed = parseSchedule(input, now_ms);
  if ('rule' in parsed) return parsed;
  return { refused: parsed.refused.map(({ path, message }) => ({ path: apiPath(path, expressions), message })) };
}

export function compile(calendar: PutCalendar, refused: FieldError[]): CompiledCalendar | null {
  const compiled = compileCalendar(calendar);
  if ('calendar' in compiled) return compiled.calendar;
  refused.push(...compiled.refused);
  return null;
}

function given<K extends string, V>(key: K, value: V | undefined): { [P in K]?: V } {
  return value === undefined ? {} : ({ [key]: value } as { [P in K]?: V });
}

function timeOf(text: string | null | undefined, path: string, refused: FieldError[]): number | null {
  if (text == null) return null;
  const ms = Date.parse(text);
  if (Number.isNaN(ms)) refused.push({ path, message: 'is not a date that exists' });
  return ms;
}

/** The rule's words for fields, in the words of the API. */
function apiPath(path: string, expressions: readonly string[] | undefined): string {
  const one = expressions?.length === 1;
  return path
    .replace(/^expressions(\[\d+\])?/, (_, at: string | undefined) => `cron_expression${one ? '' : (at ?? '')}`)
    .replace(/^every_ms/, 'interval_ms')
    .replace(/^type$/, 'schedule_type');
}
