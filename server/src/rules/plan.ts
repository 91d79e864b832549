// What becomes of the nominal times of a schedule that have come: which make runs, which are recorded with a reason, and
// when to look again. Pure; the planner reads a schedule, asks here, and writes the answer in one guarded statement.
//
// A time that is at most a minute late is on time: however slow the planner is, it is not coalesced with another. Older
// ones were missed, and `catch_up` decides. `overlap` then decides about those that find a run of the job not done.
import type { OccurrenceReason } from '@punctual/contract';
import { occurrencesAfter } from './schedule/occurrences.ts';
import { type Occurrence, type ScheduleRule, scheduleLimits } from './schedule/rule.ts';
import { spread } from './schedule/spread.ts';

export interface PlanInput {
  rule: ScheduleRule;
  /** INTERVAL after the end of the previous run: the one nominal time is `next_ms`. */
  fixed_delay: boolean;
  next_ms: number;
  planned_until_ms: number;
  paused_until_ms: number | null;
  now_ms: number;
  overlap: 'queue_one' | 'skip' | 'cancel_other' | 'allow';
  catch_up: 'latest' | 'all' | 'none';
  max_catch_up_age_ms: number | null;
  max_catch_up_count: number;
  /** How many runs it may still make; null for any number. */
  runs_left: number | null;
  /** Runs of the job that are running, ready, or wait for a time. */
  live: number;
  /** Runs of the job that wait for the end of another. */
  blocked: number;
}

export interface PlannedTime {
  nominal_ms: number;
  /** The last of the times it stands for, and how many they are: more than one only without a run. */
  through_ms: number;
  times: number;
  reason: OccurrenceReason | null;
  /** Set when it makes a run: when that starts at the earliest. */
  effective_ms: number | null;
  /** The run waits for the end of another. */
  blocked: boolean;
  note: string | null;
}

export interface Plan {
  times: PlannedTime[];
  planned_until_ms: number;
  /** When to look again; null: never, or after the end of the run (fixed delay). */
  next_ms: number | null;
  ended: boolean;
  /** Runs of the job that are not done are to be cancelled. */
  cancel_others: boolean;
}

/** A time that is later than this was missed. */
const graceMs = 60_000;
/** Missed times are caught up within a tenth of how late they are, at most this. */
const maxSpreadMs = 5 * 60_000;

/** `found`: its times, when they are known already (plan_together.ts). */
export function planTimes(input: PlanInput, found: Times = findTimes(input)): Plan {
  if (input.fixed_delay) return planDelay(input);
  if ('looked_until_ms' in found) return planSome(input, found.items, found.looked_until_ms);
  const { runs, others } = choose(input, found.items);
  const { times, cancel_others } = overlap(input, runs);
  const last = lastRun(times, input.runs_left);
  if (last !== null) {
    const upTo = [...others, ...times].filter((time) => time.nominal_ms <= last);
    return { times: inSpans(upTo), planned_until_ms: last, next_ms: null, ended: true, cancel_others };
  }
  return {
    times: inSpans([...others, ...times]),
    planned_until_ms: input.now_ms,
    next_ms: found.next_ms,
    ended: found.next_ms === null,
    cancel_others,
  };
}

export type Times = { items: Occurrence[]; next_ms: number | null } | { items: Occurrence[]; looked_until_ms: number };

/** The times that have come and the next one; or as many as one plan takes, and how far that reaches. */
export function findTimes({
  rule,
  fixed_delay,
  planned_until_ms,
  now_ms,
}: Pick<PlanInput, 'rule' | 'fixed_delay' | 'planned_until_ms' | 'now_ms'>): Times {
  if (fixed_delay) return { items: [], next_ms: null };
  // Mostly one has come, and the second is the next.
  const two = occurrencesAfter(rule, planned_until_ms, { limit: 2 });
  const later = two.items.find((item) => item.nominal_ms > now_ms);
  if (later !== undefined || two.exhausted) {
    return { items: two.items.filter((item) => item.nominal_ms <= now_ms), next_ms: later?.nominal_ms ?? null };
  }
  const found = occurrencesAfter(rule, planned_until_ms, { limit: scheduleLimits.max_items, untilMs: now_ms });
  if (!found.exhausted) return { items: found.items, looked_until_ms: found.lookedUntilMs };
  const next = occurrencesAfter(rule, now_ms);
  return {
    items: found.items,
    next_ms: next.items[0]?.nominal_ms ?? (next.exhausted ? null : next.lookedUntilMs),
  };
}

/** More times have come than one plan takes: the oldest are passed over, as far as that is sure. */
function planSome(input: PlanInput, items: Occurrence[], lookedUntilMs: number): Plan {
  const keep = input.catch_up === 'all' ? input.max_catch_up_count : 1;
  const passed = items.slice(0, Math.max(0, items.length - keep));
  const until = passed.at(-1)?.nominal_ms ?? (items.length === 0 ? lookedUntilMs : input.planned_until_ms);
  const others = passed.map((item) => without(item, reasonFor(input, item) ?? passedOver(input, item)));
  return { times: inSpans(others), planned_until_ms: until, next_ms: until, ended: false, cancel_others: false };
}

/** The time of the last run it may make, when that is among these: later times are no longer times of the schedule. */
function lastRun(times: readonly PlannedTime[], runsLeft: number | null): number | null {
  if (runsLeft === null) return null;
  return times.filter((time) => time.reason === null)[runsLeft - 1]?.nominal_ms ?? null;
}

/** The one time of a schedule that counts from the end of the previous run. */
function planDelay(input: PlanInput): Plan {
  const { next_ms, now_ms, rule, runs_left } = input;
  const over = rule.end_at !== null && next_ms > rule.end_at;
  if (over || runs_left === 0)
    return { times: [], planned_until_ms: now_ms, next_ms: null, ended: true, cancel_others: false };
  const item = { nominal_ms: next_ms, effective_ms: next_ms, local_ms: next_ms, note: null, excluded: false };
  const reason = reasonFor(input, item);
  if (reason === null) {
    const { times, cancel_others } = overlap(input, [{ item, effective_ms: startOf(input, item), missed: false }]);
    return { times, planned_until_ms: now_ms, next_ms: null, ended: false, cancel_others };
  }
  const every = rule.type === 'INTERVAL' ? rule.every_ms : graceMs;
  return {
    times: [without(item, reason)],
    planned_until_ms: now_ms,
    next_ms: now_ms + every,
    ended: false,
    cancel_others: false,
  };
}

interface Chosen {
  item: Occurrence;
  effective_ms: number;
  missed: boolean;
}

/** Which of the times are to make runs, and why the others make none. */
function choose(input: PlanInput, items: readonly Occurrence[]): { runs: Chosen[]; others: PlannedTime[] } {
  const others: PlannedTime[] = [];
  const fit: Occurrence[] = [];
  for (const item of items) {
    const reason = reasonFor(input, item);
    if (reason === null) fit.push(item);
    else others.push(without(item, reason));
  }
  const isMissed = (item: Occurrence): boolean => input.now_ms - item.nominal_ms > graceMs;
  const onTime = fit.filter((item) => !isMissed(item));
  const caught = caughtUp(input, fit.filter(isMissed), onTime.length > 0);
  const taken = new Set(caught);
  for (const item of fit) if (isMissed(item) && !taken.has(item)) others.push(without(item, passedOver(input, item)));
  const runs = [...caught, ...onTime].map((item) => ({
    item,
    effective_ms: startOf(input, item),
    missed: isMissed(item),
  }));
  return { runs, others };
}

function caughtUp(input: PlanInput, missed: readonly Occurrence[], laterRuns: boolean): Occurrence[] {
  if (input.catch_up === 'none' || (input.catch_up === 'latest' && laterRuns)) return [];
  const young = missed.filter((item) => !isTooOld(input, item));
  return young.slice(-(input.catch_up === 'all' ? input.max_catch_up_count : 1));
}

function isTooOld({ max_catch_up_age_ms, now_ms }: PlanInput, item: Occurrence): boolean {
  return max_catch_up_age_ms !== null && now_ms - item.nominal_ms > max_catch_up_age_ms;
}

function passedOver(input: PlanInput, item: Occurrence): OccurrenceReason {
  return input.catch_up === 'none' || isTooOld(input, item) ? 'too_old' : 'coalesced';
}

function reasonFor({ paused_until_ms }: PlanInput, item: Occurrence): OccurrenceReason | null {
  if (paused_until_ms !== null && item.nominal_ms <= paused_until_ms) return 'paused';
  return item.excluded ? 'excluded' : null;
}

/** After a long standstill many schedules have something to catch up at once: each begins at its own moment. */
function startOf({ now_ms, rule }: PlanInput, item: Occurrence): number {
  const late = now_ms - item.nominal_ms;
  if (late <= graceMs) return item.effective_ms;
  return now_ms + spread(`${rule.jitter_key} catch up`, Math.floor(Math.min(late / 10, maxSpreadMs)) + 1);
}

function overlap(input: PlanInput, chosen: readonly Chosen[]): { times: PlannedTime[]; cancel_others: boolean } {
  if (input.overlap === 'cancel_other') return replaceOthers(input, chosen);
  let { live, blocked } = input;
  const times = chosen.map((one) => {
    if (live + blocked === 0 || input.overlap === 'allow') {
      live++;
      return withRun(one, false);
    }
    if (input.overlap === 'skip') return without(one.item, 'skipped_overlap');
    if (blocked > 0 && !one.missed) return without(one.item, 'coalesced');
    blocked++;
    return withRun(one, true);
  });
  return { times, cancel_others: false };
}

/** Only the last of those that come together runs; it waits until the others have stopped. */
function replaceOthers(
  { live, blocked }: PlanInput,
  chosen: readonly Chosen[],
): { times: PlannedTime[]; cancel_others: boolean } {
  const busy = live + blocked > 0;
  const last = chosen.at(-1);
  if (last === undefined) return { times: [], cancel_others: false };
  const earlier = chosen.slice(0, -1).map(({ item }) => without(item, 'coalesced'));
  return { times: [...earlier, withRun(last, busy)], cancel_others: busy };
}

function withRun({ item, effective_ms }: Chosen, blocked: boolean): PlannedTime {
  const { nominal_ms, note } = item;
  return { nominal_ms, through_ms: nominal_ms, times: 1, reason: null, effective_ms, blocked, note };
}

function without({ nominal_ms, note }: Occurrence, reason: OccurrenceReason): PlannedTime {
  return { nominal_ms, through_ms: nominal_ms, times: 1, reason, effective_ms: null, blocked: false, note };
}

/** In order; neighbours that made no run for the same reason become one entry. */
function inSpans(times: readonly PlannedTime[]): PlannedTime[] {
  if (times.length < 2) return [...times];
  const spans: PlannedTime[] = [];
  for (const time of [...times].sort((a, b) => a.nominal_ms - b.nominal_ms)) {
    const last = spans.at(-1);
    if (last !== undefined && last.reason !== null && last.reason === time.reason && time.note === last.note) {
      last.through_ms = time.through_ms;
      last.times += time.times;
    } else {
      spans.push({ ...time });
    }
  }
  return spans;
}
