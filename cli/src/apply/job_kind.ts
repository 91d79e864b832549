// Recurring jobs as files have them. A file holds no job that runs once: what has happened cannot be made so again, and
// applying twice would do it twice.
import { createHash } from 'node:crypto';
import {
  CreateJob,
  closed,
  described,
  type FieldError,
  type Job,
  limits,
  PauseRequest,
  PreviewRequest,
  defaults as presets,
  SetQueue,
  Title,
  timing,
  UpdateJob,
} from '@punctual/contract';
import { prepareJob } from '@punctual/server/internal/rules/job';
import { prepareSchedule } from '@punctual/server/internal/rules/schedule_input';
import { type Fields, isFields, stripped } from './fields.ts';
import { type Context, type Given, instant, type Kind, sorted, without } from './kind.ts';

/** What marks the jobs of a set: a tag. */
export const markOf = (set: string): string => `${markPrefix}${set}`;
export const markPrefix = 'managed-by:';

const once = 'is of jobs that run once, which a file does not hold; `punctual jobs create` makes them';

const {
  schedule_time: _time,
  delay_ms: _delay,
  depends_on: _needs,
  on_conflict: _conflict,
  ...settable
} = CreateJob.properties;

export const jobKind: Kind = {
  section: 'jobs',
  noun: 'job',
  id: 'name',
  // In the order in which an export has them.
  schema: closed({
    job_id: PreviewRequest.properties.job_id,
    ...{ user_id: settable.user_id, type: settable.type, executor: settable.executor },
    ...timing,
    ...settable,
    name: described(Title, { description: 'What it is known by, together with its user and its unique_key' }),
    paused: SetQueue.properties.paused,
    pause_note: PauseRequest.properties.note,
  }),
  secrets: ['payload'],
  strangers: {
    schedule_time: once,
    delay_ms: once,
    depends_on: once,
    on_conflict: 'is for those who submit: a file says what shall be there',
    status: 'is decided by the server; `paused: true` pauses a job',
  },
  check: checkJob,
  defaults: jobDefaults,
  tidy: tidyJob,
  align: alignJob,
};

/** Whether it is paused is left to the server unless it is said; so is a key that was made, and the note of a pause that lasts. */
function alignJob(after: Fields, before: Fields, { value, keeps }: Given): Fields {
  const paused = value['paused'] ?? before['paused'];
  const isKept = value['unique_key'] === undefined && String(before['unique_key']).startsWith(keyPrefix);
  return {
    ...after,
    paused,
    ...(paused === before['paused'] ? { pause_note: before['pause_note'] } : {}),
    ...(isKept ? { unique_key: before['unique_key'] } : {}),
    ...(keeps.includes('payload') ? { payload: before['payload'] } : {}),
  };
}

const keyPrefix = 'apply:';

/** The fields that can be changed of a job that is there. The others need a new one in its place. */
export const changeable: ReadonlySet<string> = new Set([
  ...Object.keys(UpdateJob.properties).filter((name) => name !== 'schedule_time' && name !== 'delay_ms'),
  'paused',
  'pause_note',
]);

/** The key of a job that has none of its own: two who apply at the same moment make one job. */
export function madeKey(name: string): string {
  const key = `${keyPrefix}${name}`;
  const fits = key.length <= limits.max_unique_key_chars && /^[A-Za-z0-9._:/@+-]+$/.test(name);
  return fits ? key : `${keyPrefix}${createHash('sha256').update(name).digest('hex')}`;
}

function impliedType(value: Fields): 'CRON' | 'INTERVAL' {
  return value['interval_ms'] !== undefined && value['cron_expression'] === undefined ? 'INTERVAL' : 'CRON';
}

function jobDefaults(value: Fields, context: Context): Fields {
  const { executor, name, queue = presets.queue } = value;
  const type = impliedType(value);
  return {
    ...(isFields(executor) ? { type: executor['kind'], executor: executorDefaults(executor) } : {}),
    user_id: context.user,
    queue: presets.queue,
    priority: context.defaultPriority(String(queue)),
    tags: [],
    requires: [],
    payload: null,
    encrypted: false,
    concurrency_key: null,
    units: presets.units,
    max_retries: presets.max_retries,
    backoff: presets.backoff,
    timeout_ms: presets.timeout_ms,
    run_timeout_ms: null,
    unique_key: madeKey(String(name)),
    unique_scope: 'live',
    unique_period_ms: null,
    paused: false,
    pause_note: null,
    ...scheduleDefaults,
    schedule_type: type,
    ...(type === 'CRON' ? { timezone: 'UTC' } : { interval_mode: 'fixed_rate' }),
  };
}

const scheduleDefaults: Fields = {
  start_at: null,
  end_at: null,
  dst_gap: 'run_after',
  dst_overlap: 'first',
  jitter_ms: 0,
  calendar: null,
  on_excluded: 'skip',
  max_runs: null,
  catch_up: 'latest',
  max_catch_up_age_ms: null,
  max_catch_up_count: 100,
  overlap: 'queue_one',
  pause_after_failures: null,
};

function executorDefaults({ kind }: Fields): Fields {
  return kind === 'http'
    ? { method: 'POST', headers: {} }
    : {
        fatal_exit_codes: presets.fatal_exit_codes,
        sandbox: 'none',
        env: {},
        limits: {},
        ...(kind === 'binary' ? { args: [] } : {}),
      };
}

function tidyJob(value: Fields): Fields {
  const { cron_expression: cron } = value;
  return {
    ...value,
    ...(Array.isArray(cron) && cron.length === 1 ? { cron_expression: cron[0] } : {}),
    tags: sorted(value['tags']),
    requires: sorted(value['requires']),
    start_at: instant(value['start_at']),
    end_at: instant(value['end_at']),
  };
}

function checkJob({ value, keeps }: Given, context: Context): FieldError[] {
  const { cron_expression: cron, interval_ms: interval, schedule_type: type } = value;
  if (cron === undefined && interval === undefined)
    return [{ path: '', message: 'needs cron_expression or interval_ms: a file holds jobs that run again and again' }];
  const wrong: FieldError[] = [];
  if (type !== undefined && type !== 'CRON' && type !== 'INTERVAL')
    wrong.push({ path: 'schedule_type', message: 'must be CRON or INTERVAL in a file' });
  const marks = Array.isArray(value['tags']) ? value['tags'].filter((tag) => String(tag).startsWith(markPrefix)) : [];
  if (marks.length > 0)
    wrong.push({ path: 'tags', message: `begin with ${markPrefix}, which is what --set writes: leave them out` });
  if (value['pause_note'] !== undefined && value['paused'] !== true)
    wrong.push({ path: 'pause_note', message: 'needs paused: true' });
  if (keeps.includes('payload') && value['encrypted'] !== true)
    wrong.push({ path: 'payload', message: 'is !keep, which is for encrypted jobs: write the payload' });
  const job = without(value, 'job_id', 'paused', 'pause_note') as CreateJob;
  const prepared = prepareJob(job, context.now_ms, context.defaultPriority);
  if ('refused' in prepared) return [...wrong, ...prepared.refused];
  const { schedule_type } = prepared;
  if (wrong.length > 0 || (schedule_type !== 'CRON' && schedule_type !== 'INTERVAL')) return wrong;
  const schedule = prepareSchedule(schedule_type, job, { now_ms: context.now_ms, calendar: null, key: 'apply' });
  return 'refused' in schedule ? schedule.refused : [];
}

/** A job of the server as a file would say it; the marks of sets are left out. */
export function jobFields(job: Job): Fields {
  const { next_time: _next, runs_made: _made, ended: _ended, words: _words, ...schedule } = job.schedule ?? {};
  const { name, type, executor, user_id, queue, priority, requires, concurrency_key, units } = job;
  const { unique_key, unique_scope, unique_period_ms, payload, encrypted, schedule_type } = job;
  const { max_retries, backoff, timeout_ms, run_timeout_ms, pause_note, status } = job;
  const all: Fields = {
    ...{ name, user_id, type, executor, queue, priority },
    tags: job.tags.filter((tag) => !tag.startsWith(markPrefix)),
    ...{ requires, concurrency_key, units, unique_key, unique_scope, unique_period_ms },
    schedule_type,
    ...schedule,
    ...{ payload, encrypted, max_retries, backoff, timeout_ms, run_timeout_ms },
    paused: status === 'PAUSED',
    pause_note: status === 'PAUSED' ? pause_note : undefined,
  };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}

/** What to create: only what is not as by default, so that the server fills in the rest. */
export function createRequest(after: Fields, context: Context, mark: string | null): CreateJob {
  const marked = mark === null ? [] : [mark];
  const body = stripped(without(after, 'paused', 'pause_note', 'job_id'), jobDefaults(after, context));
  const tags = [...((after['tags'] as string[] | undefined) ?? []), ...marked];
  return { ...body, unique_key: after['unique_key'], ...(tags.length === 0 ? {} : { tags }) } as CreateJob;
}
