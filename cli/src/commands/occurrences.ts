// `punctual jobs occurrences`: the ledger of a recurring job, every nominal time with the run it made or why it made none.
import { type Occurrence, OccurrenceQuery } from '@punctual/contract';
import { type Command, Option } from 'commander';
import { UsageError } from '../failure.ts';
import { flagsFrom, valuesOf } from '../flags.ts';
import { printPage, printRows } from '../pages.ts';
import { type ClientSession, remotely } from '../session.ts';
import { occurrenceHead, occurrenceRow } from '../show_schedule.ts';

const queryFlags = flagsFrom(OccurrenceQuery.properties, Object.keys(OccurrenceQuery.properties), {
  words: {
    reason: 'Only times that made no run, for this reason',
    with_run: 'Only times that made a run',
    from: 'Only times since this one, or within this duration (2d)',
    to: 'Only times before this one, or longer ago than this duration (2d)',
  },
  past: ['from', 'to'],
});

export function addOccurrences(jobs: Command): void {
  const command = jobs
    .command('occurrences')
    .description('List the times of a recurring job, newest first: the run each made, or why it made none')
    .argument('<id>', 'The id of the job');
  for (const { option } of queryFlags) command.addOption(option);
  command
    .addOption(new Option('--without-run', 'Only times that made no run'))
    .option('--all', 'All pages; with --json one entry a line')
    .addHelpText(
      'after',
      '\nExamples:\n  punctual jobs occurrences ID --from 7d\n  punctual jobs occurrences ID --reason skipped_overlap --all',
    )
    .action(remotely(list));
}

type Jobs = ClientSession['client']['jobs'];

async function list({ client, output }: ClientSession, id: string, given: Record<string, unknown>): Promise<void> {
  const query = occurrenceQuery(given);
  const none = 'no time of the schedule has come that fits';
  const print = { output, head: occurrenceHead, row: occurrenceRow, none, more: `punctual jobs occurrences ${id}` };
  if (given['all'] === true) return await printRows(all(client.jobs, id, query), print);
  const page = await client.jobs.occurrences(id, query);
  printPage(page, page.occurrences, print);
}

export function occurrenceQuery(given: Record<string, unknown>): OccurrenceQuery {
  if (given['withoutRun'] !== true) return valuesOf(queryFlags, given);
  if (given['withRun'] === true) throw new UsageError('give --with-run or --without-run, not both.');
  return { ...valuesOf(queryFlags, given), with_run: false };
}

async function* all(jobs: Jobs, id: string, query: OccurrenceQuery): AsyncGenerator<Occurrence, void, undefined> {
  let cursor = query.cursor;
  do {
    const page = await jobs.occurrences(id, { ...query, ...(cursor === undefined ? {} : { cursor }) });
    yield* page.occurrences;
    cursor = page.next_cursor ?? undefined;
  } while (cursor !== undefined);
}
