// Databases for tests: one migrated template a version of the schema, cloned in some 30 ms for each house.
import { createHash, randomBytes } from 'node:crypto';
import { listMigrations, migrateDatabase } from '@punctual/server/internal/store/migrate';
import pg from 'pg';

const advisoryLock = 7600_9999;

export function adminUrl(): string {
  const url = process.env['PUNCTUAL_TEST_DATABASE_URL'];
  if (url === undefined) throw new Error('PUNCTUAL_TEST_DATABASE_URL is not set: run the tests with `npm test`');
  return url;
}

export function urlOf(database: string): string {
  const url = new URL(adminUrl());
  url.pathname = `/${database}`;
  return url.toString();
}

/** An empty database, or one cloned from the migrated template. */
export async function createDatabase(options: {
  migrated: boolean;
  segments?: number;
}): Promise<{ url: string; drop: () => Promise<void> }> {
  const name = `house_${randomBytes(6).toString('hex')}`;
  await withAdmin(async (admin) => {
    if (!options.migrated) await admin.query(`create database ${name}`);
    else await admin.query(`create database ${name} template ${await ensureTemplate(admin, options.segments ?? 4)}`);
  });
  return {
    url: urlOf(name),
    drop: () => withAdmin(async (admin) => void (await admin.query(`drop database if exists ${name} with (force)`))),
  };
}

export async function withAdmin<T>(work: (admin: pg.Client) => Promise<T>): Promise<T> {
  const admin = new pg.Client(adminUrl());
  await admin.connect();
  try {
    return await work(admin);
  } finally {
    await admin.end();
  }
}

/** Test files run at once in several processes: the first makes the template, the others wait for it. */
async function ensureTemplate(admin: pg.Client, segments: number): Promise<string> {
  const checksum = createHash('sha256')
    .update(
      listMigrations()
        .map((migration) => migration.checksum)
        .join(),
    )
    .digest('hex');
  const name = `template_${checksum.slice(0, 12)}_${segments}`;
  await admin.query('select pg_advisory_lock($1)', [advisoryLock]);
  try {
    const { rowCount } = await admin.query('select from pg_database where datname = $1', [name]);
    if (rowCount === 0) {
      await admin.query(`create database ${name}_new`);
      await migrateDatabase({ url: urlOf(`${name}_new`), segments });
      await admin.query(`alter database ${name}_new rename to ${name}`);
    }
  } finally {
    await admin.query('select pg_advisory_unlock($1)', [advisoryLock]);
  }
  return name;
}
