// `punctual logs …`: search what all runs logged, and their errors.
import { type LogHit, LogSearchQuery } from '@punctual/contract';
import type { Command } from 'commander';
import { flagsFrom, valuesOf } from '../flags.ts';
import { printHit } from '../log_lines.ts';
import { type ClientSession, remotely } from '../session.ts';

const { q: _, from, to, ...choices } = LogSearchQuery.properties;
const properties = { ...choices, since: from, until: to };
const queryFlags = flagsFrom(properties, Object.keys(properties), {
  past: ['since', 'until'],
  words: {
    job_id: 'Only lines of runs of this job',
    run_id: 'Only lines of this run',
    type: 'Only lines of runs of this type',
    queue: 'Only lines of runs of this queue',
    user_id: 'Only lines of runs of this user',
    worker_id: 'Only lines that this worker wrote',
    level: 'Only lines of this level; errors of attempts are of level error',
    since: 'Only lines stored after this time, or within this duration (2h); a week unless given',
    until: 'Only lines stored before this time, or longer ago than this duration (2h)',
  },
});

export function addLogs(logs: Command): void {
  const search = logs
    .command('search')
    .description('Search log lines and errors of all runs, newest first')
    .argument('<words...>', 'Words that must all stand in a line; "several words" as they stand; pay* begins a word');
  for (const { option } of queryFlags) search.addOption(option);
  search
    .option('--all', 'All pages; with --json one line found a line')
    .addHelpText(
      'after',
      `\nExamples:\n  punctual logs search 'payment failed' --type mail --since 1h\n  punctual logs search '"connection reset"' --level error`,
    )
    .action(remotely(searchLogs));
}

async function searchLogs(
  { client, output }: ClientSession,
  words: string[],
  given: Record<string, unknown>,
): Promise<void> {
  const { since, until, ...values } = valuesOf(queryFlags, given);
  const query = {
    ...values,
    ...(since === undefined ? {} : { from: since }),
    ...(until === undefined ? {} : { to: until }),
    q: words.join(' '),
  } as LogSearchQuery;
  const print = (hit: LogHit): void => (output.asJson ? output.jsonLine(hit) : printHit(output, hit));
  if (given['all'] === true) {
    let count = 0;
    for await (const hit of client.logs.all(query)) {
      count += 1;
      print(hit);
    }
    if (count === 0 && !output.asJson) output.remark('nothing was found');
    return;
  }
  let page = await client.logs.search(query);
  // A page without hits only means that they are older.
  while (page.hits.length === 0 && page.next_cursor !== null)
    page = await client.logs.search({ ...query, cursor: page.next_cursor });
  if (output.asJson) return output.json(page);
  page.hits.forEach(print);
  if (page.hits.length === 0) output.remark('nothing was found');
  if (page.next_cursor !== null) output.remark(`\nolder: the same with --cursor ${page.next_cursor}, or --all`, 'dim');
}
