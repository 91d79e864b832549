// The last hour in minutes, kept by every server in memory. Counters of the database are read every few seconds; what they
// grew by belongs to the minute of that moment. Pure.
import type { StatsMinute } from '@punctual/contract';

export const minuteMs = 60_000;
const keptMinutes = 60;

/** What is known of one minute from the book itself. */
export interface MinuteFacts {
  minute_ms: number;
  started: number;
  ended: number;
  failed: number;
  late_p50_ms: number | null;
  late_p99_ms: number | null;
}

/** Counters that only grow, but for a restart of the database. */
export interface Totals {
  ended: number;
  failed: number;
}

export class Minutes {
  readonly #minutes = new Map<number, MinuteFacts>();
  #totals: Totals | null = null;

  /** What the book tells of minutes before this server looked. */
  seed(facts: readonly MinuteFacts[]): void {
    for (const { minute_ms, started, ended, failed, late_p50_ms, late_p99_ms } of facts)
      this.#minutes.set(minute_ms, { minute_ms, started, ended, failed, late_p50_ms, late_p99_ms });
  }

  /** Attempts that started in a whole minute, or so far in the one that it is. */
  started(minute: number, count: number): void {
    const entry = this.#at(minute);
    entry.started = Math.max(entry.started, count);
  }

  late(minute: number, p50: number | null, p99: number | null): void {
    const entry = this.#at(minute);
    if (p50 === null || p99 === null) return;
    entry.late_p50_ms = p50;
    entry.late_p99_ms = p99;
  }

  /** A counter below what it was has begun anew. */
  grown(nowMs: number, totals: Totals): void {
    const before = this.#totals;
    this.#totals = totals;
    if (before === null) return;
    const entry = this.#at(startOf(nowMs));
    entry.ended += Math.max(0, totals.ended - before.ended);
    entry.failed += Math.max(0, totals.failed - before.failed);
  }

  /** Runs that ended within the last minute: what the one that it is has so far, and the rest from the one before. */
  endedLately(nowMs: number): number {
    const now = this.#minutes.get(startOf(nowMs));
    const before = this.#minutes.get(startOf(nowMs) - minuteMs);
    const rest = 1 - (nowMs - startOf(nowMs)) / minuteMs;
    return (now?.ended ?? 0) + (before?.ended ?? 0) * rest;
  }

  list(nowMs: number): StatsMinute[] {
    const from = startOf(nowMs) - (keptMinutes - 1) * minuteMs;
    for (const minute of this.#minutes.keys()) if (minute < from) this.#minutes.delete(minute);
    return [...this.#minutes.values()]
      .sort((a, b) => a.minute_ms - b.minute_ms)
      .map(({ minute_ms, ...rest }) => ({ at: new Date(minute_ms).toISOString(), ...rest }));
  }

  #at(minute: number): MinuteFacts {
    let entry = this.#minutes.get(minute);
    if (entry === undefined) {
      entry = { minute_ms: minute, started: 0, ended: 0, failed: 0, late_p50_ms: null, late_p99_ms: null };
      this.#minutes.set(minute, entry);
    }
    return entry;
  }
}

export function startOf(timeMs: number): number {
  return timeMs - (timeMs % minuteMs);
}
