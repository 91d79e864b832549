// Whether a database is as this version needs it; commands that work on one ask before they begin.
import type { Config } from '../config.ts';
import { explainDatabaseError, StartError } from '../start_error.ts';
import { migrateDatabase } from '../store/migrate.ts';

/** Answers how many segments it has. */
export async function requireCurrent(config: Config, url: string): Promise<number> {
  try {
    const { pending, segments } = await migrateDatabase({ url, segments: config.segments, dryRun: true });
    if (pending.length > 0) throw new StartError('The database is not up to date: run `punctual migrate` first.');
    return segments;
  } catch (error) {
    throw error instanceof StartError ? error : explainDatabaseError(error, url);
  }
}
