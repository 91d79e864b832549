// Runs that wait for their time, counted for one forecast: by the database, some tens of thousands in a statement, until all
// are counted or the time is up. What has been counted so far can be looked at meanwhile.
import { type ForecastWindow, minuteOf } from '../rules/forecast.ts';
import { adder, newTally, type Tally } from '../rules/forecast_tally.ts';
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
const perStatement = 20_000;
const perStatementOfUser = 5_000;
/** Segments that are counted at once. */
const atOnce = 2;

export class WaitingRuns {
  readonly #options: WaitingOptions;
  readonly #pace: Pace;
  readonly #adders = new Map<string, ReturnType<typeof adder>>();
  readonly counted: Tally;
  runs = 0;
  /** All were counted. */
  complete = false;
  /** It is over, with all of them or not. */
  ended = false;
  readonly done: Promise<void>;

  constructor(options: WaitingOptions) {
    this.#options = options;
    this.counted = newTally(options.window);
    this.#pace = new Pace(options.budgetMs);
    this.done = this.#countAll();
    // Whoever waits for it is told.
    this.done.catch(() => {});
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
    const { user_id } = filter;
    const limit = user_id === undefined ? perStatement : perStatementOfUser;
    for (let after: string | null = justBefore(window.from_ms); after !== null; ) {
      if (this.#pace.over) return false;
      const found: WaitingCount[] = await countWaiting(db, segment, { after, toMs: window.to_ms, limit, user_id });
      this.#add(found);
      after = found[0]?.next_after ?? null;
    }
    return true;
  }
  #add(found: readonly WaitingCount[]): void {
    const { window, filter } = this.#options;
    for (const { minute_ms, queue, type, runs } of found) {
      if (runs === 0 || queue !== (filter.queue ?? queue) || type !== (filter.type ?? type)) continue;
      const lane = `${queue} ${type}`;
      const add = this.#adders.get(lane) ?? adder(this.counted, { queue, type });
      this.#adders.set(lane, add);
      // The first minute may begin before the window does.
      add(minuteOf(Math.max(Number(minute_ms), window.from_ms), window), runs);
      this.runs += runs;
    }
  }
}
