// Records that nothing else refers to and that are only of use for a time: idempotency keys, operations that have ended,
// sessions of workers that are gone. The tables are walked in the order of their keys, since an index by time would be paid
// for by every submit.
import type { RetentionPolicy } from '@punctual/contract';
import { uuids } from './arrays.ts';
import type { Database, Queryable } from './database.ts';
import { keptFrom, removing } from './retention.ts';
import { type Fragment, part, sql } from './sql.ts';

const pageRows = 1000;
/** Nobody asks for a session after an hour; a week is for those who look into what happened. */
const sessionDays = 7;

export interface KeyPlace {
  segment: number;
  user_id: string;
  key: string;
}

const over = (at: Fragment, days: number): Fragment =>
  part`coalesce(${at} < ${keptFrom(part`nullif(${days}::integer, 0)`)}, false)`;

/** Idempotency keys of a page; who submits with one of them at the same time waits, and is then the first. */
export async function pruneSubmissions(
  db: Database,
  { segment, user_id, key }: KeyPlace,
  { policy, foreseen }: { policy: RetentionPolicy; foreseen: boolean },
): Promise<{ removed: number; next: KeyPlace | null }> {
  const work = (tx: Queryable) =>
    tx.query<{ removed: number; looked_at: number; user_id: string | null; key: string | null }>(sql`
      with page as materialized (
        select s.user_id, s.key, ${over(part`s.created_at`, policy.submissions_days)} as over,
               row_number() over (order by s.user_id, s.key) as place
        from punctual.submissions s
        where s.segment = ${segment}::smallint and (s.user_id, s.key) > (${user_id}, ${key})
        order by s.user_id, s.key
        limit ${pageRows}::integer
      ),
      removed as (
        ${
          foreseen
            ? part`select 1 from page where over`
            : part`
        delete from punctual.submissions s
        using page p
        where s.segment = ${segment}::smallint and s.user_id = p.user_id and s.key = p.key and p.over
          and ${over(part`s.created_at`, policy.submissions_days)}
        returning 1`
        }
      )
      select (select count(*) from removed)::integer as removed, p.place::integer as looked_at, p.user_id, p.key
      from page p
      order by p.place desc
      limit 1`);
  const [row] = await (foreseen ? work(db) : removing(db, work));
  const more = row !== undefined && row.looked_at === pageRows;
  return {
    removed: row?.removed ?? 0,
    next: more ? { segment, user_id: row.user_id ?? '', key: row.key ?? '' } : null,
  };
}

/** Operations that have ended, with their parts; they are few. */
export async function pruneOperations(
  db: Database,
  segments: readonly number[],
  { policy, foreseen }: { policy: RetentionPolicy; foreseen: boolean },
): Promise<{ removed: number; more: boolean }> {
  const find = (tx: Queryable, limit: Fragment) =>
    tx.query<{ operation_id: string }>(sql`
      select operation_id
      from punctual.operations
      where state <> 'RUNNING' and ${over(part`ended_at`, policy.operations_days)}
      order by operation_id
      ${limit}`);
  if (foreseen) return { removed: (await find(db, part``)).length, more: false };
  return removing(db, async (tx) => {
    const found = await find(tx, part`limit ${pageRows}::integer`);
    const ids = part`${uuids(found, (row) => row.operation_id)}::uuid[]`;
    for (const segment of segments)
      await tx.query(sql`
        delete from punctual.operation_parts
        where segment = ${segment}::smallint and operation_id = any (${ids})`);
    const gone = await tx.query(sql`
      delete from punctual.operations
      where operation_id = any (${ids})
      returning operation_id`);
    return { removed: gone.length, more: found.length === pageRows };
  });
}

/** Sessions of workers that ended long ago. */
export async function pruneSessions(
  db: Database,
  after: string,
  { foreseen }: { foreseen: boolean },
): Promise<{ removed: number; next: string | null }> {
  const rows = await db.query<{ removed: number; looked_at: number; last: string | null }>(sql`
    with page as materialized (
      select session_id, ${over(part`ended_at`, sessionDays)} as over
      from punctual.workers
      where session_id > ${after}
      order by session_id
      limit ${pageRows}::integer
    ),
    removed as (
      ${foreseen ? part`select 1 from page where over` : part`delete from punctual.workers w using page p where w.session_id = p.session_id and p.over returning 1`}
    )
    select (select count(*) from removed)::integer as removed, count(*)::integer as looked_at, max(session_id::text) as last
    from page`);
  const { removed = 0, looked_at = 0, last = null } = rows[0] ?? {};
  return { removed, next: looked_at === pageRows ? last : null };
}
