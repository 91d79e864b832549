// Looks through the whole database for a word: what must not be stored readably must be found nowhere.
import assert from 'node:assert/strict';
import { brotliDecompressSync } from 'node:zlib';
import type { House } from './house.ts';

/** Every text, JSON, array and binary value of every table of the schema in which the word stands. */
export async function columnsWith(house: House, word: string): Promise<string[]> {
  const ask = <T extends object>(text: string): Promise<T[]> => house.db.query<T>({ name: '', text, values: [] });
  const columns = await ask<{ place: string; name: string }>(`
    select format('punctual.%I', c.relname) as place, format('%I', a.attname) as name
    from pg_class c
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relnamespace = 'punctual'::regnamespace and c.relkind in ('r', 'p')
      and format_type(a.atttypid, null) ~ '^(text|character varying|json|jsonb|bytea|tsvector)'`);
  assert.ok(columns.length > 50, 'the columns are looked for');
  const found: string[] = [];
  for (const { place, name } of columns) {
    const rows = await ask<{ n: number }>(
      `select count(*)::integer as n from ${place} where position(lower('${word}') in lower(${name}::text)) > 0
         or position(encode('${word}', 'hex') in ${name}::text) > 0`,
    );
    if ((rows[0]?.n ?? 0) > 0) found.push(`${place}.${name}`);
  }
  // What is compressed hides it.
  const chunks = await ask<{ packed: Buffer }>('select packed from punctual.log_chunks where packed is not null');
  if (chunks.some(({ packed }) => brotliDecompressSync(packed).toString().toLowerCase().includes(word.toLowerCase())))
    found.push('punctual.log_chunks.packed');
  return found;
}
