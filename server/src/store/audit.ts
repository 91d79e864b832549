// The audit log in the book: written with the change it tells of where the change is one transaction, read in pages,
// removed by retention. Ids sort by time.
import { type AuditEntry, type AuditNoun, type AuditQuery, limits } from '@punctual/contract';
import { highestId, lowestIdAt, newId } from '../base/ids.ts';
import type { Queryable } from './database.ts';
import { type Fragment, join, part, sql } from './sql.ts';

export interface NewAudit {
  key_id: string | null;
  key_name: string;
  user_id: string | null;
  address: string | null;
  operation: string;
  noun: AuditNoun;
  id: string;
  /** JSON. */
  before: string | null;
  after: string | null;
}

export async function insertAudit(db: Queryable, entry: NewAudit): Promise<void> {
  await db.query(sql`
    insert into punctual.audit (audit_id, key_id, key_name, user_id, address, operation, noun, id, before, after)
    values (${newId('audit', 0)}::uuid, ${entry.key_id}::uuid, ${entry.key_name}, ${entry.user_id}, ${entry.address},
            ${entry.operation}, ${entry.noun}, ${entry.id}, ${entry.before}, ${entry.after})`);
}

/** Changes of one thing take turns, so that what one finds before is what the other left. */
export async function lockAudited(tx: Queryable, noun: AuditNoun, id: string): Promise<void> {
  await tx.query(sql`select pg_advisory_xact_lock(hashtextextended(${`audit ${noun} ${id}`}, 7600))`);
}

type Filter = Omit<AuditQuery, 'limit' | 'cursor'>;

interface AuditRow extends Omit<AuditEntry, 'at' | 'before' | 'after'> {
  at: Date;
  before: string | null;
  after: string | null;
  lowest: string | null;
  looked_at: number;
}

/** Entries that a page looks at when its filter has no index. */
const scanRows = 2_000;

/** Newest first, below an id. Filters without an index look at a bounded number of rows: a page may be short. */
export async function listAudit(
  db: Queryable,
  filter: Filter,
  page: { below: string | null; limit: number },
): Promise<{ entries: AuditEntry[]; below: string | null }> {
  const top = filter.to === undefined ? highestId : lowestIdAt(Date.parse(filter.to));
  const below = page.below !== null && page.below < top ? page.below : top;
  const from = lowestIdAt(filter.from === undefined ? 0 : Date.parse(filter.from));
  const looking = plain(filter).length === 0 ? page.limit + 1 : scanRows;
  const rows = await db.query<AuditRow & { audit_id: string | null }>(sql`
    with looked_at as materialized (
      select *
      from punctual.audit a
      where a.audit_id < ${below} and a.audit_id >= ${from} and ${join(indexed(filter), ' and ', part`true`)}
      order by a.audit_id desc
      limit ${looking}::integer
    )
    select s.lowest, s.looked_at, f.*
    from (select min(audit_id::text) as lowest, count(*)::integer as looked_at from looked_at) s
    left join (
      select *
      from looked_at a
      where ${join(plain(filter), ' and ', part`true`)}
      order by a.audit_id desc
      limit ${page.limit + 1}::integer
    ) f on true
    order by f.audit_id desc`);
  const found = rows.filter((row) => row.audit_id !== null);
  const entries = found.slice(0, page.limit).map(toEntry);
  if (found.length > page.limit) return { entries, below: entries.at(-1)?.audit_id ?? null };
  const { looked_at = 0, lowest = null } = rows[0] ?? {};
  return { entries, below: looked_at >= looking ? lowest : null };
}

/** What an index finds in the order of the list. */
function indexed({ noun, id, key_id }: Filter): Fragment[] {
  return [
    ...(noun === undefined || id === undefined ? [] : [part`a.noun = ${noun} and a.id = ${id}`]),
    ...(key_id === undefined ? [] : [part`a.key_id = ${key_id}::uuid`]),
  ];
}

function plain({ noun, id, user_id, operation }: Filter): Fragment[] {
  return [
    ...(noun === undefined || id !== undefined ? [] : [part`a.noun = ${noun}`]),
    ...(noun !== undefined || id === undefined ? [] : [part`a.id = ${id}`]),
    ...(user_id === undefined ? [] : [part`a.user_id = ${user_id}`]),
    ...(operation === undefined ? [] : [part`a.operation = ${operation}`]),
  ];
}

function toEntry({ lowest: _lowest, looked_at: _lookedAt, at, before, after, ...row }: AuditRow): AuditEntry {
  const parsed = (text: string | null): unknown => (text === null ? null : JSON.parse(text));
  return { ...row, at: at.toISOString(), before: parsed(before), after: parsed(after) };
}

const pageRows = 1000;

/** Removes entries below an id, some at a time; or counts them. */
export async function pruneAudit(
  db: Queryable,
  below: string,
  { foreseen }: { foreseen: boolean },
): Promise<{ removed: number; more: boolean }> {
  const old = part`select audit_id from punctual.audit where audit_id < ${below} order by audit_id`;
  const rows = await db.query<{ n: number }>(
    foreseen
      ? sql`select count(*)::integer as n from (${old} limit ${limits.max_scan}::integer) o`
      : sql`
        with gone as (delete from punctual.audit where audit_id in (${old} limit ${pageRows}::integer) returning 1)
        select count(*)::integer as n from gone`,
  );
  const removed = rows[0]?.n ?? 0;
  return { removed, more: !foreseen && removed === pageRows };
}
