// What a job means: fills in the defaults and refuses what contradicts itself. Pure; the API calls it after the schema.
import {
  type Backoff,
  type CreateJob,
  deeperThan,
  defaults,
  type Executor,
  type FieldError,
  limits,
  type ScheduleType,
  secretProblems,
  type UpdateJob,
} from '@punctual/contract';
import type { Need } from './dependency.ts';
import { presetPriority } from './flow.ts';
import type { PreparedSchedule, ScheduleFields } from './schedule_input.ts';
import { type PreparedUnique, prepareUnique } from './unique.ts';

/** A job as it will be written, but for its ids. JSON is kept as text and carried through untouched. */
export interface PreparedJob {
  user_id: string | null;
  name: string;
  type: string;
  executor: string | null;
  executor_kind: string;
  queue: string;
  priority: number;
  tags: string[] | null;
  /** Sorted. */
  requires: string[] | null;
  concurrency_key: string | null;
  /** null: one. */
  units: number | null;
  unique: PreparedUnique | null;
  payload: string | null;
  /** What it stores is sealed (base/vault.ts). */
  encrypted: boolean;
  schedule_type: ScheduleType;
  schedule_time: string | null;
  delay_ms: number | null;
  max_retries: number;
  timeout_ms: number;
  run_timeout_ms: number | null;
  backoff: string | null;
  /** For a recurring job: filled in by whoever knows the database's time and the calendars. */
  schedule: PreparedSchedule | null;
  /** The submit, for the spans of its run (contract/traceparent.ts); left out when nothing traces it. */
  traceparent?: string | null;
  /** The artifacts it needs; left out when there are none. */
  artifacts?: readonly string[];
  /** The runs it waits for: filled in by whoever can look them up. */
  depends_on: readonly Need[] | null;
}

export type Refusal = { refused: FieldError[] };

const oldestMs = 0;

export function prepareJob(
  input: CreateJob,
  nowMs: number,
  defaultPriority: (queue: string) => number = presetPriority,
): PreparedJob | Refusal {
  const errors: FieldError[] = [];
  const type = input.type ?? input.executor?.kind;
  if (type === undefined) {
    errors.push({ path: 'type', message: 'is missing: name the handler that runs the job, or give an executor' });
  }
  const schedule_type = input.schedule_type ?? impliedType(input);
  errors.push(...checkSchedule(input, schedule_type, nowMs));
  const unique = prepareUnique(input, schedule_type, errors);
  if (input.depends_on !== undefined && input.unique_key !== undefined)
    errors.push({ path: 'depends_on', message: 'does not go with unique_key' });
  if (input.depends_on !== undefined && (schedule_type === 'CRON' || schedule_type === 'INTERVAL'))
    errors.push({
      path: 'depends_on',
      message: `does not go with schedule_type ${schedule_type}: each run would wait`,
    });
  errors.push(...checkSecrets(input.executor));
  const payload = toJsonText(input.payload, 'payload', errors);
  const executor = toJsonText(input.executor, 'executor', errors);
  if (errors.length > 0) return { refused: errors };
  return {
    user_id: input.user_id ?? null,
    name: input.name ?? (type as string),
    type: type as string,
    executor,
    executor_kind: input.executor?.kind ?? 'handler',
    queue: input.queue ?? defaults.queue,
    priority: input.priority ?? defaultPriority(input.queue ?? defaults.queue),
    tags: input.tags === undefined || input.tags.length === 0 ? null : input.tags,
    requires: input.requires === undefined || input.requires.length === 0 ? null : [...input.requires].sort(),
    concurrency_key: input.concurrency_key ?? null,
    units: input.units === undefined || input.units === defaults.units ? null : input.units,
    unique,
    // A payload that is sealed marks the job, so there always is one.
    payload: input.encrypted === true ? (payload ?? 'null') : payload,
    encrypted: input.encrypted === true,
    schedule_type,
    schedule_time: input.schedule_time ?? null,
    delay_ms: input.delay_ms ?? null,
    max_retries: input.max_retries ?? defaults.max_retries,
    timeout_ms: input.timeout_ms ?? defaults.timeout_ms,
    run_timeout_ms: input.run_timeout_ms ?? null,
    backoff: input.backoff === undefined ? null : JSON.stringify(input.backoff),
    schedule: null,
    depends_on: null,
    ...(input.executor?.kind === 'binary' ? { artifacts: [input.executor.sha256] } : {}),
  };
}

/** References to secrets stand where workers fill them in, and under names that exist. */
function checkSecrets(executor: Executor | undefined): FieldError[] {
  if (executor === undefined) return [];
  if (executor.kind === 'shell') {
    const { command, cwd, env } = executor;
    return [
      ...secretProblems(command, 'executor.command', true),
      ...secretProblems(cwd, 'executor.cwd', true),
      ...secretProblems(env, 'executor.env'),
    ];
  }
  return secretProblems(executor, 'executor');
}

function impliedType(input: CreateJob): ScheduleType {
  if (input.cron_expression !== undefined) return 'CRON';
  if (input.interval_ms !== undefined) return 'INTERVAL';
  return input.schedule_time !== undefined || input.delay_ms !== undefined ? 'FUTURE' : 'IMMEDIATE';
}

/** A job as it stands in the book, for comparing. */
export interface StoredJob
  extends Omit<
    PreparedJob,
    'executor_kind' | 'schedule_time' | 'delay_ms' | 'schedule' | 'unique' | 'depends_on' | 'artifacts' | 'traceparent'
  > {
  schedule_ms: number | null;
  unique_key: string | null;
  version: number;
}

/**
 * Would the stored job have been made by submitting this one? One that was changed since is given the benefit, and so is
 * what it depends on: the ids given may mean other runs by now.
 */
export function sameJob(job: PreparedJob, stored: StoredJob): boolean {
  if (stored.version > 1) return stored.user_id === job.user_id;
  return (
    sameFields.every((field) => job[field] === stored[field]) &&
    (job.unique?.key ?? null) === stored.unique_key &&
    JSON.stringify(job.tags) === JSON.stringify(stored.tags) &&
    JSON.stringify(job.requires) === JSON.stringify(stored.requires) &&
    (job.schedule_time === null || Date.parse(job.schedule_time) === stored.schedule_ms)
  );
}

const sameFields = [
  'user_id',
  'name',
  'type',
  'executor',
  'queue',
  'priority',
  'concurrency_key',
  'units',
  'payload',
  'encrypted',
  'schedule_type',
  'max_retries',
  'timeout_ms',
  'run_timeout_ms',
  'backoff',
] as const satisfies (keyof PreparedJob & keyof StoredJob)[];

export interface PreparedUpdate {
  changes: Omit<UpdateJob, 'payload' | 'backoff' | 'schedule_time' | 'delay_ms'> & {
    payload?: string | null;
    backoff?: string;
  };
  schedule: { schedule_time: string | null; delay_ms: number | null } | null;
  /** Changes of a recurring schedule. */
  recurring: ScheduleFields | null;
}

export function prepareUpdate(input: UpdateJob, nowMs: number): PreparedUpdate | Refusal {
  const { payload, backoff, schedule_time, delay_ms, ...rest } = input;
  const recurringChanges = scheduleChanges(input);
  const errors: FieldError[] = [];
  if (Object.keys(input).length === 0) errors.push({ path: '', message: 'holds no field to change' });
  const schedule = schedule_time !== undefined || delay_ms !== undefined;
  if (schedule) errors.push(...checkSchedule(input, 'FUTURE', nowMs));
  const text = payload === undefined ? undefined : toJsonText(payload, 'payload', errors);
  if (errors.length > 0) return { refused: errors };
  return {
    changes: {
      ...rest,
      ...(text === undefined ? {} : { payload: text }),
      ...(backoff === undefined ? {} : { backoff: JSON.stringify(backoff) }),
    },
    schedule: schedule ? { schedule_time: schedule_time ?? null, delay_ms: delay_ms ?? null } : null,
    recurring: recurringChanges,
  };
}

const recurring = [
  'start_at',
  'end_at',
  'dst_gap',
  'dst_overlap',
  'jitter_ms',
  'calendar',
  'on_excluded',
  'max_runs',
  'catch_up',
  'max_catch_up_age_ms',
  'max_catch_up_count',
  'overlap',
  'pause_after_failures',
] as const;

/** Fields that only some schedule types know. */
const fieldsOf = {
  IMMEDIATE: [],
  FUTURE: ['schedule_time', 'delay_ms'],
  CRON: ['cron_expression', 'timezone', ...recurring],
  INTERVAL: ['interval_ms', 'interval_mode', ...recurring],
} as const satisfies Record<ScheduleType, readonly (keyof CreateJob)[]>;

const allScheduleFields = [...new Set(Object.values(fieldsOf).flat())];
const isScheduleField: ReadonlySet<string> = new Set(allScheduleFields);

/** The fields of a change that belong to a recurring schedule. */
export function scheduleChanges(input: UpdateJob): ScheduleFields | null {
  const changes = Object.fromEntries(
    [...fieldsOf.CRON, ...fieldsOf.INTERVAL].flatMap((field) =>
      input[field] === undefined ? [] : [[field, input[field]]],
    ),
  ) as ScheduleFields;
  return Object.keys(changes).length === 0 ? null : changes;
}

/** A policy alone makes no schedule. */
function hintFor(field: string, type: ScheduleType): string {
  const policy = (recurring as readonly string[]).includes(field) && (type === 'IMMEDIATE' || type === 'FUTURE');
  return policy ? '; give cron_expression or interval_ms too' : '';
}

/** Refuses the fields that do not go with the type. */
export function strayFields(input: UpdateJob, type: ScheduleType): FieldError[] {
  // Most jobs have none of them, and few fields.
  if (!Object.keys(input).some((field) => isScheduleField.has(field))) return [];
  const own: readonly string[] = fieldsOf[type];
  return allScheduleFields
    .filter((field) => input[field] !== undefined && !own.includes(field))
    .map((field) => ({ path: field, message: `does not go with schedule_type ${type}${hintFor(field, type)}` }));
}

function checkSchedule(input: CreateJob, type: ScheduleType, nowMs: number): FieldError[] {
  const errors = strayFields(input, type);
  if (type === 'FUTURE' && (input.schedule_time === undefined) === (input.delay_ms === undefined)) {
    errors.push({ path: 'schedule_time', message: 'FUTURE needs either schedule_time or delay_ms, not both' });
  }
  if (type === 'CRON' && input.cron_expression === undefined)
    errors.push({ path: 'cron_expression', message: 'is missing' });
  if (type === 'INTERVAL' && input.interval_ms === undefined)
    errors.push({ path: 'interval_ms', message: 'is missing' });
  if (input.schedule_time !== undefined) {
    const ms = Date.parse(input.schedule_time);
    if (Number.isNaN(ms)) errors.push({ path: 'schedule_time', message: 'is not a date that exists' });
    else if (ms < oldestMs) errors.push({ path: 'schedule_time', message: 'lies before 1970' });
    else if (ms > nowMs + limits.max_delay_ms)
      errors.push({ path: 'schedule_time', message: 'lies more than ten years ahead' });
  }
  return errors;
}

function toJsonText(value: unknown, path: string, errors: FieldError[]): string | null {
  if (value === undefined) return null;
  if (deeperThan(value, limits.max_payload_depth)) {
    errors.push({ path, message: `is nested deeper than ${limits.max_payload_depth} levels` });
    return null;
  }
  const text = JSON.stringify(value);
  // A code unit is one to three bytes: only texts that may be over the limit are measured.
  if (text.length * 3 > limits.max_payload_bytes && Buffer.byteLength(text) > limits.max_payload_bytes) {
    errors.push({
      path,
      message: `is larger than ${limits.max_payload_bytes} bytes; keep large data elsewhere and send a reference`,
    });
    return null;
  }
  return text;
}

export function parseBackoff(text: string | null): Backoff | null {
  return text === null ? null : (JSON.parse(text) as Backoff);
}

/** What a job has in the place of an executor when its runs begin workflows. */
export interface WorkflowExecutor {
  kind: 'workflow';
  steps: Record<string, unknown>;
  input?: unknown;
}

/** The workflow that runs of the job begin, if they do. */
export function parseBegins(text: string | null): WorkflowExecutor | null {
  return text?.startsWith('{"kind":"workflow"') === true ? (JSON.parse(text) as WorkflowExecutor) : null;
}

export function parseExecutor(text: string | null): Executor | undefined {
  return text === null ? undefined : (JSON.parse(text) as Executor);
}
