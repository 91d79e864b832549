// Backfills, pure: which times a range has, and what a backfill does next. The parts that read and write are
// scheduler/backfill_request.ts and store/backfill_moves.ts.
import { type FieldError, limits } from '@punctual/contract';
import { countBetween, occurrencesAfter } from './schedule/occurrences.ts';
import type { ScheduleRule } from './schedule/rule.ts';

/** Both ends belong to it. */
export interface TimeRange {
  from_ms: number;
  to_ms: number;
}

export function rangeOf(
  { from, to }: { from: string; to: string },
  nowMs: number,
): TimeRange | { refused: FieldError[] } {
  const range = { from_ms: Date.parse(from), to_ms: Date.parse(to) };
  const refused: FieldError[] = [];
  if (Number.isNaN(range.from_ms)) refused.push({ path: 'from', message: 'is not a date that exists' });
  if (Number.isNaN(range.to_ms)) refused.push({ path: 'to', message: 'is not a date that exists' });
  if (range.from_ms > range.to_ms) refused.push({ path: 'from', message: 'must not be after to' });
  if (range.to_ms > nowMs)
    refused.push({ path: 'to', message: 'must not be in the future: those times make their runs when they come' });
  return refused.length > 0 ? { refused } : range;
}

/** Times found before others may go first: some milliseconds. */
const perCall = 1000;
/** Calls for one range: enough for a century of any rule that has fewer times than are allowed. */
const maxCalls = 1000;

/** The times of a rule in a range that make runs, in order. Yields now and then, so that the caller may let others go. */
export function* timesIn(rule: ScheduleRule, range: TimeRange): Generator<void, number[] | { refused: FieldError[] }> {
  const max = limits.max_backfill_times;
  const known = exactCount(rule, range);
  if (known !== null && known > max) return tooMany(String(known));
  const times: number[] = [];
  let after = range.from_ms - 1;
  for (let call = 0; call < maxCalls; call++) {
    const found = occurrencesAfter(rule, after, { limit: perCall, untilMs: range.to_ms });
    for (const item of found.items) if (!item.excluded) times.push(item.nominal_ms);
    if (times.length > max) return tooMany(`more than ${max}`);
    if (found.exhausted) return times;
    after = found.lookedUntilMs;
    yield;
  }
  return { refused: [{ path: 'from', message: 'is too long ago to find all times of this schedule; begin later' }] };
}

/** Without going through them; null when that is not possible. */
function exactCount(rule: ScheduleRule, { from_ms, to_ms }: TimeRange): number | null {
  if (rule.type !== 'INTERVAL' || rule.calendar !== null) return null;
  return countBetween(rule, from_ms - 1, to_ms, Number.MAX_SAFE_INTEGER).count;
}

function tooMany(count: string): { refused: FieldError[] } {
  const message = `is too far from from: the range has ${count} times, and a backfill takes at most ${limits.max_backfill_times}`;
  return { refused: [{ path: 'to', message }] };
}

export interface BackfillNow {
  state: 'RUNNING' | 'CANCELLED';
  job: 'live' | 'paused' | 'cancelled';
  max_concurrency: number;
  /** Runs that were made and have not ended. */
  live: number;
  /** Times without a run. */
  unmade: number;
}

export interface BackfillStep {
  /** So many runs are made now. */
  make: number;
  state: 'RUNNING' | 'DONE' | 'CANCELLED';
  /** Nothing is left to do. */
  ended: boolean;
}

export function nextStep({ state, job, max_concurrency, live, unmade }: BackfillNow): BackfillStep {
  if (state === 'CANCELLED' || job === 'cancelled') return { make: 0, state: 'CANCELLED', ended: live === 0 };
  if (live + unmade === 0) return { make: 0, state: 'DONE', ended: true };
  const make = job === 'paused' ? 0 : Math.max(0, Math.min(max_concurrency - live, unmade));
  return { make, state: 'RUNNING', ended: false };
}
