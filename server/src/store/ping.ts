// Does the database answer, and what time is it there?
import type { Queryable } from './database.ts';
import { sql } from './sql.ts';

export async function pingDatabase(db: Queryable, deadlineMs: number): Promise<void> {
  await db.query(sql`select 1`, deadlineMs);
}

/** In ms since 1970, with its fraction. */
export async function timeOfDatabase(db: Queryable): Promise<number> {
  const [row] = await db.query<{ ms: string }>(sql`select extract(epoch from clock_timestamp()) * 1000 as ms`);
  return Number(row?.ms);
}
