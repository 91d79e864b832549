// Time becomes work. Remembers for each segment when its next run is due, and then hands what is due to idle workers here,
// or moves it to `ready`. New runs that wait are told to it (`soon`), so it asks the book only after something was due, and
// for everything once a poll interval: a run starts within milliseconds of its time.
import { monotonicMs } from '../base/clock.ts';
import type { Database } from '../store/database.ts';
import { moveDue, nextWakes } from '../store/due.ts';

const maxMoved = 1000;
/** Rows that another server is moving: it is left a moment. */
const yieldMs = 20;
/** More at once on one database only add latency. */
const atOnce = 2;

export interface DueClockOptions {
  db: Database;
  segments: readonly number[];
  /** Hands what is due in a segment to idle workers; answers how many runs. */
  handOver: (segment: number) => Promise<number>;
  pollIntervalMs: number;
  /** Told where runs were moved to `ready`. */
  onMoved: (segments: ReadonlySet<number>) => void;
}

export class DueClock {
  readonly #options: DueClockOptions;
  /** Monotonic ms at which each segment's next run is due, as far as is known. */
  readonly #dueAt: number[];
  #askAllAt = 0;

  constructor(options: DueClockOptions) {
    this.#options = options;
    this.#dueAt = options.segments.map(() => Number.POSITIVE_INFINITY);
  }

  /** Something waits that is due in so many ms; in one of these segments, or in any. */
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
    const moved = await this.#moveAll(due);
    if (now >= this.#askAllAt) {
      this.#askAllAt = now + pollIntervalMs;
      await this.#ask(segments, moved);
    } else if (due.length > 0) {
      await this.#ask(due, moved);
    }
    return Math.max(0, Math.min(this.#askAllAt, ...this.#dueAt) - monotonicMs());
  }

  async #moveAll(due: readonly number[]): Promise<Map<number, number>> {
    const left = [...due];
    const moved = new Map<number, number>();
    const work = async (): Promise<void> => {
      for (let segment = left.shift(); segment !== undefined; segment = left.shift())
        moved.set(segment, await this.#move(segment));
    };
    await Promise.all(Array.from({ length: Math.min(atOnce, left.length) }, work));
    return moved;
  }

  async #move(segment: number): Promise<number> {
    const { db, handOver, onMoved } = this.#options;
    const taken = await handOver(segment);
    if (taken > 0) return taken;
    const moved = await moveDue(db, segment, maxMoved);
    if (moved > 0) onMoved(new Set([segment]));
    return moved;
  }

  async #ask(segments: readonly number[], moved: ReadonlyMap<number, number>): Promise<void> {
    const asked = monotonicMs();
    for (const segment of segments) this.#dueAt[segment] = Number.POSITIVE_INFINITY;
    const wakes = await nextWakes(this.#options.db, segments);
    // The answer is about some moment between question and answer.
    const then = (asked + monotonicMs()) / 2;
    for (const { segment, in_ms } of wakes) {
      const stuck = in_ms <= 0 && moved.get(segment) === 0;
      this.soon(then + (stuck ? yieldMs : in_ms) - monotonicMs(), [segment]);
    }
  }
}
