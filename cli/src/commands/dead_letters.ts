// `punctual dead-letters …`: list, show, redrive some or all, discard.
import { DeadLetterGroupQuery, DeadLetterQuery, RedriveMany } from '@punctual/contract';
import type { Command } from 'commander';
import { confirmed, refuseUnasked } from '../confirm.ts';
import { eachId } from '../each.ts';
import { UsageError } from '../failure.ts';
import { flagsFrom, valuesOf } from '../flags.ts';
import { printPage, printRows } from '../pages.ts';
import { partOf } from '../progress.ts';
import { countLetters, type Filter, redriveAll } from '../redrive.ts';
import { type ClientSession, remotely } from '../session.ts';
import { groupHead, groupRow, letterFields, letterHead, letterHints, letterRow } from '../show.ts';
import { now } from '../time.ts';

const words = {
  type: 'Only dead letters of this type',
  queue: 'Only dead letters of this queue',
  user_id: 'Only dead letters of this user',
  reason: 'Only those that failed for this reason',
  q: 'Only those with this text in their error message',
};
const queryFlags = flagsFrom(DeadLetterQuery.properties, Object.keys(DeadLetterQuery.properties), {
  words: { ...words, redriven: 'Also those that were redriven' },
});
const groupFlags = flagsFrom(DeadLetterGroupQuery.properties, Object.keys(DeadLetterGroupQuery.properties), { words });
const redriveFlags = flagsFrom(RedriveMany.properties, Object.keys(RedriveMany.properties), {
  words: { ...words, limit: 'With --all: how many at most; all that fit unless given' },
  defaults: false,
});

export function addDeadLetters(letters: Command): void {
  const list = letters.command('list').description('List runs that failed for good, newest first');
  for (const { option } of queryFlags) list.addOption(option);
  list
    .option('--all', 'All pages; with --json one dead letter a line')
    .addHelpText(
      'after',
      '\nExamples:\n  punctual dead-letters list --type send-report --reason timed_out\n  punctual dead-letters list --search "no such account" --all',
    )
    .action(remotely(listLetters));
  const groups = letters.command('groups').description('Put them together by type and error, the most frequent first');
  for (const { option } of groupFlags) groups.addOption(option);
  groups.action(remotely(listGroups));
  letters
    .command('show')
    .description('Show a dead letter: its error, its payload, and what to do next')
    .argument('<run-id>', 'The id of the run, as `dead-letters list` shows it')
    .action(remotely(show));
  addRedrive(letters.command('redrive'));
  letters
    .command('discard')
    .description('Forget dead letters; the runs stay in the history')
    .argument('<run-id...>', 'One or more ids of runs')
    .addHelpText('after', '\nExample:\n  punctual dead-letters discard RUN_ID')
    .action(remotely(discard));
}

function addRedrive(redrive: Command): void {
  redrive
    .description('Run them again: each gets a new run of its job, the same one however often it is asked for')
    .argument('[run-id...]', 'The ids of runs; or --all')
    .option('--all', 'All dead letters that fit the filters');
  for (const { option } of redriveFlags) redrive.addOption(option);
  redrive
    .option('--yes', 'Do not ask before all dead letters of everybody are redriven')
    .addHelpText(
      'after',
      '\nExamples:\n  punctual dead-letters redrive RUN_ID\n  punctual dead-letters redrive --all --type send-report --reason timed_out\n  punctual dead-letters redrive --all --limit 10 --yes',
    )
    .action(remotely(redriveSome));
}

async function listLetters({ client, output }: ClientSession, given: Record<string, unknown>): Promise<void> {
  const query = valuesOf(queryFlags, given) as DeadLetterQuery;
  const none = 'no dead letter fits';
  const print = { output, head: letterHead, row: letterRow, none, more: 'punctual dead-letters list' };
  if (given['all'] === true) return await printRows(client.deadLetters.all(query), print);
  const page = await client.deadLetters.list(query);
  printPage(page, page.dead_letters, print);
}

async function listGroups({ client, output }: ClientSession, given: Record<string, unknown>): Promise<void> {
  const answer = await client.deadLetters.groups(valuesOf(groupFlags, given));
  if (output.asJson) return output.json(answer);
  if (answer.groups.length === 0) return output.remark('no dead letter fits');
  const at = now();
  output.table(
    groupHead,
    answer.groups.map((group) => groupRow(group, output.paint, at)),
  );
  if (!answer.complete) output.remark(`only the newest ${answer.looked_at} dead letters were looked at`, 'dim');
}

async function show({ client, output }: ClientSession, id: string): Promise<void> {
  const letter = await client.deadLetters.get(id);
  if (output.asJson) return output.json(letter);
  output.fields(letterFields(letter, output.paint, now()));
  for (const hint of letterHints(letter)) output.remark(`\n${hint}`);
}

type Given = Record<string, unknown> & { all?: true; yes?: true };

async function redriveSome(session: ClientSession, ids: string[], given: Given): Promise<number> {
  const { limit, ...filter } = valuesOf(redriveFlags, given) as RedriveMany;
  if (given.all === true && ids.length > 0) throw new UsageError('give ids of runs or --all, not both.');
  if (given.all === true) return await redriveFitting(session, filter, { limit, yes: given.yes === true });
  const used = redriveFlags.filter(({ option }) => given[option.attributeName()] !== undefined);
  if (used.length > 0)
    throw new UsageError(`${used.map(({ option }) => option.long).join(', ')} can only be used with --all.`);
  if (ids.length === 0)
    throw new UsageError('say which: the ids of runs, as `punctual dead-letters list` shows them, or --all.');
  return await eachId(session, ids, {
    noun: 'run',
    act: (id) => session.client.deadLetters.redrive(id),
    tell: (answer) => `run ${answer.run_id} is redriven by run ${answer.redriven_run_id}`,
  });
}

async function redriveFitting(
  { client, output }: ClientSession,
  filter: Filter,
  { limit = Number.POSITIVE_INFINITY, yes }: { limit: number | undefined; yes: boolean },
): Promise<number> {
  const ask = Object.keys(filter).length === 0 && !yes;
  if (ask) refuseUnasked('without a filter such as --type this redrives the dead letters of all jobs');
  const total = await countLetters(client.deadLetters, filter, limit);
  if (ask && total > 0 && !(await confirmed(output, `Redrive ${countOf(total)}, of whatever job?`))) {
    output.remark('nothing was redriven');
    return 1;
  }
  const progress = (redriven: number): void =>
    output.progress(`${redriven} of ${total} redriven`, partOf(redriven, total));
  const answer = await redriveAll(client.deadLetters, filter, { total, progress }).finally(() => output.progress(null));
  if (output.asJson) output.json(answer);
  else if (total === 0) output.remark('no dead letter fits');
  else output.line(`${countOf(answer.redriven)} redriven`);
  if (!answer.done && answer.redriven < limit && !output.asJson) output.remark(leftOver, 'dim');
  return 0;
}

function countOf(count: number): string {
  return count === 1 ? '1 dead letter' : `${count} dead letters`;
}

const leftOver =
  'Some that fit are still there: their job is cancelled or has another run that has not ended, or they failed just now. `punctual dead-letters list` shows them.';

async function discard(session: ClientSession, ids: string[]): Promise<number> {
  return await eachId(session, ids, {
    noun: 'run',
    act: (id) => session.client.deadLetters.discard(id),
    tell: (_, id) => `the dead letter of run ${id} is discarded`,
  });
}
