// Once-ness by a key: what the fields of a job mean, whether a job still holds its key, and what becomes of a new job that
// meets it. Pure; the API prepares with it, the store judges with it while it has the key locked.
//
// A job says for itself how long it holds its key. What a later job says about scope is about that later job only, so the
// answer never depends on who asks.
import type { CreateJob, FieldError, OnConflict, ScheduleType, UniqueScope } from '@punctual/contract';
import type { PreparedJob } from './job.ts';

export interface PreparedUnique {
  key: string;
  scope: UniqueScope;
  period_ms: number | null;
  on_conflict: OnConflict;
}

export function prepareUnique(input: CreateJob, type: ScheduleType, errors: FieldError[]): PreparedUnique | null {
  const { unique_key: key, unique_scope: scope = 'live', unique_period_ms: period_ms, on_conflict } = input;
  if (key === undefined) {
    for (const path of ['unique_scope', 'unique_period_ms', 'on_conflict'] as const)
      if (input[path] !== undefined) errors.push({ path, message: 'needs unique_key: give it too' });
    return null;
  }
  if (scope === 'period' && period_ms === undefined)
    errors.push({ path: 'unique_period_ms', message: 'is missing: unique_scope period needs it' });
  if (scope !== 'period' && period_ms !== undefined)
    errors.push({ path: 'unique_period_ms', message: 'goes with unique_scope period only' });
  if (on_conflict === 'reschedule' && isRecurring(type))
    errors.push({
      path: 'on_conflict',
      message: `reschedule does not go with schedule_type ${type}: such a job has no one due time`,
    });
  return { key, scope, period_ms: period_ms ?? null, on_conflict: on_conflict ?? 'reject' };
}

function isRecurring(type: ScheduleType): boolean {
  return type === 'CRON' || type === 'INTERVAL';
}

/** A job that a key names, as it is now. */
export interface Holder {
  job_id: string;
  type: string;
  scope: UniqueScope;
  recurring: boolean;
  cancelled: boolean;
  /** The run it was created with has not ended, or its schedule has not. */
  live: boolean;
  /** A run of it that has not ended has been given to a worker, now or before. */
  started: boolean;
  /** Its unique_period_ms is not over. */
  in_period: boolean;
  encrypted: boolean;
}

/** A job that is being created. */
export function newHolder(job: PreparedJob, job_id: string): Holder {
  return {
    job_id,
    type: job.type,
    scope: job.unique?.scope ?? 'live',
    recurring: isRecurring(job.schedule_type),
    cancelled: false,
    live: true,
    started: false,
    in_period: true,
    encrypted: job.encrypted,
  };
}

/** Does the job still hold its key? A recurring job always has a run that has not started, until it has ended. */
export function holds({ scope, recurring, cancelled, live, started, in_period }: Holder): boolean {
  if (scope === 'live') return live;
  if (cancelled) return false;
  return scope === 'period' ? in_period : live && (recurring || !started);
}

export type Verdict = 'create' | 'return_existing' | 'replace_payload' | 'reschedule' | { refused: string };

/** What becomes of a new job whose key names this one. */
export function judge(job: Pick<PreparedJob, 'type' | 'unique' | 'encrypted'>, holder: Holder | null): Verdict {
  if (holder === null || !holds(holder)) return 'create';
  const action = job.unique?.on_conflict ?? 'reject';
  if (action === 'return_existing') return action;
  const held = `is held by job ${holder.job_id}, ${inWords(holder)}`;
  if (action === 'reject') return { refused: held };
  const what = action === 'reschedule' ? 'due time' : 'payload';
  if (!holder.live || holder.cancelled || holder.started)
    return { refused: `${held}: its ${what} can no longer be changed` };
  if (holder.type !== job.type)
    return { refused: `${held}: it is of type ${holder.type}, which a payload for ${job.type} would not fit` };
  if (holder.encrypted !== job.encrypted)
    return { refused: `${held}: it is ${holder.encrypted ? '' : 'not '}encrypted, and that cannot be changed` };
  if (action === 'reschedule' && holder.recurring)
    return { refused: `${held}: its times follow its schedule and cannot be moved to one due time` };
  return action;
}

function inWords({ live, started, recurring, cancelled, scope }: Holder): string {
  if (!live) return 'which has ended and holds it until its unique_period_ms is over';
  if (cancelled) return 'which is cancelled but still running';
  if (started) return `${recurring ? 'a run of which' : 'whose run'} has started`;
  if (recurring) return 'which is recurring and has not ended';
  return scope === 'period' ? 'which holds it until its unique_period_ms is over' : 'whose run has not started yet';
}
