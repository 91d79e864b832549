// `punctual operations …`: one action done to all jobs or runs that fit a filter. Starting one counts first and asks.
import { CreateOperation, type Operation, OperationFilter, OperationQuery } from '@punctual/contract';
import { type Command, Option } from 'commander';
import { confirmed, refuseUnasked } from '../confirm.ts';
import { eachId } from '../each.ts';
import { flagsFrom, valuesOf } from '../flags.ts';
import { type Print, printPage, printRows } from '../pages.ts';
import { partOf } from '../progress.ts';
import { type ClientSession, remotely } from '../session.ts';
import { actionWords, askWords, countWords, filterWords, planWords, progressWords } from '../show_operation.ts';
import { now, showTime } from '../time.ts';
import { follow } from '../watch.ts';

const filterFlags = flagsFrom(OperationFilter.properties, Object.keys(OperationFilter.properties), {
  words: {
    user_id: 'Only of this user',
    type: 'Only of this type',
    queue: 'Only of this queue',
    name: 'Only with exactly this name',
    tag: 'Only with this tag',
    created_after: 'Only created after this time, or less than so long ago (7d)',
    created_before: 'Only created before this time, or longer ago than this (1h)',
    all: 'Everything; instead of any other condition',
  },
});
const actionFlags = flagsFrom(CreateOperation.properties, ['action', 'priority', 'note'], {
  words: { action: 'What to do', note: 'Why, for the record' },
});
const pageFlags = flagsFrom(OperationQuery.properties, Object.keys(OperationQuery.properties));

export function addOperations(operations: Command): void {
  const start = operations
    .command('start')
    .description('Do one action to all jobs or runs that fit: counts them, asks, and shows how far it is');
  for (const { option, property } of [...actionFlags, ...filterFlags])
    start.addOption(property === 'action' ? option.makeOptionMandatory() : option);
  start
    .addOption(new Option('--to-queue <queue>', 'move_queue: the new queue'))
    .option('--by <user>', 'Who does it, for the record')
    .option('--dry-run', 'Only count')
    .option('--yes', 'Do not ask')
    .option('--detach', 'Do not wait for its end')
    .addHelpText(
      'after',
      '\nExamples:\n  punctual operations start --action cancel --type mail --created-before 2d\n  punctual operations start --action move_queue --queue default --tag slow --to-queue slow --yes\n  punctual operations start --action redrive --search "no route to host" --note "the network is back"',
    )
    .action(remotely(begin));
  const listing = operations
    .command('list')
    .description('List operations, newest first: who did what, and how far it is');
  for (const { option } of pageFlags) listing.addOption(option);
  listing.option('--all', 'All pages; with --json one operation a line').action(remotely(list));
  operations
    .command('show')
    .description('Show an operation and how far it is')
    .argument('<id>', 'The id of the operation')
    .action(remotely(show));
  operations
    .command('cancel')
    .description('Let operations go no further; what they have done stays done')
    .argument('<id...>', 'One or more ids of operations')
    .action(remotely(cancel));
}

async function begin(session: ClientSession, given: Record<string, unknown>): Promise<number> {
  const { client, output } = session;
  const asked = requestOf(given);
  const dryRun = given['dryRun'] === true;
  const ask = !dryRun && !output.asJson && given['yes'] !== true;
  if (ask) refuseUnasked('this changes every job or run that fits');
  const plan = await client.operations.create({ ...asked, dry_run: true });
  if (dryRun && output.asJson) output.json(plan);
  else if (!output.asJson) output.line(planWords(asked.action, plan));
  if (dryRun || (plan.count === 0 && !output.asJson)) return 0;
  if (ask && !(await confirmed(output, `${askWords(asked)} ${countWords(plan)}?`))) {
    output.remark('nothing was done');
    return 1;
  }
  const { operation_id } = await client.operations.create(asked);
  const id = operation_id ?? '';
  if (given['detach'] === true) {
    if (output.asJson) output.json(await client.operations.get(id));
    else output.remark(howToLook(id));
    return 0;
  }
  return watch(session, id, plan.count ?? 0);
}

function requestOf(given: Record<string, unknown>): CreateOperation {
  const filter = valuesOf(filterFlags, given) as OperationFilter;
  const [queue, user] = [given['toQueue'], given['by']] as (string | undefined)[];
  return {
    ...(valuesOf(actionFlags, given) as Pick<CreateOperation, 'action'>),
    filter,
    ...(queue === undefined ? {} : { queue }),
    ...(user === undefined ? {} : { user_id: user }),
  };
}

function howToLook(id: string): string {
  return `operation ${id} goes on; \`punctual operations show ${id}\` says how far it is, \`punctual operations cancel ${id}\` stops it`;
}

/** Until it has ended; Ctrl-C ends the watching, not the operation. */
async function watch(session: ClientSession, id: string, expected: number): Promise<number> {
  const { client, output } = session;
  const words = (operation: Operation): string => `${operation.state} ${progressWords(operation)}`;
  const operation = await follow(session, {
    get: () => client.operations.get(id),
    ended: ({ state }) => state !== 'RUNNING',
    words,
    part: ({ done, skipped, matched }) => partOf(done + skipped, Math.max(expected, matched)),
    goesOn: howToLook(id),
  });
  if (operation === null) return 0;
  if (output.asJson) output.json(operation);
  else output.line(words(operation));
  return 0;
}

async function list({ client, output }: ClientSession, given: Record<string, unknown>): Promise<void> {
  const query = valuesOf(pageFlags, given) as OperationQuery;
  const print: Print<Operation> = {
    output,
    head: ['OPERATION', 'ACTION', 'FILTER', 'BY', 'STATE', 'PROGRESS', 'STARTED'],
    row: (one, _paint, at) => [
      ...[one.operation_id, actionWords(one), filterWords(one.filter), one.user_id ?? ''],
      ...[one.state, progressWords(one), showTime(one.started_at, at)],
    ],
    none: 'no operation yet',
    more: 'punctual operations list',
  };
  if (given['all'] === true) return await printRows(client.operations.all(query), print);
  const page = await client.operations.list(query);
  printPage(page, page.operations, print);
}

async function show(session: ClientSession, id: string): Promise<void> {
  const { client, output, over } = session;
  const operation = await client.operations.get(id);
  if (operation.state !== 'RUNNING') over(operation.state === 'DONE' ? 0 : 2);
  if (output.asJson) output.json(operation);
  else
    output.fields([
      ['operation', operation.operation_id],
      ['action', actionWords(operation)],
      ['filter', filterWords(operation.filter)],
      ['state', operation.state],
      ['progress', progressWords(operation)],
      ...(operation.user_id === null ? [] : [['by', operation.user_id] as [string, string]]),
      ...(operation.note === null ? [] : [['note', operation.note] as [string, string]]),
      ['started', showTime(operation.started_at, now())],
      ...(operation.ended_at === null ? [] : [['ended', showTime(operation.ended_at, now())] as [string, string]]),
    ]);
}

async function cancel(session: ClientSession, ids: string[]): Promise<number> {
  return eachId(session, ids, {
    noun: 'operation',
    act: (id) => session.client.operations.cancel(id),
    tell: (answer, id) => `operation ${id} is ${answer.state}: ${progressWords(answer)}`,
  });
}
