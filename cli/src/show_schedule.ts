// Schedules, previews, the ledger of a job and calendars as people read them. The commands print what this file makes.
import {
  type Calendar,
  type CalendarWindow,
  scheduleFields as declared,
  type Job,
  type Occurrence,
  type Preview,
} from '@punctual/contract';
import { flagName, type Schema } from './flags.ts';
import { harmless, oneLine, type Paint } from './output.ts';
import { machineZone, showAbsolute, showDuration, showInZone, showRelative, showTime, writeDuration } from './time.ts';

type Fields = [string, string][];
type Schedule = NonNullable<Job['schedule']>;

/** Longer notes are cut in tables; --json has them whole. */
const max_note_chars = 160;

/** When a job is due next, for a cell of a table. A list of jobs comes without their schedules. */
export function dueOf(job: Job, now: number): string {
  if (job.schedule_type === 'CRON' || job.schedule_type === 'INTERVAL') {
    const next = job.schedule?.next_time ?? null;
    return next === null ? job.schedule_type.toLowerCase() : showRelative(Date.parse(next), now);
  }
  return job.schedule_time === null ? 'at once' : showRelative(Date.parse(job.schedule_time), now);
}

export function scheduleFields(job: Job, now: number): Fields {
  const { schedule } = job;
  if (schedule === undefined)
    return [['schedule', job.schedule_time === null ? onceWords(job) : showTime(job.schedule_time, now)]];
  const { cron_expression: cron, max_runs: max, runs_made: made } = schedule;
  const others = policiesOf(schedule);
  return [
    ['schedule', harmless(schedule.words)],
    ...(cron === undefined ? [] : ([['cron', harmless([cron].flat().join('\n'))]] as Fields)),
    ['next', nextOf(job, schedule, now)],
    ...(others.length === 0 ? [] : ([['policies', harmless(others.join(', '))]] as Fields)),
    ['runs made', max === null ? String(made) : `${made} of at most ${max}`],
  ];
}

function onceWords({ schedule_type: type }: Job): string {
  return type === 'IMMEDIATE' || type === 'FUTURE' ? 'at once' : type.toLowerCase();
}

function nextOf({ status }: Job, schedule: Schedule, now: number): string {
  const { next_time: next, ended, interval_mode: mode, timezone = machineZone() } = schedule;
  if (ended) return 'none: the schedule has ended';
  if (status === 'PAUSED') return 'none while it is paused';
  if (next === null)
    return mode === 'fixed_delay' && status === 'SCHEDULED' ? 'when the running run has ended' : 'none';
  const at = Date.parse(next);
  return `${inBoth(at, timezone)} (${showRelative(at, now)})`;
}

/** In the zone and in UTC; once when they are the same. */
function inBoth(at: number, zone: string): string {
  const local = showInZone(at, zone);
  const utc = showInZone(at, 'UTC');
  return local === utc ? utc : `${local} ${zone}, ${utc}`;
}

/** Told by the words of the schedule, or in a field of their own. */
const told = new Set(['cron_expression', 'timezone', 'interval_ms', 'start_at', 'end_at', 'max_runs']);

/** What is not as it is unless given, in the words of the flags. */
export function policiesOf(schedule: Schedule): string[] {
  return Object.entries(declared as Record<string, Schema>).flatMap(([property, schema]) => {
    const value = schedule[property as keyof Schedule] ?? null;
    if (told.has(property) || value === null || value === schema.default) return [];
    if (property === 'interval_mode') return [String(value).replace('_', '-')];
    return [`${flagName(property)} ${property.endsWith('_ms') ? writeDuration(Number(value)) : String(value)}`];
  });
}

export const occurrenceHead = ['TIME', 'TIMES', 'RUN OR REASON', 'NOTE'];

export function occurrenceRow(one: Occurrence, paint: Paint): string[] {
  const from = showAbsolute(Date.parse(one.scheduled_for));
  const time = one.times === 1 ? from : `${from} to ${showAbsolute(Date.parse(one.through))}`;
  const spread = one.effective_at === null ? 0 : Date.parse(one.effective_at) - Date.parse(one.scheduled_for);
  const notes = [
    ...(one.note === null ? [] : [one.note]),
    ...(spread > 0 ? [`spread by ${showDuration(spread)}`] : []),
  ];
  const outcome = one.run_id ?? paint('yellow', one.reason ?? '–');
  return [time, String(one.times), outcome, oneLine(notes.join(', '), max_note_chars)];
}

/** The times of a preview; those of an interval, which has no zone, in that of this machine. UTC is shown once. */
export function previewTable({ times }: Preview, zone: string | null): { head: string[]; rows: string[][] } {
  const isLocal = zone !== 'UTC';
  const hasSpread = times.some(({ utc, effective_at }) => utc !== effective_at);
  const clock = (timestamp: string) => timestamp.replace('T', ' ').replace(/(\.000)?Z$/, '');
  const rows = times.map(({ utc, local, effective_at, note }) => [
    ...(isLocal ? [zone === null ? showAbsolute(Date.parse(utc)) : harmless(clock(local))] : []),
    clock(utc),
    ...(hasSpread ? [clock(effective_at)] : []),
    oneLine(note ?? '', max_note_chars),
  ]);
  const head = [...(isLocal ? [zone ?? 'LOCAL'] : []), 'UTC', ...(hasSpread ? ['STARTS (UTC)'] : []), 'NOTE'];
  return { head, rows };
}

export const calendarHead = ['CALENDAR', 'ZONE', 'EXCLUDES', 'INCLUDES', 'JOBS', 'UPDATED'];

export function calendarRow(calendar: Calendar, _paint: Paint, now: number): string[] {
  const { name, timezone, exclude, include, jobs, updated_at } = calendar;
  const windows = (list: CalendarWindow[]) => oneLine(list.map(windowWords).join('; ') || '–', 60);
  const updated = showRelative(Date.parse(updated_at), now);
  return [name, timezone, windows(exclude), windows(include), String(jobs), updated];
}

export function calendarFields(calendar: Calendar, now: number): Fields {
  const windows = (list: CalendarWindow[], none: string) => harmless(list.map(windowWords).join('\n') || none);
  return [
    ['calendar', calendar.name],
    ['zone', calendar.timezone],
    ['excludes', windows(calendar.exclude, 'nothing')],
    ['includes', windows(calendar.include, 'everything')],
    ['used by', calendar.jobs === 1 ? '1 job' : `${calendar.jobs} jobs`],
    ['updated', showTime(calendar.updated_at, now)],
    ['version', String(calendar.version)],
  ];
}

function windowWords({ dates = [], days = [], hours = [] }: CalendarWindow): string {
  return [dates, days, hours]
    .filter((part) => part.length > 0)
    .map((part) => part.join(', '))
    .join(' at ');
}
