// Runs whose time has come: handed to idle workers here, or moved to `ready`.
import type { Database } from '../store/database.ts';
import { moveDue } from '../store/due.ts';

const maxMoved = 1000;

export interface DueParts {
  db: Database;
  /** Hands what is due in a segment to idle workers; answers how many runs. */
  handOver: (segment: number) => Promise<number>;
  /** Told where runs were moved to `ready`. */
  onMoved: (segment: number) => void;
}

export async function moveDueOnce({ db, handOver, onMoved }: DueParts, segment: number): Promise<number> {
  const taken = await handOver(segment);
  if (taken > 0) return taken;
  const moved = await moveDue(db, segment, maxMoved);
  if (moved > 0) onMoved(segment);
  return moved;
}
