// Forgets unique keys whose job no longer holds them, so that keys that are used once do not pile up. A loop calls it on
// every server; it takes a bounded number at a time and never waits for whoever uses a key.
import { holds } from '../rules/unique.ts';
import type { Database } from '../store/database.ts';
import { forgetKeys, keysToLookAt, lookLater, readHolders } from '../store/uniques.ts';

const batch = 500;
/** A pass of one segment at most; what is left has time until the next. */
const maxBatches = 20;

/** Answers how many were forgotten. */
export async function sweepUniques(db: Database, segments: readonly number[]): Promise<number> {
  let forgotten = 0;
  for (const segment of segments)
    for (let i = 0; i < maxBatches; i++) {
      const keys = await keysToLookAt(db, segment, batch);
      const holders = await readHolders(
        db,
        keys.map(({ job_id }) => job_id),
      );
      const isHeld = ({ job_id }: { job_id: string }): boolean => {
        const holder = holders.get(job_id);
        return holder !== undefined && holds(holder);
      };
      forgotten += await forgetKeys(
        db,
        segment,
        keys.filter((key) => !isHeld(key)),
      );
      await lookLater(db, segment, keys.filter(isHeld));
      if (keys.length < batch) break;
    }
  return forgotten;
}
