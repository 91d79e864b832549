// The occurrences of a rule: its nominal times, judged by its calendar, spread by its jitter. Strictly after a time, in
// order, each instant at most once. A call does a bounded amount of work; what it did not finish it says, and the
// caller goes on from `lookedUntilMs`, which every call brings forward. The planner and the API ask here.
import { type Budget, isAllowed, nextAllowed } from './allowed.ts';
import { type Found, findMovedBack, findMovedOn, type Item } from './moved.ts';
import { type CompiledCalendar, LAST_MS, type Occurrence, type ScheduleRule, scheduleLimits } from './rule.ts';
import { type Bounds, boundsOf, openSource } from './source.ts';
import { spread } from './spread.ts';

export interface OccurrencesOptions {
  /** At most so many; 1 when left out. */
  limit?: number;
  /** The last instant that is asked for; without it, the end of the rule. */
  untilMs?: number;
}

export interface Occurrences {
  items: Occurrence[];
  /** Every occurrence that was asked for is in the list. */
  exhausted: boolean;
  /** Every occurrence up to here is in the list; ask again after this. */
  lookedUntilMs: number;
}

export function occurrencesAfter(rule: ScheduleRule, afterMs: number, options: OccurrencesOptions = {}): Occurrences {
  const untilMs = Math.min(options.untilMs ?? LAST_MS, LAST_MS);
  const limit = Math.min(Math.max(options.limit ?? 1, 1), scheduleLimits.max_items);
  const bounds = boundsOf(rule, afterMs, untilMs);
  if (bounds.from > bounds.last) return { items: [], exhausted: true, lookedUntilMs: untilMs };
  const found = find(rule, bounds, limit);
  const items = found.items.filter((item) => item.ms <= bounds.last).slice(0, limit);
  const full = items.length === limit;
  const exhausted = !full && found.known > bounds.last;
  const lookedUntilMs = full ? (items.at(-1)?.ms ?? afterMs) : exhausted ? untilMs : Math.max(found.known - 1, afterMs);
  const delay = jitterOf(rule);
  return { items: items.map((item) => toOccurrence(item, delay)), exhausted, lookedUntilMs };
}

function toOccurrence({ ms, local, note, excluded }: Item, delay: number): Occurrence {
  return { nominal_ms: ms, effective_ms: ms + delay, local_ms: local, note, excluded };
}

/** The same job is always late by the same, so that its runs keep their distance. */
function jitterOf(rule: ScheduleRule): number {
  return rule.jitter_ms === 0 ? 0 : spread(rule.jitter_key, rule.jitter_ms + 1);
}

/** Has a schedule of another job with this rule other times? */
export function dependsOnKey(rule: ScheduleRule): boolean {
  // `H` stands for a number that the job's key decides.
  return (
    rule.jitter_ms > 0 || (rule.type === 'CRON' && rule.expressions.some((expression) => /\bH\b/i.test(expression)))
  );
}

export interface Count {
  /** Those that make runs. */
  count: number;
  /** Those that the calendar forbids. */
  excluded: number;
  /** False: there are more than `max`, or the search was too long for one call. */
  complete: boolean;
}

/** How many occurrences lie in (fromMs, toMs], counted up to `max`. */
export function countBetween(rule: ScheduleRule, fromMs: number, toMs: number, max: number): Count {
  if (rule.type === 'INTERVAL' && rule.calendar === null) {
    const { from, last } = boundsOf(rule, fromMs, toMs);
    const first = Math.max(0, Math.ceil((from - rule.anchor_ms) / rule.every_ms));
    const count = Math.max(0, Math.floor((last - rule.anchor_ms) / rule.every_ms) - first + 1);
    return { count: Math.min(count, max), excluded: 0, complete: count <= max };
  }
  const { items, exhausted } = occurrencesAfter(rule, fromMs, { limit: max + 1, untilMs: toMs });
  const counted = items.slice(0, max);
  const excluded = counted.filter((item) => item.excluded).length;
  return { count: counted.length - excluded, excluded, complete: exhausted };
}

function find(rule: ScheduleRule, bounds: Bounds, limit: number): Found {
  const { calendar } = rule;
  const budget: Budget = { steps: scheduleLimits.max_steps };
  if (calendar !== null && rule.on_excluded !== 'skip') {
    const search = { rule, calendar, bounds, budget, limit };
    return rule.on_excluded === 'next' ? findMovedOn(search) : findMovedBack(search);
  }
  const source = openSource(rule, bounds, budget);
  const items: Item[] = [];
  while (items.length < limit) {
    const nominal = source.peek();
    if (nominal === null) break;
    const { ms, local, note } = nominal;
    items.push({ ms, local, note, excluded: calendar !== null && !isAllowed(calendar, ms) });
    source.seek(ms + 1);
  }
  return { items, known: source.position() };
}

/** The first occurrence that makes a run, or null if a bounded search found none up to a time. */
export function firstRun(rule: ScheduleRule, afterMs: number): { found: Occurrence | null; lookedUntilMs: number } {
  const { calendar } = rule;
  const isMoved = calendar !== null && rule.on_excluded !== 'skip';
  return isMoved ? firstMoved(rule, calendar, afterMs) : firstAllowed(rule, calendar, afterMs);
}

type FirstRun = ReturnType<typeof firstRun>;

/** Goes from time to time that the calendar excludes, and from there to where it allows something. */
function firstAllowed(rule: ScheduleRule, calendar: CompiledCalendar | null, afterMs: number): FirstRun {
  const budget: Budget = { steps: scheduleLimits.max_first_steps };
  const bounds = boundsOf(rule, afterMs, LAST_MS);
  const source = openSource(rule, bounds, budget);
  for (;;) {
    const nominal = source.peek();
    if (nominal === null) return { found: null, lookedUntilMs: Math.min(source.position() - 1, bounds.last) };
    if (calendar === null || isAllowed(calendar, nominal.ms)) {
      return { found: toOccurrence({ ...nominal, excluded: false }, jitterOf(rule)), lookedUntilMs: nominal.ms };
    }
    const latest = Math.min(nominal.ms + scheduleLimits.max_move_ms, LAST_MS);
    source.seek(nextAllowed(calendar, nominal.ms, latest, budget) ?? latest + 1);
  }
}

/** Times are only left out where the calendar allows nothing for long: looks at the edges of the next such stretches. */
function firstMoved(rule: ScheduleRule, calendar: CompiledCalendar, afterMs: number): FirstRun {
  const { max_move_ms } = scheduleLimits;
  const budget: Budget = { steps: scheduleLimits.max_first_steps };
  let lookedUntilMs = afterMs;
  for (let stretches = 0; stretches < 3; stretches++) {
    const next = occurrencesAfter(rule, lookedUntilMs);
    const [item] = next.items;
    lookedUntilMs = next.lookedUntilMs;
    if (item === undefined) break;
    if (!item.excluded) return { found: item, lookedUntilMs };
    const latest = Math.min(item.nominal_ms + 2 * max_move_ms, LAST_MS);
    const end = nextAllowed(calendar, item.nominal_ms, latest, budget);
    if (end === null) return { found: null, lookedUntilMs: latest };
    lookedUntilMs = Math.max(lookedUntilMs, rule.on_excluded === 'next' ? end - max_move_ms - 1 : end - 1);
  }
  return { found: null, lookedUntilMs };
}
