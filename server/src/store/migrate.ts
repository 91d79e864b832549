// Brings the schema up to date: numbered .sql files, one transaction each, under an advisory lock, so that any number
// of servers may start at once. Called at every start and by `punctual migrate`.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import pg from 'pg';
import { newToken } from '../base/ids.ts';
import { connectionOptions } from './database.ts';

export interface Migration {
  version: number;
  name: string;
  text: string;
  checksum: string;
}

export interface MigrationResult {
  applied: string[];
  pending: string[];
  version: number;
  segments: number;
}

export interface MigrationStep {
  /** The one that is applied now. */
  name: string;
  /** Applied before it by this call, of how many. */
  done: number;
  all: number;
}

/** The number under which servers queue up to migrate; any fixed number does. */
const advisoryLock = 7600_0001;
const migrationTimeoutMs = 10 * 60_000;

const folder = new URL('../../src/store/migrations/', import.meta.url);

export function listMigrations(): Migration[] {
  return readdirSync(folder)
    .filter((file) => /^\d{4}_\w+\.sql$/.test(file))
    .sort()
    .map((file) => {
      const text = readFileSync(new URL(file, folder), 'utf8');
      return {
        version: Number(file.slice(0, 4)),
        name: file.slice(0, -4),
        text,
        checksum: createHash('sha256').update(text).digest('hex'),
      };
    });
}

export async function migrateDatabase(options: {
  url: string;
  segments: number;
  dryRun?: boolean;
  /** Told before each is applied. */
  onStep?: ((step: MigrationStep) => void) | undefined;
}): Promise<MigrationResult> {
  const client = new pg.Client(connectionOptions(options.url, migrationTimeoutMs));
  client.on('error', () => {}); // the query under way fails with it
  await client.connect();
  try {
    await client.query('select pg_advisory_lock($1)', [advisoryLock]);
    return await migrateLocked(client, options);
  } finally {
    await client.end().catch(() => {});
  }
}

async function migrateLocked(
  client: pg.Client,
  options: { segments: number; dryRun?: boolean; onStep?: ((step: MigrationStep) => void) | undefined },
): Promise<MigrationResult> {
  const done = await appliedMigrations(client);
  const known = listMigrations();
  const newest = known.at(-1)?.version ?? 0;
  const ahead = [...done.keys()].filter((version) => version > newest);
  if (ahead.length > 0) {
    throw new Error(
      `The database was migrated by a newer Punctual (migration ${Math.max(...ahead)}; this one knows ${newest}). Upgrade this server.`,
    );
  }
  const pending = known.filter((migration) => !done.has(migration.version));
  if (options.dryRun !== true) {
    for (const [before, migration] of pending.entries()) {
      options.onStep?.({ name: migration.name, done: before, all: pending.length });
      await apply(client, migration, options.segments);
    }
  }
  const version = options.dryRun === true ? Math.max(0, ...done.keys()) : newest;
  const names = pending.map((migration) => migration.name);
  const installed = version === 0 ? options.segments : await readSegments(client);
  return options.dryRun === true
    ? { applied: [], pending: names, version, segments: installed }
    : { applied: names, pending: [], version, segments: installed };
}

async function appliedMigrations(client: pg.Client): Promise<Map<number, string>> {
  const { rows: exists } = await client.query<{ there: boolean }>(
    `select to_regclass('punctual.migrations') is not null as there`,
  );
  if (exists[0]?.there !== true) return new Map();
  const { rows } = await client.query<{ version: number; name: string }>(
    'select version, name from punctual.migrations',
  );
  return new Map(rows.map((row) => [row.version, row.name]));
}

async function readSegments(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ segments: number }>('select segments from punctual.installation');
  if (rows[0] === undefined) throw new Error('The table punctual.installation is empty; restore it from a backup.');
  return rows[0].segments;
}

async function apply(client: pg.Client, migration: Migration, segments: number): Promise<void> {
  await client.query('begin');
  try {
    await client.query(migration.text);
    if (migration.version === 1) {
      await client.query('insert into punctual.installation (installation_id, segments) values ($1, $2)', [
        newToken(),
        segments,
      ]);
      await client.query(
        'create table punctual.migrations (version integer primary key, name text not null, checksum text not null, applied_at timestamptz not null default now())',
      );
    }
    await client.query('insert into punctual.migrations (version, name, checksum) values ($1, $2, $3)', [
      migration.version,
      migration.name,
      migration.checksum,
    ]);
    await client.query('commit');
  } catch (error) {
    await client.query('rollback').catch(() => {});
    throw new Error(`Migration ${migration.name} failed and was undone: ${(error as Error).message}`, { cause: error });
  }
}
