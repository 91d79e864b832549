// `punctual jobs …`: create, list, show, update, cancel, run-now, pause, resume; occurrences are in a file of their own.
import { type Accepted, type JobCreated, JobQuery, PauseRequest, type RevealQuery, type Run } from '@punctual/contract';
import { type Command, Option } from 'commander';
import { eachId } from '../each.ts';
import { UsageError } from '../failure.ts';
import { flagsFrom, inWords, valuesOf } from '../flags.ts';
import { printPage, printRows } from '../pages.ts';
import {
  addCreateOptions,
  addUpdateOptions,
  createRequest,
  givenJobFlags,
  readJobs,
  updateRequest,
} from '../request.ts';
import { type ClientSession, remotely } from '../session.ts';
import { hintsFor, jobFields, jobHead, jobRow, runFields } from '../show.ts';
import { now, parseDuration } from '../time.ts';
import { addOccurrences } from './occurrences.ts';

const idArgument = 'The id of the job, as `jobs create` and `jobs list` show it';
const queryFlags = flagsFrom(JobQuery.properties, Object.keys(JobQuery.properties), {
  words: {
    user_id: 'Only the jobs of this user',
    type: 'Only jobs of this type',
    queue: 'Only jobs of this queue',
    name: 'Only jobs of this name',
    tag: 'Only jobs with this tag',
    recurring: 'Only jobs that run again and again',
    status: 'Only jobs of this status; pending means scheduled or waiting',
    created_after: 'Only jobs created after this time, or within this duration (2h)',
    created_before: 'Only jobs created before this time, or longer ago than this duration (2h)',
    unique_key: 'Only the job that holds this key now; of the user given, or of those without a user',
    q: 'Only jobs with this text in their name or payload',
  },
});

const pauseFlags = flagsFrom(PauseRequest.properties, ['note']);

export function addJobs(jobs: Command): void {
  addCreate(jobs.command('create'));
  addList(jobs.command('list'));
  jobs
    .command('show')
    .description('Show a job, its latest run, and what to do next')
    .argument('<id>', idArgument)
    .option('--reveal', 'Show what is encrypted in the clear')
    .action(remotely(show));
  addUpdateOptions(jobs.command('update'))
    .description('Change the fields given; a run that waits follows the change')
    .argument('<id>', idArgument)
    .option('--if-match <version>', 'Only if the job still has this version')
    .addHelpText(
      'after',
      '\nExamples:\n  punctual jobs update ID --priority 9\n  punctual jobs update ID --at "2030-01-31 09:00" --if-match 3\n  punctual jobs update ID --cron "30 8 * * *" --end none',
    )
    .action(remotely(update));
  jobs
    .command('cancel')
    .description('Cancel jobs, also what is running')
    .argument('<id...>', 'One or more ids')
    .action(remotely(cancel));
  addMove(jobs.command('run-now'), (client, id) => client.jobs.runNow(id)).description(
    'Run it now, also when its time has not come or it has ended',
  );
  const pause = addMove(jobs.command('pause'), (client, id, given) =>
    client.jobs.pause(id, valuesOf(pauseFlags, given)),
  ).description('Pause a job: nothing of it starts until it is resumed');
  for (const { option } of pauseFlags) pause.addOption(option);
  addMove(jobs.command('resume'), (client, id) => client.jobs.resume(id)).description('Resume a paused job');
  addOccurrences(jobs);
}

function addCreate(command: Command): void {
  addCreateOptions(command)
    .description('Create a job: now, at a time, after a while, or again and again')
    .argument('[program...]', 'After --: a program and its arguments, run by a worker that allows it')
    .option('--idempotency-key <key>', 'Chosen by you: the same key and job never make a second job')
    .addOption(
      new Option(
        '--wait [duration]',
        'Wait until it has ended, at most this long (1h unless given); exit code 0 only on SUCCESS',
      ).argParser((text) => inWords(() => parseDuration(text))),
    )
    .option('--file <file>', 'Create all jobs of a JSON file, or none; - reads standard input')
    .addHelpText(
      'after',
      `
Examples:
  punctual jobs create --type echo --payload '{"greeting":"hello"}' --wait
  punctual jobs create --name report --type send-report --payload @report.json --in 5m
  punctual jobs create --http https://example.com/hook --header 'x-token: abc' --max-retries 5
  punctual jobs create --timeout 10m -- backup --all
  punctual jobs create --type send-report --cron '0 9 * * MON-FRI' --tz Europe/Paris --overlap skip
  punctual jobs create --http https://example.com/poll --every 5m --jitter 30s
  punctual jobs create --type reindex --in 10s --unique-key reindex:42 --on-conflict reschedule
  punctual jobs create --type clean-up --depends-on ID:any_end --depends-on ID
  punctual jobs create --file jobs.json`,
    )
    .action(remotely(create));
}

function addList(command: Command): void {
  for (const { option } of queryFlags) command.addOption(option);
  command
    .description('List jobs, newest first')
    .option('--all', 'All pages; with --json one job a line')
    .addHelpText(
      'after',
      '\nExamples:\n  punctual jobs list --status pending --user u003\n  punctual jobs list --created-after 2h --all --json | jq .name',
    )
    .action(remotely(list));
}

type Move = (client: ClientSession['client'], id: string, given: Record<string, unknown>) => Promise<Accepted>;

function addMove(command: Command, move: Move): Command {
  return command.argument('<id>', idArgument).action(
    remotely(async ({ client, output }: ClientSession, id: string, given: Record<string, unknown>) => {
      const answer = await move(client, id, given);
      if (output.asJson) return output.json(answer);
      const run = answer.run_id === undefined ? '' : `; run ${answer.run_id}`;
      output.line(`job ${answer.job_id} is ${answer.status}${run}`);
    }),
  );
}

type Given = Record<string, unknown> & { idempotencyKey?: string; wait?: number | true; file?: string };
const default_wait_ms = 3_600_000;

async function create(session: ClientSession, program: string[], given: Given): Promise<number | void> {
  const { client, output } = session;
  const { idempotencyKey, wait, file } = given;
  if (program.length > 0 && !process.argv.includes('--')) {
    throw new UsageError(`a program to run comes after --: punctual jobs create -- ${program.join(' ')}`);
  }
  if (file !== undefined) return await createMany(session, program, { ...given, file });
  const created = await client.jobs.create(await createRequest(program, given), { idempotencyKey });
  if (wait !== undefined) return await waitAndPrint(session, created, wait === true ? default_wait_ms : wait);
  if (output.asJson) return output.json(created);
  output.line(`job ${created.job_id}${created.run_id === undefined ? '' : `, run ${created.run_id}`}`);
  if (created.conflict_action !== undefined) output.remark(toldOf[created.conflict_action]);
  output.remark(`punctual jobs show ${created.job_id} shows how it goes`, 'dim');
}

/** When no job was created. */
const toldOf = {
  returned: 'no job was created: this one holds the unique key, and stays as it is',
  payload_replaced: 'no job was created: this one holds the unique key, and has the new payload',
  rescheduled: 'no job was created: this one holds the unique key, and has the new payload and due time',
};

async function createMany(
  { client, output }: ClientSession,
  program: string[],
  given: Given & { file: string },
): Promise<void> {
  const flags = [
    ...givenJobFlags(given),
    ...(given.wait === undefined ? [] : ['--wait']),
    ...(program.length === 0 ? [] : ['--']),
  ];
  if (flags.length > 0)
    throw new UsageError(`--file holds whole jobs, so it cannot be combined with ${flags.join(', ')}.`);
  const answer = await client.jobs.createMany(await readJobs(given.file), { idempotencyKey: given.idempotencyKey });
  if (output.asJson) return output.json(answer);
  for (const { job_id } of answer.jobs) output.line(job_id);
  const existing = answer.jobs.filter((job) => job.existing === true).length;
  const others = existing === 0 ? '' : `, ${existing} were there already`;
  output.remark(`${answer.jobs.length - existing} jobs created${others}`, 'dim');
}

async function waitAndPrint(
  { client, output }: ClientSession,
  { job_id: id, existing }: JobCreated,
  timeoutMs: number,
): Promise<number> {
  if (!output.asJson)
    output.remark(`job ${id} ${existing === true ? 'was there already' : 'created'}; waiting for it to end`, 'dim');
  const run: Run = await client.jobs.waitFor(id, { timeoutMs });
  if (output.asJson) output.json(run);
  else output.fields(runFields(run, output.paint, now()));
  return run.status === 'SUCCESS' ? 0 : 2;
}

async function list({ client, output }: ClientSession, given: Record<string, unknown>): Promise<void> {
  const query = valuesOf(queryFlags, given) as JobQuery;
  const print = { output, head: jobHead, row: jobRow, none: 'no job fits', more: 'punctual jobs list' };
  if (given['all'] === true) return await printRows(client.jobs.all(query), print);
  const page = await client.jobs.list(query);
  printPage(page, page.jobs, print);
}

async function show({ client, output, over }: ClientSession, id: string, { reveal }: RevealQuery): Promise<void> {
  const given = reveal === true ? { reveal } : {};
  const [job, { latest_run: run }] = await Promise.all([client.jobs.get(id, given), client.jobs.status(id, given)]);
  if ((job.status === 'COMPLETED' || job.status === 'CANCELLED') && run?.end_time !== null)
    over(run?.status === 'SUCCESS' ? 0 : 2);
  if (output.asJson) return output.json({ job, latest_run: run });
  const at = now();
  output.fields(jobFields(job, output.paint, at));
  output.line();
  if (run === null) output.line('no run yet');
  else output.fields(runFields(run, output.paint, at).filter(([name]) => name !== 'job' && name !== 'type'));
  const workers = run?.status === 'QUEUED' ? (await client.workers.list()).workers : null;
  for (const hint of hintsFor(job, run, { now: at, workers })) output.remark(`\n${hint}`);
}

async function update(
  { client, output }: ClientSession,
  id: string,
  given: Given & { ifMatch?: string },
): Promise<void> {
  const changes = await updateRequest(given);
  if (Object.keys(changes).length === 0)
    throw new UsageError('say what to change, for example --priority 9; `punctual help jobs update` lists all.');
  const { ifMatch } = given;
  const job = await client.jobs.update(id, changes, {
    ifMatch: ifMatch === undefined || !/^\d+$/.test(ifMatch) ? ifMatch : Number(ifMatch),
  });
  if (output.asJson) return output.json(job);
  output.fields(jobFields(job, output.paint, now()));
}

async function cancel(session: ClientSession, ids: string[]): Promise<number> {
  return await eachId(session, ids, {
    noun: 'job',
    act: (id) => session.client.jobs.cancel(id),
    tell: (answer, id) => `job ${id} is ${answer.status}${told(answer.cancelling_runs)}`,
  });
}

function told(running: readonly string[]): string {
  return running.length === 0 ? '' : `; the worker of run ${running.join(', ')} was told to stop`;
}
