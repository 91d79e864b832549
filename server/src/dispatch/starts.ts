// Counts the runs that this server has granted, by lane, and adds them to the book every few seconds. What is lost with a
// server are seconds of a count.
import type { Queryable } from '../store/database.ts';
import { addStarts } from '../store/lane_starts.ts';

export class Starts {
  readonly #db: Queryable;
  #counts = new Map<number, number>();
  /** All that were ever noted here. */
  total = 0;

  constructor(db: Queryable) {
    this.#db = db;
  }

  note(laneId: number): void {
    this.total++;
    this.#counts.set(laneId, (this.#counts.get(laneId) ?? 0) + 1);
  }

  async flush(): Promise<void> {
    if (this.#counts.size === 0) return;
    const counts = this.#counts;
    this.#counts = new Map();
    await addStarts(this.#db, counts);
  }
}
