// What the forecast adds up: runs by minute, by bucket and by queue and type, and the slots they keep busy. Pure.
//
// Slots by Little's law: runs per time × how long each takes = how many there are at once. A run that takes longer than
// its bucket is carried on into the next ones.
import type { Forecast, ForecastBucket, ForecastGroup } from '@punctual/contract';
import type { ForecastWindow } from './forecast.ts';
import { MINUTE_MS } from './schedule/rule.ts';

export interface Tally {
  window: ForecastWindow;
  /** All runs, by minute and by bucket. */
  minutes: Uint32Array;
  buckets: Uint32Array;
  groups: Map<string, TallyGroup>;
  /** Pairs of queue and type that came after the table was full. */
  untold: Set<string>;
}

interface TallyGroup {
  queue: string;
  type: string;
  runs: number;
  counts: Uint32Array;
}

/** Each has a number for each bucket; this many take some megabytes. */
const maxGroups = 2000;
/** In the answer. */
const maxGroupsShown = 100;
const maxBusiest = 10;

export function newTally(window: ForecastWindow): Tally {
  const minutes = (window.buckets * window.bucket_ms) / MINUTE_MS;
  return {
    window,
    minutes: new Uint32Array(minutes),
    buckets: new Uint32Array(window.buckets),
    groups: new Map(),
    untold: new Set(),
  };
}

/** Adds runs of one queue and type, minute by minute. */
export function adder(
  to: Tally,
  { queue, type }: { queue: string; type: string },
): (minute: number, runs: number) => void {
  const { minutes, buckets } = to;
  const minutesPerBucket = to.window.bucket_ms / MINUTE_MS;
  let group: TallyGroup | null | undefined;
  return (minute, runs) => {
    // With the first run: a lane without any is no group.
    if (group === undefined) group = groupOf(to, queue, type);
    const bucket = Math.floor(minute / minutesPerBucket);
    minutes[minute] = (minutes[minute] ?? 0) + runs;
    buckets[bucket] = (buckets[bucket] ?? 0) + runs;
    if (group === null) return;
    group.counts[bucket] = (group.counts[bucket] ?? 0) + runs;
    group.runs += runs;
  };
}

/** Adds what another tally of the same window has counted. */
export function merge(to: Tally, from: Tally): void {
  addAll(to.minutes, from.minutes);
  addAll(to.buckets, from.buckets);
  for (const name of from.untold) to.untold.add(name);
  for (const { queue, type, runs, counts } of from.groups.values()) {
    const group = groupOf(to, queue, type);
    if (group === null) continue;
    addAll(group.counts, counts);
    group.runs += runs;
  }
}

function addAll(to: Uint32Array, from: Uint32Array): void {
  for (let i = 0; i < to.length; i++) to[i] = (to[i] ?? 0) + (from[i] ?? 0);
}

function groupOf({ groups, untold, window }: Tally, queue: string, type: string): TallyGroup | null {
  const key = `${queue} ${type}`;
  const known = groups.get(key);
  if (known !== undefined) return known;
  if (groups.size >= maxGroups) {
    untold.add(key);
    return null;
  }
  const group = { queue, type, runs: 0, counts: new Uint32Array(window.buckets) };
  groups.set(key, group);
  return group;
}

export interface Durations {
  mean_ms: number;
  median_ms: number;
  p95_ms: number;
  sample: number;
}

/** Of how long runs took; null for none. */
export function durationsOf(times: readonly number[]): Durations | null {
  if (times.length === 0) return null;
  const sorted = [...times].sort((a, b) => a - b);
  const rank = (share: number): number => sorted[Math.ceil(share * sorted.length) - 1] ?? 0;
  const sum = sorted.reduce((total, ms) => total + ms, 0);
  return {
    mean_ms: Math.round(sum / sorted.length),
    median_ms: Math.round(rank(0.5)),
    p95_ms: Math.round(rank(0.95)),
    sample: sorted.length,
  };
}

/** Adds the slots that runs keep busy: each from the beginning of its bucket, for as long as it takes. */
export function addSlots(
  slots: Float64Array,
  counts: ArrayLike<number>,
  busy: { each_ms: number; bucket_ms: number },
): void {
  const whole = Math.floor(busy.each_ms / busy.bucket_ms);
  const rest = busy.each_ms / busy.bucket_ms - whole;
  let going = 0;
  for (let i = 0; i < slots.length; i++) {
    const ending = counts[i - whole] ?? 0;
    going += (counts[i] ?? 0) - ending;
    slots[i] = (slots[i] ?? 0) + going + ending * rest;
  }
}

/** The answer, from what was counted and how long each type took. */
export function report(
  counted: Tally,
  durations: ReadonlyMap<string, Durations>,
): Pick<Forecast, 'runs' | 'runs_with_history' | 'buckets' | 'groups' | 'other_groups' | 'busiest_minutes'> {
  const { window, groups, untold, minutes } = counted;
  const mean = new Float64Array(window.buckets);
  const p95 = new Float64Array(window.buckets);
  let known = 0;
  for (const { type, runs, counts } of groups.values()) {
    const took = durations.get(type);
    if (took === undefined) continue;
    known += runs;
    addSlots(mean, counts, { each_ms: took.mean_ms, bucket_ms: window.bucket_ms });
    addSlots(p95, counts, { each_ms: took.p95_ms, bucket_ms: window.bucket_ms });
  }
  const buckets = Array.from(
    counted.buckets,
    (runs, i): ForecastBucket => ({
      at: isoOf(window.base_ms + i * window.bucket_ms),
      runs,
      slots: known === 0 ? null : rounded(mean[i] ?? 0),
      slots_p95: known === 0 ? null : rounded(p95[i] ?? 0),
    }),
  );
  const largest = [...groups.values()].sort((a, b) => b.runs - a.runs || (a.type < b.type ? -1 : 1));
  return {
    runs: buckets.reduce((sum, bucket) => sum + bucket.runs, 0),
    runs_with_history: known,
    buckets,
    groups: largest.slice(0, maxGroupsShown).map((group) => toGroup(group, durations.get(group.type))),
    other_groups: Math.max(0, groups.size - maxGroupsShown) + untold.size,
    busiest_minutes: busiest(minutes, window),
  };
}

function toGroup({ queue, type, runs, counts }: TallyGroup, took: Durations | undefined): ForecastGroup {
  const note = took === undefined ? 'No run of this type has ended lately.' : null;
  const { mean_ms = null, median_ms = null, p95_ms = null, sample = 0 } = took ?? {};
  return { queue, type, runs, counts: Array.from(counts), mean_ms, median_ms, p95_ms, sample, note };
}

function busiest(minutes: Uint32Array, { base_ms }: ForecastWindow): { at: string; runs: number }[] {
  return Array.from(minutes, (runs, minute) => ({ minute, runs }))
    .filter(({ runs }) => runs > 0)
    .sort((a, b) => b.runs - a.runs || a.minute - b.minute)
    .slice(0, maxBusiest)
    .map(({ minute, runs }) => ({ at: isoOf(base_ms + minute * MINUTE_MS), runs }));
}

function rounded(slots: number): number {
  return Math.round(slots * 100) / 100;
}

function isoOf(ms: number): string {
  return new Date(ms).toISOString();
}
