// `dead-letters redrive --all`: counts what fits, then redrives it call by call. It redrives no more than there were at
// the beginning: runs that fail again at once are dead letters again, and would keep it going for ever.
import { type DeadLetterQuery, limits, type RedriveMany } from '@punctual/contract';
import type { ClientSession } from './session.ts';

/** Redriven in one call, so that progress is seen and no answer is waited for too long. */
const max_per_call = 1_000;

export type Filter = Omit<RedriveMany, 'limit'>;
type Letters = Pick<ClientSession['client']['deadLetters'], 'all' | 'list' | 'redriveMany'>;

/** How many fit, counted up to `max`. */
export async function countLetters(letters: Pick<Letters, 'all'>, filter: Filter, max: number): Promise<number> {
  let count = 0;
  const query: DeadLetterQuery = { ...filter, limit: limits.max_page };
  for await (const _ of letters.all(query)) {
    count += 1;
    if (count >= max) break;
  }
  return count;
}

export interface Redriven {
  redriven: number;
  /** Nothing that fits is left. */
  done: boolean;
}

export async function redriveAll(
  letters: Pick<Letters, 'list' | 'redriveMany'>,
  filter: Filter,
  { total, progress }: { total: number; progress: (redriven: number) => void },
): Promise<Redriven> {
  let redriven = 0;
  let done = false;
  while (!done && redriven < total) {
    const answer = await letters.redriveMany({ ...filter, limit: Math.min(max_per_call, total - redriven) });
    redriven += answer.redriven;
    done = answer.done;
    progress(redriven);
  }
  // A call that is full cannot know whether more is left, and letters whose job cannot run now are passed over.
  const { dead_letters: left, next_cursor: more } = await letters.list({ ...filter, limit: 1 });
  return { redriven, done: left.length === 0 && more === null };
}
