// Does the database answer?
import type { Queryable } from './database.ts';
import { sql } from './sql.ts';

export async function pingDatabase(db: Queryable, deadlineMs: number): Promise<void> {
  await db.query(sql`select 1`, deadlineMs);
}
