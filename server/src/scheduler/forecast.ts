// The forecaster: answers how many runs start when. It adds up what schedules will start (forecast_known.ts,
// forecast_look.ts) and what waits already (forecast_waiting.ts). Both may take longer in a large book than a person waits:
// an answer comes after a moment with what there is, says whether that is all, and the next goes on from there. Complete
// answers are kept for some seconds, so that a page that many people look at costs little.
import {
  type Forecast,
  type ForecastQuery,
  type Minute,
  type MinuteJob,
  type MinuteQuery,
  PunctualError,
} from '@punctual/contract';
import { monotonicMs } from '../base/clock.ts';
import { type Ahead, spreadOf, windowOf } from '../rules/forecast.ts';
import { merge, report } from '../rules/forecast_tally.ts';
import { MINUTE_MS } from '../rules/schedule/rule.ts';
import type { Queryable } from '../store/database.ts';
import { fewAtOnce } from '../store/few.ts';
import { type ForecastFilter, jobNames } from '../store/forecast.ts';
import { databaseNow } from '../store/schedules.ts';
import { KnownDurations } from './forecast_durations.ts';
import { type KnownSchedule, KnownSchedules, type Reading } from './forecast_known.ts';
import { lookAhead, lookAtMinute } from './forecast_look.ts';
import { WaitingRuns } from './forecast_waiting.ts';
import { endsWithin } from './pace.ts';

export interface ForecasterParts {
  db: Queryable;
  segments: readonly number[];
  /** How long it may read in the book for one forecast, also after that was answered. */
  budgetMs?: number;
  /** How long an answer waits for all of the book. */
  patienceMs?: number;
  /** How long an answer is given again. */
  keepMs?: number;
}

const defaultBudgetMs = 30_000;
/** How long an answer is added up at most, from what is known: rules that nobody shares take their time. */
const lookMs = 5_000;
const defaultPatienceMs = 200;
const defaultKeepMs = 10_000;
/** Of all forecasts together; the pool is there for workers. */
const statementsAtOnce = 4;
/** Answers that are kept: a week of 100 groups is a third of a megabyte. */
const maxKept = 20;
/** Questions that are being answered, at most. */
const maxUnderWay = 8;
/** Beyond that a forecast is a guess about schedules that will have been changed. */
const maxAheadMs = 366 * 24 * 3_600_000;

/** A question as of a moment. Asked again while there is no complete answer, it goes on from what was counted. */
interface Question extends Ahead {
  /** When it was asked, on the clock of this process. */
  asked: number;
  filter: ForecastFilter;
  waiting: WaitingRuns;
}

interface Kept {
  question: Promise<Question>;
  /** Under way, or all that there will be. */
  answer: Promise<{ forecast: Forecast; isFinal: boolean }> | null;
  until: number;
}

export class Forecaster {
  readonly #parts: Required<ForecasterParts>;
  readonly #known: KnownSchedules;
  readonly #durations: KnownDurations;
  readonly #kept = new Map<string, Kept>();
  #last: Promise<unknown> = Promise.resolve();
  #underWay = 0;

  constructor(parts: ForecasterParts) {
    const { budgetMs = defaultBudgetMs, patienceMs = defaultPatienceMs, keepMs = defaultKeepMs, segments } = parts;
    this.#parts = { db: fewAtOnce(parts.db, statementsAtOnce), segments, budgetMs, patienceMs, keepMs };
    this.#known = new KnownSchedules({ ...this.#parts, inTurn: (work) => this.#inTurn(work) });
    this.#durations = new KnownDurations(this.#parts.db, segments);
  }

  async get(query: ForecastQuery): Promise<Forecast> {
    const { hours = 24, from = null, queue = null, type = null, user_id = null } = query;
    // Whose rows are counted is part of the question: nobody is answered with what was found for another.
    const key = JSON.stringify([hours, from, queue, type, user_id]);
    const now = monotonicMs();
    for (const [other, { until }] of this.#kept) if (until < now) this.#kept.delete(other);
    const known = this.#kept.get(key);
    if (known !== undefined && known.answer !== null) return (await known.answer).forecast;
    return this.#counted(async () => {
      const kept = known ?? this.#begin(key, query);
      const answer = this.#answer(kept);
      kept.answer = answer;
      try {
        const { forecast, isFinal } = await answer;
        if (isFinal) kept.until = monotonicMs() + this.#parts.keepMs;
        else kept.answer = null;
        return forecast;
      } catch (error) {
        this.#kept.delete(key);
        throw error;
      }
    });
  }

  /** Which schedules start runs in a minute. */
  async minute(query: MinuteQuery): Promise<Minute> {
    return this.#counted(() => this.#lookAtMinute(query));
  }

  async #counted<T>(work: () => Promise<T>): Promise<T> {
    if (this.#underWay >= maxUnderWay)
      throw new PunctualError('overloaded', { detail: 'Other forecasts are under way.', retryAfterSeconds: 5 });
    this.#underWay++;
    try {
      return await work();
    } finally {
      this.#underWay--;
    }
  }

  /** One after the other: each lets others go first now and then, and several at once would not. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(work);
    this.#last = turn.catch(() => {});
    return turn;
  }

  #begin(key: string, query: ForecastQuery): Kept {
    const [oldest] = this.#kept.keys();
    if (this.#kept.size >= maxKept && oldest !== undefined) this.#kept.delete(oldest);
    const kept = { question: this.#ask(query), answer: null, until: monotonicMs() + this.#parts.budgetMs };
    this.#kept.set(key, kept);
    return kept;
  }

  async #ask({ hours = 24, from, queue, type, user_id }: ForecastQuery): Promise<Question> {
    const nowMs = await databaseNow(this.#parts.db);
    const window = windowOf(beginOf(from, nowMs), hours);
    const filter = { queue, type, user_id };
    return {
      nowMs,
      asked: monotonicMs(),
      window,
      filter,
      waiting: new WaitingRuns({ ...this.#parts, window, filter }),
    };
  }

  async #answer(kept: Kept): Promise<{ forecast: Forecast; isFinal: boolean }> {
    const { patienceMs } = this.#parts;
    const began = monotonicMs();
    const question = await kept.question;
    const { waiting, filter } = question;
    if (filter.user_id === undefined) void this.#durations.recent();
    const reading = await this.#known.within(patienceMs);
    await endsWithin(waiting.done, patienceMs - (monotonicMs() - began));
    // As it is now: it may end while this is added up.
    const isFinal = reading.ended && waiting.ended;
    return { forecast: await this.#addUp(question, reading), isFinal };
  }

  async #addUp(question: Question, reading: Reading): Promise<Forecast> {
    const { nowMs, window, filter, waiting } = question;
    const { schedules, complete } = reading;
    // As it is now: more may be counted while this is added up.
    const isAll = complete && waiting.complete;
    const look = await this.#inTurn(() => lookAhead({ ...question, schedules, budgetMs: lookMs }));
    const waits = waiting.runs;
    merge(look.counted, waiting.counted);
    const types = new Set([...look.counted.groups.values()].map((group) => group.type));
    const durations = await this.#durations.get({ types, jobs: look.jobs, user_id: filter.user_id });
    return {
      from: new Date(window.from_ms).toISOString(),
      to: new Date(window.to_ms).toISOString(),
      bucket_ms: window.bucket_ms,
      ...report(look.counted, durations),
      complete: isAll && look.complete,
      schedules: look.schedules,
      waiting: waits,
      computed_at: new Date(nowMs - Math.max(0, question.asked - reading.began)).toISOString(),
    };
  }

  async #lookAtMinute({ at, queue, type }: MinuteQuery): Promise<Minute> {
    const { db, patienceMs } = this.#parts;
    const nowMs = await databaseNow(db);
    const base_ms = Math.floor(beginOf(at, nowMs, 'at') / MINUTE_MS) * MINUTE_MS;
    const window = { from_ms: base_ms, to_ms: base_ms + MINUTE_MS, bucket_ms: MINUTE_MS, base_ms, buckets: 1 };
    const { schedules, complete } = await this.#known.within(patienceMs);
    const look = { nowMs, window, filter: { queue, type }, schedules, budgetMs: lookMs };
    const found = await this.#inTurn(() => lookAtMinute(look));
    const names = await jobNames(
      db,
      [...found.runs.keys()].map(({ job_id }) => job_id),
    );
    const jobs = [...found.runs].map(([schedule, runs]) => toMinuteJob(schedule, runs, { names, base_ms }));
    return { at: new Date(base_ms).toISOString(), jobs, complete: found.complete && complete };
  }
}

function toMinuteJob(
  { job_id, lane, pattern: { schedule } }: KnownSchedule,
  runs: number,
  { names, base_ms }: { names: ReadonlyMap<string, string>; base_ms: number },
): MinuteJob {
  const name = names.get(job_id) ?? lane.type;
  return { job_id, name, ...lane, runs, jitter_ms: schedule.rule.jitter_ms, spread_ms: spreadOf(schedule, base_ms) };
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
