// All schedules as the forecast needs them, in memory: read from the book page by page, in the background, and only while
// somebody asks. Who asks waits a moment for a fresh reading; if it takes longer they get the one before, or as much as has
// been read, and are told which. So the first answer comes soon however many schedules there are, and the next is complete.
//
// Reading 100,000 schedules costs about a second of a core, so it rests for a multiple of what it took. Each is some hundred
// bytes here: its pattern is shared, and only what is its own is kept. Whose it is is kept with it, for filters.
import { monotonicMs } from '../base/clock.ts';
import type { ForecastSchedule } from '../rules/forecast.ts';
import { bareRule, isPlain, type Own, type Pattern, patternOf, placeOf } from '../rules/forecast_pattern.ts';
import type { ScheduleRule } from '../rules/schedule/rule.ts';
import type { Queryable } from '../store/database.ts';
import { type ForecastRow, readForecast } from '../store/forecast.ts';
import { endsWithin, Pace } from './pace.ts';

export interface Lane {
  queue: string;
  type: string;
}

export interface KnownSchedule extends Own {
  job_id: string;
  user_id: string | null;
  lane: Lane;
  pattern: Pattern;
}

export interface Reading {
  schedules: KnownSchedule[];
  /** All that there are. */
  complete: boolean;
  /** It is over, with all of them or not. */
  ended: boolean;
  /** When it began, on the clock of this process. */
  began: number;
}

export interface KnownSchedulesOptions {
  db: Queryable;
  segments: readonly number[];
  /** How long a reading may take. */
  budgetMs: number;
  /** Does work when it is its turn: what was read is taken in between answers and not beside them. */
  inTurn: <T>(work: () => Promise<T>) => Promise<T>;
  maxSchedules?: number;
}

/** A statement of some milliseconds. */
const pageSize = 500;
/** Segments that are read at once: while one answer is taken in, the next is on its way. */
const atOnce = 3;
const lowestJob = '00000000-0000-0000-0000-000000000000';
/** About a hundred megabytes. */
const defaultMaxSchedules = 500_000;
/** Of rules that are kept, one for each pattern: those that nobody shares may have long calendars. */
const maxRuleChars = 50_000_000;
/** A reading is fresh for so many times as long as it took, within these bounds: at most a twentieth of a core goes into it. */
const restFactor = 20;
const minFreshMs = 1_000;
const maxFreshMs = 60_000;
/** An older one is not given to anybody. */
const maxAgeMs = 300_000;

export class KnownSchedules {
  readonly #options: KnownSchedulesOptions;
  /** The last that ended, how long it took, until when it is fresh, and until when it is of use. */
  #last: { reading: Reading; tookMs: number; freshUntil: number; usedUntil: number } | null = null;
  #next: { under: Reader; done: Promise<void> } | null = null;

  constructor(options: KnownSchedulesOptions) {
    this.#options = options;
  }

  /** A fresh reading if there is one after so long; else the one before; else what has been read so far. */
  async within(ms: number): Promise<Reading> {
    const now = monotonicMs();
    if (this.#last !== null && now < this.#last.freshUntil) return this.#last.reading;
    if (this.#last !== null && now >= this.#last.usedUntil) this.#last = null;
    this.#next ??= this.#begin();
    const { under, done } = this.#next;
    // It will not be there in time: no need to wait for it.
    if (this.#last !== null && this.#last.tookMs > ms) return this.#last.reading;
    if (await endsWithin(done, ms)) return under.reading;
    return this.#last?.reading ?? { ...under.reading, schedules: [...under.reading.schedules] };
  }

  #begin(): { under: Reader; done: Promise<void> } {
    const under = new Reader(this.#options);
    const done = under.readAll().then(
      () => {
        const now = monotonicMs();
        const tookMs = now - under.reading.began;
        const freshMs = Math.min(maxFreshMs, Math.max(minFreshMs, restFactor * tookMs));
        this.#last = { reading: under.reading, tookMs, freshUntil: now + freshMs, usedUntil: now + maxAgeMs };
        this.#next = null;
      },
      (error: unknown) => {
        this.#next = null;
        throw error;
      },
    );
    // Whoever asks is told; if nobody waits any more, the next who asks begins anew.
    done.catch(() => {});
    return { under, done };
  }
}

/** One reading under way. */
class Reader {
  readonly #options: KnownSchedulesOptions;
  readonly reading: Reading = { schedules: [], complete: false, ended: false, began: monotonicMs() };
  readonly #patterns = new Map<string, Pattern>();
  /** By the bare rule, for rules of which nothing is a schedule's own. */
  readonly #plain = new Map<string, Pattern>();
  readonly #lanes = new Map<string, Lane>();
  readonly #users = new Map<string, string>();
  readonly #pace: Pace;
  #ruleChars = 0;
  #all = true;

  constructor(options: KnownSchedulesOptions) {
    this.#options = options;
    this.#pace = new Pace(options.budgetMs);
  }

  async readAll(): Promise<void> {
    const left = [...this.#options.segments];
    const next = async (): Promise<void> => {
      for (let segment = left.shift(); segment !== undefined; segment = left.shift()) await this.#read(segment);
    };
    await Promise.all(Array.from({ length: atOnce }, next));
    this.reading.complete = this.#all;
    this.reading.ended = true;
  }

  async #read(segment: number): Promise<void> {
    const { db, inTurn, maxSchedules = defaultMaxSchedules } = this.#options;
    for (let after: string | undefined = lowestJob; after !== undefined; ) {
      const isFull = this.reading.schedules.length >= maxSchedules || this.#ruleChars >= maxRuleChars;
      if (this.#pace.over || isFull) {
        this.#all = false;
        return;
      }
      const rows: ForecastRow[] = await readForecast(db, segment, { after, limit: pageSize });
      await inTurn(() => this.#takeAll(rows));
      after = rows.length < pageSize ? undefined : rows.at(-1)?.job_id;
    }
  }

  async #takeAll(rows: readonly ForecastRow[]): Promise<void> {
    for (const row of rows) {
      this.#take(row);
      const goesOn = this.#pace.goOn();
      if (goesOn !== true) await goesOn;
    }
  }

  #take(row: ForecastRow): void {
    const { job_id } = row;
    const lane = shared(this.#lanes, `${row.queue} ${row.type}`, () => ({ queue: row.queue, type: row.type }));
    const { user_id: user } = row;
    const user_id = user === null ? null : shared(this.#users, user, () => user);
    this.reading.schedules.push({ job_id, user_id, lane, ...this.#place(row) });
  }

  #place(row: ForecastRow): Own & { pattern: Pattern } {
    const mayBePlain = !row.fixed_delay && row.runs_left === null;
    const bare = mayBePlain ? bareRule(row.rule) : '';
    const plain = mayBePlain ? this.#plain.get(bare) : undefined;
    if (plain !== undefined) return { pattern: plain, begin_ms: 0, delay_ms: 0 };
    const schedule = toSchedule(row);
    const { key, kind, begin_ms, delay_ms } = placeOf(schedule, row.rule, row.job_id);
    const pattern = shared(this.#patterns, key, () => {
      this.#ruleChars += row.rule.length;
      return patternOf(kind, schedule);
    });
    if (mayBePlain && isPlain(schedule)) this.#plain.set(bare, pattern);
    return { pattern, begin_ms, delay_ms };
  }
}

function shared<T>(known: Map<string, T>, key: string, make: () => T): T {
  const found = known.get(key);
  if (found !== undefined) return found;
  const made = make();
  known.set(key, made);
  return made;
}

function toSchedule(row: ForecastRow): ForecastSchedule {
  return {
    rule: JSON.parse(row.rule) as ScheduleRule,
    fixed_delay: row.fixed_delay,
    next_ms: Number(row.next_ms),
    runs_left: row.runs_left,
  };
}
