// The safety net under the end of runs: removes checkpoints whose run has ended and that nobody has removed with it, a page
// at a time. Called by its loop on every server; two at once only look twice.

import { sweepCheckpoints } from '../store/checkpoints.ts';
import type { Queryable } from '../store/database.ts';

const pageRows = 1000;
const lowestId = '00000000-0000-0000-0000-000000000000';

/** Answers how many it removed. */
export async function sweepOnce(db: Queryable, segments: readonly number[]): Promise<number> {
  let removed = 0;
  for (const segment of segments) {
    let after: string | null = lowestId;
    while (after !== null) {
      const page = await sweepCheckpoints(db, segment, after, pageRows);
      removed += page.removed;
      after = page.last;
    }
  }
  return removed;
}
