// A backfill as people ask for it: the times of the job's schedule in a past range are found, and with them the backfill
// is created, or only counted for a dry run. What cannot be done is refused in the words of the API's fields.
import { type BackfillPlan, type CreateBackfill, type FieldError, type Job, PunctualError } from '@punctual/contract';
import { pause } from '../base/clock.ts';
import { rangeOf, type TimeRange, timesIn } from '../rules/backfill.ts';
import type { ScheduleRule } from '../rules/schedule/rule.ts';
import { type BackfillKey, createBackfill, previewBackfill, readTiming, type Timing } from '../store/backfills.ts';
import type { Database } from '../store/database.ts';

export async function requestBackfill(
  db: Database,
  { job, asked, once }: { job: Job; asked: CreateBackfill; once: BackfillKey | null },
): Promise<{ plan: BackfillPlan; replayed: boolean }> {
  if (job.status === 'CANCELLED') throw new PunctualError('job_ended', { detail: 'The job is cancelled.' });
  const timing = requireTimes(job, await readTiming(db, job.job_id));
  const range = accepted(rangeOf(asked, timing.now_ms));
  const wanted = {
    job_id: job.job_id,
    ...range,
    newest_first: asked.order === 'newest_first',
    max_concurrency: asked.max_concurrency ?? 1,
    include_done: asked.include_done ?? false,
    times: await findTimes(JSON.parse(timing.rule) as ScheduleRule, beforeNext(range, timing)),
  };
  if (asked.dry_run === true) return { plan: await previewBackfill(db, wanted), replayed: false };
  return createBackfill(db, wanted, once);
}

function requireTimes(job: Job, timing: Timing | null): Timing {
  if (timing === null)
    return refuse('invalid_schedule', [
      { path: 'schedule_type', message: `is ${job.schedule_type}: only CRON and INTERVAL jobs have past times` },
    ]);
  if (timing.fixed_delay)
    return refuse('invalid_schedule', [
      { path: 'interval_mode', message: 'is fixed_delay: its times depend on its runs, so none were missed' },
    ]);
  return timing;
}

/** A time that the planner has not come to yet makes its run by itself. */
function beforeNext({ from_ms, to_ms }: TimeRange, { next_ms }: Timing): TimeRange {
  return { from_ms, to_ms: next_ms === null ? to_ms : Math.min(to_ms, next_ms - 1) };
}

const never = new AbortController().signal;

async function findTimes(rule: ScheduleRule, range: TimeRange): Promise<number[]> {
  const steps = timesIn(rule, range);
  for (let step = steps.next(); ; step = steps.next()) {
    if (step.done === true) return accepted(step.value);
    await pause(0, never);
  }
}

function accepted<T extends object>(answer: T | { refused: FieldError[] }): T {
  return 'refused' in answer ? refuse('invalid_input', answer.refused) : answer;
}

function refuse(code: 'invalid_input' | 'invalid_schedule', errors: FieldError[]): never {
  const [first] = errors;
  throw new PunctualError(code, { detail: `${first?.path} ${first?.message}`, errors });
}
