// Backfills go on: each gets a step now and then, and soon after one of its runs ended here. Any number of servers may do
// it; store/backfill_moves.ts says why none of them makes a run too many.
import { segmentOf } from '../base/ids.ts';
import { activeBackfills, stepBackfill } from '../store/backfill_moves.ts';
import type { Database } from '../store/database.ts';
import type { Lanes } from '../store/lanes.ts';

export interface BackfillerParts {
  db: Database;
  lanes: Lanes;
  segments: readonly number[];
  /** Told where runs became ready. */
  onMade: (segment: number) => void;
}

/** Of each segment in one pass; the oldest go first. */
const perSegment = 50;
/** What another server is doing: it may have begun before the end of which we know. */
const yieldMs = 20;

export class Backfiller {
  readonly #parts: BackfillerParts;
  #jobs = new Set<string>();

  constructor(parts: BackfillerParts) {
    this.#parts = parts;
  }

  /** Has one of these jobs a backfill that goes on? */
  concerns(jobIds: readonly string[]): boolean {
    return this.#jobs.size > 0 && jobIds.some((jobId) => this.#jobs.has(jobId));
  }

  /** One step of each; answers in how many ms to be called again, if sooner than usual. */
  async pass(): Promise<number | void> {
    const { db, lanes, segments, onMade } = this.#parts;
    const active = await activeBackfills(db, segments, perSegment);
    this.#jobs = new Set(active.map((backfill) => backfill.job_id));
    let left = false;
    for (const { backfill_id } of active) {
      const step = await stepBackfill(db, lanes, backfill_id);
      if (step === null) left = true;
      else if (step.make > 0) onMade(segmentOf(backfill_id));
    }
    return left ? yieldMs : undefined;
  }
}
