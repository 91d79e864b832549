// `punctual schedule preview`: the next times of a schedule that does not exist yet, in words and as a table.
import type { PreviewRequest } from '@punctual/contract';
import type { Command } from 'commander';
import { UsageError } from '../failure.ts';
import { valuesOf } from '../flags.ts';
import { harmless } from '../output.ts';
import { cronOf, previewFlags } from '../schedule_flags.ts';
import { type ClientSession, remotely } from '../session.ts';
import { previewTable } from '../show_schedule.ts';

export function addSchedule(schedule: Command): void {
  const preview = schedule
    .command('preview')
    .description('Show the next times of a schedule; nothing is created')
    .argument('[expression...]', 'A cron expression in quotes; of several, the times of each');
  for (const { option } of previewFlags) preview.addOption(option);
  preview
    .addHelpText(
      'after',
      `
Examples:
  punctual schedule preview '0 9 * * MON-FRI' --tz Europe/Paris
  punctual schedule preview '30 2 * * *' --tz Europe/Berlin --from 2027-03-27 --count 3
  punctual schedule preview --every 5m --start 2030-01-01T00:00:00Z`,
    )
    .action(remotely(show));
}

async function show(
  { client, output }: ClientSession,
  expressions: string[],
  given: Record<string, unknown>,
): Promise<void> {
  const request = previewRequest(expressions, given);
  const preview = await client.schedules.preview(request);
  if (output.asJson) return output.json(preview);
  output.line(harmless(preview.words));
  const { head, rows } = previewTable(
    preview,
    request.cron_expression === undefined ? null : (request.timezone ?? 'UTC'),
  );
  if (rows.length > 0) {
    output.line();
    output.table(head, rows);
  } else output.remark('no time comes');
  for (const { message } of preview.warnings) output.remark(`\nwarning: ${harmless(message)}`, 'yellow');
}

export function previewRequest(expressions: readonly string[], given: Record<string, unknown>): PreviewRequest {
  if (expressions.length >= 5 && expressions.every((word) => !/\s/.test(word))) {
    throw new UsageError("put the expression in quotes, so that the shell leaves it alone: '0 9 * * *'.");
  }
  const values = valuesOf(previewFlags, given) as PreviewRequest;
  if (expressions.length > 0 === (values.interval_ms !== undefined))
    throw new UsageError("give a cron expression such as '0 9 * * MON-FRI', or --every 5m, and not both.");
  return { ...cronOf(expressions), ...values };
}
