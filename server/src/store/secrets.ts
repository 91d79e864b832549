// Secrets that all servers of an installation share, made at first use. Two servers that make one at once keep the first.
import { randomSecret } from '../base/ids.ts';
import type { Queryable } from './database.ts';
import { sql } from './sql.ts';

export async function sharedSecret(db: Queryable, name: string): Promise<string> {
  await db.query(sql`
    insert into punctual.secrets (name, value)
    values (${name}, ${randomSecret()})
    on conflict do nothing`);
  const rows = await db.query<{ value: string }>(sql`select value from punctual.secrets where name = ${name}`);
  const value = rows[0]?.value;
  if (value === undefined) throw new Error(`the secret ${name} was removed while it was made`);
  return value;
}
