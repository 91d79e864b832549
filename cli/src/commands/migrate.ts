// `punctual migrate`: brings the database of DATABASE_URL up to date. Servers do it by themselves when they start; this
// is for those who want to choose the moment.
import type { Command } from 'commander';
import { needDatabaseUrl } from '../database.ts';
import { partOf } from '../progress.ts';
import { locally, type Session } from '../session.ts';

export function addMigrate(command: Command): void {
  command
    .option('--dry-run', 'Only say what would be done')
    .addHelpText(
      'after',
      '\nExample:\n  DATABASE_URL=postgres://user:password@host/database punctual migrate --dry-run',
    )
    .action(locally(run));
}

async function run({ config, output }: Session, { dryRun = false }: { dryRun?: boolean }): Promise<void> {
  const databaseUrl = needDatabaseUrl(config, '`punctual migrate`');
  const { migrate } = await import('@punctual/server');
  const { applied, pending, version } = await migrate(config, {
    databaseUrl,
    dryRun,
    onStep: ({ name, done, all }) => output.progress(`applying ${name}, ${done} of ${all} done`, partOf(done, all)),
  }).finally(() => output.progress(null));
  if (output.asJson) return output.json({ applied, pending, version });
  for (const name of applied) output.line(`applied  ${name}`);
  for (const name of pending) output.line(`pending  ${name}`);
  if (pending.length > 0) output.line(`${pending.length} to apply; the database is at version ${version}`);
  else output.line(`the database is up to date, at version ${version}`);
}
