// The first look at a database: does it answer, is it new enough, whose is it.
import pg from 'pg';
import { StartError } from '../start_error.ts';
import { connectionOptions } from './database.ts';

export interface DatabaseFacts {
  /** As PostgreSQL writes it: 18.4. */
  version: string;
  /** May the user create our schema, or does it exist? */
  can_create: boolean;
  database: string;
  user: string;
  /** The database's clock less ours, in ms. */
  clock_ahead_ms: number;
}

const oldest = 140000;

export async function inspectDatabase(url: string, timeoutMs: number): Promise<DatabaseFacts> {
  // A URL that cannot be read must say so, not be taken for a database name on localhost.
  if (!/^postgres(ql)?:\/\//.test(url))
    throw Object.assign(new Error('not a PostgreSQL URL'), { code: 'ERR_INVALID_URL' });
  const client = new pg.Client({ ...connectionOptions(url, timeoutMs), query_timeout: timeoutMs });
  client.on('error', () => {}); // the query under way fails with it
  await client.connect();
  try {
    const before = Date.now();
    const { rows } = await client.query<{
      number: string;
      version: string;
      can_create: boolean;
      database: string;
      user: string;
      now: Date;
    }>(`
      select current_setting('server_version_num') as number, current_setting('server_version') as version,
             (to_regnamespace('punctual') is not null and has_schema_privilege('punctual', 'create'))
               or (to_regnamespace('punctual') is null and has_database_privilege(current_database(), 'create')) as can_create,
             current_database() as database, current_user as user, clock_timestamp() as now`);
    const facts = rows[0];
    if (facts === undefined) throw new Error('PostgreSQL answered nothing');
    if (Number(facts.number) < oldest)
      throw new StartError(`PostgreSQL ${facts.version} is too old; Punctual needs 14 or newer.`);
    return { ...facts, clock_ahead_ms: facts.now.getTime() - (before + Date.now()) / 2 };
  } finally {
    await client.end().catch(() => {});
  }
}
