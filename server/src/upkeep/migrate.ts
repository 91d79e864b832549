// `punctual migrate`: the migrations of every start, on their own.
import type { Config } from '../config.ts';
import { explainDatabaseError, StartError } from '../start_error.ts';
import { type MigrationResult, type MigrationStep, migrateDatabase } from '../store/migrate.ts';

export async function migrate(
  config: Config,
  options: { databaseUrl: string; dryRun?: boolean; onStep?: (step: MigrationStep) => void },
): Promise<MigrationResult> {
  try {
    return await migrateDatabase({
      url: options.databaseUrl,
      segments: config.segments,
      dryRun: options.dryRun === true,
      onStep: options.onStep,
    });
  } catch (error) {
    throw error instanceof StartError ? error : explainDatabaseError(error, options.databaseUrl);
  }
}
