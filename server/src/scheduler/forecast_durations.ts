// How long runs of each type took lately, for the slots of a forecast. What the newest runs of all took is kept for a minute:
// every forecast asks it.
import { monotonicMs } from '../base/clock.ts';
import { type Durations, durationsOf } from '../rules/forecast_tally.ts';
import type { Queryable } from '../store/database.ts';
import { type Duration, jobDurations, recentDurations } from '../store/forecast.ts';

type TimesByType = ReadonlyMap<string, number[]>;

export interface DurationsQuery {
  types: ReadonlySet<string>;
  /** Some recurring jobs of each type. */
  jobs: ReadonlyMap<string, string[]>;
  user_id: string | undefined;
}

const recentPerSegment = 200;
const recentMs = 60_000;
const enoughDurations = 20;
const maxTypesAsked = 100;

export class KnownDurations {
  readonly #db: Queryable;
  readonly #segments: readonly number[];
  #recent: { times: Promise<TimesByType>; until: number } | null = null;

  constructor(db: Queryable, segments: readonly number[]) {
    this.#db = db;
    this.#segments = segments;
  }

  /** From the newest runs of all; for types that are rare among these, from the last runs of some of their jobs. */
  async get({ types, jobs, user_id }: DurationsQuery): Promise<ReadonlyMap<string, Durations>> {
    if (types.size === 0) return new Map();
    // How long runs of others took is none of a user's business.
    const recent: TimesByType = user_id === undefined ? await this.recent() : new Map();
    const rare = [...types].filter((type) => (recent.get(type)?.length ?? 0) < enoughDurations).slice(0, maxTypesAsked);
    const asked = rare.flatMap((type) => jobs.get(type) ?? []);
    const further: TimesByType =
      asked.length === 0 ? new Map() : byType(await jobDurations(this.#db, asked, enoughDurations));
    const found = new Map<string, Durations>();
    for (const type of types) {
      const durations = durationsOf(further.get(type) ?? recent.get(type) ?? []);
      if (durations !== null) found.set(type, durations);
    }
    return found;
  }

  /** Of everybody's newest runs; called early too, so that it is there when it is needed. */
  recent(): Promise<TimesByType> {
    const now = monotonicMs();
    if (this.#recent !== null && now < this.#recent.until) return this.#recent.times;
    const times = recentDurations(this.#db, this.#segments, recentPerSegment).then(byType);
    this.#recent = { times, until: now + recentMs };
    times.catch(() => {
      this.#recent = null;
    });
    return times;
  }
}

function byType(durations: readonly Duration[]): TimesByType {
  const times = new Map<string, number[]>();
  for (const { type, took_ms } of durations) {
    const known = times.get(type);
    if (known === undefined) times.set(type, [Number(took_ms)]);
    else known.push(Number(took_ms));
  }
  return times;
}
