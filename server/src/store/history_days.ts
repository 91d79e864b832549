// Days of the history that are over as a whole: their partitions are dropped, which costs the same for ten rows and for ten
// million, leaves nothing to vacuum, and writes next to no log.
//
// Taking a partition away needs the parent alone for a moment, and whoever asks for that lets everybody behind it wait: every
// settle, every list. (`detach … concurrently` is refused where there is a partition for the rest, which we need.) So the
// wait is bounded by a twentieth of a second, and given up; and while the parent is held there is nothing left to find out:
// which rows stay was looked up before. Those are few, and move to the rest in the same transaction.
import type { RetentionPolicy } from '@punctual/contract';
import { segmentOf } from '../base/ids.ts';
import { spansOf } from '../rules/retention.ts';
import { int2s, uuids } from './arrays.ts';
import type { Database, Queryable } from './database.ts';
import type { HistoryTable } from './history.ts';
import { partitionsLock } from './partitions.ts';
import { listRetention, removing } from './retention.ts';
import { sql } from './sql.ts';

export interface HistoryDay<Table extends string = HistoryTable> {
  table: Table;
  /** The partition. */
  name: string;
  from: string;
  to: string;
  /** How many days lie between its end and today's begin. */
  age_days: number;
}

/** How long anybody may have to wait because we do. */
const lockTimeoutMs = 50;

/** The days of a table that are over, the oldest first. */
export async function listDays<Table extends string>(db: Queryable, table: Table): Promise<HistoryDay<Table>[]> {
  return db.query<HistoryDay<Table>>(sql`
    select ${table} as table, d.name, d.day::text || '+00' as from, (d.day + 1)::text || '+00' as to,
           (now() at time zone 'UTC')::date - (d.day + 1) as age_days
    from (
      select c.relname as name, to_date(right(c.relname, 8), 'YYYYMMDD') as day
      from pg_inherits i
      join pg_class c on c.oid = i.inhrelid
      where i.inhparent = to_regclass('punctual.' || ${table}) and c.relname ~ ('^' || ${table} || '_[0-9]{8}$')
    ) d
    where d.day < (now() at time zone 'UTC')::date
    order by d.day`);
}

/** Drops a day; the rows of the runs that stay move to the rest. `busy`: others use the table; nothing was done. */
export async function dropDay(
  db: Database,
  day: HistoryDay,
  staying: readonly string[],
  policy: RetentionPolicy,
): Promise<'dropped' | 'busy' | 'kept'> {
  return takeAway(
    db,
    day,
    (tx) => detachAndDrop(tx, day, staying),
    // A rule may have come since the day was looked at.
    async (tx) => {
      const spans = spansOf(policy, await listRetention(tx));
      const { longest } = day.table === 'log_chunks' ? spans.logs : spans.runs;
      return day.age_days < longest;
    },
  );
}

/** Takes a day away, unless it is kept, gone already, or in use. */
export async function takeAway(
  db: Database,
  day: HistoryDay<string>,
  take: (tx: Queryable) => Promise<void>,
  isKept: (tx: Queryable) => Promise<boolean> = async () => false,
): Promise<'dropped' | 'busy' | 'kept'> {
  try {
    return await removing(db, async (tx) => {
      await tx.query(sql`select set_config('lock_timeout', ${String(lockTimeoutMs)}, true)`);
      if (await isKept(tx)) return 'kept';
      const held = await tx.query<{ ours: boolean }>(sql`select pg_try_advisory_xact_lock(${partitionsLock}) as ours`);
      if (held[0]?.ours !== true) return 'busy';
      // Another server has dropped it.
      if (!(await listDays(tx, day.table)).some(({ name }) => name === day.name)) return 'kept';
      await take(tx);
      return 'dropped';
    });
  } catch (error) {
    if ((error as { code?: unknown }).code === lockNotAvailable) return 'busy';
    throw error;
  }
}
const lockNotAvailable = '55P03';

/** Names come from PostgreSQL's catalogs and match the pattern above, not from outside. */
async function detachAndDrop(tx: Queryable, { table, name }: HistoryDay, staying: readonly string[]): Promise<void> {
  const run = (text: string, values: unknown[] = []): Promise<object[]> => tx.query({ name: '', text, values });
  await run(`alter table punctual.${table} detach partition punctual.${name}`);
  if (staying.length > 0)
    await run(
      `insert into punctual.${table}
       select r.*
       from unnest($1::smallint[], $2::uuid[]) s (segment, run_id)
       join punctual.${name} r using (segment, run_id)`,
      [int2s(staying, segmentOf), uuids(staying, (id) => id)],
    );
  await run(`drop table punctual.${name}`);
}
