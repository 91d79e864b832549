// How an operation moves its items. `moveMany` takes a batch of one segment and waits for nobody: rows that somebody else
// holds are passed by, so that a batch can never wait in a circle with a settle, a claim or another batch. What it could
// not move it leaves to `moveOne`, which is the very move of the single call, with its locks, its looks and its refusals.
import { segmentOf } from '../base/ids.ts';
import { actsOn, type PreparedOperation } from '../rules/operation.ts';
import { type Queryable, within } from './database.ts';
import { redriveOne, redriveThese } from './dead_letters.ts';
import { cancelJob, updateJob } from './job_moves.ts';
import type { Lanes } from './lanes.ts';
import { cancelMany, changeLanes, hurryMany, type Moved } from './operation_batches.ts';
import { type CancelOrder, cancelRun, hurryRun } from './run_moves.ts';
import { sql } from './sql.ts';

export type Move = Pick<PreparedOperation, 'action' | 'filter' | 'priority' | 'queue'>;

/** Moves what can be moved without waiting; the ids that the answer does not name are left. */
export async function moveMany(tx: Queryable, lanes: Lanes, move: Move, ids: readonly string[]): Promise<Moved> {
  const [first] = ids;
  const nothing = { unchanged: [], orders: [] };
  if (first === undefined) return { done: [], ...nothing };
  const segment = segmentOf(first);
  switch (move.action) {
    case 'cancel':
      return cancelMany(tx, { segment, ids, what: actsOn(move.action, move.filter) });
    case 'redrive':
      return { done: await redriveThese(tx, segment, ids), ...nothing };
    case 'retry': {
      const hurried = await hurryMany(tx, segment, ids);
      return { done: [...hurried, ...(await redriveThese(tx, segment, ids))], ...nothing };
    }
    default:
      return changeLanes(tx, lanes, { segment, ids, priority: move.priority, queue: move.queue });
  }
}

export interface MovedOne {
  /** Why it was not moved: an error code as of the single call; null when it was. */
  skipped: string | null;
  orders: CancelOrder[];
}

/** One item by the move of the single call; what that refuses is thrown. */
export async function moveOne(tx: Queryable, lanes: Lanes, move: Move, id: string): Promise<MovedOne> {
  const db = within(tx);
  switch (move.action) {
    case 'cancel': {
      if (actsOn(move.action, move.filter) === 'jobs')
        return { skipped: null, orders: (await cancelJob(db, id)).orders };
      const answer = await cancelRun(db, id);
      return answer === 'ended'
        ? { skipped: 'run_ended', orders: [] }
        : { skipped: null, orders: answer === 'cancelled' ? [] : [answer] };
    }
    case 'redrive':
      return { skipped: await redriveFresh(tx, id), orders: [] };
    case 'retry':
      return {
        skipped: (await isLetter(tx, id)) ? await redriveFresh(tx, id) : refusals[await hurryRun(db, id)],
        orders: [],
      };
    default: {
      const changes = move.priority === null ? { queue: move.queue ?? '' } : { priority: move.priority };
      await updateJob(db, lanes, { jobId: id, update: { changes, schedule: null, recurring: null }, ifVersion: null });
      return { skipped: null, orders: [] };
    }
  }
}

const refusals = {
  due: null,
  running: 'job_running',
  ended: 'run_ended',
  paused: 'job_paused',
  blocked: 'run_blocked',
} as const;

/** Who redrove it meanwhile has done it, not we. */
async function redriveFresh(tx: Queryable, runId: string): Promise<string | null> {
  const letters = await tx.query<{ redriven: boolean }>(sql`
    select redriven_at is not null as redriven
    from punctual.dead_letters
    where segment = ${segmentOf(runId)}::smallint and run_id = ${runId}
    for update`);
  if (letters[0]?.redriven === true) return 'unchanged';
  await redriveOne(within(tx), runId);
  return null;
}

async function isLetter(tx: Queryable, runId: string): Promise<boolean> {
  const rows = await tx.query(sql`
    select
    from punctual.dead_letters
    where segment = ${segmentOf(runId)}::smallint and run_id = ${runId}`);
  return rows.length > 0;
}
