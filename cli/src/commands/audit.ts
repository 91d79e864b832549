// `punctual audit`: who changed what through the API.
import { type AuditEntry, AuditQuery } from '@punctual/contract';
import type { Command } from 'commander';
import { flagsFrom, valuesOf } from '../flags.ts';
import { oneLine, type Paint } from '../output.ts';
import { printPage } from '../pages.ts';
import { type ClientSession, remotely } from '../session.ts';
import { showRelative } from '../time.ts';

const flags = flagsFrom(
  AuditQuery.properties,
  ['noun', 'id', 'key_id', 'user_id', 'operation', 'from', 'to', 'limit', 'cursor'],
  { past: ['from', 'to'] },
);
const max_change_chars = 80;

export function addAudit(audit: Command): void {
  for (const { option } of flags) audit.addOption(option);
  audit
    .addHelpText('after', '\nExamples:\n  punctual audit --noun gate --from 24h\n  punctual audit --id JOB_ID --json')
    .action(remotely(list));
}

async function list({ client, output }: ClientSession, given: Record<string, unknown>): Promise<void> {
  const page = await client.audit.list(valuesOf(flags, given));
  const head = ['WHEN', 'WHO', 'USER', 'FROM', 'DID', 'TO', 'AFTER'];
  printPage(page, page.entries, { output, head, row, none: 'no change fits', more: 'punctual audit' });
}

function row(entry: AuditEntry, _paint: Paint, now: number): string[] {
  return [
    showRelative(Date.parse(entry.at), now),
    entry.key_name,
    entry.user_id ?? '–',
    entry.address ?? '–',
    entry.operation,
    `${entry.noun} ${entry.id}`.trim(),
    oneLine(entry.after === null ? '' : JSON.stringify(entry.after), max_change_chars),
  ];
}
