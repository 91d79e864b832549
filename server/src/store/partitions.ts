// The append-only tables are partitioned by day. Days are made ahead; rows of a day that has none go to the `_rest`
// partition, so nothing is ever refused for want of one.
import type { Database, Queryable } from './database.ts';
import { sql } from './sql.ts';

const partitioned = ['ended_runs', 'attempts', 'log_chunks', 'log_filters'] as const;
const daysAhead = 3;
/** Held by whoever makes or drops one. */
export const partitionsLock = 7600_0002;

interface Partition {
  name: string;
  parent: string;
  from: string;
  to: string;
}

/** Those of today and the days ahead that are not there. */
export async function missingPartitions(db: Queryable): Promise<Partition[]> {
  return await db.query<Partition>(sql`
    select p.parent || to_char(d.day, '_YYYYMMDD') as name, p.parent, d.day::date::text as from, (d.day::date + 1)::text as to
    from unnest(${partitioned}::text[]) p (parent)
    cross join generate_series(date_trunc('day', now()), now() + ${daysAhead}::integer * interval '1 day', interval '1 day') d (day)
    where to_regclass('punctual.' || p.parent || to_char(d.day, '_YYYYMMDD')) is null`);
}

/** Makes the partitions of today and the days ahead; answers those it made. */
export async function makePartitions(db: Database): Promise<string[]> {
  const missing = await missingPartitions(db);
  if (missing.length === 0) return [];
  return db.transaction(async (tx) => {
    await tx.query(sql`select pg_advisory_xact_lock(${partitionsLock})`);
    const made: string[] = [];
    for (const partition of missing) {
      if (await unusable(tx, partition.name, partition.parent, partition.from, partition.to)) continue;
      // Names and dates come from this file and from to_char, not from outside.
      await tx.query({
        name: '',
        text: `create table punctual.${partition.name} partition of punctual.${partition.parent} for values from ('${partition.from}+00') to ('${partition.to}+00')`,
        values: [],
      });
      made.push(partition.name);
    }
    return made;
  });
}

/** Another server made it meanwhile, or rows of that day already lie in the rest. */
async function unusable(
  tx: Pick<Database, 'query'>,
  name: string,
  parent: string,
  from: string,
  to: string,
): Promise<boolean> {
  const column = parent.startsWith('log_') ? 'created_at' : 'ended_at';
  const rows = await tx.query<{ taken: boolean }>({
    name: '',
    text: `select to_regclass($1) is not null
             or exists (select from punctual.${parent}_rest where ${column} >= $2::timestamptz and ${column} < $3::timestamptz) as taken`,
    values: [`punctual.${name}`, `${from}+00`, `${to}+00`],
  });
  return rows[0]?.taken !== false;
}
