// What a TestScheduler remembers: jobs, their schedules and their runs. Plain values; moves.ts changes them.
import type { Attempt, Occurrence, Progress, RunCause, StoredLogLine } from '@punctual/contract';
import type { ActiveRun } from '@punctual/sdk/internal';
import type { PreparedJob } from '@punctual/server/internal/rules/job';
import type { ScheduleRule } from '@punctual/server/internal/rules/schedule/rule';
import type { PreparedSchedule } from '@punctual/server/internal/rules/schedule_input';

export interface ScheduleState {
  prepared: PreparedSchedule;
  rule: ScheduleRule;
  next_ms: number | null;
  planned_until_ms: number;
  paused_until_ms: number | null;
  /** Failures before this do not count any more. */
  failures_from_ms: number;
  runs_made: number;
  ended: boolean;
  occurrences: Occurrence[];
  /** Calls off the next look at it. */
  off: (() => void) | null;
}

export interface JobState {
  job_id: string;
  prepared: PreparedJob;
  schedule: ScheduleState | null;
  schedule_ms: number | null;
  paused: boolean;
  pause_note: string | null;
  cancelled: boolean;
  version: number;
  created_ms: number;
  updated_ms: number;
  /** In the order in which they were made. */
  runs: RunState[];
  /** Told once a run of it has ended. */
  waiters: (() => void)[];
}

export interface RunState {
  run_id: string;
  job: JobState;
  cause: RunCause;
  state: 'waiting' | 'ready' | 'running' | 'ended';
  /** Why it waits, or more about its end. */
  reason: string | null;
  /** Once it has ended. */
  status: 'SUCCESS' | 'FAILED' | 'CANCELLED' | null;
  made_ms: number;
  scheduled_for_ms: number;
  due_ms: number;
  /** Its place among those that are ready. */
  seq: number;
  attempts: number;
  snoozes: number;
  start_ms: number | null;
  end_ms: number | null;
  modified_ms: number;
  error: string | null;
  /** As JSON. */
  result: string | null;
  progress: Progress | null;
  checkpoint: { version: number; value: unknown; saved_ms: number; attempt: number } | null;
  failed: Attempt[];
  logs: StoredLogLine[];
  cancelling: boolean;
  active: ActiveRun | null;
  lease_id: string;
  fence: number;
  /** Calls off its becoming due. */
  off: (() => void) | null;
  /** Told once it has ended. */
  waiters: (() => void)[];
}

/** Runs of a job that are not done, as the planner counts them. */
export function liveRuns({ runs }: JobState): number {
  return runs.filter((run) => run.state !== 'ended' && run.reason !== 'overlap' && run.cause !== 'submit').length;
}

export function blockedRuns({ runs }: JobState): RunState[] {
  return runs.filter((run) => run.state === 'waiting' && run.reason === 'overlap');
}

export function isLive({ runs, schedule }: JobState): boolean {
  return runs.some((run) => run.state !== 'ended') || (schedule !== null && !schedule.ended);
}

/** From when the time counts that a run may take as a whole. */
export function leftMs(run: RunState, nowMs: number): number | null {
  const whole = run.job.prepared.run_timeout_ms;
  return whole === null ? null : Math.max(run.scheduled_for_ms, run.made_ms) + whole - nowMs;
}
