// The one channel on which servers speak to each other.
import type pg from 'pg';
import type { Queryable } from './database.ts';
import { sql } from './sql.ts';

export async function notify(db: Queryable, message: string): Promise<void> {
  await db.query(sql`select pg_notify('punctual', ${message})`);
}

export async function listenTo(client: pg.Client): Promise<void> {
  await client.query('listen punctual');
}
