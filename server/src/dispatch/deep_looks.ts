// Which segments a group of workers is to look through from their start, also below the low-water mark (low_water.ts), for what
// committed late. Such a look walks over all entries that vacuum could not remove yet, and while a snapshot is held it takes ever
// longer. So long ones are followed by a rest: looking never is the work.
import { monotonicMs } from '../base/clock.ts';

const restFactor = 200;
const maxRestMs = 30_000;
/** A look that brings more than that took long because of what it brought. */
const fewRuns = 50;

export class DeepLooks {
  readonly #wanted: Set<number>;
  /** Segments that were looked through: how long that took, and before when it is not done again. */
  readonly #last = new Map<number, { ms: number; restUntil: number }>();

  constructor(segments: Iterable<number>) {
    this.#wanted = new Set(segments);
  }

  want(segment: number): void {
    if (monotonicMs() >= (this.#last.get(segment)?.restUntil ?? 0)) this.#wanted.add(segment);
  }

  isWanted(segment: number): boolean {
    return this.#wanted.has(segment);
  }

  /** A look that took long while the one before did not had to wait for something: no rest follows. */
  looked(segment: number, begun: number, runs: number): void {
    this.#wanted.delete(segment);
    const now = monotonicMs();
    const ms = runs > fewRuns ? 0 : now - begun;
    const before = this.#last.get(segment)?.ms ?? 0;
    this.#last.set(segment, { ms, restUntil: now + Math.min(maxRestMs, Math.min(ms, before) * restFactor) });
  }
}
