// How an operation goes on: segment by segment, step by step, at any server.
//
// A step is one transaction that holds the row of its part: it looks at the next rows of the segment, moves those that
// fit, and writes where it is and what it did. A server that finds the part held leaves it to the other. A server that
// dies in a step leaves nothing of it behind, and a step whose answer was lost is not done again, because the place was
// committed with it. What a batch could not move without waiting is kept in `left_ids` and moved one by one, each in a
// step of its own, so that a step never waits while it holds more than one item.
import { PunctualError } from '@punctual/contract';
import type { PreparedOperation } from '../rules/operation.ts';
import { uuids } from './arrays.ts';
import { type Database, isUnavailable, type Queryable } from './database.ts';
import type { Lanes } from './lanes.ts';
import { findItems, type Search } from './operation_items.ts';
import { type Move, moveMany, moveOne } from './operation_moves.ts';
import type { CancelOrder } from './run_moves.ts';
import { epochMs, part as fragment, sql } from './sql.ts';

export interface OperationPart {
  segment: number;
  operation_id: string;
}

export interface OperationStep {
  /** How many were moved. */
  moved: number;
  /** How many wait to be moved one by one. */
  left: number;
  /** There is nothing more to do in this segment. */
  ended: boolean;
  orders: CancelOrder[];
  /** What was skipped because of a fault, for the log. */
  fault?: unknown;
}

/** Rows looked at in one step: a few dozen milliseconds of locks at most. */
const batchRows = 500;

export async function runningOperations(db: Queryable): Promise<string[]> {
  const rows = await db.query<{ operation_id: string }>(sql`
    select operation_id
    from punctual.operations
    where state = 'RUNNING'
    order by operation_id`);
  return rows.map((row) => row.operation_id);
}

export async function openParts(
  db: Queryable,
  operationIds: readonly string[],
  segments: readonly number[],
): Promise<OperationPart[]> {
  return db.query<OperationPart>(sql`
    select segment, operation_id
    from punctual.operation_parts
    where segment = any (${segments}::smallint[]) and operation_id = any (${uuids(operationIds, (id) => id)}::uuid[]) and not ended
    order by operation_id, segment`);
}

/** Operations all of whose parts have ended are done. */
export async function finishOperations(
  db: Queryable,
  operationIds: readonly string[],
  segments: readonly number[],
): Promise<void> {
  await db.query(sql`
    update punctual.operations o
    set state = 'DONE', ended_at = now()
    where o.operation_id = any (${uuids(operationIds, (id) => id)}::uuid[]) and o.state = 'RUNNING'
      and not exists (
        select
        from punctual.operation_parts p
        where p.segment = any (${segments}::smallint[]) and p.operation_id = o.operation_id and not p.ended)`);
}

/** One step; null when somebody else is at it, or it has ended. */
export async function stepOperation(db: Database, lanes: Lanes, part: OperationPart): Promise<OperationStep | null> {
  let single: string | undefined;
  try {
    return await db.transaction(async (tx) => {
      const locked = await lockPart(tx, part);
      if (locked === null) return null;
      single = locked.left_ids[0];
      return single === undefined ? stepMany(tx, lanes, locked) : stepOne(tx, lanes, locked, single);
    });
  } catch (error) {
    if (single === undefined || isUnavailable(error)) throw error;
    return passOver(db, part, single, error);
  }
}

interface LockedPart extends OperationPart, Move, Search {
  after_id: string;
  left_ids: string[];
  skipped: Record<string, number>;
}

async function lockPart(tx: Queryable, { segment, operation_id }: OperationPart): Promise<LockedPart | null> {
  const rows = await tx.query<Omit<LockedPart, 'filter' | 'started_ms'> & { filter: string; started_ms: string }>(sql`
    select p.segment, p.operation_id, p.after_id, p.left_ids::text[] as left_ids, p.skipped, o.action, o.filter, o.priority, o.queue,
           o.started_at::text as started_at, ${epochMs(fragment`o.started_at`)} as started_ms
    from punctual.operation_parts p
    join punctual.operations o using (operation_id)
    where p.segment = ${segment}::smallint and p.operation_id = ${operation_id} and not p.ended and o.state = 'RUNNING'
    for update of p skip locked`);
  const [row] = rows;
  if (row === undefined) return null;
  const filter = JSON.parse(row.filter) as PreparedOperation['filter'];
  return { ...row, filter, started_ms: Number(row.started_ms) };
}

async function stepMany(tx: Queryable, lanes: Lanes, part: LockedPart): Promise<OperationStep> {
  const look = await findItems(tx, part, { segment: part.segment, after: part.after_id, limit: batchRows });
  const { done, unchanged, orders } = await moveMany(tx, lanes, part, look.ids);
  const decided = new Set([...done, ...unchanged]);
  const left = look.ids.filter((id) => !decided.has(id));
  const ended = look.last === null && left.length === 0;
  await advance(tx, part, {
    looked_at: look.looked_at,
    matched: look.ids.length,
    done: done.length,
    skipped: unchanged.length === 0 ? {} : { unchanged: unchanged.length },
    after: look.last ?? endOfSegment,
    left,
    ended,
  });
  return { moved: done.length, left: left.length, ended, orders };
}

/** Beyond every id: what remains is only what was left. */
const endOfSegment = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

async function stepOne(tx: Queryable, lanes: Lanes, part: LockedPart, id: string): Promise<OperationStep> {
  const { skipped, orders } = await moveOne(tx, lanes, part, id);
  return { ...(await leave(tx, part, skipped)), orders };
}

/** What the single move refuses is counted under the code of the refusal; the transaction with its traces is gone. */
async function passOver(db: Database, part: OperationPart, id: string, error: unknown): Promise<OperationStep | null> {
  const refused = error instanceof PunctualError && error.code !== 'internal';
  return db.transaction(async (tx) => {
    const locked = await lockPart(tx, part);
    if (locked === null || locked.left_ids[0] !== id) return null;
    const step = await leave(tx, locked, refused ? error.code : 'internal');
    return refused ? step : { ...step, fault: error };
  });
}

/** The first of those that were left is decided. */
async function leave(tx: Queryable, part: LockedPart, skipped: string | null): Promise<OperationStep> {
  const left = part.left_ids.slice(1);
  const ended = left.length === 0 && part.after_id === endOfSegment;
  await advance(tx, part, {
    looked_at: 0,
    matched: 0,
    done: skipped === null ? 1 : 0,
    skipped: skipped === null ? {} : { [skipped]: 1 },
    after: part.after_id,
    left,
    ended,
  });
  return { moved: skipped === null ? 1 : 0, left: left.length, ended, orders: [] };
}

interface Advance {
  looked_at: number;
  matched: number;
  done: number;
  skipped: Record<string, number>;
  after: string;
  left: readonly string[];
  ended: boolean;
}

async function advance(tx: Queryable, part: LockedPart, to: Advance): Promise<void> {
  const skipped = { ...part.skipped };
  for (const [reason, n] of Object.entries(to.skipped)) skipped[reason] = (skipped[reason] ?? 0) + n;
  await tx.query(sql`
    update punctual.operation_parts
    set after_id = ${to.after}::uuid, left_ids = ${uuids(to.left, (id) => id)}::uuid[], looked_at = looked_at + ${to.looked_at}::integer,
        matched = matched + ${to.matched}::integer, done = done + ${to.done}::integer, skipped = ${JSON.stringify(skipped)}::jsonb,
        ended = ${to.ended}::boolean
    where segment = ${part.segment}::smallint and operation_id = ${part.operation_id}`);
}
