// The indexes of log_chunks and ended_runs on partitions that held rows when the indexes came to be: a migration would have locked them for
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

const kinds = {
  log_chunks_by_order: '(chunk)',
  log_chunks_unfiled: '(chunk) where words is not null',
  ended_runs_by_end: "using brin ((ended_at at time zone 'UTC')) with (pages_per_range = 16, autosummarize = on)",
} as const;

interface Missing {
  partition: string;
  /** The index of the whole table that it belongs to. */
  index: keyof typeof kinds;
  suffix: string;
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
    for (const { partition, index, suffix } of await missingIndexes(db)) {
      const name = `${partition}_${suffix}`;
      await client.query(`drop index concurrently if exists punctual.${name}`);
      await client.query(`create index concurrently ${name} on punctual.${partition} ${kinds[index]}`);
      await client.query(`alter index punctual.${index} attach partition punctual.${name}`);
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
    select c.relname as partition, k.index, substr(k.index, length(t.relname) + 2) as suffix
    from unnest(${Object.keys(kinds)}::text[]) k (index)
    join pg_index w on w.indexrelid = ('punctual.' || k.index)::regclass
    join pg_class t on t.oid = w.indrelid
    join pg_inherits i on i.inhparent = t.oid
    join pg_class c on c.oid = i.inhrelid
    where not exists (
        select
        from pg_inherits x
        join pg_index n on n.indexrelid = x.inhrelid
        where x.inhparent = w.indexrelid and n.indrelid = c.oid and n.indisvalid
      )
    order by c.relname desc, k.index`);
}
