// `punctual limits …`: how many runs of a concurrency key, a queue or a type at once and how fast, and which queues
// users share fairly.
import { KeyLimitQuery, SetLaneLimit } from '@punctual/contract';
import type { Command } from 'commander';
import { eachId } from '../each.ts';
import { UsageError } from '../failure.ts';
import { flagsFrom, valuesOf } from '../flags.ts';
import {
  fairOptions,
  fairRequest,
  limitHead,
  limitOptions,
  limitRequest,
  limitRow,
  useFields,
} from '../limit_flags.ts';
import { oneLine } from '../output.ts';
import { printPage } from '../pages.ts';
import { rateOption } from '../rate_flag.ts';
import { type ClientSession, remotely } from '../session.ts';
import { laneLimitHead, laneLimitRow } from '../show_flow.ts';
import { now } from '../time.ts';

const pageFlags = flagsFrom(KeyLimitQuery.properties, Object.keys(KeyLimitQuery.properties));
const laneFlags = flagsFrom(SetLaneLimit.properties, ['max_concurrency', 'note']);
const keyWords = 'The concurrency key of jobs; * is the default for keys without a limit of their own';

export function addLimits(limits: Command): void {
  const listing = limits.command('list').description('List the limits of keys');
  for (const { option } of pageFlags) listing.addOption(option);
  listing.action(remotely(list));
  limits
    .command('show')
    .description('Show the limit of a key, who uses it and how many wait')
    .argument('<key>', keyWords)
    .action(remotely(show));
  const setting = limits
    .command('set')
    .description('Set the whole limit of a key; what is not given does not limit')
    .argument('<key>', keyWords);
  for (const option of limitOptions) setting.addOption(option);
  setting
    .addHelpText(
      'after',
      "\nExamples:\n  punctual limits set supplier-7 --max-concurrency 3 --rate 100/1m --burst 10\n  punctual limits set '*' --max-concurrency 1",
    )
    .action(remotely(set));
  limits
    .command('delete')
    .description('Remove limits of keys; the default applies to them, if there is one')
    .argument('<key...>', 'One or more keys')
    .action(remotely(remove));
  limits.command('lanes').description('List the limits of queues and types').action(remotely(listLanes));
  for (const kind of ['queue', 'type'] as const) {
    const lane = limits
      .command(kind)
      .description(
        `Limit how many runs of a ${kind} run at once and how fast, over all workers; none takes a limit away`,
      )
      .argument('<name>', `The name of the ${kind}`);
    for (const { option } of laneFlags) lane.addOption(option);
    lane
      .addOption(rateOption())
      .action(remotely((session, name: string, given: Record<string, unknown>) => setLane(session, kind, name, given)));
  }
  const fair = limits
    .command('fair')
    .description('Share a queue fairly between users; without a queue, list those that are')
    .argument('[queue]', 'The name of the queue');
  for (const option of fairOptions) fair.addOption(option);
  fair.action(remotely(share));
}

async function list({ client, output }: ClientSession, given: Record<string, unknown>): Promise<void> {
  const page = await client.limits.list(valuesOf(pageFlags, given));
  printPage(page, page.limits, {
    output,
    head: limitHead,
    row: limitRow,
    none: 'no key has a limit',
    more: 'punctual limits list',
  });
}

async function show({ client, output }: ClientSession, key: string): Promise<void> {
  const use = await client.limits.get(key);
  if (output.asJson) return output.json(use);
  output.fields(useFields(use, now()));
}

async function set(session: ClientSession, key: string, given: Record<string, unknown>): Promise<void> {
  const { client, output, command } = session;
  if (given['burst'] !== undefined && given['rate'] === undefined) command.error('error: --burst goes with --rate.');
  const limit = await client.limits.put(key, limitRequest(given));
  if (output.asJson) return output.json(limit);
  output.table(limitHead, [limitRow(limit)]);
}

async function remove(session: ClientSession, keys: string[]): Promise<number> {
  return eachId(session, keys, {
    noun: 'key',
    act: (key) => session.client.limits.delete(key),
    tell: (_, key) => `the limit of ${key} is removed`,
  });
}

async function listLanes({ client, output }: ClientSession): Promise<void> {
  const page = await client.limits.listLanes();
  if (output.asJson) return output.json(page);
  const print = { output, head: laneLimitHead, row: laneLimitRow, none: 'no queue and no type has a limit', more: '' };
  printPage({ next_cursor: null }, page.limits, print);
}

async function setLane(
  { client, output }: ClientSession,
  kind: 'queue' | 'type',
  name: string,
  given: Record<string, unknown>,
): Promise<void> {
  const body = { ...valuesOf(laneFlags, given), ...(given['rate'] as object | undefined) };
  if (Object.keys(body).length === 0) throw new UsageError('Nothing to change: give --max-concurrency or --rate.');
  const limit = await client.limits.setLane(kind, name, body);
  if (output.asJson) return output.json(limit);
  output.table(laneLimitHead, [laneLimitRow(limit)]);
}

async function share(
  { client, output }: ClientSession,
  queue: string | undefined,
  given: Record<string, unknown>,
): Promise<void> {
  if (queue !== undefined && given['off'] === true) await client.limits.deleteFair(queue);
  else if (queue !== undefined) await client.limits.putFair(queue, fairRequest(given));
  const page = await client.limits.listFair();
  if (output.asJson) return output.json(page);
  printPage({ next_cursor: null }, page.fair_queues, {
    output,
    head: ['QUEUE', 'SHARE', 'WEIGHTS', 'NOTE'],
    row: (one) => [
      one.queue,
      String(one.share),
      oneLine(
        Object.entries(one.weights)
          .map((pair) => pair.join('='))
          .join(', ') || '–',
        60,
      ),
      oneLine(one.note ?? '', 60),
    ],
    none: 'no queue is shared fairly',
    more: '',
  });
}
