// `punctual queues …`: list and show queues, change their settings and limits, pause and resume them.
import { SetQueue } from '@punctual/contract';
import type { Command } from 'commander';
import { eachId } from '../each.ts';
import { UsageError } from '../failure.ts';
import { flagsFrom, valuesOf } from '../flags.ts';
import { printPage } from '../pages.ts';
import { rateOption } from '../rate_flag.ts';
import { type ClientSession, remotely } from '../session.ts';
import { queueFields, queueHead, queueRow } from '../show_flow.ts';

const settingFlags = flagsFrom(SetQueue.properties, ['default_priority', 'ageing_ms', 'max_concurrency']);
const noteFlags = flagsFrom(SetQueue.properties, ['note', 'author']);

export function addQueues(queues: Command): void {
  queues.command('list').description('List the queues, what waits and what runs in them').action(remotely(list));
  queues.command('show').description('Show a queue').argument('<name>', 'The name of the queue').action(remotely(show));
  const set = queues
    .command('set')
    .description('Change settings and limits of a queue')
    .argument('<name>', 'The name of the queue');
  for (const option of [...settingFlags.map((flag) => flag.option), rateOption()]) set.addOption(option);
  set
    .addHelpText(
      'after',
      `
none takes a limit away. Effective within a second, on every server.

Examples:
  punctual queues set mail --max-concurrency 20 --rate 100/1s
  punctual queues set reports --default-priority 2 --ageing 10m`,
    )
    .action(remotely(change));
  for (const [name, paused, words] of [
    ['pause', true, 'Hold the due runs of queues; what runs goes on'],
    ['resume', false, 'Let the runs of queues start again, in their order'],
  ] as const) {
    const command = queues.command(name).description(words).argument('<name...>', 'One or more names');
    for (const { option } of noteFlags) command.addOption(option);
    command.action(
      remotely((session, names: string[], given: Record<string, unknown>) => hold(session, names, { paused, given })),
    );
  }
}

async function list({ client, output }: ClientSession): Promise<void> {
  const page = await client.queues.list();
  if (output.asJson) return output.json(page);
  const print = { output, head: queueHead, row: queueRow, none: 'no job has been created yet', more: '' };
  printPage({ next_cursor: null }, page.queues, print);
}

async function show({ client, output }: ClientSession, name: string): Promise<void> {
  const queue = await client.queues.get(name);
  if (output.asJson) return output.json(queue);
  output.fields(queueFields(queue, output.paint));
}

async function change({ client, output }: ClientSession, name: string, given: Record<string, unknown>): Promise<void> {
  const body = { ...valuesOf(settingFlags, given), ...(given.rate as object | undefined) };
  if (Object.keys(body).length === 0) throw new UsageError('Nothing to change: give at least one setting.');
  const queue = await client.queues.set(name, body);
  if (output.asJson) return output.json(queue);
  output.fields(queueFields(queue, output.paint));
}

async function hold(
  session: ClientSession,
  names: string[],
  { paused, given }: { paused: boolean; given: Record<string, unknown> },
): Promise<number> {
  return await eachId(session, names, {
    noun: 'queue',
    act: (name) => session.client.queues.set(name, { paused, ...valuesOf(noteFlags, given) }),
    tell: (_, name) => `queue ${name} is ${paused ? 'held' : 'open'}`,
  });
}
