// Admission on this server: which segments to look at, and when. A pass (store/admit.ts) takes runs from the entry lanes that
// claims leave to it, gives them places under their keys or files them, and lets those go for which places became free. Any
// number of servers may do it at once. Woken when runs reach entry lanes, when places may have become free, when limits
// changed and when a bucket has filled up; `tend` finds what nobody woke it for.
//
// Claims start most runs with keys themselves and file the others; places of the former become free without a word. So of
// every key under which a claim filed somebody or a run that held a place by running left, it is asked, after that was
// committed, whether somebody waits there for whom there is room (`askKeys`): whichever comes last finds both.
import { monotonicMs } from '../base/clock.ts';
import { segmentOf } from '../base/ids.ts';
import type { Metrics } from '../base/metrics.ts';
import { admitRuns, nextLooks } from '../store/admit.ts';
import type { Fair } from '../store/admit_keys.ts';
import type { Database } from '../store/database.ts';
import { listFairQueues } from '../store/fair_queues.ts';
import { findNeglected, keysWithRoom, pruneKeys } from '../store/key_limits.ts';
import type { Lane, Lanes } from '../store/lanes.ts';
import type { Flow } from './flow.ts';
import { LowWater } from './low_water.ts';
import { isKeyed } from './served_lanes.ts';

export interface AdmitterParts {
  db: Database;
  lanes: Lanes;
  flow: Flow;
  segments: readonly number[];
  metrics: Metrics;
  pollIntervalMs: number;
}

/** What may have changed in a segment since its last pass. */
interface News {
  left: Set<string>;
  keys: Set<string>;
}

const maxBatch = 500;
/** More is left to `tend`, so that memory stays bounded. */
const maxNews = 10_000;
/** Looking for what was neglected takes at most this part of the time. */
const restFactor = 20;
const pruneEveryMs = 60_000;

export class Admitter {
  readonly #parts: AdmitterParts;
  readonly #news = new Map<number, News>();
  /** Keys by segment under which there may be room for somebody who waits. */
  readonly #perhaps = new Map<number, Set<string>>();
  readonly #lowWater = new LowWater();
  readonly #deepAt = new Map<number, number>();
  /** Segments in which runs hold places, as far as is known. */
  readonly #held = new Set<number>();
  readonly #waiting = new Map<number, number>();
  #fair: Fair = new Map();
  #fairText = '';
  #pruneAt = 0;
  /** Told where to look soon. */
  onWake: (segments: Iterable<number>) => void = () => {};
  /** Told that there are keys to ask about. */
  onKeys: () => void = () => {};
  /** Told where runs became ready for workers. */
  onAdmitted: (segment: number) => void = () => {};

  constructor(parts: AdmitterParts) {
    this.#parts = parts;
  }

  /** Runs that wait for a limit, as of the last `tend`. */
  get waiting(): number {
    return [...this.#waiting.values()].reduce((sum, count) => sum + count, 0);
  }

  /** Runs became ready in these segments, perhaps in entry lanes. */
  wake(segments: Iterable<number>): void {
    if (this.#entries().length > 0) this.onWake(segments);
  }

  /** Other rules hold for lanes: some may now be left to it. */
  wakeAll(): void {
    this.wake(this.#parts.segments);
  }

  /** Under these keys a claim filed somebody, or a run that held a place by running has left. */
  perhaps(segment: number, keys: Iterable<string>): void {
    let known = this.#perhaps.get(segment);
    if (known === undefined) this.#perhaps.set(segment, (known = new Set()));
    for (const key of keys) if (known.size < maxNews) known.add(key);
    this.onKeys();
  }

  /** Looks at those of the keys it was told of under which somebody waits and there is room. */
  async askKeys(): Promise<void> {
    for (const [segment, keys] of this.#perhaps) {
      this.#perhaps.delete(segment);
      try {
        for (const key of await keysWithRoom(this.#parts.db, segment, [...keys])) this.changed(segment, key);
      } catch (error) {
        this.perhaps(segment, keys);
        throw error;
      }
    }
  }

  /** These runs ended, wait again, or were taken by workers: those that held a place may have given it up. */
  left(runs: Iterable<{ run_id: string }>): void {
    if (this.#held.size === 0) return;
    const touched = new Set<number>();
    for (const { run_id } of runs) {
      const segment = segmentOf(run_id);
      if (!this.#held.has(segment)) continue;
      const { left } = this.#newsOf(segment);
      if (left.size < maxNews) left.add(run_id);
      touched.add(segment);
    }
    if (touched.size > 0) this.onWake(touched);
  }

  /** Workers took these runs: there will be places to give up; those under a fair share are free already. */
  claimed(segment: number, runs: readonly { run_id: string; lane_id: number }[]): void {
    const { lanes } = this.#parts;
    if (!lanes.admitting) return;
    const admitted = runs.filter((run) => lanes.get(run.lane_id).entry_lane_id !== null);
    if (admitted.length === 0) return;
    this.#held.add(segment);
    if (this.#fair.size > 0) this.left(admitted);
  }

  /** One pass over a segment; answers how many runs it took or admitted. */
  async pass(segment: number): Promise<number> {
    const { db, lanes, metrics } = this.#parts;
    const news = this.#news.get(segment);
    this.#news.delete(segment);
    let done: Awaited<ReturnType<typeof admitRuns>>;
    try {
      await lanes.ensureTwins();
      const deep = this.#isDeep(segment);
      if (deep) this.#deepAt.set(segment, monotonicMs() + this.#parts.pollIntervalMs);
      done = await admitRuns(db, {
        segment,
        entries: this.#entriesOf(segment, deep),
        fair: this.#fair,
        left: [...(news?.left ?? [])],
        keys: [...(news?.keys ?? [])],
        limit: maxBatch,
      });
    } catch (error) {
      // What nobody could act on is still news, and perhaps so is what lies below the mark.
      if (news !== undefined) this.#remember(segment, news);
      this.#deepAt.delete(segment);
      throw error;
    }
    for (const { lane_id, seq } of done.taken) this.#lowWater.taken(segment, lane_id, seq);
    metrics.runsAdmitted.inc(done.admitted);
    if (done.admitted > 0) {
      this.#held.add(segment);
      this.onAdmitted(segment);
    }
    return Math.max(done.taken.length, done.admitted);
  }

  /** Milliseconds until the next pass of each of the segments that needs one. */
  async next(segments: readonly number[]): Promise<{ segment: number; in_ms: number }[]> {
    if (!this.#parts.lanes.admitting) return [];
    const entries = segments.flatMap((segment) =>
      this.#entriesOf(segment, this.#isDeep(segment)).map((entry) => ({ segment, ...entry })),
    );
    const told = segments.filter((segment) => this.#news.has(segment)).map((segment) => ({ segment, in_ms: 0 }));
    return [...told, ...(await nextLooks(this.#parts.db, segments, entries))];
  }

  /** The safety net: finds places that nobody gave away. Answers in how many ms to be called again, if later than usual. */
  async tend(segments = this.#parts.segments): Promise<number> {
    const begun = monotonicMs();
    if (!this.#parts.lanes.admitting) return 0;
    for (const segment of segments) {
      const { keys, left, holds, waiting } = await findNeglected(this.#parts.db, segment, maxBatch);
      this.#waiting.set(segment, waiting);
      if (holds) this.#held.add(segment);
      else this.#held.delete(segment);
      if (keys.length === 0 && left.length === 0) continue;
      this.#remember(segment, { left: new Set(left), keys: new Set(keys) });
      this.onWake([segment]);
    }
    if (begun > this.#pruneAt) {
      this.#pruneAt = begun + pruneEveryMs;
      for (const segment of segments) await pruneKeys(this.#parts.db, segment, maxBatch);
    }
    return (monotonicMs() - begun) * restFactor;
  }

  /** The limit of a key has changed, or there is room under it for somebody who waits. */
  changed(segment: number, key: string): void {
    this.#newsOf(segment).keys.add(key);
    this.onWake([segment]);
  }

  /** Reads which queues are fair; true when that has changed, and with it the lanes that workers may claim from. */
  async refreshFair(): Promise<boolean> {
    const queues = await listFairQueues(this.#parts.db);
    const text = JSON.stringify(queues);
    if (text === this.#fairText || (queues.length === 0 && this.#fair.size === 0)) return false;
    this.#fairText = text;
    this.#fair = new Map(queues.map((queue) => [queue.queue, queue]));
    this.#parts.lanes.setFair(new Set(this.#fair.keys()));
    this.onWake(this.#parts.segments);
    return true;
  }

  #remember(segment: number, { left, keys }: News): void {
    const news = this.#newsOf(segment);
    for (const runId of left) news.left.add(runId);
    for (const key of keys) news.keys.add(key);
  }

  #newsOf(segment: number): News {
    let news = this.#news.get(segment);
    if (news === undefined) this.#news.set(segment, (news = { left: new Set(), keys: new Set() }));
    return news;
  }

  /** Once a poll interval we look from the start, also for rows that committed late, below the mark. */
  #isDeep(segment: number): boolean {
    return monotonicMs() >= (this.#deepAt.get(segment) ?? 0);
  }

  /** The entries that claims do not take from themselves. */
  #entries(): readonly Lane[] {
    const { lanes, flow } = this.#parts;
    return lanes.entries.lanes.filter((lane) => !isKeyed(lane, lanes, flow.table));
  }

  #entriesOf(segment: number, deep: boolean): { lane_id: number; after: number }[] {
    return this.#entries().map(({ lane_id }) => ({
      lane_id,
      after: deep ? 0 : this.#lowWater.of(segment, lane_id),
    }));
  }
}
