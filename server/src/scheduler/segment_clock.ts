// Remembers for each segment when something is due next, and has it done then. What becomes due later is told to it
// (`soon`), so it asks the book only after something was done, and for everything once a poll interval: what is due is
// done within milliseconds, and what nobody told of within a second. The due clock and the planner are such clocks.
import { monotonicMs } from '../base/clock.ts';

/** What is overdue for so long and was not there to be done, another server is doing: it is left a moment. */
const othersMs = 10;
const yieldMs = 20;
/** More at once on one database only add latency. */
const atOnce = 2;

export interface SegmentClockOptions {
  segments: readonly number[];
  pollIntervalMs: number;
  /** Does what is due in a segment, as much as fits in one go. */
  act: (segment: number) => Promise<Acted>;
  /** Milliseconds until something is due, negative when overdue, for each of the segments that has something. */
  ask: (segments: readonly number[]) => Promise<{ segment: number; in_ms: number }[]>;
}

/** How much was done; when it is known by now, in how many ms the next is due, null for never. */
export type Acted = number | { done: number; next_ms: number | null };

export class SegmentClock {
  readonly #options: SegmentClockOptions;
  /** Monotonic ms, as far as is known. */
  readonly #dueAt: number[];
  #askAllAt = 0;

  constructor(options: SegmentClockOptions) {
    this.#options = options;
    this.#dueAt = options.segments.map(() => Number.POSITIVE_INFINITY);
  }

  /** Something is due in so many ms; in one of these segments, or in any. */
  soon(ms: number, segments?: Iterable<number>): void {
    const at = monotonicMs() + ms;
    if (segments === undefined) this.#askAllAt = Math.min(this.#askAllAt, at);
    else for (const segment of segments) this.#dueAt[segment] = Math.min(this.#dueAt[segment] ?? at, at);
  }

  /** Does what is due now, and answers in how many ms to be called again. */
  async pass(): Promise<number> {
    const { segments, pollIntervalMs } = this.#options;
    const now = monotonicMs();
    const due = segments.filter((segment) => (this.#dueAt[segment] as number) <= now);
    try {
      const done = await this.#actAll(due);
      if (now >= this.#askAllAt) {
        this.#askAllAt = now + pollIntervalMs;
        await this.#ask(segments, done);
      } else if (done.size > 0) {
        await this.#ask([...done.keys()], done);
      }
    } catch (error) {
      this.soon(0, due);
      throw error;
    }
    return Math.max(0, Math.min(this.#askAllAt, ...this.#dueAt) - monotonicMs());
  }

  /** Answers how much was done in the segments that are to be asked about. */
  async #actAll(due: readonly number[]): Promise<Map<number, number>> {
    const left = [...due];
    const done = new Map<number, number>();
    const work = async (): Promise<void> => {
      for (let segment = left.shift(); segment !== undefined; segment = left.shift()) {
        this.#dueAt[segment] = Number.POSITIVE_INFINITY;
        const acted = await this.#options.act(segment);
        if (typeof acted === 'number') done.set(segment, acted);
        else if (acted.next_ms !== null) this.soon(acted.next_ms, [segment]);
      }
    };
    await Promise.all(Array.from({ length: Math.min(atOnce, left.length) }, work));
    return done;
  }

  async #ask(segments: readonly number[], done: ReadonlyMap<number, number>): Promise<void> {
    const asked = monotonicMs();
    for (const segment of segments) this.#dueAt[segment] = Number.POSITIVE_INFINITY;
    const next = await this.#options.ask(segments);
    // The answer is about some moment between question and answer.
    const then = (asked + monotonicMs()) / 2;
    for (const { segment, in_ms } of next) {
      const stuck = in_ms <= -othersMs && done.get(segment) === 0;
      this.soon(then + (stuck ? yieldMs : in_ms) - monotonicMs(), [segment]);
    }
  }
}
