// The part of `punctual alerts …` about who is told: channels, deliveries, subscriptions to events.
import { type PutChannel, PutSubscription, routes } from '@punctual/contract';
import { type Command, Option } from 'commander';
import { UsageError } from '../failure.ts';
import { flagsFrom, valuesOf } from '../flags.ts';
import { printPage } from '../pages.ts';
import { readJson } from '../read_json.ts';
import { type ClientSession, remotely } from '../session.ts';
import {
  channelHead,
  channelRow,
  deliveryHead,
  deliveryRow,
  subscriptionHead,
  subscriptionRow,
} from '../show_alerts.ts';

type Given = Record<string, unknown>;

const deliveryFlags = flagsFrom(routes.listDeliveries.query.properties, [
  ...['state', 'channel', 'subscription', 'limit', 'cursor'],
]);
const subscriptionFlags = flagsFrom(PutSubscription.properties, ['secret', 'kinds', 'type', 'queue', 'note']);

export function addChannels(alerts: Command): void {
  alerts
    .command('channels')
    .description('List the channels, or show one')
    .argument('[name]', 'Only this channel')
    .action(remotely(listChannels));
  alerts
    .command('channel')
    .description('Set up a webhook, Slack or e-mail, or remove it')
    .argument('<name>', 'The channel')
    .addOption(new Option('--webhook <url>', 'A URL that gets signed calls'))
    .addOption(new Option('--slack <url>', 'An incoming webhook of Slack, or of what understands the same'))
    .addOption(new Option('--channel-json <json>', 'The whole channel, as itself, @file or - ; for e-mail'))
    .option('--note <text>', 'What it is')
    .option('--remove', 'Remove the channel and what was to be sent by it')
    .addHelpText('after', '\nExample:\n  punctual alerts channel on-call --webhook https://hooks.example.com/punctual')
    .action(remotely(putChannel));
  alerts
    .command('test')
    .description('Send a test by a channel and say what came of it')
    .argument('<channel>', 'The channel')
    .action(remotely(testChannel));
  const deliveries = alerts.command('deliveries').description('List what was sent, is to be sent, and was given up');
  for (const { option } of deliveryFlags) deliveries.addOption(option);
  deliveries.action(remotely(listDeliveries));
  alerts
    .command('redrive')
    .description('Send again what was given up: one delivery, or all')
    .argument('[delivery-id]', 'The delivery')
    .option('--channel <name>', 'All of this channel')
    .option('--subscription <name>', 'All of this subscription')
    .action(remotely(redrive));
  alerts
    .command('subscriptions')
    .description('List the subscriptions to events, or show one')
    .argument('[name]', 'Only this subscription')
    .action(remotely(listSubscriptions));
  const subscribe = alerts
    .command('subscribe')
    .description('Send events to a webhook as CloudEvents, or no longer')
    .argument('<name>', 'The subscription')
    .addOption(new Option('--to <url>', 'The webhook'));
  for (const { option } of subscriptionFlags) subscribe.addOption(option);
  subscribe
    .option('--remove', 'Send them no longer')
    .option('--test', 'Send a test event now and say what came of it')
    .option('--pause', 'Send nothing until it is resumed')
    .option('--resume', 'Send again, from where it was paused')
    .addHelpText('after', '\nExample:\n  punctual alerts subscribe etl --to https://e.example.com/ --event run.failed')
    .action(remotely(putSubscription));
}

async function listChannels({ client, output }: ClientSession, name: string | undefined): Promise<void> {
  const { list, get } = client.alerts.channels;
  const page = name === undefined ? await list() : { channels: [await get(name)] };
  if (output.asJson) return output.json(page);
  const print = { output, head: channelHead, row: channelRow, none: 'there is no channel', more: '' };
  printPage({ next_cursor: null }, page.channels, print);
}

async function putChannel({ client, output }: ClientSession, name: string, given: Given): Promise<void> {
  if (given.remove === true) {
    const removed = await client.alerts.channels.delete(name);
    return output.asJson ? output.json(removed) : output.line(`the channel ${name} is removed`);
  }
  const channel = await client.alerts.channels.put(name, await channelOf(given));
  if (output.asJson) return output.json(channel);
  output.line(`${channel.name} tells ${channel.target}`);
  if (channel.secret !== null) output.line(`its secret, shown only now: ${channel.secret}`);
}

async function channelOf(given: Given): Promise<PutChannel> {
  const { webhook, slack, channelJson, note } = given as Record<string, string | undefined>;
  if ([webhook, slack, channelJson].filter((one) => one !== undefined).length !== 1)
    throw new UsageError('Give one of --webhook, --slack and --channel-json.');
  const noted = note === undefined ? {} : { note };
  if (channelJson !== undefined) return (await readJson(channelJson, '--channel-json')) as PutChannel;
  return webhook === undefined
    ? { kind: 'slack', url: slack ?? '', ...noted }
    : { kind: 'webhook', url: webhook, ...noted };
}

/** Exit code 1: it did not arrive. */
async function testChannel({ client, output }: ClientSession, name: string): Promise<number> {
  return sayTested(output, await client.alerts.channels.test(name));
}

function sayTested(
  output: ClientSession['output'],
  { delivered, status, error }: { delivered: boolean; status: number | null; error: string | null },
): number {
  if (output.asJson) output.json({ delivered, status, error });
  else
    output.line(
      delivered ? `the test has arrived${status === null ? '' : ` (${status})`}` : `it did not arrive: ${error}`,
    );
  return delivered ? 0 : 1;
}

async function listDeliveries({ client, output }: ClientSession, given: Given): Promise<void> {
  const page = await client.alerts.deliveries.list(valuesOf(deliveryFlags, given));
  if (output.asJson) return output.json(page);
  const more = 'punctual alerts deliveries';
  printPage(page, page.deliveries, {
    output,
    head: deliveryHead,
    row: deliveryRow,
    none: 'there is no delivery',
    more,
  });
}

async function redrive({ client, output }: ClientSession, deliveryId: string | undefined, given: Given): Promise<void> {
  const { channel, subscription } = given as { channel?: string; subscription?: string };
  if (deliveryId !== undefined) {
    const delivery = await client.alerts.deliveries.redrive(deliveryId);
    return output.asJson ? output.json(delivery) : output.line('it is being sent again');
  }
  if ((channel === undefined) === (subscription === undefined))
    throw new UsageError('Give a delivery, or one of --channel and --subscription.');
  const filter = channel === undefined ? { subscription: subscription as string } : { channel };
  const answer = await client.alerts.deliveries.redriveAll(filter);
  if (output.asJson) return output.json(answer);
  output.line(`${answer.redriven} ${answer.redriven === 1 ? 'is' : 'are'} being sent again`);
}

async function listSubscriptions({ client, output }: ClientSession, name: string | undefined): Promise<void> {
  const { list, get } = client.events.subscriptions;
  const page = name === undefined ? await list() : { subscriptions: [await get(name)] };
  if (output.asJson) return output.json(page);
  const print = { output, head: subscriptionHead, row: subscriptionRow, none: 'nobody has subscribed', more: '' };
  printPage({ next_cursor: null }, page.subscriptions, print);
}

async function putSubscription({ client, output }: ClientSession, name: string, given: Given): Promise<number | void> {
  if (given.remove === true) {
    const removed = await client.events.subscriptions.delete(name);
    return output.asJson ? output.json(removed) : output.line(`the subscription ${name} is removed`);
  }
  const { to: url, test, pause, resume } = given as { to?: string; test?: true; pause?: true; resume?: true };
  if (test === true) return sayTested(output, await client.events.subscriptions.test(name));
  if (pause === true || resume === true) {
    const moved = await client.events.subscriptions[pause === true ? 'pause' : 'resume'](name);
    return output.asJson
      ? output.json(moved)
      : output.line(`the subscription ${name} ${moved.paused_at === null ? 'goes on' : 'is paused'}`);
  }
  const { kinds, ...rest } = valuesOf(subscriptionFlags, given) as Partial<PutSubscription>;
  if (url === undefined || kinds === undefined) throw new UsageError('Give --to, and --event at least once.');
  const subscription = await client.events.subscriptions.put(name, { url, kinds, ...rest });
  if (output.asJson) return output.json(subscription);
  output.line(`${subscription.kinds.join(', ')} go to ${subscription.target}`);
  if (subscription.secret !== null) output.line(`its secret, shown only now: ${subscription.secret}`);
}
