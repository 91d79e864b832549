// One look ahead for a forecast: reads the book page by page, asks the rules when each schedule starts runs, and adds up.
// It promises to end: when its time is up it answers what it has and says that it is not complete. It never blocks the
// process for long, and its memory does not grow with the number of schedules.
import { limits, type MinuteJob } from '@punctual/contract';
import { monotonicMs, pause } from '../base/clock.ts';
import {
  bareRule,
  type ForecastSchedule,
  type ForecastWindow,
  isShared,
  type MinuteCounts,
  minuteCounts,
  minuteOf,
  spreadOf,
} from '../rules/forecast.ts';
import { type Durations, durationsOf, newTally, type Tally, tally } from '../rules/forecast_tally.ts';
import type { ScheduleRule } from '../rules/schedule/rule.ts';
import type { Database } from '../store/database.ts';
import {
  countWaiting,
  type Duration,
  type ForecastFilter,
  type ForecastRow,
  jobDurations,
  readForecast,
  recentDurations,
} from '../store/forecast.ts';
import { getJob } from '../store/jobs.ts';

export interface LookOptions {
  db: Database;
  segments: readonly number[];
  window: ForecastWindow;
  filter: ForecastFilter;
  /** How long it may read and count. */
  budgetMs: number;
}

export interface Looked {
  counted: Tally;
  /** How long runs of each type took. */
  durations: ReadonlyMap<string, Durations>;
  schedules: number;
  waiting: number;
  complete: boolean;
}

const pageSize = 2000;
/** Segments that are read at once. */
const atOnce = 3;
const lowestJob = '00000000-0000-0000-0000-000000000000';
/** Of each segment: ten million runs that wait must not take the whole time. */
const maxWaiting = 500_000;
/** Others go first after so long. */
const breatheMs = 10;
/** Rules whose minutes are remembered, because many schedules share them. */
const maxShared = 200;
const recentPerSegment = 500;
const enoughDurations = 20;
const jobsPerType = 3;
const maxTypesAsked = 100;

export interface MinuteLook {
  jobs: MinuteJob[];
  complete: boolean;
}

/** Which schedules start runs in a window of a minute. */
export async function lookAtMinute({ db, segments, window, filter, budgetMs }: LookOptions): Promise<MinuteLook> {
  const pace = new Pace(budgetMs);
  const jobs: MinuteJob[] = [];
  for (const segment of segments) {
    for (let after: string | undefined = lowestJob; after !== undefined; ) {
      const rows = await readForecast(db, segment, { after, untilMs: window.to_ms, limit: pageSize, filter });
      for (const row of rows) {
        const counts = await countMinutes({ window, pace }, toSchedule(row));
        if (counts === null || jobs.length >= limits.max_minute_jobs) return { jobs, complete: false };
        await pace.breathe();
        const runs = counts.get(0) ?? 0;
        if (runs > 0) jobs.push(await toMinuteJob(db, row, runs, window));
      }
      after = rows.length < pageSize ? undefined : rows.at(-1)?.job_id;
    }
  }
  return { jobs, complete: true };
}

async function toMinuteJob(db: Database, row: ForecastRow, runs: number, window: ForecastWindow): Promise<MinuteJob> {
  const { job_id, queue, type } = row;
  const schedule = toSchedule(row);
  const name = (await getJob(db, job_id))?.name ?? type;
  const spread_ms = spreadOf(schedule, window.from_ms);
  return { job_id, name, queue, type, runs, jitter_ms: schedule.rule.jitter_ms, spread_ms };
}

export async function lookAhead({ db, segments, window, filter, budgetMs }: LookOptions): Promise<Looked> {
  const look: Look = {
    db,
    window,
    filter,
    counted: newTally(window),
    shared: new Map(),
    jobs: new Map(),
    pace: new Pace(budgetMs),
    schedules: 0,
    waiting: 0,
    complete: true,
  };
  // Runs that wait are counted by the database, times of schedules here: both at once.
  await Promise.all([
    byFew(segments, (segment) => addWaiting(look, segment)),
    byFew(segments, (segment) => addSchedules(look, segment)),
  ]);
  const { counted, schedules, waiting, complete } = look;
  return { counted, durations: await readDurations(look, segments), schedules, waiting, complete };
}

/** Some segments at once: while one answer is counted, the next is read. */
async function byFew(segments: readonly number[], add: (segment: number) => Promise<void>): Promise<void> {
  const left = [...segments];
  const next = async (): Promise<void> => {
    for (let segment = left.shift(); segment !== undefined; segment = left.shift()) await add(segment);
  };
  await Promise.all(Array.from({ length: atOnce }, next));
}

/** One forecast under way. */
interface Look {
  db: Database;
  window: ForecastWindow;
  filter: ForecastFilter;
  counted: Tally;
  /** Minutes of rules that several schedules may have. */
  shared: Map<string, MinuteCounts>;
  /** Some recurring jobs of each type, to ask how long their runs took. */
  jobs: Map<string, string[]>;
  pace: Pace;
  schedules: number;
  waiting: number;
  complete: boolean;
}

/** How much time is left, and when to let others go first. */
class Pace {
  readonly #end: number;
  #breathed = monotonicMs();
  constructor(budgetMs: number) {
    this.#end = monotonicMs() + budgetMs;
  }
  get over(): boolean {
    return monotonicMs() >= this.#end;
  }
  async breathe(): Promise<void> {
    if (monotonicMs() - this.#breathed < breatheMs) return;
    await pause(0, never);
    this.#breathed = monotonicMs();
  }
}

const never = new AbortController().signal;

async function addWaiting(look: Look, segment: number): Promise<void> {
  const { db, window, filter, counted, pace } = look;
  if (pace.over) {
    look.complete = false;
    return;
  }
  const { from_ms: fromMs, to_ms: toMs } = window;
  const rows = await countWaiting(db, segment, { fromMs, toMs, limit: maxWaiting, user_id: filter.user_id });
  let lookedAt = 0;
  for (const row of rows) {
    lookedAt += row.runs;
    if (row.queue !== (filter.queue ?? row.queue) || row.type !== (filter.type ?? row.type)) continue;
    // The first minute may begin before the window does.
    const minute = minuteOf(Math.max(Number(row.minute_ms), fromMs), window);
    tally(counted, row, new Map([[minute, row.runs]]));
    look.waiting += row.runs;
  }
  if (lookedAt >= maxWaiting) look.complete = false;
}

async function addSchedules(look: Look, segment: number): Promise<void> {
  const { db, window, filter, pace } = look;
  let after = lowestJob;
  for (;;) {
    if (pace.over) {
      look.complete = false;
      return;
    }
    const rows = await readForecast(db, segment, { after, untilMs: window.to_ms, limit: pageSize, filter });
    for (const row of rows) if (!(await addSchedule(look, row))) return;
    const last = rows.at(-1);
    if (last === undefined || rows.length < pageSize) return;
    after = last.job_id;
  }
}

/** False: the time is up. */
async function addSchedule(look: Look, row: ForecastRow): Promise<boolean> {
  const counts = await countsOf(look, row);
  if (counts === null) {
    look.complete = false;
    return false;
  }
  await look.pace.breathe();
  tally(look.counted, row, counts);
  look.schedules++;
  const jobs = look.jobs.get(row.type) ?? [];
  if (jobs.length < jobsPerType) look.jobs.set(row.type, [...jobs, row.job_id]);
  return true;
}

/** Null: the time is up. */
async function countsOf(look: Look, row: ForecastRow): Promise<MinuteCounts | null> {
  const { shared } = look;
  const bare = row.fixed_delay || row.runs_left !== null ? null : bareRule(row.rule);
  const known = bare === null ? undefined : shared.get(bare);
  if (known !== undefined) return known;
  const schedule = toSchedule(row);
  const counts = await countMinutes(look, schedule);
  if (bare !== null && counts !== null && shared.size < maxShared && isShared(schedule)) shared.set(bare, counts);
  return counts;
}

/** Null: the time is up. */
async function countMinutes(
  { window, pace }: Pick<Look, 'window' | 'pace'>,
  schedule: ForecastSchedule,
): Promise<MinuteCounts | null> {
  const steps = minuteCounts(schedule, window);
  for (let step = steps.next(); ; step = steps.next()) {
    if (step.done === true) return step.value;
    await pace.breathe();
    if (pace.over) return null;
  }
}

function toSchedule(row: ForecastRow): ForecastSchedule {
  return {
    rule: JSON.parse(row.rule) as ScheduleRule,
    fixed_delay: row.fixed_delay,
    next_ms: Number(row.next_ms),
    planned_until_ms: Number(row.planned_until_ms),
    runs_left: row.runs_left,
  };
}

/** From the newest runs of all; for types that are rare among these, from the last runs of some of their jobs. */
async function readDurations(
  { db, counted, jobs, filter }: Look,
  segments: readonly number[],
): Promise<ReadonlyMap<string, Durations>> {
  const types = new Set([...counted.groups.values()].map((group) => group.type));
  if (types.size === 0) return new Map();
  // How long runs of others took is none of a user's business.
  const recent =
    filter.user_id === undefined
      ? byType(await recentDurations(db, segments, recentPerSegment))
      : new Map<string, number[]>();
  const rare = [...types].filter((type) => (recent.get(type)?.length ?? 0) < enoughDurations).slice(0, maxTypesAsked);
  const asked = rare.flatMap((type) => jobs.get(type) ?? []);
  const further =
    asked.length === 0 ? new Map<string, number[]>() : byType(await jobDurations(db, asked, enoughDurations));
  const found = new Map<string, Durations>();
  for (const type of types) {
    const durations = durationsOf(further.get(type) ?? recent.get(type) ?? []);
    if (durations !== null) found.set(type, durations);
  }
  return found;
}

function byType(durations: readonly Duration[]): Map<string, number[]> {
  const times = new Map<string, number[]>();
  for (const { type, took_ms } of durations) {
    const known = times.get(type);
    if (known === undefined) times.set(type, [Number(took_ms)]);
    else known.push(Number(took_ms));
  }
  return times;
}
