// The database of a command: that of DATABASE_URL, and where it will do the embedded one of a `punctual start` that runs.
import path from 'node:path';
import type { Config } from '@punctual/server/config';
import { CliError } from './failure.ts';
import { holderOf } from './start/claim.ts';

export function needDatabaseUrl(config: Config, what: string): string {
  if (config.database_url !== null) return config.database_url;
  throw new CliError(
    `${what} needs a PostgreSQL: set DATABASE_URL, for example DATABASE_URL=postgres://user:password@host/database. ` +
      '`punctual start` brings its own.',
  );
}

/** Calls the work with the URL of the database that this installation uses. */
export async function withDatabase<T>(config: Config, what: string, work: (url: string) => Promise<T>): Promise<T> {
  const folder = path.resolve(config.data_dir);
  if (config.database_url !== null || holderOf(folder) === null) return work(needDatabaseUrl(config, what));
  const { startEmbedded } = await import('@punctual/server/embedded');
  await using postgres = await startEmbedded({ dataDir: path.join(folder, 'postgres') });
  return await work(postgres.url);
}
