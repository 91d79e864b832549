// The words of schedules: the rule that is stored, the occurrences it makes, and every limit with its reason.
// A rule is a plain value: it can be written as JSON and read back, and it is never changed in place.
import { limits } from '@punctual/contract';

/** A rule as parseSchedule makes it. Times are milliseconds since 1970, all bounds are inclusive. */
export type ScheduleRule = CronRule | IntervalRule;

export interface CronRule extends SharedRule {
  readonly type: 'CRON';
  /** One to ten; an instant that several of them name is one occurrence. */
  readonly expressions: readonly string[];
  readonly timezone: string;
}

/** A fixed rate: anchor_ms, anchor_ms + every_ms, anchor_ms + 2 × every_ms, … and never before the anchor. */
export interface IntervalRule extends SharedRule {
  readonly type: 'INTERVAL';
  readonly every_ms: number;
  readonly anchor_ms: number;
}

export interface SharedRule {
  readonly start_at: number | null;
  readonly end_at: number | null;
  /** For a fixed time that the clocks leave out. */
  readonly dst_gap: 'run_after' | 'skip';
  /** For a fixed time that the clocks show twice. */
  readonly dst_overlap: 'first' | 'both';
  readonly jitter_ms: number;
  /** The id of the job: the same key gives the same jitter and the same `H`. */
  readonly jitter_key: string;
  readonly calendar: CompiledCalendar | null;
  readonly on_excluded: 'skip' | 'next' | 'previous';
}

export type Note = 'gap_moved' | 'overlap_first' | 'overlap_second' | 'moved_by_calendar';

export interface Occurrence {
  /** The instant that identifies it. */
  nominal_ms: number;
  /** When it shall run: later by the jitter. */
  effective_ms: number;
  /** The wall-clock time the schedule meant, as if it were UTC; it may not exist, or be another than that of nominal_ms. */
  local_ms: number;
  note: Note | null;
  /** The calendar forbids it: it is kept for the ledger, and makes no run. */
  excluded: boolean;
}

/** When runs are allowed: inside some `include` window (if there are any) and inside no `exclude` window. */
export interface CompiledCalendar {
  readonly timezone: string;
  readonly exclude: readonly CompiledWindow[];
  readonly include: readonly CompiledWindow[];
}

/** All parts must hold. The day is the local day on which the hours begin: Friday 22:00-06:00 ends on Saturday. */
export interface CompiledWindow {
  /** Bit 0 is Sunday. */
  readonly weekdays: number;
  /** Days since 1970 as from, to, from, to, … sorted and apart; null when no date is asked for. */
  readonly spans: readonly number[] | null;
  /** Days of every year as month × 100 + day, sorted; null when no date is asked for. */
  readonly yearly: readonly number[] | null;
  /** Minutes of the day as from, to, from, to, …; a `to` that is not above its `from` lies on the next day. */
  readonly hours: readonly number[];
}

export interface FieldRefusal {
  path: string;
  message: string;
}

export const SECOND_MS = 1000;
export const MINUTE_MS = 60_000;
export const DAY_MS = 86_400_000;

/** 9999-12-31T23:59:59.999Z: ISO dates have four digits for the year. */
export const LAST_MS = 253_402_300_799_999;

export const scheduleLimits = {
  max_expressions: 10,
  /** All sixty minutes written out take 169. */
  max_expression_chars: 200,
  /** The longest name of a zone has 32. */
  max_timezone_chars: 64,
  /** Faster than this is a loop, not a schedule. */
  min_every_ms: SECOND_MS,
  max_every_ms: limits.max_delay_ms,
  /** Spreading over more than a day would move times to other dates. */
  max_jitter_ms: DAY_MS,
  max_jitter_key_chars: 200,
  /** Windows of each kind, entries of a window: so that judging a day costs microseconds. */
  max_windows: 20,
  max_dates: 400,
  max_hours: 12,
  /** How far a calendar may move an occurrence: more than a year, so that yearly windows are found. */
  max_move_ms: 400 * DAY_MS,
  /** Occurrences in one answer. */
  max_items: 10_000,
  /** Work in one call: a candidate or a day of a simple calendar is one step, a year of a zone `steps_per_year`. */
  max_steps: 10_000,
  steps_per_year: 250,
  /** Work to find out whether a schedule ever runs: some years of a daily one. */
  max_first_steps: 4000,
} as const;
