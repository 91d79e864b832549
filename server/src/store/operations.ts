// Operations in the book: counted for a dry run, created, read, cancelled. How they go on is in operation_steps.ts.
import { limits, type Operation, type OperationPlan, PunctualError } from '@punctual/contract';
import { newId } from '../base/ids.ts';
import { actsOn, type PreparedOperation } from '../rules/operation.ts';
import type { Database, Queryable } from './database.ts';
import { findItems } from './operation_items.ts';
import { epochMs, part, sql } from './sql.ts';

/** Rows of a segment in one look of a dry run. */
const previewRows = 5_000;
const maxSample = 10;
const lowestId = '00000000-0000-0000-0000-000000000000';

/** What it would act on now. */
export async function previewOperation(
  db: Queryable,
  wanted: PreparedOperation,
  segments: readonly number[],
): Promise<OperationPlan> {
  const [now] = await db.query<{ started_at: string; started_ms: string }>(sql`
    select now()::text as started_at, ${epochMs(part`now()`)} as started_ms`);
  const search = { ...wanted, started_at: now?.started_at ?? '', started_ms: Number(now?.started_ms) };
  const sample: string[] = [];
  let count = 0;
  let left: number = limits.max_operation_preview;
  let exact = true;
  for (const segment of segments) {
    for (let after: string | null = lowestId; after !== null; ) {
      if (left <= 0) {
        exact = false;
        break;
      }
      const look = await findItems(db, search, { segment, after, limit: Math.min(previewRows, left) });
      left -= look.looked_at;
      count += look.ids.length;
      sample.push(...look.ids.slice(0, maxSample - sample.length));
      after = look.last;
    }
  }
  return { operation_id: null, acts_on: actsOn(wanted.action, wanted.filter), count, exact, sample };
}

export interface OperationKey {
  key: string;
  body_hash: string;
}

/** Begins it, with a part for each segment; or finds what was begun with the same key. */
export async function createOperation(
  db: Database,
  { action, filter, priority, queue, user_id, note }: PreparedOperation,
  { key, segments }: { key: OperationKey | null; segments: readonly number[] },
): Promise<{ operation_id: string; replayed: boolean }> {
  return db.transaction(async (tx) => {
    const earlier = key === null ? null : await findByKey(tx, key);
    if (earlier !== null) return earlier;
    const [running] = await tx.query<{ n: number }>(sql`
      select count(*)::integer as n from punctual.operations where state = 'RUNNING'`);
    if ((running?.n ?? 0) >= limits.max_operations)
      throw new PunctualError('too_many_operations', { retryAfterSeconds: 10 });
    const operation_id = newId('operation', 0);
    const created = await tx.query(sql`
      insert into punctual.operations (operation_id, action, filter, priority, queue, user_id, note, key, body_hash)
      values (${operation_id}::uuid, ${action}, ${JSON.stringify(filter)}, ${priority}::smallint, ${queue}, ${user_id}, ${note},
              ${key?.key ?? null}, ${key?.body_hash ?? null})
      on conflict (key) do nothing
      returning operation_id`);
    if (created.length === 0) return (await findByKey(tx, key)) ?? fail();
    await tx.query(sql`
      insert into punctual.operation_parts (segment, operation_id)
      select s.segment, ${operation_id}::uuid
      from unnest(${segments}::smallint[]) s (segment)`);
    return { operation_id, replayed: false };
  });
}

async function findByKey(
  tx: Queryable,
  asked: OperationKey | null,
): Promise<{ operation_id: string; replayed: true } | null> {
  const rows = await tx.query<{ operation_id: string; body_hash: string }>(sql`
    select operation_id, body_hash
    from punctual.operations
    where key = ${asked?.key ?? null}`);
  const [earlier] = rows;
  if (earlier === undefined) return null;
  if (earlier.body_hash !== asked?.body_hash) throw new PunctualError('idempotency_key_reused');
  return { operation_id: earlier.operation_id, replayed: true };
}

function fail(): never {
  throw new PunctualError('unavailable', { retryAfterSeconds: 1 });
}

interface OperationRow {
  operation_id: string;
  action: Operation['action'];
  filter: string;
  priority: number | null;
  queue: string | null;
  user_id: string | null;
  note: string | null;
  state: Operation['state'];
  started_at: Date;
  ended_at: Date | null;
}

const columns = part`operation_id, action, filter, priority, queue, user_id, note, state, started_at, ended_at`;

export async function getOperation(
  db: Queryable,
  operationId: string,
  segments: readonly number[],
): Promise<Operation | null> {
  const rows = await db.query<OperationRow>(sql`
    select ${columns}
    from punctual.operations
    where operation_id = ${operationId}`);
  return (await withProgress(db, rows, segments))[0] ?? null;
}

/** Newest first, below an id. */
export async function listOperations(
  db: Queryable,
  {
    state,
    user_id,
    below,
    limit,
    segments,
  }: { state?: Operation['state']; user_id?: string; below: string; limit: number; segments: readonly number[] },
): Promise<Operation[]> {
  const rows = await db.query<OperationRow>(sql`
    select ${columns}
    from punctual.operations
    where operation_id < ${below} ${state === undefined ? part`` : part`and state = ${state}`}
      ${user_id === undefined ? part`` : part`and user_id = ${user_id}`}
    order by operation_id desc
    limit ${limit}::integer`);
  return withProgress(db, rows, segments);
}

/**
 * It goes no further. The state is committed first, so that no step begins any more; a part is then held by a step for
 * as long as that takes, and closing it waits for that. So when this is answered nothing more is done.
 */
export async function cancelOperation(db: Queryable, operationId: string, segments: readonly number[]): Promise<void> {
  await db.query(sql`
    update punctual.operations
    set state = 'CANCELLED', ended_at = now()
    where operation_id = ${operationId} and state = 'RUNNING'`);
  for (const segment of segments) {
    await db.query(sql`
      update punctual.operation_parts p
      set ended = true
      from punctual.operations o
      where p.segment = ${segment}::smallint and p.operation_id = ${operationId} and not p.ended
        and o.operation_id = ${operationId} and o.state = 'CANCELLED'`);
  }
}

interface Progress {
  looked_at: number;
  matched: number;
  done: number;
  reasons: Map<string, number>;
}

async function withProgress(
  db: Queryable,
  rows: readonly OperationRow[],
  segments: readonly number[],
): Promise<Operation[]> {
  if (rows.length === 0) return [];
  const parts = await db.query<{
    operation_id: string;
    looked_at: number;
    matched: number;
    done: number;
    skipped: Record<string, number>;
  }>(sql`
    select operation_id, looked_at, matched, done, skipped
    from punctual.operation_parts
    where segment = any (${segments}::smallint[]) and operation_id = any (${rows.map((row) => row.operation_id)}::uuid[])`);
  const sums = new Map<string, Progress>();
  for (const { operation_id, skipped, ...one } of parts) {
    const sum = sums.get(operation_id) ?? { looked_at: 0, matched: 0, done: 0, reasons: new Map<string, number>() };
    sums.set(operation_id, sum);
    for (const count of ['looked_at', 'matched', 'done'] as const) sum[count] += one[count];
    for (const [reason, n] of Object.entries(skipped)) sum.reasons.set(reason, (sum.reasons.get(reason) ?? 0) + n);
  }
  return rows.map((row) => toOperation(row, sums.get(row.operation_id)));
}

function toOperation({ filter, started_at, ended_at, ...row }: OperationRow, sum: Progress | undefined): Operation {
  const parsed = JSON.parse(filter) as Operation['filter'];
  const skipped_reasons = [...(sum?.reasons ?? [])].map(([reason, count]) => ({ reason, count }));
  return {
    ...row,
    acts_on: actsOn(row.action, parsed),
    filter: parsed,
    looked_at: sum?.looked_at ?? 0,
    matched: sum?.matched ?? 0,
    done: sum?.done ?? 0,
    skipped: skipped_reasons.reduce((total, { count }) => total + count, 0),
    skipped_reasons: skipped_reasons.toSorted((a, b) => b.count - a.count || (a.reason < b.reason ? -1 : 1)),
    started_at: started_at.toISOString(),
    ended_at: ended_at?.toISOString() ?? null,
  };
}
