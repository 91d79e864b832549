// The forecaster: answers how many runs start when. It computes one forecast at a time (forecast_look.ts) and keeps
// answers for some seconds, so that a page that many people look at costs little.
import { type Forecast, type ForecastQuery, type Minute, type MinuteQuery, PunctualError } from '@punctual/contract';
import { monotonicMs } from '../base/clock.ts';
import { windowOf } from '../rules/forecast.ts';
import { report } from '../rules/forecast_tally.ts';
import { MINUTE_MS } from '../rules/schedule/rule.ts';
import type { Database } from '../store/database.ts';
import { databaseNow } from '../store/schedules.ts';
import { lookAhead, lookAtMinute } from './forecast_look.ts';

export interface ForecasterParts {
  db: Database;
  segments: readonly number[];
  /** How long one forecast may look at the book. */
  budgetMs?: number;
  /** How long an answer is given again. */
  keepMs?: number;
}

const defaultBudgetMs = 5_000;
const defaultKeepMs = 10_000;
/** Answers that are kept: a week of 100 groups is a third of a megabyte. */
const maxKept = 20;
/** Different forecasts that wait for their turn, at most. */
const maxUnderWay = 4;
/** Beyond that a forecast is a guess about schedules that will have been changed. */
const maxAheadMs = 366 * 24 * 3_600_000;

export class Forecaster {
  readonly #parts: ForecasterParts;
  readonly #kept = new Map<string, { answer: Promise<Forecast>; until: number }>();
  #last: Promise<unknown> = Promise.resolve();
  /** Minutes that are being looked at. */
  #minutes = 0;

  constructor(parts: ForecasterParts) {
    this.#parts = parts;
  }

  async get(query: ForecastQuery): Promise<Forecast> {
    const { hours = 24, from = null, queue = null, type = null, user_id = null } = query;
    const key = JSON.stringify([hours, from, queue, type, user_id]);
    const now = monotonicMs();
    for (const [other, { until }] of this.#kept) if (until < now) this.#kept.delete(other);
    const known = this.#kept.get(key);
    if (known !== undefined) return known.answer;
    const done = [...this.#kept].filter(([, { until }]) => until < Number.POSITIVE_INFINITY);
    if (this.#kept.size - done.length >= maxUnderWay)
      throw new PunctualError('overloaded', { detail: 'Other forecasts are under way.', retryAfterSeconds: 5 });
    if (this.#kept.size >= maxKept && done[0] !== undefined) this.#kept.delete(done[0][0]);
    const answer = this.#last.then(() => this.#compute(query));
    this.#last = answer.catch(() => {});
    const entry = { answer, until: Number.POSITIVE_INFINITY };
    this.#kept.set(key, entry);
    try {
      const forecast = await answer;
      entry.until = monotonicMs() + (this.#parts.keepMs ?? defaultKeepMs);
      return forecast;
    } catch (error) {
      this.#kept.delete(key);
      throw error;
    }
  }

  /** Which schedules start runs in a minute; it takes its turn with the forecasts. */
  async minute(query: MinuteQuery): Promise<Minute> {
    if (this.#minutes >= maxUnderWay)
      throw new PunctualError('overloaded', { detail: 'Other forecasts are under way.', retryAfterSeconds: 5 });
    this.#minutes++;
    try {
      const answer = this.#last.then(() => this.#lookAtMinute(query));
      this.#last = answer.catch(() => {});
      return await answer;
    } finally {
      this.#minutes--;
    }
  }

  async #lookAtMinute({ at, queue, type }: MinuteQuery): Promise<Minute> {
    const { db, segments, budgetMs = defaultBudgetMs } = this.#parts;
    const atMs = beginOf(at, await databaseNow(db), 'at');
    const base_ms = Math.floor(atMs / MINUTE_MS) * MINUTE_MS;
    const window = { from_ms: base_ms, to_ms: base_ms + MINUTE_MS, bucket_ms: MINUTE_MS, base_ms, buckets: 1 };
    const look = await lookAtMinute({ db, segments, window, filter: { queue, type }, budgetMs });
    return { at: new Date(base_ms).toISOString(), ...look };
  }

  async #compute({ hours = 24, from, queue, type, user_id }: ForecastQuery): Promise<Forecast> {
    const { db, segments } = this.#parts;
    const nowMs = await databaseNow(db);
    const window = windowOf(beginOf(from, nowMs), hours);
    const { budgetMs = defaultBudgetMs } = this.#parts;
    const look = await lookAhead({ db, segments, window, filter: { queue, type, user_id }, budgetMs });
    return {
      from: new Date(window.from_ms).toISOString(),
      to: new Date(window.to_ms).toISOString(),
      bucket_ms: window.bucket_ms,
      ...report(look.counted, look.durations),
      complete: look.complete,
      schedules: look.schedules,
      waiting: look.waiting,
      computed_at: new Date(nowMs).toISOString(),
    };
  }
}

function beginOf(from: string | undefined, nowMs: number, path = 'from'): number {
  if (from === undefined) return nowMs;
  const fromMs = Date.parse(from);
  const message = Number.isNaN(fromMs)
    ? 'is not a date that exists'
    : fromMs > nowMs + maxAheadMs
      ? 'must be within the next 366 days'
      : null;
  if (message === null) return Math.max(fromMs, nowMs);
  throw new PunctualError('invalid_input', { detail: `${path} ${message}`, errors: [{ path, message }] });
}
