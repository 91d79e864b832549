// The sentence for commands that cannot do without DATABASE_URL.
import type { Config } from '@punctual/server/config';
import { CliError } from './failure.ts';

export function needDatabaseUrl(config: Config, what: string): string {
  if (config.database_url !== null) return config.database_url;
  throw new CliError(
    `${what} needs a PostgreSQL: set DATABASE_URL, for example DATABASE_URL=postgres://user:password@host/database. ` +
      '`punctual start` brings its own.',
  );
}
