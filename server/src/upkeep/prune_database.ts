// `punctual prune`: one whole pass over a database, counted only or done, told step by step.
import type { Config } from '../config.ts';
import { openDatabase } from '../store/database.ts';
import { requireCurrent } from './current.ts';
import { type PruneStep, policyOf, prune } from './prune.ts';

/** Goes on until everything is done, or `onStep` answers false. */
export async function pruneDatabase(
  config: Config,
  options: { databaseUrl: string; dryRun: boolean; onStep: (step: PruneStep) => boolean | Promise<boolean> },
): Promise<void> {
  const segments = await requireCurrent(config, options.databaseUrl);
  const db = openDatabase({ url: options.databaseUrl, poolSize: 2, queryTimeoutMs: config.query_timeout_ms });
  try {
    const parts = {
      db,
      policy: policyOf(config),
      auditDays: config.retain_audit_days,
      segments: Array.from({ length: segments }, (_, i) => i),
      dryRun: options.dryRun,
    };
    for await (const step of prune(parts)) if (!(await options.onStep(step))) return;
  } finally {
    await db.close();
  }
}
