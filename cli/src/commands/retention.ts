// `punctual retention …`: see and set how long the history of queues and types is kept.
import { type GateKind, type RetentionRule, SetRetention } from '@punctual/contract';
import { type Command, Option } from 'commander';
import { UsageError } from '../failure.ts';
import { flagsFrom, valuesOf } from '../flags.ts';
import { oneLine, type Paint } from '../output.ts';
import { printPage } from '../pages.ts';
import { type ClientSession, remotely } from '../session.ts';
import { showRelative } from '../time.ts';

const flags = flagsFrom(SetRetention.properties, ['runs_days', 'logs_days', 'note']);
const max_note_chars = 60;

export function addRetention(retention: Command): void {
  retention.command('list').description('Show how long history is kept').action(remotely(list));
  const set = named(retention.command('set').description('Keep the history of a queue or a type longer or shorter'));
  for (const { option } of flags) set.addOption(option);
  set
    .addHelpText(
      'after',
      '\nExample:\n  punctual retention set --queue audit --runs-days 365 --note "auditors ask for a year"',
    )
    .action(remotely(setRule));
  named(retention.command('delete').description('Keep it as the installation does again')).action(remotely(deleteRule));
}

function named(command: Command): Command {
  return command
    .addOption(new Option('--type <type>', 'The type it is about'))
    .addOption(new Option('--queue <queue>', 'The queue it is about'));
}

function subject(given: Record<string, unknown>): { kind: GateKind; name: string } {
  const { type, queue } = given as { type?: string; queue?: string };
  if ((type === undefined) === (queue === undefined)) throw new UsageError('Give either --type or --queue.');
  return type === undefined ? { kind: 'queue', name: queue as string } : { kind: 'type', name: type };
}

async function list({ client, output }: ClientSession): Promise<void> {
  const answer = await client.retention.list();
  if (output.asJson) return output.json(answer);
  const { runs_days, logs_days, submissions_days, operations_days, artifacts_days } = answer.installation;
  output.line(
    `runs ${inDays(runs_days)}, log lines ${inDays(logs_days)}, idempotency keys ${inDays(submissions_days)}, operations ${inDays(operations_days)}, artifacts that nobody refers to ${inDays(artifacts_days)}`,
  );
  printRules(output, answer.rules);
}

async function setRule({ client, output }: ClientSession, given: Record<string, unknown>): Promise<void> {
  const { kind, name } = subject(given);
  const body = valuesOf(flags, given) as SetRetention;
  if (body.runs_days === undefined && body.logs_days === undefined)
    throw new UsageError('Give --runs-days or --logs-days, or both; 0 is for ever.');
  const rule = await client.retention.set(kind, name, body);
  if (output.asJson) return output.json(rule);
  printRules(output, [rule]);
}

async function deleteRule({ client, output }: ClientSession, given: Record<string, unknown>): Promise<void> {
  const { kind, name } = subject(given);
  const deleted = await client.retention.delete(kind, name);
  if (output.asJson) return output.json(deleted);
  output.line(`${kind} ${name} has no rule of its own any more`);
}

function printRules(output: ClientSession['output'], rules: readonly RetentionRule[]): void {
  const head = ['KIND', 'NAME', 'RUNS', 'LOG LINES', 'SINCE', 'NOTE'];
  printPage({ next_cursor: null }, rules, {
    output,
    head,
    row: ruleRow,
    none: 'no queue or type has a rule',
    more: '',
  });
}

function ruleRow(rule: RetentionRule, _paint: Paint, now: number): string[] {
  return [
    rule.kind,
    rule.name,
    inDays(rule.runs_days),
    inDays(rule.logs_days),
    showRelative(Date.parse(rule.changed_at), now),
    oneLine(rule.note ?? '', max_note_chars),
  ];
}

function inDays(days: number | null): string {
  if (days === null) return '–';
  return days === 0 ? 'for ever' : days === 1 ? '1 day' : `${days} days`;
}
