// What a TestScheduler remembers, in the shapes of the API.
import type { Job, JobStatus, Run, Schedule } from '@punctual/contract';
import { parseBackoff } from '@punctual/server/internal/rules/job';
import { describe } from '@punctual/server/internal/rules/schedule/describe';
import { isLive, type JobState, type RunState, type ScheduleState } from './book.ts';

export const workerId = 'test';

export function isoOf(ms: number): string;
export function isoOf(ms: number | null): string | null;
export function isoOf(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}

export function statusOf(job: JobState): JobStatus {
  if (job.cancelled) return 'CANCELLED';
  if (!isLive(job)) return 'COMPLETED';
  return job.paused ? 'PAUSED' : 'SCHEDULED';
}

export function toRun(run: RunState): Run {
  const { prepared, job_id } = run.job;
  const hasBegun = run.state === 'running' || run.state === 'ended';
  const ongoing = run.state === 'running' && run.cancelling ? 'cancelling' : run.reason;
  return {
    run_id: run.run_id,
    job_id,
    name: prepared.name,
    type: prepared.type,
    queue: prepared.queue,
    priority: prepared.priority,
    user_id: prepared.user_id,
    cause: run.cause,
    status: run.status ?? (run.state === 'running' ? 'RUNNING' : 'QUEUED'),
    reason: ongoing,
    due_at: isoOf(run.due_ms),
    attempt_number: hasBegun ? run.attempts : run.attempts + 1,
    max_attempts: prepared.max_retries + 1,
    start_time: isoOf(run.start_ms),
    end_time: isoOf(run.end_ms),
    modified_time: isoOf(run.modified_ms),
    executor_id: hasBegun && run.attempts > 0 ? workerId : null,
    error_message: run.error,
    ...(run.result === null ? {} : { result: JSON.parse(run.result) as unknown }),
    ...(run.state === 'running' && run.progress !== null ? { progress: run.progress } : {}),
    ...(run.snoozes > 0 && run.state !== 'ended' ? { snoozes: run.snoozes } : {}),
  };
}

export function toJob(job: JobState): Job {
  const { prepared, schedule } = job;
  return {
    job_id: job.job_id,
    name: prepared.name,
    type: prepared.type,
    user_id: prepared.user_id,
    queue: prepared.queue,
    priority: prepared.priority,
    tags: prepared.tags ?? [],
    payload: prepared.payload === null ? null : (JSON.parse(prepared.payload) as unknown),
    schedule_type: prepared.schedule_type,
    schedule_time: isoOf(job.schedule_ms),
    ...(schedule === null ? {} : { schedule: toSchedule(schedule) }),
    max_retries: prepared.max_retries,
    backoff: parseBackoff(prepared.backoff) ?? {},
    timeout_ms: prepared.timeout_ms,
    run_timeout_ms: prepared.run_timeout_ms,
    status: statusOf(job),
    ...(job.pause_note === null ? {} : { pause_note: job.pause_note }),
    version: job.version,
    created_at: isoOf(job.created_ms),
    updated_at: isoOf(job.updated_ms),
  };
}

function toSchedule({ prepared, rule, next_ms, runs_made, ended }: ScheduleState): Schedule {
  return {
    ...(JSON.parse(prepared.spec) as Omit<Schedule, 'next_time' | 'runs_made' | 'ended' | 'words'>),
    next_time: isoOf(next_ms),
    runs_made,
    ended,
    words: describe(rule, { fixedDelay: prepared.fixed_delay }),
  };
}
