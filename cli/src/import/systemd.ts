// A timer of systemd and the service beside it become one entry: OnCalendar= becomes cron, OnUnitActiveSec= a fixed rate,
// OnUnitInactiveSec= a fixed delay. Timers that count from the start of the machine have no time here. Pure.
import { type CreateJob, limits } from '@punctual/contract';
import { type Entry, type ImportOptions, importedJob, type Parsed, type Refused } from './entry.ts';
import { splitWords, translateCommands } from './exec_start.ts';
import { translateOnCalendar } from './on_calendar.ts';
import { parseTimeSpan } from './time_span.ts';
import { type Assignment, all, isTrue, last, parseUnitFile, type UnitFile } from './unit_file.ts';

export const systemdNotes = [
  'As in systemd: a time that comes while the service runs is skipped, missed times are caught up only with Persistent=, and nothing is tried again.',
  'Which of the two systemd takes when the clocks show a time twice is not certain; Punctual takes the first.',
  'Other than in systemd: programs run as the user of the worker; limits and dependencies of the unit are not carried over, and AccuracySec= does not delay them.',
];

export interface TimerOptions extends ImportOptions {
  file: string;
  /** `backup` of backup.timer. */
  name: string;
}

/** The service a timer starts. */
export function unitOf(timer: UnitFile, name: string): string {
  return last(timer, 'Timer.Unit')?.value ?? `${name}.service`;
}

type Found = { entries: Entry[]; refused: Refused[] };

export function parseTimer(timerText: string, serviceText: string | null, options: TimerOptions): Parsed {
  const timer = parseUnitFile(timerText);
  const refused: Refused[] = timer.wrong.map(({ line, text }) => ({
    ...{ file: options.file, line, text, reason: 'is no line of a unit file' },
  }));
  const { entries, refused: more } = entryOf(timer, serviceText, options);
  return { entries, refused: [...refused, ...more], notes: systemdNotes };
}

function entryOf(timer: UnitFile, serviceText: string | null, options: TimerOptions): Found {
  const { file, name } = options;
  const refused: Refused[] = [];
  const refuse = (line: number, text: string, reason: string): Found => {
    refused.push({ file, line, text, reason });
    return { entries: [], refused };
  };
  const schedule = scheduleOf(timer, options, refuse);
  if (schedule === null) return { entries: [], refused };
  const { line } = schedule;
  const unit = unitOf(timer, name);
  if (serviceText === null) return refuse(line, name, `there is no ${unit} beside it to say what to run`);
  const program = programOf(parseUnitFile(serviceText));
  if ('reason' in program) return refuse(line, unit, `its ${unit} ${program.reason}`);
  const policies = policiesOf(timer, refuse);
  if (policies === null) return { entries: [], refused };
  const { times, source, sourceWords, notes } = schedule;
  const job: CreateJob = {
    ...importedJob('systemd', name, options),
    executor: program.executor,
    ...{ ...times, ...policies, overlap: 'skip' },
  };
  const entry = { file, line, text: name, name, job, source, ...(sourceWords === undefined ? {} : { sourceWords }) };
  return { entries: [{ ...entry, notes: [...notes, ...program.notes] }], refused };
}

type Refuse = (line: number, text: string, reason: string) => unknown;
type Times = Pick<CreateJob, 'cron_expression' | 'timezone' | 'interval_ms' | 'interval_mode' | 'dst_gap'>;

interface TimerSchedule {
  line: number;
  times: Times;
  source: Entry['source'];
  sourceWords?: string;
  notes: string[];
}

const sinceStart = ['Timer.OnBootSec', 'Timer.OnStartupSec', 'Timer.OnActiveSec'];
const short = (key: string) => key.replace('Timer.', '');

function scheduleOf(timer: UnitFile, options: TimerOptions, refuse: Refuse): TimerSchedule | null {
  const starts = sinceStart.flatMap((key) =>
    all(timer, key).map((one) => ({ ...one, text: `${short(key)}=${one.value}` })),
  );
  const repeats = (['OnUnitActiveSec', 'OnUnitInactiveSec'] as const).flatMap((key) =>
    all(timer, `Timer.${key}`).map((one) => ({ ...one, key, text: `${key}=${one.value}` })),
  );
  const calendars = all(timer, 'Timer.OnCalendar');
  if (calendars.length > 0) {
    for (const { line, text } of [...starts, ...repeats])
      refuse(line, text, 'a job has one kind of schedule; OnCalendar= is taken');
    return calendarSchedule(calendars, options, refuse);
  }
  const [repeat, ...others] = repeats;
  if (repeat === undefined) {
    const [{ line, text } = { line: 1, text: options.name }] = starts;
    const why =
      starts.length === 0 ? 'has no schedule' : 'counts from a start of the machine or of the timer, and comes once';
    refuse(line, text, why);
    return null;
  }
  for (const { line, text } of others) refuse(line, text, `a job has one interval; ${repeat.text} is taken`);
  const interval_ms = parseTimeSpan(repeat.value);
  if (interval_ms === null || interval_ms < 1000 || interval_ms > limits.max_delay_ms) {
    refuse(repeat.line, repeat.text, 'is not a length of time from one second to ten years');
    return null;
  }
  const isDelay = repeat.key === 'OnUnitInactiveSec';
  return {
    line: repeat.line,
    times: { interval_ms, interval_mode: isDelay ? 'fixed_delay' : 'fixed_rate' },
    source: null,
    sourceWords: `${repeat.value} after it ${isDelay ? 'ended' : 'was started'}`,
    notes: starts.map(({ text }) => `${text} is left out: the first time comes one interval after the job is created`),
  };
}

function calendarSchedule(calendars: Assignment[], options: TimerOptions, refuse: Refuse): TimerSchedule | null {
  const expressions: string[] = [];
  let zone: string | null = null;
  for (const { value, line } of calendars) {
    const translated = translateOnCalendar(value);
    if ('reason' in translated) refuse(line, `OnCalendar=${value}`, translated.reason);
    else {
      const timezone = translated.timezone ?? options.timezone;
      zone ??= timezone;
      if (zone !== timezone) refuse(line, `OnCalendar=${value}`, `a job has one time zone; ${zone} is taken`);
      else expressions.push(translated.cron);
    }
  }
  const [first] = expressions;
  if (first === undefined || zone === null) return null;
  const cron_expression = expressions.length === 1 ? first : expressions;
  // systemd leaves out a time that the clocks leave out.
  const times = { cron_expression, timezone: zone, dst_gap: 'skip' } as const;
  return { line: calendars[0]?.line ?? 1, times, source: times, notes: [] };
}

function policiesOf(timer: UnitFile, refuse: Refuse): Pick<CreateJob, 'catch_up' | 'jitter_ms'> | null {
  const delay = last(timer, 'Timer.RandomizedDelaySec');
  const jitter_ms = delay === null ? 0 : parseTimeSpan(delay.value);
  if (jitter_ms === null || jitter_ms > limits.max_jitter_ms) {
    refuse(delay?.line ?? 1, `RandomizedDelaySec=${delay?.value}`, 'is not a length of time of at most a day');
    return null;
  }
  return {
    catch_up: isTrue(last(timer, 'Timer.Persistent')) ? 'latest' : 'none',
    ...(jitter_ms === 0 ? {} : { jitter_ms }),
  };
}

type Program = { executor: NonNullable<CreateJob['executor']>; notes: string[] } | { reason: string };

function programOf(service: UnitFile): Program {
  const env: Record<string, string> = {};
  for (const { value } of all(service, 'Service.Environment')) {
    for (const pair of splitWords(value) ?? []) {
      const at = pair.indexOf('=');
      if (at > 0) env[pair.slice(0, at)] = pair.slice(at + 1);
    }
  }
  const lines = ['Service.ExecStartPre', 'Service.ExecStart'].map((key) => all(service, key).map(({ value }) => value));
  if (lines[1]?.length === 0) return { reason: 'has no ExecStart=' };
  const program = translateCommands(lines.flat(), env);
  if ('reason' in program) return program;
  const cwd = last(service, 'Service.WorkingDirectory')?.value.replace(/^-/, '');
  const user = last(service, 'Service.User')?.value;
  return {
    executor: {
      kind: 'shell',
      command: program.command,
      ...(Object.keys(env).length === 0 ? {} : { env }),
      ...(cwd === undefined || cwd === '~' ? {} : { cwd }),
    },
    notes: [
      ...program.notes,
      ...(user === undefined ? [] : [`systemd runs it as ${user}`]),
      ...all(service, 'Service.EnvironmentFile').map(({ value }) => `the variables of ${value} are not carried over`),
    ],
  };
}
