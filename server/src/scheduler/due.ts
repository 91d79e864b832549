// Runs whose time has come: handed to idle workers here, a moment before if they wait for it, or moved to `ready`.
import type { Database } from '../store/database.ts';
import { moveDue } from '../store/due.ts';

const maxMoved = 1000;

export interface DueParts {
  db: Database;
  /** Hands what is due in a segment, or will be within so many ms, to idle workers; answers how many runs. */
  handOver: (segment: number, aheadMs: number) => Promise<number>;
  /** Told where runs were moved to `ready`. */
  onMoved: (segment: number) => void;
}

export async function moveDueOnce(
  { db, handOver, onMoved }: DueParts,
  segment: number,
  aheadMs: number,
): Promise<number> {
  const taken = await handOver(segment, aheadMs);
  // What nobody took before its time is looked at again when that has come.
  if (taken > 0 || aheadMs > 0) return taken;
  const moved = await moveDue(db, segment, maxMoved);
  if (moved > 0) onMoved(segment);
  return moved;
}
