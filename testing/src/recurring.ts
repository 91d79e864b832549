// Recurring jobs of a TestScheduler: the server's planner decides about each of their times, here it is only written down.
import { planTimes } from '@punctual/server/internal/rules/plan';
import { blockedRuns, type JobState, liveRuns, type ScheduleState } from './book.ts';
import type { VirtualClock } from './clock.ts';
import type { Stage } from './stage.ts';
import { isoOf } from './views.ts';

export interface RecurringParts {
  clock: VirtualClock;
  stage: Stage;
  cancel: (job: JobState, beforeMs: number) => void;
  pause: (job: JobState, note: string) => void;
}

/** Looks at the schedule when its next time comes. */
export function watch(parts: RecurringParts, job: JobState): void {
  const { schedule } = job;
  if (schedule === null) return;
  schedule.off?.();
  schedule.off = null;
  if (schedule.next_ms === null) return;
  const delay = Math.max(0, schedule.next_ms - parts.clock.now());
  schedule.off = parts.clock.after(delay, () => plan(parts, job, schedule));
}

function plan(parts: RecurringParts, job: JobState, schedule: ScheduleState): void {
  const { overlap, catch_up, max_catch_up_age_ms, max_catch_up_count, max_runs, fixed_delay } = schedule.prepared;
  const now_ms = parts.clock.now();
  const made = planTimes({
    ...{ rule: schedule.rule, fixed_delay, overlap, catch_up, max_catch_up_age_ms, max_catch_up_count, now_ms },
    next_ms: schedule.next_ms ?? now_ms,
    planned_until_ms: schedule.planned_until_ms,
    paused_until_ms: schedule.paused_until_ms,
    runs_left: max_runs === null ? null : max_runs - schedule.runs_made,
    live: liveRuns(job),
    blocked: blockedRuns(job).length,
  });
  for (const time of made.times) {
    const due_ms = time.effective_ms ?? time.nominal_ms;
    const run =
      time.reason === null
        ? parts.stage.make(job, 'schedule', { scheduled_for_ms: time.nominal_ms, due_ms, blocked: time.blocked })
        : null;
    if (run !== null) schedule.runs_made += 1;
    schedule.occurrences.push({
      scheduled_for: isoOf(time.nominal_ms),
      through: isoOf(time.through_ms),
      times: time.times,
      effective_at: isoOf(time.effective_ms),
      run_id: run?.run_id ?? null,
      reason: time.reason,
      note: time.note,
      planned_at: isoOf(now_ms),
    });
  }
  schedule.planned_until_ms = made.planned_until_ms;
  schedule.next_ms = made.next_ms;
  schedule.ended = made.ended;
  if (made.cancel_others) parts.cancel(job, Math.max(...made.times.map((time) => time.nominal_ms)));
  watch(parts, job);
}

/** What follows the end of a run: the next that waited for it goes, a fixed delay begins, failures are counted. */
export function follow(parts: RecurringParts, job: JobState): void {
  const { schedule } = job;
  if (schedule === null) return;
  const limit = schedule.prepared.pause_after_failures;
  if (limit !== null && !job.paused) {
    const ended = job.runs.filter((run) => (run.end_ms ?? -1) > schedule.failures_from_ms).slice(-limit);
    if (ended.length === limit && ended.every((run) => run.status === 'FAILED'))
      parts.pause(job, 'It failed too often in a row.');
  }
  if (job.paused || liveRuns(job) > 0) return;
  const [next] = blockedRuns(job);
  if (next !== undefined) return parts.stage.place(next, 'due_later');
  if (
    schedule.prepared.fixed_delay &&
    schedule.next_ms === null &&
    !schedule.ended &&
    schedule.rule.type === 'INTERVAL'
  ) {
    schedule.next_ms = parts.clock.now() + schedule.rule.every_ms;
    watch(parts, job);
  }
}
