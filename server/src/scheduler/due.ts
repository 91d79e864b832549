// Moves runs whose time has come to `ready`. A pass looks up each segment's next wake, moves what is due, and says in how
// many ms the next one is: the loop's timer is then set to it, so a run starts within milliseconds of its time.
import type { Database } from '../store/database.ts';
import { moveDue, nextWakes } from '../store/due.ts';

const maxMoved = 1000;

export interface DuePass {
  segments: Set<number>;
  /** Milliseconds until the next run is due; null when nothing waits. */
  nextMs: number | null;
}

export async function moveDueOnce(db: Database, segments: readonly number[]): Promise<DuePass> {
  const wakes = await nextWakes(db, segments);
  const moved = new Set<number>();
  let nextMs: number | null = null;
  for (const { segment, in_ms } of wakes) {
    if (in_ms > 0) {
      nextMs = Math.min(nextMs ?? Number.POSITIVE_INFINITY, in_ms);
      continue;
    }
    const count = await moveDue(db, segment, maxMoved);
    if (count > 0) moved.add(segment);
    // There may be more, or the next one of this segment: look again at once.
    nextMs = 0;
  }
  // Locked rows are being moved by another server: leave it a moment.
  if (nextMs === 0 && moved.size === 0) nextMs = 20;
  return { segments: moved, nextMs };
}
