// A job as a form holds it: texts, by the names of the API. Made from a job, and made into what is sent; what cannot be read
// is told by field before anything is sent. Pure.
import type { CreateJob, FieldError, Job, UpdateJob } from '@punctual/contract';
import { executorDraft, readExecutor, readParents } from './executor_draft.ts';
import { readJson } from './json_text.ts';
import { readDuration, writeDuration } from './time.ts';

export type Draft = Record<string, string>;

export type Kind = 'text' | 'int' | 'number' | 'duration' | 'time' | 'list' | 'select';

export interface FieldSpec {
  path: string;
  label: string;
  kind: Kind;
  hint?: string;
  options?: readonly (readonly [string, string])[];
  placeholder?: string;
  /** Can only be set when the job is created. */
  fixed?: boolean;
  /** Only for jobs that run again and again. */
  recurring?: boolean;
}

const usual = ['', 'as usual'] as const;

export const advanced: readonly { title: string; fields: readonly FieldSpec[] }[] = [
  {
    title: 'Retries and time',
    fields: [
      { path: 'max_retries', label: 'Retries', kind: 'int', placeholder: '3', hint: 'Attempts after the first' },
      { path: 'backoff.base_ms', label: 'First pause', kind: 'duration', placeholder: '1s' },
      {
        path: 'backoff.factor',
        label: 'Growing by',
        kind: 'number',
        placeholder: '2',
        hint: 'Each pause is so many times the one before',
      },
      { path: 'backoff.max_ms', label: 'Longest pause', kind: 'duration', placeholder: '10m' },
      {
        path: 'backoff.jitter',
        label: 'Spread by',
        kind: 'number',
        placeholder: '0.2',
        hint: '0.2: each pause by up to 20 % longer or shorter',
      },
      { path: 'timeout_ms', label: 'An attempt may take', kind: 'duration', placeholder: '5m' },
      { path: 'run_timeout_ms', label: 'The whole run may take', kind: 'duration', placeholder: 'no limit' },
    ],
  },
  {
    title: 'Limits and uniqueness',
    fields: [
      {
        path: 'concurrency_key',
        label: 'Concurrency key',
        kind: 'text',
        fixed: true,
        hint: 'Runs with the same key are limited together',
      },
      {
        path: 'units',
        label: 'Units',
        kind: 'int',
        placeholder: '1',
        fixed: true,
        hint: 'Of a rate limit that a run uses',
      },
      {
        path: 'unique_key',
        label: 'Unique key',
        kind: 'text',
        fixed: true,
        hint: 'At most one job of a user holds it at a time',
      },
      {
        path: 'unique_scope',
        label: 'It holds the key',
        kind: 'select',
        fixed: true,
        options: [
          usual,
          ['waiting', 'until its run starts'],
          ['live', 'until its run has ended'],
          ['period', 'for a time after it was created'],
        ],
      },
      {
        path: 'unique_period_ms',
        label: 'For so long',
        kind: 'duration',
        fixed: true,
        placeholder: '1h',
        hint: 'If it holds the key for a time',
      },
      {
        path: 'on_conflict',
        label: 'When it is taken',
        kind: 'select',
        fixed: true,
        options: [
          usual,
          ['reject', 'refuse'],
          ['return_existing', 'answer the other job'],
          ['replace_payload', 'give it this payload'],
          ['reschedule', 'give it this payload and time'],
        ],
      },
      { path: 'requires', label: 'Labels a worker must have', kind: 'list', fixed: true, placeholder: 'gpu, eu' },
    ],
  },
  {
    title: 'Schedule',
    fields: [
      {
        path: 'overlap',
        label: 'While a run is not done',
        kind: 'select',
        recurring: true,
        options: [
          usual,
          ['queue_one', 'one waits'],
          ['skip', 'none is made'],
          ['cancel_other', 'the other is cancelled'],
          ['allow', 'both run'],
        ],
      },
      {
        path: 'catch_up',
        label: 'Missed times',
        kind: 'select',
        recurring: true,
        options: [usual, ['latest', 'run the latest'], ['all', 'run all'], ['none', 'run none']],
      },
      {
        path: 'max_catch_up_count',
        label: 'Missed times at most',
        kind: 'int',
        recurring: true,
        placeholder: '100',
        hint: 'If all are run: the latest of them',
      },
      {
        path: 'max_catch_up_age_ms',
        label: 'Missed by at most',
        kind: 'duration',
        recurring: true,
        placeholder: 'any time',
      },
      {
        path: 'jitter_ms',
        label: 'Spread over',
        kind: 'duration',
        recurring: true,
        placeholder: '0s',
        hint: 'Runs start later by up to this',
      },
      { path: 'calendar', label: 'Calendar', kind: 'text', recurring: true, hint: 'That allows or excludes times' },
      {
        path: 'on_excluded',
        label: 'An excluded time',
        kind: 'select',
        recurring: true,
        options: [
          usual,
          ['skip', 'is skipped'],
          ['next', 'moves to the next allowed'],
          ['previous', 'moves to the previous allowed'],
        ],
      },
      {
        path: 'dst_gap',
        label: 'A time the clocks leave out',
        kind: 'select',
        recurring: true,
        options: [usual, ['run_after', 'runs right after'], ['skip', 'is skipped']],
      },
      {
        path: 'dst_overlap',
        label: 'A time the clocks show twice',
        kind: 'select',
        recurring: true,
        options: [usual, ['first', 'runs once'], ['both', 'runs twice']],
      },
      { path: 'start_at', label: 'Not before', kind: 'time', recurring: true },
      { path: 'end_at', label: 'Not after', kind: 'time', recurring: true },
      { path: 'max_runs', label: 'Runs at most', kind: 'int', recurring: true, placeholder: 'no limit' },
      {
        path: 'pause_after_failures',
        label: 'Pause after failures in a row',
        kind: 'int',
        recurring: true,
        placeholder: 'never',
      },
    ],
  },
];

export const basic: readonly FieldSpec[] = [
  { path: 'queue', label: 'Queue', kind: 'text', placeholder: 'default' },
  { path: 'priority', label: 'Priority', kind: 'int', placeholder: 'that of the queue', hint: '9 starts before 0' },
  { path: 'tags', label: 'Tags', kind: 'list', placeholder: 'nightly, mail' },
  { path: 'user_id', label: 'User', kind: 'text', fixed: true },
];

const specs: readonly FieldSpec[] = [
  { path: 'name', label: 'Name', kind: 'text' },
  { path: 'type', label: 'Type', kind: 'text', fixed: true },
  ...basic,
  ...advanced.flatMap(({ fields }) => fields),
  { path: 'timezone', label: 'Time zone', kind: 'text', recurring: true },
  { path: 'interval_ms', label: 'Every', kind: 'duration', recurring: true },
  { path: 'interval_mode', label: 'Counted', kind: 'text', recurring: true },
  { path: 'schedule_time', label: 'At', kind: 'time' },
  { path: 'delay_ms', label: 'After', kind: 'duration' },
];

export const newDraft: Draft = {
  runs: 'handler',
  when: 'IMMEDIATE',
  payload: '{\n  "greeting": "hello, world"\n}',
  type: 'echo',
};

/** The paths that are sent for each way to say when. */
const timings: Record<string, readonly string[]> = {
  IMMEDIATE: [],
  FUTURE: ['schedule_time'],
  DELAY: ['delay_ms'],
  CRON: ['timezone'],
  INTERVAL: ['interval_ms', 'interval_mode'],
};
const ofTiming = new Set(Object.values(timings).flat());

export const isRecurring = (draft: Draft): boolean => draft['when'] === 'CRON' || draft['when'] === 'INTERVAL';

/** What to send, or what cannot be read. */
export function readDraft(draft: Draft): { job: CreateJob; errors: FieldError[] } {
  const job: Record<string, unknown> = {};
  const errors: FieldError[] = [];
  const when = draft['when'] ?? 'IMMEDIATE';
  for (const spec of specs) {
    const text = draft[spec.path]?.trim() ?? '';
    if (ofTiming.has(spec.path) && !timings[when]?.includes(spec.path)) continue;
    if (text === '' || (spec.recurring === true && !isRecurring(draft))) continue;
    const value = readField(spec.kind, text);
    if (value === undefined) errors.push({ path: spec.path, message: unreadable[spec.kind] });
    else put(job, spec.path, value);
  }
  if (when === 'CRON') {
    const expressions = (draft['cron_expression'] ?? '').split('|').map((one) => one.trim());
    job['cron_expression'] = expressions.length === 1 ? expressions[0] : expressions;
  }
  for (const path of ['interval_ms', 'schedule_time', 'delay_ms'])
    if (timings[when]?.includes(path) && job[path] === undefined && !errors.some((error) => error.path === path))
      errors.push({ path, message: 'must be given' });
  readPayload(draft, job, errors);
  const parents = readParents(draft['depends_on'] ?? '', errors);
  if (parents !== undefined && !isRecurring(draft)) job['depends_on'] = parents;
  const executor = readExecutor(draft, errors);
  if (executor !== undefined) {
    job['executor'] = executor;
    delete job['type'];
  }
  if (draft['encrypted'] === 'true') job['encrypted'] = true;
  return { job, errors };
}

const unreadable: Record<Kind, string> = {
  text: 'is not a text',
  int: 'must be a whole number',
  number: 'must be a number',
  duration: 'must be a duration such as 30s, 5m or 1h 30m',
  time: 'must be a date and a time',
  list: 'must be words with commas between them',
  select: 'is none of the choices',
};

function readField(kind: Kind, text: string): unknown {
  if (kind === 'int') return /^\d+$/.test(text) ? Number(text) : undefined;
  if (kind === 'number') return /^\d+(\.\d+)?$/.test(text) ? Number(text) : undefined;
  if (kind === 'duration') return readDuration(text);
  if (kind === 'list') return text.split(/[,\s]+/).filter((word) => word !== '');
  if (kind === 'time') {
    const time = new Date(text);
    return Number.isNaN(time.getTime()) ? undefined : time.toISOString();
  }
  return text;
}

function put(job: Record<string, unknown>, path: string, value: unknown): void {
  const [first = '', second] = path.split('.');
  if (second === undefined) job[first] = value;
  else job[first] = { ...(job[first] as object | undefined), [second]: value };
}

function readPayload(draft: Draft, job: Record<string, unknown>, errors: FieldError[]): void {
  const { value, fault } = readJson(draft['payload'] ?? '');
  if (fault !== undefined)
    errors.push({ path: 'payload', message: `line ${fault.line}, column ${fault.column}: ${fault.message}` });
  else if (value !== undefined) job['payload'] = value;
}

/** Only the fields that were changed, of those that can be. */
export function changesOf(before: Draft, after: Draft): { change: UpdateJob; errors: FieldError[] } {
  const old = readDraft(before).job as Record<string, unknown>;
  const { job, errors } = readDraft(after);
  const fixed = new Set([
    ...specs.filter((spec) => spec.fixed === true).map(({ path }) => path),
    ...['executor', 'depends_on', 'encrypted'],
  ]);
  const change: Record<string, unknown> = {};
  for (const [path, value] of Object.entries(job))
    if (!fixed.has(path) && JSON.stringify(value) !== JSON.stringify(old[path])) change[path] = value;
  // What was emptied goes back to nothing, where nothing is a value.
  for (const path of [
    'run_timeout_ms',
    'max_catch_up_age_ms',
    'start_at',
    'end_at',
    'calendar',
    'max_runs',
    'pause_after_failures',
  ])
    if (old[path] !== undefined && (job as Record<string, unknown>)[path] === undefined) change[path] = null;
  return { change, errors };
}

export function draftOf(job: Job): Draft {
  const { schedule, executor } = job;
  const draft: Draft = {
    runs: executor?.kind ?? 'handler',
    when: job.schedule_type,
    payload: job.payload === null ? '' : JSON.stringify(job.payload, null, 2),
  };
  const source: Record<string, unknown> = { ...job, ...schedule };
  for (const { path, kind } of specs) {
    const [first = '', second] = path.split('.');
    const value =
      second === undefined ? source[first] : (source[first] as Record<string, unknown> | undefined)?.[second];
    if (value !== undefined && value !== null) draft[path] = written(kind, value);
  }
  if (schedule?.cron_expression !== undefined) draft['cron_expression'] = [schedule.cron_expression].flat().join(' | ');
  const parents = job.depends_on ?? [];
  if (parents.length > 0) draft['depends_on'] = parents.map(({ run_id, on }) => `${run_id} ${on}`).join('\n');
  return executor === undefined || executor === null ? draft : { ...draft, ...executorDraft(executor) };
}

function written(kind: Kind, value: unknown): string {
  if (kind === 'duration') return writeDuration(Number(value));
  if (kind === 'list') return (value as string[]).join(', ');
  if (kind === 'time') return localTime(String(value));
  return String(value);
}

/** As a field of date and time wants it: in the zone of the browser, without it. */
function localTime(timestamp: string): string {
  const time = new Date(timestamp);
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}
