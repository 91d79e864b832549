// What `punctual doctor` reads of PostgreSQL itself: settings, connections, tables, held snapshots, indexes, slow statements.
// It only reads catalogs and statistics, takes no lock anybody would notice, and needs no right beyond those of a server;
// what the user may not see (statements of others) is left out.
import { readFileSync } from 'node:fs';
import type { ServerFacts } from '../rules/diagnose.ts';
import type { Holder, IndexFacts, StatementFacts, TableFacts } from '../rules/diagnose_tables.ts';
import type { Queryable } from './database.ts';
import { part, sql } from './sql.ts';

const read = [
  ...['fsync', 'full_page_writes', 'synchronous_commit', 'autovacuum', 'track_counts', 'jit', 'statement_timeout'],
  ...['default_transaction_isolation', 'default_transaction_read_only', 'wal_compression', 'max_connections'],
  ...['superuser_reserved_connections', 'shared_buffers', 'max_wal_size'],
];

export async function readServer(db: Queryable): Promise<ServerFacts> {
  const [row] = await db.query<ServerFacts>(sql`
    select current_setting('server_version_num')::integer as version_num, current_setting('server_version') as version,
           pg_is_in_recovery() as in_recovery,
           (select jsonb_object_agg(name, case unit when '8kB' then (setting::bigint * 8192)::text
                                                    when 'MB' then (setting::bigint * 1048576)::text else setting end)
            from pg_catalog.pg_settings where name = any(${read}::text[])) as settings,
           (select count(*) from pg_catalog.pg_stat_activity where backend_type = 'client backend')::integer as connections,
           (select age(datfrozenxid) from pg_catalog.pg_database where datname = current_database()) as xid_age`);
  if (row === undefined) throw new Error('a select without from has one row');
  return row;
}

export async function readTables(db: Queryable): Promise<TableFacts[]> {
  const rows = await db.query<TableFacts & { live: string; dead: string; bytes: string; index_bytes: string }>(sql`
    select s.relname as name, s.n_live_tup as live, s.n_dead_tup as dead, pg_total_relation_size(s.relid) as bytes,
           pg_indexes_size(s.relid) as index_bytes,
           extract(epoch from now() - greatest(s.last_autovacuum, s.last_vacuum))::float8 as vacuumed_s,
           coalesce('autovacuum_enabled=false' = any(c.reloptions) or 'autovacuum_enabled=off' = any(c.reloptions), false) as unattended
    from pg_catalog.pg_stat_all_tables s
    join pg_catalog.pg_class c on c.oid = s.relid
    where s.schemaname = 'punctual'`);
  return rows.map((row) => ({
    ...row,
    ...{
      live: Number(row.live),
      dead: Number(row.dead),
      bytes: Number(row.bytes),
      index_bytes: Number(row.index_bytes),
    },
  }));
}

const max_holders = 5;

/** The oldest of each kind that keep vacuum of this database from clearing rows away. */
export async function readHolders(db: Queryable): Promise<Holder[]> {
  const log = part`case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end`;
  const rows = await db.query<Holder & { wal_bytes: string }>(sql`
    (select 'transaction' as kind, pid::text as name,
            concat_ws(', ', nullif(application_name, ''), usename, host(client_addr), state) as who,
            extract(epoch from clock_timestamp() - xact_start)::float8 as age_s,
            greatest(age(backend_xmin), age(backend_xid), 0) as xids, 0::bigint as wal_bytes
     from pg_catalog.pg_stat_activity
     where datname = current_database() and backend_type = 'client backend' and xact_start is not null
       and pid <> pg_backend_pid()
     order by xact_start
     limit ${max_holders}::integer)
    union all
    (select 'prepared', gid, owner::text, extract(epoch from clock_timestamp() - prepared)::float8, age(transaction), 0
     from pg_catalog.pg_prepared_xacts
     where database = current_database()
     order by prepared
     limit ${max_holders}::integer)
    union all
    (select 'slot', slot_name::text, concat(slot_type, ', ', case when active then 'in use' else 'not in use' end), null,
            greatest(age(xmin), age(catalog_xmin), 0), greatest(0, coalesce(pg_wal_lsn_diff(${log}, restart_lsn), 0))::bigint
     from pg_catalog.pg_replication_slots
     order by 5 desc
     limit ${max_holders}::integer)
    union all
    (select 'standby', coalesce(nullif(application_name, ''), pid::text), concat_ws(', ', usename, host(client_addr)), null,
            age(backend_xmin), 0
     from pg_catalog.pg_stat_replication
     where backend_xmin is not null
     order by 5 desc
     limit ${max_holders}::integer)`);
  return rows.map((row) => ({ ...row, wal_bytes: Number(row.wal_bytes) }));
}

/** Every index that the migrations make, by name, with the statement that makes it; from the readable schema. */
function expectedIndexes(): Map<string, string> {
  const text = readFileSync(new URL('../../src/store/schema.sql', import.meta.url), 'utf8');
  const found = new Map<string, string>();
  for (const [statement, name = ''] of text.matchAll(/^create (?:unique )?index (\w+) on [^;]+;/gm))
    found.set(name, statement);
  let table = '';
  for (const line of text.split('\n')) {
    table = /^create table (punctual\.\w+)/.exec(line)?.[1] ?? table;
    const [, name, rest] = /^ {2}constraint (\w+) ((?:primary key|unique) .*?),?$/.exec(line) ?? [];
    if (name !== undefined) found.set(name, `alter table ${table} add constraint ${name} ${rest};`);
  }
  return found;
}

/** Smaller ones cost nothing worth a word. */
const min_unused_bytes = 64 * 1024 * 1024;

export async function readIndexes(db: Queryable): Promise<IndexFacts> {
  const rows = await db.query<{ name: string; valid: boolean; used: boolean; bytes: string }>(sql`
    select c.relname as name, i.indisvalid as valid, i.indisunique or coalesce(s.idx_scan, 1) > 0 as used,
           pg_relation_size(c.oid) as bytes
    from pg_catalog.pg_index i
    join pg_catalog.pg_class c on c.oid = i.indexrelid
    left join pg_catalog.pg_stat_all_indexes s on s.indexrelid = i.indexrelid
    where c.relnamespace = 'punctual'::regnamespace`);
  const [counted] = await db.query<{ counted_s: number | null }>(sql`
    select extract(epoch from now() - coalesce(stats_reset, pg_postmaster_start_time()))::float8 as counted_s
    from pg_catalog.pg_stat_database
    where datname = current_database()`);
  const there = new Set(rows.map(({ name }) => name));
  return {
    missing: [...expectedIndexes()].flatMap(([name, statement]) => (there.has(name) ? [] : [{ name, statement }])),
    invalid: rows.filter(({ valid }) => !valid).map(({ name }) => name),
    unused: rows
      .map(({ name, used, bytes }) => ({ name, used, bytes: Number(bytes) }))
      .filter(({ used, bytes }) => !used && bytes >= min_unused_bytes),
    counted_s: counted?.counted_s ?? null,
  };
}

const shown_statements = 3;
const max_query_chars = 160;
/** Fewer calls may be somebody's experiment. */
const min_calls = 5;

/** Ours that took longest, by mean and in all; null when the extension is not there or not loaded. */
export async function readStatements(db: Queryable): Promise<StatementFacts[] | null> {
  const [extension] = await db.query<{ schema: string }>(sql`
    select n.nspname as schema
    from pg_catalog.pg_extension e
    join pg_catalog.pg_namespace n on n.oid = e.extnamespace
    where e.extname = 'pg_stat_statements'`);
  if (extension === undefined) return null;
  const view = `"${extension.schema.replaceAll('"', '""')}".pg_stat_statements`;
  // The schema is whatever whoever installed it chose.
  const text = `
    with ours as (
      select left(regexp_replace(query, '\\s+', ' ', 'g'), ${max_query_chars}) as query, calls, mean_exec_time as mean_ms, total_exec_time as total_ms
      from ${view}
      where dbid = (select oid from pg_database where datname = current_database()) and calls >= ${min_calls}
        and query like '%punctual.%' and query !~* '^\\s*(create|alter|drop|vacuum|analyze|explain)'
    )
    select query, calls, mean_ms, total_ms
    from ((select * from ours order by mean_ms desc limit ${shown_statements})
          union (select * from ours order by total_ms desc limit ${shown_statements})) slowest
    order by mean_ms desc`;
  try {
    const rows = await db.query<StatementFacts & { calls: string }>({ name: '', text, values: [] });
    return rows.map((row) => ({ ...row, calls: Number(row.calls) }));
  } catch (error) {
    // Installed in this database, but not among the libraries that are loaded at the start; or not ours to read.
    if (['55000', '42501'].includes((error as { code?: string }).code ?? '')) return null;
    throw error;
  }
}
