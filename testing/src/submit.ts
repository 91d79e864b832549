// A job as it is submitted becomes what is kept, by the very checks and rules of the server; or it is refused in its words. What
// a TestScheduler does not play is refused too, and never ignored.
import { CreateJob, type FieldError, PunctualError } from '@punctual/contract';
import { checker } from '@punctual/server/internal/api/validation';
import { type PreparedJob, prepareJob } from '@punctual/server/internal/rules/job';
import type { ScheduleRule } from '@punctual/server/internal/rules/schedule/rule';
import { prepareSchedule } from '@punctual/server/internal/rules/schedule_input';
import type { ScheduleState } from './book.ts';

/** Needs what only a server has. */
export class NotPlayedError extends Error {
  override name = 'NotPlayedError';
}

const notPlayed = ['executor', 'unique_key', 'depends_on', 'calendar', 'requires', 'encrypted'] as const;
const checkJob = checker(CreateJob);

/** The fields that are wrong; none when the job can be made. */
export function wrongFields(input: CreateJob, nowMs: number): FieldError[] {
  const errors = checkJob(input);
  if (errors.length > 0) return errors;
  const job = prepareJob(input, nowMs);
  return 'refused' in job ? job.refused : [];
}

/** For an input without wrong fields. */
export function prepared(input: CreateJob, nowMs: number): PreparedJob {
  for (const field of notPlayed)
    if (input[field] !== undefined && input[field] !== false)
      throw new NotPlayedError(`A TestScheduler does not play ${field}: test that against a server.`);
  return prepareJob(input, nowMs) as PreparedJob;
}

/** The schedule of a recurring job; null for another. */
export function scheduleOf(
  input: CreateJob,
  { schedule_type }: PreparedJob,
  { now_ms, key, where }: { now_ms: number; key: string; where: string },
): ScheduleState | null {
  if (schedule_type !== 'CRON' && schedule_type !== 'INTERVAL') return null;
  const made = prepareSchedule(schedule_type, input, { now_ms, calendar: null, key });
  if ('refused' in made) throw refusal('invalid_schedule', within(where, made.refused));
  return {
    prepared: made,
    rule: JSON.parse(made.rule) as ScheduleRule,
    next_ms: made.next_ms,
    planned_until_ms: now_ms,
    paused_until_ms: null,
    failures_from_ms: now_ms,
    runs_made: 0,
    ended: false,
    occurrences: [],
    off: null,
  };
}

export function refusal(
  code: 'invalid_input' | 'invalid_schedule' | 'bulk_refused',
  errors: FieldError[],
): PunctualError {
  const [first] = errors;
  const isBulk = first?.path.startsWith('jobs[') === true;
  const words = `${first?.path} ${first?.message}`.trim();
  return new PunctualError(code, { detail: isBulk ? `Nothing was created. ${words}` : words, errors });
}

/** Errors of a job of a bulk, which name it: `jobs[3]`. */
export function within(where: string, errors: readonly FieldError[]): FieldError[] {
  if (where === '') return [...errors];
  return errors.map(({ path, message }) => ({ path: path === '' ? where : `${where}.${path}`, message }));
}
