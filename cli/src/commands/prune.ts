// `punctual prune`: removes now what retention lets go, which servers otherwise do bit by bit. Says first how much that is.
import type { PruneStep } from '@punctual/server';
import type { Config } from '@punctual/server/config';
import type { Command } from 'commander';
import { withDatabase } from '../database.ts';
import type { Output } from '../output.ts';
import { partOf } from '../progress.ts';
import { locally, type Session } from '../session.ts';

export function addPrune(command: Command): void {
  command
    .option('--dry-run', 'Only say what would be removed')
    .addHelpText(
      'after',
      `
It works on the database of DATABASE_URL, or on the embedded one while \`punctual start\` runs, by the settings
PUNCTUAL_RETAIN_… of this environment and the rules of \`punctual retention\`. Servers do the same by themselves.

Example:
  punctual prune --dry-run`,
    )
    .action(locally(run));
}

interface Sums {
  rows: Map<string, { rows: number; exact: boolean }>;
  dropped: string[];
  busy: string[];
}

async function run({ config, output }: Session, { dryRun = false }: { dryRun?: boolean }): Promise<void> {
  await withDatabase(config, '`punctual prune`', async (databaseUrl) => {
    const foreseen = await pass(config, databaseUrl, { dryRun: true });
    if (dryRun || foreseen.rows.size === 0) return dryRun ? print(output, foreseen, true) : printNothing(output);
    if (!output.asJson) print(output, foreseen, true);
    const expected = [...foreseen.rows.values()];
    const total = expected.every(({ exact }) => exact) ? expected.reduce((sum, { rows }) => sum + rows, 0) : undefined;
    const done = await pass(config, databaseUrl, { dryRun: false, output, total });
    print(output, done, false);
  });
}

async function pass(
  config: Config,
  databaseUrl: string,
  { dryRun, output, total }: { dryRun: boolean; output?: Output; total?: number | undefined },
): Promise<Sums> {
  const { pruneDatabase } = await import('@punctual/server');
  const sums: Sums = { rows: new Map(), dropped: [], busy: [] };
  let removed = 0;
  const onStep = ({ table, rows, dropped, busy, more }: PruneStep): boolean => {
    const sum = sums.rows.get(table) ?? { rows: 0, exact: true };
    if (rows > 0 || more) sums.rows.set(table, { rows: sum.rows + rows, exact: sum.exact && more !== true });
    if (dropped !== undefined) sums.dropped.push(dropped);
    if (busy !== undefined) sums.busy.push(busy);
    removed += rows;
    output?.progress(
      `${removed} rows removed so far, at ${table}`,
      ...(total === undefined ? [] : [partOf(removed, total)]),
    );
    return true;
  };
  try {
    await pruneDatabase(config, { databaseUrl, dryRun, onStep });
  } finally {
    output?.progress(null);
  }
  return sums;
}

function print(output: Output, { rows, dropped, busy }: Sums, foreseen: boolean): void {
  const tables = [...rows].map(([table, sum]) => ({ table, ...sum }));
  if (output.asJson) return output.json({ dry_run: foreseen, tables, dropped, busy });
  if (tables.length === 0) return printNothing(output);
  const counted = tables.map(({ table, rows: n, exact }) => [table, exact ? String(n) : `at least ${n}`]);
  output.table(['TABLE', foreseen ? 'WOULD GO' : 'REMOVED'], counted);
  if (dropped.length > 0) output.line(`days dropped as a whole: ${dropped.join(', ')}`);
  if (busy.length > 0) output.remark(`in use by others, left for another time: ${busy.join(', ')}`, 'yellow');
}

function printNothing(output: Output): void {
  if (output.asJson) output.json({ dry_run: false, tables: [], dropped: [], busy: [] });
  else output.line('nothing is old enough to go');
}
