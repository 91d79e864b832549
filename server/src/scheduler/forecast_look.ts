// One look ahead for a forecast: goes through the schedules that are known (forecast_known.ts), asks the rules when each
// pattern starts runs, and adds up. It promises to end: when its time is up it answers what it has and says that it is not
// complete. It never blocks the process for long.
import { limits } from '@punctual/contract';
import { type Ahead, type MinuteCounts, minuteCounts } from '../rules/forecast.ts';
import {
  type Add,
  addSpan,
  type Own,
  type Pattern,
  type SharedTimes,
  type Shifted,
  type Span,
  sharedTimes,
  spanOf,
} from '../rules/forecast_pattern.ts';
import { adder, newTally, type Tally } from '../rules/forecast_tally.ts';
import { MINUTE_MS } from '../rules/schedule/rule.ts';
import type { ForecastFilter } from '../store/forecast.ts';
import type { KnownSchedule, Lane } from './forecast_known.ts';
import { Pace } from './pace.ts';

export interface LookOptions extends Ahead {
  schedules: readonly KnownSchedule[];
  filter: ForecastFilter;
  /** How long it may count. */
  budgetMs: number;
}

export interface Looked {
  counted: Tally;
  /** Some recurring jobs of each type, to ask how long their runs took. */
  jobs: Map<string, string[]>;
  schedules: number;
  complete: boolean;
}

/** So many jobs of a type are asked how long their runs took. */
const jobsPerType = 3;

export async function lookAhead(options: LookOptions): Promise<Looked> {
  const pace = new Pace(options.budgetMs);
  const times = new TimesOf(options, pace);
  const crowds = new Map<Lane, Crowd>();
  const result: Looked = { counted: newTally(options.window), jobs: new Map(), schedules: 0, complete: false };
  for (const schedule of options.schedules) {
    if (!isAsked(schedule, options.filter)) continue;
    const { pattern, lane } = schedule;
    let crowd = crowds.get(lane);
    if (crowd === undefined) {
      crowd = new Crowd(adder(result.counted, lane), options);
      crowds.set(lane, crowd);
    }
    const shared = pattern.kind === 'same' ? null : (times.known(pattern) ?? (await times.shared(pattern)));
    if (pattern.kind === 'same') crowd.takeSame(pattern);
    else if (shared === null) return result;
    else crowd.take(pattern, shared, schedule);
    noteJob(result.jobs, schedule);
    result.schedules++;
    const goesOn = pace.goOn();
    if (goesOn !== true && !(await goesOn)) return result;
  }
  for (const crowd of crowds.values()) if (!(await crowd.addUp(times, pace))) return result;
  result.complete = true;
  return result;
}

/** Schedules of one lane, by what they share. */
class Crowd {
  readonly #add: Add;
  readonly #ahead: Ahead;
  readonly #same = new Map<Pattern, number>();
  readonly #spans = new Map<SharedTimes, Map<number, Span & { schedules: number }>>();

  constructor(add: Add, ahead: Ahead) {
    this.#add = add;
    this.#ahead = ahead;
  }

  takeSame(pattern: Pattern): void {
    this.#same.set(pattern, (this.#same.get(pattern) ?? 0) + 1);
  }

  take(pattern: Shifted, shared: SharedTimes, own: Own): void {
    const span = spanOf(pattern, shared, own, this.#ahead);
    if (!shared.areWholeMinutes) return addSpan(shared, span, this.#ahead.window, this.#add);
    // All that begin and end with the same times, and are shifted by as many minutes, start runs in the same minutes.
    const size = shared.times.length + 1;
    const key = (Math.floor(span.shift_ms / MINUTE_MS) * size + span.first) * size + span.end;
    let spans = this.#spans.get(shared);
    if (spans === undefined) {
      spans = new Map();
      this.#spans.set(shared, spans);
    }
    const known = spans.get(key);
    if (known === undefined) spans.set(key, { ...span, schedules: 1 });
    else known.schedules++;
  }

  /** False: the time is up. */
  async addUp(times: TimesOf, pace: Pace): Promise<boolean> {
    for (const [pattern, schedules] of this.#same) {
      const counts = await times.counts(pattern);
      if (counts === null) return false;
      for (const [minute, runs] of counts) this.#add(minute, runs * schedules);
      if (!(await pace.goOn())) return false;
    }
    for (const [shared, spans] of this.#spans)
      for (const span of spans.values()) {
        addSpan(shared, span, this.#ahead.window, this.#add, span.schedules);
        if (!(await pace.goOn())) return false;
      }
    return true;
  }
}

export interface MinuteLook {
  /** How many runs each starts. */
  runs: Map<KnownSchedule, number>;
  complete: boolean;
}

/** The first schedules that start runs in a window of one minute. */
export async function lookAtMinute(options: LookOptions): Promise<MinuteLook> {
  const pace = new Pace(options.budgetMs);
  const times = new TimesOf(options, pace);
  const runs = new Map<KnownSchedule, number>();
  for (const schedule of options.schedules) {
    if (!isAsked(schedule, options.filter)) continue;
    const own = await times.inAll(schedule);
    if (own === null || (own > 0 && runs.size >= limits.max_minute_jobs)) return { runs, complete: false };
    if (own > 0) runs.set(schedule, own);
    if (!(await pace.goOn())) return { runs, complete: false };
  }
  return { runs, complete: true };
}

function isAsked({ lane, user_id }: KnownSchedule, filter: ForecastFilter): boolean {
  if (filter.user_id !== undefined && user_id !== filter.user_id) return false;
  return lane.queue === (filter.queue ?? lane.queue) && lane.type === (filter.type ?? lane.type);
}

function noteJob(jobs: Map<string, string[]>, { lane, job_id }: KnownSchedule): void {
  const known = jobs.get(lane.type);
  if (known === undefined) jobs.set(lane.type, [job_id]);
  else if (known.length < jobsPerType) known.push(job_id);
}

/** The times of patterns, each found once. Null everywhere: the time is up. */
class TimesOf {
  readonly #ahead: Ahead;
  readonly #pace: Pace;
  readonly #counts = new Map<Pattern, MinuteCounts>();
  readonly #shared = new Map<Pattern, SharedTimes>();

  constructor(ahead: Ahead, pace: Pace) {
    this.#ahead = ahead;
    this.#pace = pace;
  }

  known(pattern: Shifted): SharedTimes | undefined {
    return this.#shared.get(pattern);
  }

  shared(pattern: Shifted): Promise<SharedTimes | null> {
    return this.#once(this.#shared, pattern, () => sharedTimes(pattern, this.#ahead));
  }

  counts(pattern: Pattern): Promise<MinuteCounts | null> {
    return this.#once(this.#counts, pattern, () => minuteCounts(pattern.schedule, this.#ahead));
  }

  /** How many runs a schedule starts in the whole window. */
  async inAll(schedule: KnownSchedule): Promise<number | null> {
    const { pattern } = schedule;
    if (pattern.kind === 'same') {
      const counts = await this.counts(pattern);
      return counts === null ? null : [...counts.values()].reduce((sum, runs) => sum + runs, 0);
    }
    const shared = await this.shared(pattern);
    if (shared === null) return null;
    const { first, end } = spanOf(pattern, shared, schedule, this.#ahead);
    return Math.max(0, end - first);
  }

  async #once<T>(known: Map<Pattern, T>, pattern: Pattern, find: () => Generator<void, T>): Promise<T | null> {
    const found = known.get(pattern);
    if (found !== undefined) return found;
    const steps = find();
    for (let step = steps.next(); ; step = steps.next()) {
      if (step.done === true) {
        known.set(pattern, step.value);
        return step.value;
      }
      if (!(await this.#pace.goOn())) return null;
    }
  }
}
