// How long runs of each type took lately, for the slots of a forecast.
import { type Durations, durationsOf } from '../rules/forecast_tally.ts';
import type { Queryable } from '../store/database.ts';
import { type Duration, jobDurations, recentDurations } from '../store/forecast.ts';

export interface DurationsOptions {
  db: Queryable;
  segments: readonly number[];
  types: ReadonlySet<string>;
  /** Some recurring jobs of each type. */
  jobs: ReadonlyMap<string, string[]>;
  user_id: string | undefined;
}

const recentPerSegment = 500;
const enoughDurations = 20;
const maxTypesAsked = 100;

/** From the newest runs of all; for types that are rare among these, from the last runs of some of their jobs. */
export async function readDurations(options: DurationsOptions): Promise<ReadonlyMap<string, Durations>> {
  const { db, segments, types, jobs, user_id } = options;
  if (types.size === 0) return new Map();
  // How long runs of others took is none of a user's business.
  const recent =
    user_id === undefined ? byType(await recentDurations(db, segments, recentPerSegment)) : new Map<string, number[]>();
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
