// Runs that wait for their time, counted for one forecast: by the database, some tens of thousands in a statement, until all
// are counted or the time is up. What has been counted so far can be looked at meanwhile.
import { type ForecastWindow, minuteOf } from '../rules/forecast.ts';
import { adder, type Tally } from '../rules/forecast_tally.ts';
import type { Queryable } from '../store/database.ts';
import { countWaiting, type ForecastFilter, justBefore, type WaitingCount } from '../store/forecast.ts';
import { Pace } from './pace.ts';

export interface WaitingOptions {
  db: Queryable;
  segments: readonly number[];
  window: ForecastWindow;
  filter: ForecastFilter;
  /** How long it may count. */
  budgetMs: number;
}

/** Some tens of milliseconds; with a user each needs a look at its job. */
const perStatement = 50_000;
const perStatementOfUser = 10_000;
/** Segments that are counted at once. */
const atOnce = 2;

export class WaitingRuns {
  readonly #options: WaitingOptions;
  readonly #pace: Pace;
  readonly counts: WaitingCount[] = [];
  /** All were counted. */
  complete = false;
  /** It is over, with all of them or not. */
  ended = false;
  readonly done: Promise<void>;

  constructor(options: WaitingOptions) {
    this.#options = options;
    this.#pace = new Pace(options.budgetMs);
    this.done = this.#countAll();
    // Whoever waits for it is told.
    this.done.catch(() => {});
  }

  /** Adds what has been counted so far, and answers how many runs these are. */
  async addTo(counted: Tally): Promise<number> {
    const { window } = counted;
    const pace = new Pace(Number.POSITIVE_INFINITY);
    const adders = new Map<string, ReturnType<typeof adder>>();
    let all = 0;
    for (const { minute_ms, queue, type, runs } of this.counts) {
      const lane = `${queue} ${type}`;
      const add = adders.get(lane) ?? adder(counted, { queue, type });
      adders.set(lane, add);
      // The first minute may begin before the window does.
      add(minuteOf(Math.max(Number(minute_ms), window.from_ms), window), runs);
      all += runs;
      const goesOn = pace.goOn();
      if (goesOn !== true) await goesOn;
    }
    return all;
  }

  async #countAll(): Promise<void> {
    const left = [...this.#options.segments];
    let all = true;
    const next = async (): Promise<void> => {
      for (let segment = left.shift(); segment !== undefined; segment = left.shift())
        if (!(await this.#count(segment))) all = false;
    };
    await Promise.all(Array.from({ length: atOnce }, next));
    this.complete = all;
    this.ended = true;
  }

  /** False: the time is up. */
  async #count(segment: number): Promise<boolean> {
    const { db, window, filter } = this.#options;
    const { queue, type, user_id } = filter;
    const limit = user_id === undefined ? perStatement : perStatementOfUser;
    for (let after: string | null = justBefore(window.from_ms); after !== null; ) {
      if (this.#pace.over) return false;
      const found: WaitingCount[] = await countWaiting(db, segment, { after, toMs: window.to_ms, limit, user_id });
      for (const count of found)
        if (count.runs > 0 && count.queue === (queue ?? count.queue) && count.type === (type ?? count.type))
          this.counts.push(count);
      after = found[0]?.next_after ?? null;
    }
    return true;
  }
}
