// Times that a calendar moves. All nominal times of one excluded stretch fall on one instant: the first allowed one
// after it (`next`), or the last allowed minute before it (`previous`). So a stretch is passed in one go, however many
// times it holds. `next` begins in front of where it is asked to begin, because earlier times may land later.
// `previous` holds times back for a minute, because later ones may land before them. A time that would be moved further
// than `max_move_ms`, or out of the rule's own bounds, is not moved but excluded.
import { type Budget, excludedSince, isAllowed, nextAllowed } from './allowed.ts';
import type { Nominal } from './cron_times.ts';
import { type CompiledCalendar, LAST_MS, MINUTE_MS, type ScheduleRule, scheduleLimits } from './rule.ts';
import { type Bounds, openSource } from './source.ts';

export interface Item extends Nominal {
  excluded: boolean;
}

export interface Found {
  /** In order; some may lie after the bounds. */
  items: Item[];
  /** Nothing before this is missing. */
  known: number;
}

export interface Search {
  rule: ScheduleRule;
  calendar: CompiledCalendar;
  bounds: Bounds;
  budget: Budget;
  limit: number;
}

const { max_move_ms } = scheduleLimits;

export function findMovedOn(search: Search): Found {
  const { rule, calendar, bounds, budget, limit } = search;
  const lastOfRule = Math.min(rule.end_at ?? LAST_MS, LAST_MS);
  const source = openSource(rule, { from: startOfStretch(search), last: bounds.last }, budget);
  const stretch = openStretch(calendar, budget);
  const items: Item[] = [];
  for (;;) {
    const nominal = items.length < limit ? source.peek() : null;
    if (nominal === null) return { items, known: Math.max(bounds.from, source.position()) };
    if (isAllowed(calendar, nominal.ms)) {
      items.push({ ...nominal, excluded: false });
      source.seek(nominal.ms + 1);
      continue;
    }
    const end = stretch.end(nominal.ms, Math.min(nominal.ms + max_move_ms, lastOfRule));
    if (end === null) items.push({ ...nominal, excluded: true });
    else items.push({ ...nominal, ms: end, note: 'moved_by_calendar', excluded: false });
    source.seek((end ?? nominal.ms) + 1);
  }
}

/** From where times are moved to the bounds or later: the begin of the stretch that lies there or ends there. */
function startOfStretch({ rule, calendar, bounds, budget }: Search): number {
  const { from } = bounds;
  if (isAllowed(calendar, from - 1)) return from;
  const lastOfRule = Math.min(rule.end_at ?? LAST_MS, LAST_MS);
  const end = nextAllowed(calendar, from, Math.min(from + max_move_ms, lastOfRule), budget);
  if (end === null) return from;
  const earliest = Math.max(end - max_move_ms, rule.start_at ?? 0, 0);
  return Math.min(from, excludedSince(calendar, from - 1, earliest, budget) ?? earliest);
}

export function findMovedBack({ rule, calendar, bounds, budget, limit }: Search): Found {
  const last = Math.min(bounds.last + max_move_ms, rule.end_at ?? LAST_MS, LAST_MS);
  const source = openSource(rule, { from: bounds.from, last }, budget);
  const stretch = openStretch(calendar, budget);
  const items: Item[] = [];
  let held: Item[] = [];
  let known = bounds.from;
  /** Nothing will land before this any more. */
  const release = (before: number): void => {
    known = Math.max(known, before);
    items.push(...held.filter((item) => item.ms < known));
    held = held.filter((item) => item.ms >= known);
  };
  while (items.length < limit && known <= bounds.last) {
    const nominal = source.peek();
    if (nominal === null) {
      const at = source.position();
      release(at > last ? LAST_MS + 1 : earliestLanding(calendar, at, budget));
      break;
    }
    if (isAllowed(calendar, nominal.ms)) {
      release(nominal.ms - MINUTE_MS);
      held.push({ ...nominal, excluded: false });
      source.seek(nominal.ms + 1);
      continue;
    }
    const earliest = Math.max(nominal.ms - max_move_ms, rule.start_at ?? 0, 0);
    const begin = stretch.begin(nominal.ms, earliest + MINUTE_MS);
    if (begin === null) {
      held.push({ ...nominal, excluded: true });
      source.seek(nominal.ms + 1);
    } else {
      const moved: Item = { ...nominal, ms: begin - MINUTE_MS, note: 'moved_by_calendar', excluded: false };
      if (moved.ms >= bounds.from) held = insert(held, moved);
      const end = stretch.end(nominal.ms, Math.min(nominal.ms + max_move_ms, LAST_MS)) ?? LAST_MS;
      source.seek(Math.min(end, moved.ms + max_move_ms + 1));
    }
    release(nominal.ms + 1);
  }
  return { items, known };
}

/** Where a time at or after `at` could be moved to. */
function earliestLanding(calendar: CompiledCalendar, at: number, budget: Budget): number {
  if (isAllowed(calendar, at)) return at - MINUTE_MS;
  return (excludedSince(calendar, at, Math.max(0, at - max_move_ms), budget) ?? at) - MINUTE_MS;
}

/** In its place; of two on one instant the moved one stays, it says more. */
function insert(held: readonly Item[], moved: Item): Item[] {
  const before = held.filter((item) => item.ms < moved.ms);
  const after = held.filter((item) => item.ms > moved.ms);
  return [...before, moved, ...after];
}

interface Stretch {
  /** The first allowed instant after an excluded one, or null if that is later than `latest`. */
  end(ms: number, latest: number): number | null;
  /** The first excluded instant of the stretch, or null if that is before `earliest`. */
  begin(ms: number, earliest: number): number | null;
}

/** The excluded time around an instant. It remembers what it has walked over, so that no day is walked twice. */
function openStretch(calendar: CompiledCalendar, budget: Budget): Stretch {
  let from = 0;
  let to = -1;
  const meet = (ms: number): void => {
    if (ms >= from && ms <= to) return;
    from = ms;
    to = ms;
  };
  return {
    end: (ms, latest) => {
      meet(ms);
      const found = nextAllowed(calendar, to, latest, budget);
      to = Math.max(to, found === null ? latest : found - 1);
      return found;
    },
    begin: (ms, earliest) => {
      meet(ms);
      const found = excludedSince(calendar, from, earliest, budget);
      from = Math.min(from, found ?? earliest);
      return found;
    },
  };
}
