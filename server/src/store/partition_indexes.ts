// The indexes of log_chunks on partitions that held rows when the indexes came to be: a migration would have locked them for
// as long as it takes. They are made here, one by one, while everything goes on. Called by a loop; once all partitions have
// theirs there is nothing to do, because new ones are born with them.
//
// Each is made outside of a transaction, by one server at a time. One that was broken off is left behind as invalid: it is
// dropped and made again.
import pg from 'pg';
import { connectionOptions, type Queryable } from './database.ts';
import { sql } from './sql.ts';

const advisoryLock = 7600_0003;
/** It may have to wait for transactions of applications; nobody waits for it. */
const buildTimeoutMs = 3_600_000;

const kinds = { by_order: '(chunk)', by_words: 'using gin (words) with (gin_pending_list_limit = 65536)' } as const;

interface Missing {
  partition: string;
  kind: keyof typeof kinds;
}

/** Answers the indexes it made. */
export async function indexPartitions(db: Queryable, url: string): Promise<string[]> {
  if ((await missingIndexes(db)).length === 0) return [];
  const client = new pg.Client(connectionOptions(url, buildTimeoutMs));
  client.on('error', () => {}); // the query under way fails with it
  await client.connect();
  try {
    const { rows } = await client.query<{ mine: boolean }>('select pg_try_advisory_lock($1) as mine', [advisoryLock]);
    if (rows[0]?.mine !== true) return [];
    const made: string[] = [];
    // Another server may have made some meanwhile.
    for (const { partition, kind } of await missingIndexes(db)) {
      const name = `${partition}_${kind}`;
      await client.query(`drop index concurrently if exists punctual.${name}`);
      await client.query(`create index concurrently ${name} on punctual.${partition} ${kinds[kind]}`);
      await client.query(`alter index punctual.log_chunks_${kind} attach partition punctual.${name}`);
      made.push(name);
    }
    return made;
  } finally {
    await client.end().catch(() => {});
  }
}

/** Names come from the catalogue, and partitions are named by us. */
async function missingIndexes(db: Queryable): Promise<Missing[]> {
  return db.query<Missing>(sql`
    select c.relname as partition, k.kind
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    cross join unnest(${Object.keys(kinds)}::text[]) k (kind)
    where i.inhparent = 'punctual.log_chunks'::regclass
      and not exists (
        select
        from pg_inherits x
        join pg_index n on n.indexrelid = x.inhrelid
        where x.inhparent = ('punctual.log_chunks_' || k.kind)::regclass and n.indrelid = c.oid and n.indisvalid
      )
    order by c.relname desc, k.kind`);
}
