// Queues that are shared fairly between users, in the book: few, so every server keeps them all in memory.
import { defaults, type FairQueue, limits, PunctualError, type PutFairQueue } from '@punctual/contract';
import type { Queryable } from './database.ts';
import { sql } from './sql.ts';

interface FairRow {
  queue: string;
  share: number;
  weights: string;
  note: string | null;
  updated_at: Date;
}

export async function listFairQueues(db: Queryable): Promise<FairQueue[]> {
  const rows = await db.query<FairRow>(sql`
    select queue, share, weights, note, updated_at
    from punctual.fair_queues
    order by queue`);
  return rows.map(toFairQueue);
}

export async function putFairQueue(
  db: Queryable,
  queue: string,
  { share = defaults.fair_share, weights = {}, note = null }: PutFairQueue,
): Promise<FairQueue> {
  const rows = await db.query<FairRow>(sql`
    insert into punctual.fair_queues as f (queue, share, weights, note)
    select ${queue}, ${share}::integer, ${JSON.stringify(weights)}, ${note}
    where (select count(*) from punctual.fair_queues o where o.queue <> ${queue}) < ${limits.max_fair_queues}
    on conflict (queue) do update
    set share = excluded.share, weights = excluded.weights, note = excluded.note, updated_at = now()
    returning queue, share, weights, note, updated_at`);
  if (rows[0] === undefined) throw new PunctualError('too_many_fair_queues');
  return toFairQueue(rows[0]);
}

export async function deleteFairQueue(db: Queryable, queue: string): Promise<boolean> {
  const rows = await db.query(sql`
    delete from punctual.fair_queues
    where queue = ${queue}
    returning queue`);
  return rows.length > 0;
}

function toFairQueue({ weights, updated_at, ...row }: FairRow): FairQueue {
  return { ...row, weights: JSON.parse(weights) as Record<string, number>, updated_at: updated_at.toISOString() };
}
