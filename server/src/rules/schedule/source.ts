// The nominal times of a rule, in order, each instant once, before calendars and jitter. The caller peeks at the next,
// takes it by seeking past it, and stops when the budget is spent: `position` then says up to where all is known.
// With several expressions the one that is furthest behind always moves first, so that every call gets further.
import type { Budget } from './allowed.ts';
import { type Cron, parseCron } from './cron.ts';
import { type Nominal, type Stream, stepCron } from './cron_times.ts';
import { type CronRule, type IntervalRule, LAST_MS, type ScheduleRule, scheduleLimits } from './rule.ts';
import { zoneOf } from './zone.ts';

export interface Source {
  /** The first time at or after the position; null when there is none up to the end, or the budget is spent. */
  peek(): Nominal | null;
  /** There is no time before this that was not peeked at. Beyond the end: there is none at all. */
  position(): number;
  /** Forwards only. */
  seek(ms: number): void;
}

/** Bounds are inclusive. */
export interface Bounds {
  from: number;
  last: number;
}

export function openSource(rule: ScheduleRule, bounds: Bounds, budget: Budget): Source {
  return rule.type === 'CRON' ? cronSource(rule, bounds, budget) : intervalSource(rule, bounds, budget);
}

function intervalSource(rule: IntervalRule, { from, last }: Bounds, budget: Budget): Source {
  let at = 0;
  const seek = (ms: number): void => {
    const count = Math.max(0, Math.ceil((ms - rule.anchor_ms) / rule.every_ms));
    at = rule.anchor_ms + count * rule.every_ms;
  };
  seek(from);
  return {
    peek: () => {
      if (at > last || budget.steps <= 0) return null;
      budget.steps -= 1;
      return { ms: at, local: at, note: null };
    },
    position: () => at,
    seek,
  };
}

function cronSource(rule: CronRule, { from, last }: Bounds, budget: Budget): Source {
  const zone = zoneOf(rule.timezone);
  const streams = cronsOf(rule).map((cron): Stream => ({ cron, at: from, head: null, year: 0 }));
  const years = new Set<number>();
  const advance = (stream: Stream): void => {
    stepCron(stream, zone, rule);
    budget.steps -= 1;
    if (years.has(stream.year)) return;
    years.add(stream.year);
    budget.steps -= scheduleLimits.steps_per_year;
  };
  return {
    peek: () => {
      for (;;) {
        const stream = furthestBehind(streams);
        if (stream.at > last || budget.steps <= 0) return null;
        if (stream.head !== null) return best(streams, stream.head);
        advance(stream);
      }
    },
    position: () => furthestBehind(streams).at,
    seek: (ms) => {
      for (const stream of streams) {
        if (stream.at >= ms) continue;
        stream.at = ms;
        stream.head = null;
      }
    },
  };
}

/** The smallest `at`; of equals one whose head is not found yet, so that a head that is returned is the first. */
function furthestBehind(streams: readonly Stream[]): Stream {
  let behind = streams[0] as Stream;
  for (const stream of streams) {
    if (stream.at < behind.at || (stream.at === behind.at && stream.head === null)) behind = stream;
  }
  return behind;
}

/** Of several on one instant the one moved out of a gap: it says more. */
function best(streams: readonly Stream[], head: Nominal): Nominal {
  if (streams.length === 1 || head.note === 'gap_moved') return head;
  return streams.find((other) => other.head?.ms === head.ms && other.head.note === 'gap_moved')?.head ?? head;
}

const compiled = new WeakMap<CronRule, Cron[]>();
/** Many schedules have the same expression; only H depends on whose it is. */
const shared = new Map<string, Cron>();
const maxShared = 2000;

/** The tables of a rule's expressions, made once for each rule object, and once for all rules with the same expression. */
export function cronsOf(rule: CronRule): Cron[] {
  let crons = compiled.get(rule);
  if (crons === undefined) {
    crons = rule.expressions.map((text) => cronOf(text, rule.jitter_key));
    compiled.set(rule, crons);
  }
  return crons;
}

function cronOf(text: string, key: string): Cron {
  const known = shared.get(text);
  if (known !== undefined) return known;
  const parsed = parseCron(text, key);
  if ('refused' in parsed) throw new RangeError(`not a rule of parseSchedule: ${text} ${parsed.refused.join()}`);
  if (/h/i.test(text)) return parsed.cron;
  if (shared.size >= maxShared) shared.clear();
  shared.set(text, parsed.cron);
  return parsed.cron;
}

/** What a call may look at: the rule's own bounds, and those of time itself. */
export function boundsOf(rule: ScheduleRule, afterMs: number, untilMs: number): Bounds {
  return {
    from: Math.max(Math.floor(afterMs) + 1, rule.start_at ?? 0, 0),
    last: Math.min(untilMs, rule.end_at ?? LAST_MS, LAST_MS),
  };
}
