// Circuit breakers in the book. Every move is guarded by the state and the time it was reached: of two servers that judge
// at once, one moves.
import { type Breaker, defaults, type SetBreaker } from '@punctual/contract';
import { segmentOf } from '../base/ids.ts';
import type { BreakerFacts } from '../rules/breaker.ts';
import type { Database, Queryable } from './database.ts';
import { changeFlow } from './flow.ts';
import { sql } from './sql.ts';

/** The author of gates that a breaker closed. */
export const breakerAuthor = 'breaker';

/** Counts are kept in slices of a window, so that old ones fall out of it. */
const slices = 12;

export interface BreakerRow extends BreakerFacts {
  type: string;
  changed_at: Date;
  probe_run_id: string | null;
  /** An operator has closed the gate of the type. */
  closed_by_hand: boolean;
  /** `changed_at` as the database writes it: the guard of the next move. */
  turn: string;
}

export async function readBreakers(db: Queryable): Promise<BreakerRow[]> {
  const rows = await db.query<Omit<BreakerRow, 'probe'>>(sql`
    select b.type, b.error_rate, b.min_attempts, b.window_ms, b.cool_down_ms, b.state, b.changed_at, b.changed_at::text as turn, b.probe_run_id,
           exists (
             select from punctual.gates g
             where g.kind = 'type' and g.name = b.type and g.state <> 'open' and g.author is distinct from ${breakerAuthor}
           ) as closed_by_hand,
           (extract(epoch from now() - b.changed_at) * 1000)::integer as since_ms,
           coalesce(c.succeeded, 0)::integer as succeeded, coalesce(c.failed, 0)::integer as failed
    from punctual.breakers b
    cross join lateral (
      select sum(c.succeeded) as succeeded, sum(c.failed) as failed
      from punctual.breaker_counts c
      where c.type = b.type and c.bucket > now() - b.window_ms * interval '1 millisecond'
    ) c
    order by b.type`);
  return Promise.all(rows.map(async (row) => ({ ...row, probe: await probeOf(db, row) })));
}

/** What became of the run that was let through: it may live on and wait for its next attempt. */
async function probeOf(
  db: Queryable,
  { probe_run_id, turn }: Omit<BreakerRow, 'probe'>,
): Promise<BreakerFacts['probe']> {
  if (probe_run_id === null) return null;
  const segment = segmentOf(probe_run_id);
  const rows = await db.query<{ probe: 'live' | 'succeeded' | 'failed' | 'gone' }>(sql`
    select case
             when exists (select from punctual.running where segment = ${segment}::smallint and run_id = ${probe_run_id}) then 'live'
             when exists (
               select from punctual.ended_runs
               where segment = ${segment}::smallint and run_id = ${probe_run_id} and status = 'SUCCESS' and ended_at >= ${turn}::timestamptz
             ) then 'succeeded'
             when exists (
               select from punctual.attempts
               where segment = ${segment}::smallint and run_id = ${probe_run_id} and outcome <> 'cancelled' and ended_at >= ${turn}::timestamptz
             ) then 'failed'
             else 'gone'
           end as probe`);
  return rows[0]?.probe ?? 'gone';
}

/** Adds what this server counted; answers nothing. Counts that no window reaches any more go. */
export async function addCounts(
  db: Queryable,
  counts: readonly { type: string; succeeded: number; failed: number }[],
): Promise<void> {
  await db.query(sql`
    with old as (
      delete from punctual.breaker_counts c
      where not exists (
        select from punctual.breakers b where b.type = c.type and c.bucket > now() - b.window_ms * 2 * interval '1 millisecond')
    )
    insert into punctual.breaker_counts as c (type, bucket, succeeded, failed)
    select b.type, date_bin((b.window_ms / ${slices}::integer + 1) * interval '1 millisecond', now(), 'epoch'::timestamptz) , n.succeeded, n.failed
    from unnest(
      ${counts.map((count) => count.type)}::text[], ${counts.map((count) => count.succeeded)}::integer[],
      ${counts.map((count) => count.failed)}::integer[]) as n (type, succeeded, failed)
    join punctual.breakers b using (type)
    order by b.type
    on conflict (type, bucket) do update
    set succeeded = c.succeeded + excluded.succeeded, failed = c.failed + excluded.failed`);
}

/** Trips or closes a breaker and moves the gate of its type; an operator's word is not overruled. False: somebody was first. */
export async function moveBreaker(
  db: Database,
  { type, turn }: BreakerRow,
  { to, note }: { to: 'open' | 'closed'; note: string },
): Promise<boolean> {
  let moved = false;
  await changeFlow(db, async (tx) => {
    const rows = await tx.query(sql`
      update punctual.breakers
      set state = ${to}, changed_at = now(), probe_run_id = null
      where type = ${type} and changed_at = ${turn}::timestamptz
      returning 1`);
    moved = rows.length > 0;
    if (!moved) return;
    if (to === 'closed') await tx.query(sql`delete from punctual.breaker_counts where type = ${type}`);
    await tx.query(sql`
      insert into punctual.gates as g (kind, name, state, note, author)
      values ('type', ${type}, ${to === 'open' ? 'hold' : 'open'}, ${note}, ${breakerAuthor})
      on conflict (kind, name) do update
      set state = excluded.state, note = excluded.note, author = excluded.author, changed_at = now()
      where g.state = 'open' or g.author = ${breakerAuthor}`);
  });
  return moved;
}

/** Takes the right to let one run through. False: somebody else has it. */
export async function beginProbe(db: Queryable, { type, turn }: BreakerRow): Promise<boolean> {
  const rows = await db.query(sql`
    update punctual.breakers
    set state = 'probing', changed_at = now(), probe_run_id = null
    where type = ${type} and changed_at = ${turn}::timestamptz
    returning 1`);
  return rows.length > 0;
}

/** Notes which run was let through. */
export async function noteProbe(db: Queryable, type: string, runId: string): Promise<void> {
  await db.query(sql`
    update punctual.breakers
    set probe_run_id = ${runId}
    where type = ${type} and state = 'probing'`);
}

export async function setBreaker(db: Database, type: string, breaker: SetBreaker): Promise<void> {
  const { error_rate, min_attempts, window_ms, cool_down_ms } = { ...defaults.breaker, ...breaker };
  await changeFlow(db, (tx) =>
    tx.query(sql`
      insert into punctual.breakers (type, error_rate, min_attempts, window_ms, cool_down_ms)
      values (${type}, ${error_rate}, ${min_attempts}, ${window_ms}, ${cool_down_ms})
      on conflict (type) do update
      set error_rate = excluded.error_rate, min_attempts = excluded.min_attempts, window_ms = excluded.window_ms,
          cool_down_ms = excluded.cool_down_ms`),
  );
}

export async function deleteBreaker(db: Database, type: string): Promise<boolean> {
  let found = false;
  await changeFlow(db, async (tx) => {
    found = (await tx.query(sql`delete from punctual.breakers where type = ${type} returning 1`)).length > 0;
    await tx.query(sql`
      update punctual.gates
      set state = 'open', changed_at = now()
      where kind = 'type' and name = ${type} and author = ${breakerAuthor}`);
  });
  return found;
}

/** An operator has opened the gate: the breaker begins anew. */
export async function resetBreaker(tx: Queryable, type: string): Promise<void> {
  await tx.query(sql`
    with reset as (
      update punctual.breakers
      set state = 'closed', changed_at = now(), probe_run_id = null
      where type = ${type}
      returning type
    )
    delete from punctual.breaker_counts c
    using reset
    where c.type = reset.type`);
}

export async function listBreakers(db: Queryable): Promise<Breaker[]> {
  return (await readBreakers(db)).map((row) => ({
    type: row.type,
    error_rate: row.error_rate,
    min_attempts: row.min_attempts,
    window_ms: row.window_ms,
    cool_down_ms: row.cool_down_ms,
    state: row.state,
    changed_at: row.changed_at.toISOString(),
    probe_run_id: row.probe_run_id,
    succeeded: row.succeeded,
    failed: row.failed,
  }));
}
