// Remembers for each segment when something is due next, and has it done then. What becomes due later is told to it
// (`soon`), so it asks the book only after something was done, and for everything once a poll interval: what is due is
// done within milliseconds, and what nobody told of within a second. The due clock and the planner are such clocks.
//
// Where workers wait for it, it acts a moment ahead of the time. What could not be done then is done at its time.
import { monotonicMs, pause } from '../base/clock.ts';

/** What was overdue for so long and yet not there to be done, another server is doing: it is left a moment. */
const othersMs = 10;
const yieldMs = 20;
/** When the database's time comes is not known better than this; who comes too early has to come again. */
const marginMs = 0.5;
/** So long a pass takes on what becomes due while it acts. */
const beginForMs = 50;

export interface SegmentClockOptions {
  segments: readonly number[];
  pollIntervalMs: number;
  /** Does what is due in a segment, as much as fits in one go; with `aheadMs` what can be done so long before its time. */
  act: (segment: number, aheadMs: number) => Promise<Acted>;
  /** Milliseconds until something is due, negative when overdue, for each of the segments that has something. */
  ask: (segments: readonly number[]) => Promise<{ segment: number; in_ms: number }[]>;
  /** How long before its time something may be done, when that is possible just then. */
  ahead?: { ms: number; isPossible: () => boolean };
  /** Segments that are acted on at once: as many as keep the database busy. More only add latency. */
  atOnce?: number;
}

/** How much was done; when it is known by now, when to act next. */
export type Acted = number | { done: number; next: NextAct | null };

export interface NextAct {
  in_ms: number;
  ahead_ms: number;
}

interface Acts {
  /** How much was done, and when, of segments that are to be asked about. */
  done: Map<number, { count: number; at: number }>;
  failed: { error: unknown; segments: number[] } | null;
}

export class SegmentClock {
  readonly #options: SegmentClockOptions;
  readonly #atOnce: number;
  /** Monotonic ms, as far as is known. */
  readonly #dueAt: number[];
  /** How long before the time of what is to be done that is. */
  readonly #aheadMs: number[];
  readonly #maxAheadMs: number;
  #askAllAt = 0;
  #nudge: (() => void) | null = null;

  constructor(options: SegmentClockOptions) {
    this.#options = options;
    this.#atOnce = options.atOnce ?? 2;
    this.#dueAt = options.segments.map(() => Number.POSITIVE_INFINITY);
    this.#aheadMs = options.segments.map(() => 0);
    this.#maxAheadMs = options.ahead?.ms ?? 0;
  }

  /** Something is due in so many ms; in one of these segments, or in any. */
  soon(ms: number, segments?: Iterable<number>): void {
    const aheadMs = ms > 0 ? this.#maxAheadMs : 0;
    const at = monotonicMs() + ms - aheadMs;
    if (segments === undefined) this.#askAllAt = Math.min(this.#askAllAt, at);
    else for (const segment of segments) this.#actAt(at, segment, aheadMs);
    this.#nudge?.();
  }

  #actAt(at: number, segment: number, aheadMs: number): void {
    if (at >= (this.#dueAt[segment] ?? 0)) return;
    this.#dueAt[segment] = at;
    this.#aheadMs[segment] = aheadMs;
  }

  /** Does what is due now, and answers in how many ms to be called again. */
  async pass(): Promise<number> {
    const { segments, pollIntervalMs } = this.#options;
    const askAll = monotonicMs() >= this.#askAllAt;
    const { done, failed } = await this.#actAll();
    try {
      if (failed !== null) throw failed.error;
      if (askAll) {
        this.#askAllAt = monotonicMs() + pollIntervalMs;
        await this.#ask(segments, done);
      } else if (done.size > 0) {
        await this.#ask([...done.keys()], done);
      }
    } catch (error) {
      this.soon(0, [...done.keys(), ...(failed?.segments ?? [])]);
      throw error;
    }
    return Math.max(0, Math.min(this.#askAllAt, ...this.#dueAt) - monotonicMs());
  }

  /**
   * Acts where something is due, in a few segments at once; also where that comes while others are acted on, as long as
   * nobody has to be asked about. Answers how much was done where that is to be asked.
   */
  async #actAll(): Promise<Acts> {
    const begun = monotonicMs();
    const due = this.#dueNow();
    const acts: Acts = { done: new Map(), failed: null };
    const busy = new Map<number, Promise<void>>();
    for (;;) {
      const now = monotonicMs();
      if (due.length === 0 && acts.done.size === 0 && now - begun < beginForMs) due.push(...this.#dueNow());
      while (acts.failed === null && busy.size < this.#atOnce) {
        const next = due.findIndex((segment) => !busy.has(segment));
        if (next < 0) break;
        const [segment = 0] = due.splice(next, 1);
        busy.set(
          segment,
          this.#act(segment, acts).finally(() => busy.delete(segment)),
        );
      }
      if (busy.size === 0) return acts;
      await this.#lull(busy);
    }
  }

  #dueNow(): number[] {
    const now = monotonicMs();
    return this.#options.segments.filter((segment) => (this.#dueAt[segment] as number) <= now);
  }

  async #act(segment: number, acts: Acts): Promise<void> {
    const aheadMs = this.#aheadMs[segment] as number;
    const time = (this.#dueAt[segment] as number) + aheadMs;
    this.#dueAt[segment] = Number.POSITIVE_INFINITY;
    if (aheadMs > 0 && this.#options.ahead?.isPossible() !== true) return this.#actAt(time, segment, 0);
    const at = monotonicMs();
    try {
      const acted = await this.#options.act(segment, aheadMs);
      if (typeof acted === 'number') acts.done.set(segment, { count: acted, at });
      else if (acted.next !== null) {
        this.#actAt(monotonicMs() + acted.next.in_ms + marginMs, segment, acted.next.ahead_ms);
        this.#nudge?.();
      }
    } catch (error) {
      acts.failed ??= { error, segments: [] };
      acts.failed.segments.push(segment);
    }
  }

  /** Until an act has ended, or something else is due that may be done meanwhile. */
  async #lull(busy: ReadonlyMap<number, Promise<void>>): Promise<void> {
    const over = new AbortController();
    const ends: Promise<void>[] = [...busy.values()];
    if (busy.size < this.#atOnce) {
      const free = this.#dueAt.filter((_, segment) => !busy.has(segment));
      const ms = Math.min(...free) - monotonicMs();
      ends.push(new Promise((resolve) => (this.#nudge = resolve)));
      if (ms > 0 && ms < beginForMs) ends.push(pause(Math.ceil(ms), over.signal));
    }
    await Promise.race(ends);
    this.#nudge = null;
    over.abort();
  }

  async #ask(segments: readonly number[], done: Acts['done']): Promise<void> {
    const asked = monotonicMs();
    for (const segment of segments) this.#dueAt[segment] = Number.POSITIVE_INFINITY;
    const next = await this.#options.ask(segments);
    // The answer is about some moment between question and answer.
    const then = (asked + monotonicMs()) / 2;
    for (const { segment, in_ms } of next) {
      const acted = done.get(segment);
      const stuck = acted?.count === 0 && in_ms + then - acted.at <= -othersMs;
      // What is overdue is done as at its time, also when something else could be done ahead; and what just could not be.
      const aheadMs = acted?.count === 0 || in_ms <= 0 ? 0 : this.#maxAheadMs;
      this.#actAt(then + (stuck ? yieldMs : in_ms - aheadMs + marginMs), segment, aheadMs);
    }
    this.#nudge?.();
  }
}
