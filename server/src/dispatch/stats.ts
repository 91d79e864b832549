// How the whole house stands, for dashboards: many may look, the book is asked once a second at most, and less often when
// asking takes long. A version goes with it that changes whenever something has changed, so that pages ask for the rest only
// then. The last hour in minutes is kept in memory, from a sample every few seconds.
import { limits, PunctualError, type Stats } from '@punctual/contract';
import { monotonicMs, pause } from '../base/clock.ts';
import { Minutes, minuteMs, startOf } from '../rules/stats.ts';
import type { Queryable } from '../store/database.ts';
import {
  busiestQueues,
  countAllStarts,
  countDeadLetters,
  countWorkers,
  latestChanges,
  newestByMinute,
  readCounters,
  startsByMinute,
} from '../store/stats.ts';

export interface StatsParts {
  db: Queryable;
  segments: readonly number[];
  server: Stats['server'];
  /** What this server has granted. */
  starts: { readonly total: number };
}

export const sampleEveryMs = 5_000;
const keepMs = 1_000;
const heartbeatMs = 15_000;
/** An answer that took long is kept for so many times as long: asking never takes more than a twentieth of the time. */
const restFactor = 20;
/** Newest runs of a segment that are looked at, once for the hour before the start, then for the last minutes. */
const seedRows = 500;
const sampleRows = 100;

export interface Snapshot {
  version: string;
  text: string;
}

export type StatsEvent = { kind: 'stats'; id: string; text: string } | { kind: 'beat' };

export class StatsBoard {
  readonly #parts: StatsParts;
  readonly #minutes = new Minutes();
  #seeded = false;
  #touches = 0;
  #content = '';
  #turn = 0;
  #kept: { snapshot: Promise<Snapshot>; until: number } | null = null;
  #followers = 0;
  #ticking: Promise<void> | null = null;
  readonly #stopping = new AbortController();

  constructor(parts: StatsParts) {
    this.#parts = parts;
  }

  /** Something has changed through this server; others are noticed within seconds. */
  touch(): void {
    this.#touches++;
  }

  /** One sample of the counters, for the minutes. */
  async sample(): Promise<void> {
    const { db, segments } = this.#parts;
    const counters = await readCounters(db);
    if (!this.#seeded) {
      const sinceMs = startOf(counters.now_ms) - 59 * minuteMs;
      const facts = await newestByMinute(db, segments, { sinceMs, perSegment: seedRows });
      this.#minutes.seed(facts.filter(({ whole }) => whole));
      this.#seeded = true;
    }
    this.#minutes.grown(counters.now_ms, counters);
    for (const { minute_ms, started } of await startsByMinute(db)) this.#minutes.started(minute_ms, started);
    const sinceMs = startOf(counters.now_ms) - minuteMs;
    for (const fact of await newestByMinute(db, segments, { sinceMs, perSegment: sampleRows }))
      this.#minutes.late(fact.minute_ms, fact.late_p50_ms, fact.late_p99_ms);
  }

  async get(): Promise<Snapshot> {
    if (this.#kept !== null && monotonicMs() < this.#kept.until) return this.#kept.snapshot;
    const began = monotonicMs();
    const kept = { snapshot: this.#read(), until: Number.POSITIVE_INFINITY };
    this.#kept = kept;
    try {
      return await kept.snapshot;
    } finally {
      kept.until = monotonicMs() + Math.max(keepMs, restFactor * (monotonicMs() - began));
    }
  }

  /** How everything stands, now and whenever that has changed, until the signal comes. Refused at once when too many look. */
  follow(): (signal: AbortSignal) => AsyncGenerator<StatsEvent, void, undefined> {
    if (this.#followers >= limits.max_stats_followers)
      throw new PunctualError('too_many_followers', { retryAfterSeconds: 5 });
    this.#followers++;
    return (signal) => this.#changes(AbortSignal.any([signal, this.#stopping.signal]));
  }

  stop(): void {
    this.#stopping.abort();
  }

  async *#changes(signal: AbortSignal): AsyncGenerator<StatsEvent, void, undefined> {
    let seen = '';
    let saidAt = monotonicMs();
    try {
      while (!signal.aborted) {
        const { version, text } = await this.get();
        if (version !== seen || monotonicMs() - saidAt >= heartbeatMs) {
          saidAt = monotonicMs();
          yield version === seen ? { kind: 'beat' } : { kind: 'stats', id: version, text };
          seen = version;
        }
        await this.#tick();
      }
    } finally {
      this.#followers--;
    }
  }

  /** One timer for all who follow; who is gone is noticed with it. */
  #tick(): Promise<void> {
    this.#ticking ??= pause(keepMs, this.#stopping.signal).then(() => {
      this.#ticking = null;
    });
    return this.#ticking;
  }

  async #read(): Promise<Snapshot> {
    const { db, segments, server, starts } = this.#parts;
    const touches = this.#touches + starts.total;
    const counters = await readCounters(db);
    const [busiest, workers, dead_letters, started, changes] = await Promise.all([
      busiestQueues(db, segments),
      countWorkers(db),
      countDeadLetters(db, segments),
      countAllStarts(db),
      latestChanges(db, segments),
    ]);
    const minutes = this.#minutes.list(counters.now_ms);
    const late = minutes.findLast(({ late_p50_ms }) => late_p50_ms !== null);
    const isRecent = late !== undefined && Date.parse(late.at) > counters.now_ms - 5 * minuteMs;
    const content = {
      server,
      started_per_s: round(started / 60),
      ended_per_s: round(this.#minutes.endedLately(counters.now_ms) / 60),
      late_p50_ms: isRecent ? late.late_p50_ms : null,
      late_p99_ms: isRecent ? late.late_p99_ms : null,
      ...busiest,
      dead_letters,
      workers: { ...workers, busy: busiest.running },
      minutes,
      changes,
    };
    const shown = JSON.stringify([content, touches, counters.moved]);
    if (shown !== this.#content) this.#turn++;
    this.#content = shown;
    const version = `${server.server_id.slice(0, 8)}-${this.#turn}`;
    const stats: Stats = { version, at: new Date(counters.now_ms).toISOString(), ...content };
    return { version, text: JSON.stringify(stats) };
  }
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
