// One look ahead for a forecast: goes through the schedules that are known (forecast_known.ts), asks the rules when each
// pattern starts runs, and adds up. It promises to end: when its time is up it answers what it has and says that it is not
// complete. It never blocks the process for long.
import { limits } from '@punctual/contract';
import { type Ahead, type MinuteCounts, minuteCounts } from '../rules/forecast.ts';
import { type Add, delayedMinute, everyMinute, type Pattern, sharedTimes } from '../rules/forecast_pattern.ts';
import { adder, newTally, type Tally, tally } from '../rules/forecast_tally.ts';
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
  const counted = newTally(options.window);
  const jobs = new Map<string, string[]>();
  const adders = new Map<Lane, Add>();
  /** How many schedules of a pattern that all start together are in each lane. */
  const together = new Map<Pattern, Map<Lane, number>>();
  const times = new TimesOf(options, pace);
  const result: Looked = { counted, jobs, schedules: 0, complete: true };
  const giveUp = (): Looked => ({ ...result, complete: false });
  for (const schedule of options.schedules) {
    if (!isAsked(schedule, options.filter)) continue;
    const { pattern, lane } = schedule;
    let add = adders.get(lane);
    if (add === undefined) {
      add = adder(counted, lane);
      adders.set(lane, add);
    }
    if (pattern.kind === 'same') addTo(together, pattern, lane);
    else if (!(await times.name(schedule, add))) return giveUp();
    noteJob(jobs, schedule);
    result.schedules++;
    if (!pace.isBreathless) continue;
    await pace.breathe();
    if (pace.over) return giveUp();
  }
  for (const [pattern, lanes] of together) {
    const counts = await times.counts(pattern);
    if (counts === null) return giveUp();
    for (const [lane, schedules] of lanes) tally(counted, lane, counts, schedules);
  }
  return result;
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
    let own = 0;
    const inTime = await times.name(schedule, (_minute, more) => {
      own += more;
    });
    if (!inTime || (own > 0 && runs.size >= limits.max_minute_jobs)) return { runs, complete: false };
    if (own > 0) runs.set(schedule, own);
    if (!pace.isBreathless) continue;
    await pace.breathe();
    if (pace.over) return { runs, complete: false };
  }
  return { runs, complete: true };
}

function isAsked({ lane, user_id }: KnownSchedule, filter: ForecastFilter): boolean {
  if (filter.user_id !== undefined && user_id !== filter.user_id) return false;
  return lane.queue === (filter.queue ?? lane.queue) && lane.type === (filter.type ?? lane.type);
}

function addTo(together: Map<Pattern, Map<Lane, number>>, pattern: Pattern, lane: Lane): void {
  const lanes = together.get(pattern);
  if (lanes === undefined) together.set(pattern, new Map([[lane, 1]]));
  else lanes.set(lane, (lanes.get(lane) ?? 0) + 1);
}

function noteJob(jobs: Map<string, string[]>, { lane, job_id }: KnownSchedule): void {
  const known = jobs.get(lane.type);
  if (known === undefined) jobs.set(lane.type, [job_id]);
  else if (known.length < jobsPerType) known.push(job_id);
}

/** The times of patterns, each found once. */
class TimesOf {
  readonly #ahead: Ahead;
  readonly #pace: Pace;
  readonly #counts = new Map<Pattern, MinuteCounts>();
  readonly #shared = new Map<Pattern, number[]>();

  constructor(ahead: Ahead, pace: Pace) {
    this.#ahead = ahead;
    this.#pace = pace;
  }

  /** Names the minutes in which a schedule starts runs. False: the time is up. */
  async name(own: KnownSchedule, add: Add): Promise<boolean> {
    const { pattern } = own;
    if (pattern.kind === 'every') {
      everyMinute(pattern, own, this.#ahead, add);
      return true;
    }
    if (pattern.kind === 'delayed') {
      const times = await this.#once(this.#shared, pattern, () => sharedTimes(pattern, this.#ahead));
      if (times !== null) delayedMinute(times, own, this.#ahead, add);
      return times !== null;
    }
    const counts = await this.counts(pattern);
    for (const [minute, runs] of counts ?? []) add(minute, runs);
    return counts !== null;
  }

  /** Null: the time is up. */
  counts(pattern: Pattern): Promise<MinuteCounts | null> {
    return this.#once(this.#counts, pattern, () => minuteCounts(pattern.schedule, this.#ahead));
  }

  async #once<T>(known: Map<Pattern, T>, pattern: Pattern, find: () => Generator<void, T>): Promise<T | null> {
    const found = known.get(pattern);
    if (found !== undefined) return found;
    const steps = find();
    for (let step = steps.next(); ; step = steps.next()) {
      if (this.#pace.isBreathless) await this.#pace.breathe();
      if (step.done === true) {
        known.set(pattern, step.value);
        return step.value;
      }
      if (this.#pace.over) return null;
    }
  }
}
