// `punctual keys create` on the database itself: the way to the first key, and back in when all keys are lost.
import type { CreateKey, NewApiKey } from '@punctual/contract';
import type { Config } from '../config.ts';
import { explainDatabaseError, StartError } from '../start_error.ts';
import { insertAudit } from '../store/audit.ts';
import { openDatabase, within } from '../store/database.ts';
import { createKey } from '../store/keys.ts';
import { migrateDatabase } from '../store/migrate.ts';

export async function makeKey(config: Config, options: { databaseUrl: string; key: CreateKey }): Promise<NewApiKey> {
  await requireCurrent(config, options.databaseUrl);
  const db = openDatabase({ url: options.databaseUrl, poolSize: 1, queryTimeoutMs: config.query_timeout_ms });
  try {
    return await db.transaction(async (tx) => {
      const made = await createKey(within(tx), options.key, null);
      const { secret: _secret, ...shown } = made;
      await insertAudit(tx, {
        ...{ key_id: null, key_name: 'database', user_id: null, address: null, operation: 'createKey' },
        ...{ noun: 'key', id: made.key_id, before: null, after: JSON.stringify(shown) },
      });
      return made;
    });
  } finally {
    await db.close();
  }
}

async function requireCurrent(config: Config, url: string): Promise<void> {
  try {
    const { pending } = await migrateDatabase({ url, segments: config.segments, dryRun: true });
    if (pending.length > 0) throw new StartError('The database is not up to date: run `punctual migrate` first.');
  } catch (error) {
    throw error instanceof StartError ? error : explainDatabaseError(error, url);
  }
}
