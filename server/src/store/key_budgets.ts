// What is left of the requests of a key, over all servers: a bucket that fills by the clock of the database. Servers take
// several requests at a time (access/budgets.ts); one statement on one row, so that no two can take the same.
import type { Queryable } from './database.ts';
import { sql } from './sql.ts';

export interface Bucket {
  key_id: string;
  rate: number;
  burst: number;
}

export interface Taken {
  granted: number;
  /** What is left for others. */
  left: number;
}

/** Takes up to `wanted`; a bucket that was never used is full. */
export async function takeBudget(db: Queryable, { key_id, rate, burst }: Bucket, wanted: number): Promise<Taken> {
  for (;;) {
    const rows = await db.query<Taken>(sql`
      with filled as (
        select b.key_id, least(${burst}::double precision, b.tokens
                 + greatest(0, extract(epoch from now() - b.refilled_at)) * ${rate}::double precision) as tokens
        from punctual.key_budgets b
        where b.key_id = ${key_id}
        for update
      )
      update punctual.key_budgets b
      set tokens = f.tokens - least(${wanted}::double precision, floor(f.tokens)), refilled_at = greatest(b.refilled_at, now())
      from filled f
      where b.key_id = f.key_id
      returning least(${wanted}::double precision, floor(f.tokens)) as granted, b.tokens as left`);
    if (rows[0] !== undefined) return rows[0];
    const made = await db.query(sql`
      insert into punctual.key_budgets (key_id, tokens)
      select k.key_id, ${burst}::double precision
      from punctual.api_keys k
      where k.key_id = ${key_id}
      on conflict (key_id) do nothing
      returning key_id`);
    if (made.length === 0 && !(await exists(db, key_id))) return { granted: 0, left: 0 };
  }
}

async function exists(db: Queryable, keyId: string): Promise<boolean> {
  const rows = await db.query(sql`select key_id from punctual.key_budgets where key_id = ${keyId}`);
  return rows.length > 0;
}
