// What `punctual doctor` concludes from what it has read of PostgreSQL: settings, connections, version and clocks. Pure;
// store/vitals.ts reads the facts, upkeep/examine.ts puts both together. Tables and snapshots are in diagnose_tables.ts.

export type Level = 'ok' | 'warning' | 'error';

export interface Finding {
  /** What was looked at, in a word or two. */
  check: string;
  level: Level;
  detail: string;
  /** How to mend it. */
  hint?: string;
}

/** A finding with its advice, which only what is not well needs. */
export function finding(check: string, level: Level, detail: string, hint?: string): Finding {
  return { check, level, detail, ...(level === 'ok' || hint === undefined ? {} : { hint }) };
}

export interface ServerFacts {
  /** As `server_version_num` writes it: 180004. */
  version_num: number;
  version: string;
  /** It is a standby and takes no writes. */
  in_recovery: boolean;
  /** Settings as they are for our connections. */
  settings: Record<string, string>;
  connections: number;
  /** Transactions since the oldest row of this database was frozen. */
  xid_age: number;
}

interface Rule {
  name: string;
  /** Wrong when it has one of these values. */
  bad: readonly string[];
  level: Level;
  why: string;
  mend: string;
}

const alter = (name: string, value: string): string => `alter system set ${name} = ${value}; select pg_reload_conf();`;

const rules: readonly Rule[] = [
  {
    name: 'fsync',
    bad: ['off'],
    level: 'error',
    why: 'a crash of the machine can destroy the whole database',
    mend: alter('fsync', 'on'),
  },
  {
    name: 'full_page_writes',
    bad: ['off'],
    level: 'error',
    why: 'a crash in the middle of a write can leave torn pages',
    mend: alter('full_page_writes', 'on'),
  },
  {
    name: 'synchronous_commit',
    bad: ['off'],
    level: 'error',
    why: 'jobs that were answered with 2xx can be lost in a crash',
    mend: `${alter('synchronous_commit', 'on')} Look at \`alter database … set\` and \`alter role … set\` too.`,
  },
  {
    name: 'autovacuum',
    bad: ['off'],
    level: 'error',
    why: 'dead rows are never cleared away, and every queue gets slower',
    mend: alter('autovacuum', 'on'),
  },
  {
    name: 'track_counts',
    bad: ['off'],
    level: 'error',
    why: 'autovacuum does not know where to work, and /stats counts nothing',
    mend: alter('track_counts', 'on'),
  },
  {
    name: 'default_transaction_isolation',
    bad: ['repeatable read', 'serializable'],
    level: 'error',
    why: 'statements that wait for each other fail instead of seeing what the other did',
    mend: "alter database … set default_transaction_isolation = 'read committed';",
  },
  {
    name: 'default_transaction_read_only',
    bad: ['on'],
    level: 'error',
    why: 'nothing can be written',
    mend: 'alter database … reset default_transaction_read_only;',
  },
  {
    name: 'jit',
    bad: ['on'],
    level: 'warning',
    why: 'our connections turn it off, but that did not reach PostgreSQL: a pooler drops startup options; short statements become slow',
    mend: 'alter role … set jit = off; or let the pooler pass `options` on.',
  },
  {
    name: 'statement_timeout',
    bad: ['0'],
    level: 'warning',
    why: 'our connections set one, but that did not reach PostgreSQL: a statement whose server has died can go on for ever',
    mend: "alter role … set statement_timeout = '11s';",
  },
];

export function diagnoseSettings({ settings }: Pick<ServerFacts, 'settings'>): Finding[] {
  const wrong = rules
    .filter(({ name, bad }) => bad.includes(settings[name] ?? ''))
    .map(({ name, level, why, mend }) => finding(`setting ${name}`, level, `${settings[name]}: ${why}`, mend));
  const advice = adviceOn(settings);
  const words = advice.length === 0 ? 'they fit' : `they fit; could be better: ${advice.join('; ')}`;
  return [...wrong, ...(wrong.length === 0 ? [finding('settings', 'ok', words)] : [])];
}

const MB = 1024 * 1024;
/** PostgreSQL's own default, meant for machines of another time. */
const min_shared_buffers = 128 * MB;
const min_max_wal = 1024 * MB;

/** What costs speed but breaks nothing. */
function adviceOn(settings: Record<string, string>): string[] {
  const bytes = (name: string): number => Number(settings[name] ?? Number.NaN);
  return [
    ...(bytes('shared_buffers') <= min_shared_buffers
      ? ['shared_buffers is small: a quarter of the memory is usual']
      : []),
    ...(bytes('max_wal_size') <= min_max_wal ? ['max_wal_size is small: 4GB makes checkpoints rarer'] : []),
    ...(settings['wal_compression'] === 'off' ? ['wal_compression = lz4 makes the log smaller'] : []),
  ];
}

/** Connections that are left for people and other programs. */
const spare_connections = 5;
const crowded = 0.85;

export function diagnoseConnections(facts: ServerFacts, poolSize: number): Finding {
  const max = Number(facts.settings['max_connections'] ?? 0);
  const usable = max - Number(facts.settings['superuser_reserved_connections'] ?? 0);
  const detail = `${facts.connections} of ${max} are in use; a server here holds up to ${poolSize}`;
  const check = 'connections';
  if (usable < poolSize + spare_connections)
    return finding(
      check,
      'error',
      detail,
      `One server alone can use them up: raise max_connections, or lower PUNCTUAL_POOL_SIZE below ${usable - spare_connections}.`,
    );
  if (facts.connections >= usable * crowded)
    return finding(
      check,
      'warning',
      detail,
      'Raise max_connections, lower PUNCTUAL_POOL_SIZE, or put a pooler in between.',
    );
  return finding(check, 'ok', detail);
}

/** Releases with faults that can damage what is stored: from, up to before, and what happens. */
const faulty: readonly [number, number, string][] = [
  [140000, 140004, 'indexes made or rebuilt concurrently can be corrupt'],
];

export function diagnoseVersion({ version_num, version, in_recovery }: ServerFacts): Finding {
  const fault = faulty.find(([from, before]) => version_num >= from && version_num < before);
  if (in_recovery)
    return finding(
      'version',
      'error',
      `PostgreSQL ${version}, a standby: it takes no writes`,
      'Let DATABASE_URL name the primary.',
    );
  if (fault === undefined) return finding('version', 'ok', `PostgreSQL ${version}`);
  const hint = `Upgrade to ${Math.floor(fault[1] / 10_000)}.${fault[1] % 10_000} or newer, then reindex.`;
  return finding('version', 'error', `PostgreSQL ${version}: ${fault[2]}`, hint);
}

/** PostgreSQL refuses to write at two thousand million. */
const old_xids = 1_000_000_000;
const oldest_xids = 1_700_000_000;

export function diagnoseWraparound({ xid_age }: ServerFacts): Finding {
  const level = xid_age >= oldest_xids ? 'error' : xid_age >= old_xids ? 'warning' : 'ok';
  const detail = `the oldest row was frozen ${xid_age} transactions ago; PostgreSQL stops at 2,000,000,000`;
  return finding(
    'freezing',
    level,
    detail,
    'See what holds vacuum back (the finding `snapshots`), then: vacuum (freeze);',
  );
}

const max_clock_ms = 5_000;
const max_jump_ms = 1_000;

/** The clock of the database less ours, at the beginning and at the end of the examination. */
export function diagnoseClock(aheadMs: number, laterMs: number): Finding {
  const apart = Math.round(Math.abs(laterMs));
  const jump = Math.round(Math.abs(laterMs - aheadMs));
  const words = `the database's clock differs from this machine's by ${apart} ms`;
  if (jump >= max_jump_ms)
    return finding(
      'clock',
      'error',
      `${words}, and one of them jumped by ${jump} ms while it was looked at`,
      'Set both by NTP, slewing and not stepping.',
    );
  const hint = 'Nothing breaks, but log times will confuse; set both by NTP.';
  return finding('clock', apart > max_clock_ms ? 'error' : 'ok', words, hint);
}
