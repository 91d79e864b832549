// Low-water marks: per segment and lane the number up to which this server need not look for ready runs, because it took
// what was there. Claims start their scan at it, so the index entries of runs already taken are not visited again. Without
// it every claim walks over all entries that vacuum could not remove yet, and a snapshot held for minutes makes a queue
// on PostgreSQL collapse.
//
// Numbers are handed out before they commit: a smaller one may become visible after a larger one was taken. So a mark
// takes effect only some time after it was reached, and at every poll one claim looks from the start, which finds the rest.
import { monotonicMs } from '../base/clock.ts';

/** Statements that insert ready runs commit well within this time. */
const settleMs = 100;

interface Mark {
  /** In effect: reached at least `settleMs` ago. */
  effective: number;
  /** Reached meanwhile, in effect once `settleMs` have passed since `at`. */
  reached: number;
  next: number;
  at: number;
}

export class LowWater {
  readonly #marks = new Map<number, Mark>();

  of(segment: number, laneId: number): number {
    const mark = this.#marks.get(laneId * 4096 + segment);
    if (mark === undefined) return 0;
    turn(mark);
    return mark.effective;
  }

  taken(segment: number, laneId: number, number: number): void {
    const key = laneId * 4096 + segment;
    const mark = this.#marks.get(key);
    if (mark === undefined) {
      this.#marks.set(key, { effective: 0, reached: 0, next: number, at: monotonicMs() });
      return;
    }
    turn(mark);
    if (number > mark.next) mark.next = number;
  }

  /** The numbers may be given once more. */
  clear(): void {
    this.#marks.clear();
  }

  /** A run went back to its place. */
  putBack(segment: number, laneId: number, number: number): void {
    const mark = this.#marks.get(laneId * 4096 + segment);
    if (mark === undefined) return;
    mark.effective = Math.min(mark.effective, number - 1);
    mark.reached = Math.min(mark.reached, number - 1);
    mark.next = Math.min(mark.next, number - 1);
  }
}

function turn(mark: Mark): void {
  const now = monotonicMs();
  if (now - mark.at < settleMs) return;
  mark.effective = mark.reached;
  mark.reached = mark.next;
  mark.at = now;
}
