// `punctual runs …`: list, show with attempts and log lines, explain, logs, checkpoint, cancel, retry.
import { limits, type RevealQuery, RunQuery } from '@punctual/contract';
import type { Command } from 'commander';
import { eachId } from '../each.ts';
import { flagsFrom, valuesOf } from '../flags.ts';
import { printLogLine } from '../log_lines.ts';
import { harmless, showJson, showStatus } from '../output.ts';
import { printPage, printRows } from '../pages.ts';
import { type ClientSession, remotely } from '../session.ts';
import { attemptHead, attemptRow, runFields, runHead, runHints, runRow } from '../show.ts';
import { now, showRelative } from '../time.ts';

const idArgument = 'The id of the run, as `runs list` and `jobs show` show it';
/** Log lines `runs show` prints, and how many pages it reads to find the last ones; `runs logs` has them all. */
const shown_log_lines = 20;
const max_log_pages = 50;
/** Runs that `runs explain` names for one reason. */
const shown_run_ids = 5;

const queryFlags = flagsFrom(RunQuery.properties, Object.keys(RunQuery.properties), {
  words: {
    worker_id: 'Only runs this worker has or had',
    status: 'Only runs of this status',
    job_id: 'Only runs of this job',
    type: 'Only runs of this type',
    queue: 'Only runs of this queue',
    user_id: 'Only runs of this user',
    created_after: 'Only runs created after this time, or within this duration (2h)',
    created_before: 'Only runs created before this time, or longer ago than this duration (2h)',
  },
});

export function addRuns(runs: Command): void {
  const list = runs.command('list').description('List runs, newest first');
  for (const { option } of queryFlags) list.addOption(option);
  list
    .option('--all', 'All pages; with --json one run a line')
    .addHelpText(
      'after',
      '\nExamples:\n  punctual runs list --status failed --created-after 1d\n  punctual runs list --worker w001',
    )
    .action(remotely(listRuns));
  runs
    .command('show')
    .description('Show a run, its attempts and its latest log lines')
    .argument('<id>', idArgument)
    .option('--reveal', 'Show what is encrypted in the clear')
    .action(remotely(show));
  runs
    .command('explain')
    .description('Say why a run has not started, and when it will')
    .argument('<id>', idArgument)
    .action(remotely(explain));
  runs
    .command('logs')
    .description('Print what a run logged, oldest first')
    .argument('<id>', idArgument)
    .option('-f, --follow', 'Go on with what comes, until the run has ended')
    .addHelpText('after', '\nExamples:\n  punctual runs logs ID | grep error\n  punctual runs logs -f ID')
    .action(remotely(logs));
  runs
    .command('checkpoint')
    .description('Print what a run that has not ended saved last, as JSON')
    .argument('<id>', idArgument)
    .option('--reveal', 'Show what is encrypted in the clear')
    .addHelpText('after', '\nExample:\n  punctual runs checkpoint ID | jq .page')
    .action(remotely(checkpoint));
  runs
    .command('cancel')
    .description('Cancel runs, also while they run')
    .argument('<id...>', 'One or more ids of runs')
    .addHelpText('after', '\nExample:\n  punctual runs cancel ID')
    .action(remotely(cancel));
  runs
    .command('retry')
    .description('Try runs again now: skips the wait for the next attempt, or redrives a run that failed for good')
    .argument('<id...>', 'One or more ids of runs')
    .addHelpText('after', '\nExample:\n  punctual runs retry ID')
    .action(remotely(retry));
}

async function listRuns({ client, output }: ClientSession, given: Record<string, unknown>): Promise<void> {
  const query = valuesOf(queryFlags, given) as RunQuery;
  const print = { output, head: runHead, row: runRow, none: 'no run fits', more: 'punctual runs list' };
  if (given['all'] === true) return await printRows(client.runs.all(query), print);
  const page = await client.runs.list(query);
  printPage(page, page.runs, print);
}

async function show({ client, output, over }: ClientSession, id: string, { reveal }: RevealQuery): Promise<void> {
  const given = reveal === true ? { reveal } : {};
  const [run, { attempts }, log] = await Promise.all([
    client.runs.get(id, given),
    client.runs.attempts(id, given),
    lastLines(client, id),
  ]);
  if (run.end_time !== null) over(run.status === 'SUCCESS' ? 0 : 2);
  if (output.asJson) return output.json({ run, attempts, lines: log.lines });
  const at = now();
  output.fields(runFields(run, output.paint, at));
  if (attempts.length > 0) {
    output.line('\nattempts that did not succeed');
    output.table(
      attemptHead,
      attempts.map((attempt) => attemptRow(attempt, output.paint, at)),
    );
  }
  if (log.lines.length > 0) output.line('\nlog');
  for (const line of log.lines) printLogLine(output, line);
  if (log.read > log.lines.length) {
    output.remark(`lines ${log.read - log.lines.length + 1} to ${log.read}; all: punctual runs logs ${id}`, 'dim');
  }
  for (const hint of runHints(run, at)) output.remark(`\n${hint}`);
}

async function explain({ client, output }: ClientSession, id: string): Promise<void> {
  const { status, reasons, estimate, ...rest } = await client.runs.explain(id);
  if (output.asJson) return output.json({ ...rest, status, reasons, estimate });
  output.line(showStatus(status, output.paint));
  for (const { text, run_ids = [] } of reasons) {
    output.line(`  • ${harmless(text)}`);
    for (const runId of run_ids.slice(0, shown_run_ids)) output.line(`      ${runId}`);
    if (run_ids.length > shown_run_ids) output.line(`      and ${run_ids.length - shown_run_ids} more`);
  }
  output.remark(estimate.text, 'dim');
}

async function checkpoint({ client, output }: ClientSession, id: string, given: RevealQuery): Promise<void> {
  const saved = await client.runs.checkpoint(id, given);
  if (output.asJson) return output.json(saved);
  output.line(showJson(saved.value));
  const when = showRelative(Date.parse(saved.saved_at), now());
  output.remark(`version ${saved.version}, saved by attempt ${saved.attempt_number} ${when}`, 'dim');
}

async function cancel(session: ClientSession, ids: string[]): Promise<number> {
  return await eachId(session, ids, {
    noun: 'run',
    act: (id) => session.client.runs.cancel(id),
    tell: (answer, id) =>
      `run ${id} is ${answer.status}${answer.status === 'RUNNING' ? '; its worker was told to stop' : ''}`,
  });
}

async function retry(session: ClientSession, ids: string[]): Promise<number> {
  return await eachId(session, ids, {
    noun: 'run',
    act: (id) => session.client.runs.retry(id),
    tell: ({ retried_run_id: again, status }, id) =>
      again === undefined ? `run ${id} is ${status} and due now` : `run ${id} is redriven by run ${again}`,
  });
}

type LogClient = Pick<ClientSession['client'], 'runs'>;
type LogPage = Awaited<ReturnType<LogClient['runs']['logs']>>;

async function* logPages(client: LogClient, id: string): AsyncGenerator<LogPage, void, undefined> {
  let cursor: string | undefined;
  do {
    const page = await client.runs.logs(id, { limit: limits.max_page, ...(cursor === undefined ? {} : { cursor }) });
    yield page;
    cursor = page.next_cursor ?? undefined;
  } while (cursor !== undefined);
}

async function lastLines(client: LogClient, id: string): Promise<{ lines: LogPage['lines']; read: number }> {
  const last: LogPage['lines'] = [];
  let read = 0;
  let pages = 0;
  for await (const { lines } of logPages(client, id)) {
    read += lines.length;
    last.push(...lines);
    last.splice(0, last.length - shown_log_lines);
    pages += 1;
    if (pages === max_log_pages) break;
  }
  return { lines: last, read };
}

async function logs({ client, output }: ClientSession, id: string, { follow }: { follow?: true }): Promise<void> {
  const print = (line: LogPage['lines'][number]) =>
    output.asJson ? output.jsonLine(line) : printLogLine(output, line);
  if (follow === true) {
    for await (const line of client.runs.followLogs(id)) print(line);
    const run = await client.runs.get(id);
    return output.remark(`the run has ended: ${run.status}`, 'dim');
  }
  let count = 0;
  for await (const { lines } of logPages(client, id)) {
    count += lines.length;
    for (const line of lines) print(line);
  }
  if (count === 0 && !output.asJson) output.remark('the run has logged nothing');
}
