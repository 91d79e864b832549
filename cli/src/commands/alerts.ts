// `punctual alerts …`: what is wrong, and what is watched; the channels stand in alert_channels.ts.
import { PutAlertRule, PutSilence, routes } from '@punctual/contract';
import { type Command, Option } from 'commander';
import { UsageError } from '../failure.ts';
import { flagsFrom, inWords, valuesOf } from '../flags.ts';
import { printPage } from '../pages.ts';
import { type ClientSession, remotely } from '../session.ts';
import { alertHead, alertRow, ruleHead, ruleRow, silenceHead, silenceRow } from '../show_alerts.ts';
import { now, parseDuration } from '../time.ts';
import { addChannels } from './alert_channels.ts';

type Given = Record<string, unknown>;

const listFlags = flagsFrom(routes.listAlerts.query.properties, ['state', 'rule', 'limit', 'cursor']);
const ruleFlags = flagsFrom(PutAlertRule.properties, [
  ...[
    'kind',
    'channels',
    'type',
    'queue',
    'job_id',
    'user_id',
    'tag',
    'group_by',
    'rate',
    'window_ms',
    'min_runs',
    'over_ms',
  ],
  ...['p95_factor', 'period_ms', 'threshold', 'wait_ms', 'cool_down_ms', 'repeat_ms', 'resolve_after_ms', 'note'],
]);
const silenceFlags = flagsFrom(PutSilence.properties, ['rule', 'group', 'until', 'note', 'author']);

export function addAlerts(alerts: Command): void {
  const list = alerts.command('list').description('List what is wrong now, and what lately was');
  for (const { option } of listFlags) list.addOption(option);
  list.action(remotely(listAlerts));
  alerts
    .command('ack')
    .description('Say that somebody looks after it: it is not repeated')
    .argument('<alert-id>', 'The alert')
    .option('--by <name>', 'Who')
    .option('--note <text>', 'What is done about it')
    .action(remotely(acknowledge));
  alerts
    .command('rules')
    .description('List the rules, or show one')
    .argument('[name]', 'Only this rule')
    .action(remotely(listRules));
  const rule = alerts.command('rule').description('Watch something, or no longer').argument('<name>', 'The rule');
  for (const { option } of ruleFlags) rule.addOption(option);
  rule
    .option('--disable', 'Keep the rule, but do not check it')
    .option('--no-resolved', 'Do not tell when it is over')
    .option('--remove', 'Remove the rule')
    .addHelpText(
      'after',
      '\nExamples:\n  punctual alerts rule nightly --kind missed --type backup --period 25h --channel on-call\n  punctual alerts rule errors --kind failure_rate --rate 0.1 --window 5m --channel on-call',
    )
    .action(remotely(putRule));
  alerts.command('silences').description('List the silences').action(remotely(listSilences));
  const silence = alerts.command('silence').description('Tell nobody for a while').argument('<name>', 'The silence');
  for (const { option } of silenceFlags) silence.addOption(option);
  silence
    .addOption(new Option('--for <duration>', 'For how long, instead of --until').argParser(parseFor))
    .option('--remove', 'Tell again')
    .addHelpText('after', '\nExample:\n  punctual alerts silence move --rule backlog --for 2h --note "the queue moves"')
    .action(remotely(putSilence));
  addChannels(alerts);
}

function parseFor(text: string): number {
  return inWords(() => parseDuration(text));
}

async function listAlerts({ client, output }: ClientSession, given: Given): Promise<void> {
  const page = await client.alerts.list(valuesOf(listFlags, given));
  if (output.asJson) return output.json(page);
  const print = { output, head: alertHead, row: alertRow, none: 'nothing is wrong', more: 'punctual alerts list' };
  printPage(page, page.alerts, print);
}

async function acknowledge({ client, output }: ClientSession, alertId: string, given: Given): Promise<void> {
  const { by, note } = given as { by?: string; note?: string };
  const alert = await client.alerts.acknowledge(alertId, {
    ...(by === undefined ? {} : { by }),
    ...(note === undefined ? {} : { note }),
  });
  if (output.asJson) return output.json(alert);
  output.line(`${alert.rule} is looked after${alert.acknowledged_by === null ? '' : ` by ${alert.acknowledged_by}`}`);
}

async function listRules({ client, output }: ClientSession, name: string | undefined): Promise<void> {
  const page = name === undefined ? await client.alerts.rules.list() : { rules: [await client.alerts.rules.get(name)] };
  if (output.asJson) return output.json(page);
  printPage({ next_cursor: null }, page.rules, {
    output,
    head: ruleHead,
    row: ruleRow,
    none: 'nothing is watched',
    more: '',
  });
}

async function putRule({ client, output }: ClientSession, name: string, given: Given): Promise<void> {
  if (given.remove === true) {
    const removed = await client.alerts.rules.delete(name);
    return output.asJson ? output.json(removed) : output.line(`the rule ${name} is removed`);
  }
  const values = valuesOf(ruleFlags, given) as Partial<PutAlertRule>;
  const { kind } = values;
  if (kind === undefined) throw new UsageError('Give --kind, such as failure or missed.');
  const rule = await client.alerts.rules.put(name, {
    ...values,
    kind,
    ...(given.disable === true ? { enabled: false } : {}),
    ...(given.resolved === false ? { notify_resolved: false } : {}),
  });
  if (output.asJson) return output.json(rule);
  output.line(`${rule.name} fires when ${rule.wording}`);
}

async function listSilences({ client, output }: ClientSession): Promise<void> {
  const page = await client.alerts.silences.list();
  if (output.asJson) return output.json(page);
  const print = { output, head: silenceHead, row: silenceRow, none: 'nothing is silenced', more: '' };
  printPage({ next_cursor: null }, page.silences, print);
}

async function putSilence({ client, output }: ClientSession, name: string, given: Given): Promise<void> {
  if (given.remove === true) {
    const removed = await client.alerts.silences.delete(name);
    return output.asJson ? output.json(removed) : output.line(`the silence ${name} is over`);
  }
  const values = valuesOf(silenceFlags, given) as Partial<PutSilence>;
  const { for: ms } = given as { for?: number };
  const until = ms === undefined ? values.until : new Date(now() + ms).toISOString();
  if (until === undefined) throw new UsageError('Give --for, such as 2h, or --until, such as 2030-01-31T09:00:00Z.');
  const silence = await client.alerts.silences.put(name, { ...values, until });
  if (output.asJson) return output.json(silence);
  output.line(`${silence.rule ?? 'all rules'} ${silence.rule === null ? 'are' : 'is'} silent until ${silence.until}`);
}
