// What `punctual doctor` concludes about tables, indexes, partitions, held snapshots and slow statements. Pure; the facts come
// from store/vitals.ts.
import { type Finding, finding, type Level } from './diagnose.ts';

export interface TableFacts {
  name: string;
  live: number;
  dead: number;
  /** Of the table, its indexes and what is stored beside it. */
  bytes: number;
  index_bytes: number;
  /** Seconds since it was vacuumed; null for never, or not since the statistics began. */
  vacuumed_s: number | null;
  /** Autovacuum is turned off for this table. */
  unattended: boolean;
}

export interface Holder {
  kind: 'transaction' | 'prepared' | 'slot' | 'standby';
  /** The process, the name of the slot or of the prepared transaction. */
  name: string;
  who: string;
  /** How long it has held on; null where only transactions count. */
  age_s: number | null;
  /** Transactions since. */
  xids: number;
  /** What a slot keeps of the log. */
  wal_bytes: number;
}

export interface StatementFacts {
  query: string;
  calls: number;
  mean_ms: number;
  total_ms: number;
}

export interface Thresholds {
  /** A transaction this old slows every queue down; this old, it has been forgotten. */
  held_warning_s: number;
  held_error_s: number;
  held_xids: number;
  slot_wal_bytes: number;
  /** So many dead rows matter when they are also so many for each live one. */
  dead_rows: number;
  dead_share: number;
  /** Autovacuum has had the time to come. */
  vacuumed_s: number;
  slow_mean_ms: number;
}

const MB = 1024 * 1024;

export const thresholds: Thresholds = {
  held_warning_s: 300,
  held_error_s: 3_600,
  held_xids: 1_000_000,
  slot_wal_bytes: 4_096 * MB,
  dead_rows: 10_000,
  dead_share: 0.5,
  vacuumed_s: 600,
  slow_mean_ms: 1_000,
};

const shown_tables = 3;

export function diagnoseBloat(tables: readonly TableFacts[], limits: Thresholds): Finding[] {
  const bytes = tables.reduce((sum, table) => sum + table.bytes, 0);
  const largest = tables.toSorted((a, b) => b.bytes - a.bytes).slice(0, shown_tables);
  const sizes = largest.map(
    ({ name, bytes: all, index_bytes }) => `${name} ${size(all)} (indexes ${size(index_bytes)})`,
  );
  const bad = tables.flatMap((table) => bloatOf(table, limits));
  if (bad.length > 0) return bad;
  return [finding('bloat', 'ok', `${size(bytes)} in ${tables.length} tables; the largest: ${sizes.join(', ')}`)];
}

/** Narrow tables that are emptied all the time: so many bytes for a row are empty space. */
const emptied = new Set(['waiting', 'ready', 'running']);
const roomy_bytes = 64 * MB;
const roomy_row_bytes = 20_000;

function bloatOf(table: TableFacts, limits: Thresholds): Finding[] {
  const { name, live, dead, bytes, vacuumed_s } = table;
  const check = `bloat of ${name}`;
  const isDead = dead >= limits.dead_rows && dead >= live * limits.dead_share;
  const since = vacuumed_s === null ? 'never vacuumed' : `vacuumed ${duration(vacuumed_s)} ago`;
  const rows = `${dead} dead rows beside ${live} live ones, ${size(bytes)}, ${since}`;
  if (isDead && table.unattended)
    return [
      finding(
        check,
        'error',
        `${rows}; autovacuum is off for it`,
        `alter table punctual.${name} reset (autovacuum_enabled); vacuum (analyze) punctual.${name};`,
      ),
    ];
  if (isDead && (vacuumed_s === null || vacuumed_s >= limits.vacuumed_s)) {
    const level: Level = dead >= live * 4 && dead >= limits.dead_rows * 100 ? 'error' : 'warning';
    return [
      finding(
        check,
        level,
        `${rows}: autovacuum does not keep up`,
        `See the finding \`snapshots\`; then: vacuum (analyze) punctual.${name}; and a shorter autovacuum_naptime, more autovacuum_vacuum_cost_limit.`,
      ),
    ];
  }
  if (emptied.has(name) && bytes >= roomy_bytes && bytes / (live + dead + 1) >= roomy_row_bytes)
    return [
      finding(
        check,
        'warning',
        `${size(bytes)} for ${live} rows: most of it is empty`,
        `reindex table concurrently punctual.${name}; — or vacuum full in a quiet minute.`,
      ),
    ];
  return [];
}

const ends: Record<Holder['kind'], (holder: Holder) => string> = {
  transaction: ({ name }) =>
    `select pg_terminate_backend(${name}); and set idle_in_transaction_session_timeout for whoever left it open.`,
  prepared: ({ name }) =>
    `rollback prepared '${name.replaceAll("'", "''")}'; or commit it, if its coordinator says so.`,
  slot: ({ name }) => `Start its reader again, or: select pg_drop_replication_slot('${name.replaceAll("'", "''")}');`,
  standby: () => 'End the long query on the standby, or turn hot_standby_feedback off there.',
};

const nouns: Record<Holder['kind'], string> = {
  transaction: 'a transaction open in process',
  prepared: 'the prepared transaction',
  slot: 'the replication slot',
  standby: 'the standby',
};

/** A snapshot that is held keeps vacuum from clearing dead rows away, in all tables. */
export function diagnoseSnapshots(holders: readonly Holder[], limits: Thresholds): Finding[] {
  const found = holders
    .map((holder) => ({ holder, level: levelOf(holder, limits) }))
    .filter(({ level }) => level !== 'ok')
    .map(({ holder, level }) => {
      const { kind, name, who, age_s, xids, wal_bytes } = holder;
      const facts = [
        ...(age_s === null ? [] : [`for ${duration(age_s)}`]),
        `for ${xids} transactions`,
        ...(wal_bytes > 0 ? [`keeps ${size(wal_bytes)} of the log`] : []),
      ];
      return finding(
        'snapshots',
        level,
        `${nouns[kind]} ${name} (${who}) holds vacuum back ${facts.join(', ')}`,
        ends[kind](holder),
      );
    });
  if (found.length > 0) return found;
  const oldest = Math.max(0, ...holders.map(({ age_s }) => age_s ?? 0));
  return [
    finding('snapshots', 'ok', `nothing holds vacuum back; the oldest transaction began ${duration(oldest)} ago`),
  ];
}

function levelOf({ age_s, xids, wal_bytes }: Holder, limits: Thresholds): Level {
  if (wal_bytes >= limits.slot_wal_bytes || (age_s ?? 0) >= limits.held_error_s) return 'error';
  return xids >= limits.held_xids || (age_s ?? 0) >= limits.held_warning_s ? 'warning' : 'ok';
}

/** null: pg_stat_statements is not there. */
export function diagnoseStatements(statements: readonly StatementFacts[] | null, limits: Thresholds): Finding {
  const check = 'slow statements';
  if (statements === null)
    return finding(
      check,
      'ok',
      "not known: pg_stat_statements is not installed. shared_preload_libraries = 'pg_stat_statements', a restart and `create extension pg_stat_statements;` would tell",
    );
  if (statements.length === 0) return finding(check, 'ok', 'none of ours has been counted yet');
  const words = ({ mean_ms, calls, total_ms, query }: StatementFacts): string =>
    `mean ${mean_ms.toFixed(1)} ms, ${calls} calls, ${duration(total_ms / 1_000)} in all: ${query}`;
  const slow = statements.filter(({ mean_ms }) => mean_ms >= limits.slow_mean_ms);
  if (slow.length > 0)
    return finding(
      check,
      'warning',
      slow.map(words).join('\n    '),
      'Look at bloat and snapshots first; `explain` on a copy shows the plan. Report it with the numbers if both are well.',
    );
  return finding(check, 'ok', `the slowest of ours by mean and by total\n    ${statements.map(words).join('\n    ')}`);
}

export interface IndexFacts {
  /** Statements that would make what is missing. */
  missing: readonly { name: string; statement: string }[];
  /** Broken off while it was made, or damaged. */
  invalid: readonly string[];
  /** Large, and not used since the statistics began. */
  unused: readonly { name: string; bytes: number }[];
  /** Statistics are counted since so many seconds; null when not known. */
  counted_s: number | null;
}

/** An index that nothing used for so long is probably not needed. */
const unused_after_s = 7 * 86_400;

export function diagnoseIndexes({ missing, invalid, unused, counted_s }: IndexFacts): Finding[] {
  const found = [
    ...missing.map(({ name, statement }) => finding('indexes', 'error', `${name} is missing`, statement)),
    ...invalid.map((name) =>
      finding(
        'indexes',
        'warning',
        `${name} is invalid: making it was broken off`,
        `reindex index concurrently punctual.${name};`,
      ),
    ),
    ...(counted_s !== null && counted_s >= unused_after_s
      ? unused.map(({ name, bytes }) =>
          finding(
            'indexes',
            'warning',
            `${name} (${size(bytes)}) was not used for ${duration(counted_s)}`,
            'It is needed by other ways of use; report it if it costs you.',
          ),
        )
      : []),
  ];
  return found.length > 0 ? found : [finding('indexes', 'ok', 'all are there and valid')];
}

export function diagnosePartitions(missing: readonly string[]): Finding {
  const hint =
    'A server makes them by itself within a minute of its start: look at its log. Nothing is lost: rows go to the partitions `_rest`.';
  if (missing.length === 0) return finding('partitions', 'ok', 'those of today and the next days are there');
  return finding('partitions', 'warning', `missing: ${missing.join(', ')}`, hint);
}

export function size(bytes: number): string {
  if (bytes < MB) return `${Math.ceil(bytes / 1024)} KB`;
  return bytes < 1024 * MB ? `${(bytes / MB).toFixed(1)} MB` : `${(bytes / MB / 1024).toFixed(1)} GB`;
}

function duration(seconds: number): string {
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.round(seconds / 3_600)} h` : `${Math.round(seconds / 86_400)} d`;
}
