// `punctual backfills …`: runs for past times of a recurring job. Creating says first what would be done.
import { type Backfill, BackfillPageQuery, type BackfillPlan, CreateBackfill } from '@punctual/contract';
import type { Command } from 'commander';
import { eachId } from '../each.ts';
import { flagsFrom, valuesOf } from '../flags.ts';
import { printPage } from '../pages.ts';
import { partOf } from '../progress.ts';
import { type ClientSession, remotely } from '../session.ts';
import { now, showAbsolute, showTime } from '../time.ts';
import { follow } from '../watch.ts';

const createFlags = flagsFrom(
  CreateBackfill.properties,
  Object.keys(CreateBackfill.properties).filter((name) => name !== 'dry_run'),
  {
    past: ['from', 'to'],
    words: { from: 'The first time, or how long ago (7d)', to: 'The last time, or how long ago (1h)' },
  },
);

const pageFlags = flagsFrom(BackfillPageQuery.properties, Object.keys(BackfillPageQuery.properties));

export function addBackfills(backfills: Command): void {
  const create = backfills
    .command('create')
    .description('Make runs for past times of a recurring job; only says what would be done without --apply')
    .argument('<job>', 'The id of the job');
  for (const { option } of createFlags) create.addOption(option);
  create
    .option('--apply', 'Do it')
    .option('--watch', 'With --apply: show how far it is until it is done')
    .addHelpText(
      'after',
      '\nExamples:\n  punctual backfills create JOB --from 7d --to 1h\n  punctual backfills create JOB --from 2026-01-01 --to 2026-02-01 --max-concurrency 4 --apply --watch',
    )
    .action(remotely(make));
  const listing = backfills
    .command('list')
    .description('List the backfills of a job, newest first')
    .argument('<job>', 'The id of the job');
  for (const { option } of pageFlags) listing.addOption(option);
  listing.action(remotely(list));
  backfills
    .command('show')
    .description('Show a backfill and how far it is')
    .argument('<id>', 'The id of the backfill')
    .action(remotely(show));
  backfills
    .command('cancel')
    .description('Make no further runs, and cancel those that have not started')
    .argument('<id...>', 'One or more ids of backfills')
    .action(remotely(cancel));
}

async function make(session: ClientSession, jobId: string, given: Record<string, unknown>): Promise<number> {
  const { client, output } = session;
  const request = { ...valuesOf(createFlags, given), dry_run: given['apply'] !== true } as CreateBackfill;
  const plan = await client.backfills.create(jobId, request);
  if (output.asJson) output.json(plan);
  else output.line(planWords(plan));
  if (plan.backfill_id === null) {
    if (!output.asJson && plan.runs > 0) output.remark('nothing was done; --apply does it');
  } else if (given['watch'] === true) {
    return await watch(session, plan.backfill_id);
  } else if (!output.asJson) {
    output.remark(`punctual backfills show ${plan.backfill_id} shows how far it is`);
  }
  return 0;
}

export function planWords({ backfill_id, times, first, last, already, runs }: BackfillPlan): string {
  const span =
    first === null || last === null
      ? ''
      : `, from ${showAbsolute(Date.parse(first))} to ${showAbsolute(Date.parse(last))}`;
  const what = backfill_id === null ? `${runs} runs would be made` : `backfill ${backfill_id}: ${runs} runs are made`;
  return `${times} times${span}; ${already} have a run already; ${what}`;
}

async function list({ client, output }: ClientSession, jobId: string, given: Record<string, unknown>): Promise<void> {
  const page = await client.backfills.list(jobId, valuesOf(pageFlags, given));
  printPage(page, page.backfills, {
    output,
    head: ['BACKFILL', 'STATE', 'FROM', 'TO', 'PROGRESS'],
    row: (one) => [one.backfill_id, one.state, date(one.from), date(one.to), progressWords(one)],
    none: 'no backfill of this job',
    more: `punctual backfills list ${jobId}`,
  });
}

async function show({ client, output, over }: ClientSession, id: string): Promise<void> {
  const backfill = await client.backfills.get(id);
  if (backfill.state !== 'RUNNING') over(codeOf(backfill));
  if (output.asJson) return output.json(backfill);
  output.fields([
    ['backfill', backfill.backfill_id],
    ['job', backfill.job_id],
    ['state', backfill.state],
    ['times', `${date(backfill.from)} to ${date(backfill.to)}, ${backfill.order.replace('_', ' ')}`],
    ['at once', String(backfill.max_concurrency)],
    ['progress', progressWords(backfill)],
    ['created', showTime(backfill.created_at, now())],
    ...(backfill.ended_at === null ? [] : [['ended', showTime(backfill.ended_at, now())] as [string, string]]),
  ]);
}

/** Until it has ended; Ctrl-C ends the watching, not the backfill. */
async function watch(session: ClientSession, id: string): Promise<number> {
  const { client, output } = session;
  const words = (backfill: Backfill): string => `${backfill.state} ${progressWords(backfill)}`;
  const backfill = await follow(session, {
    get: () => client.backfills.get(id),
    ended: ({ state }) => state !== 'RUNNING',
    words,
    part: ({ total, succeeded, failed, cancelled }) => partOf(succeeded + failed + cancelled, total),
    goesOn: `backfill ${id} goes on; \`punctual backfills show ${id}\` says how far it is, \`punctual backfills cancel ${id}\` stops it`,
  });
  if (backfill === null) return 0;
  if (output.asJson) output.jsonLine(backfill);
  else output.line(words(backfill));
  return codeOf(backfill);
}

function codeOf({ state, failed, cancelled }: Backfill): number {
  return state === 'DONE' && failed + cancelled === 0 ? 0 : 2;
}

export function progressWords({ total, made, running, succeeded, failed, cancelled }: Backfill): string {
  const bad = failed + cancelled === 0 ? '' : `, ${failed} failed, ${cancelled} cancelled`;
  return `${succeeded} of ${total} done${bad}, ${running} running, ${total - made} to come`;
}

async function cancel(session: ClientSession, ids: string[]): Promise<number> {
  return eachId(session, ids, {
    noun: 'backfill',
    act: (id) => session.client.backfills.cancel(id),
    tell: (answer, id) => `backfill ${id} is ${answer.state}: ${progressWords(answer)}`,
  });
}

function date(timestamp: string): string {
  return showAbsolute(Date.parse(timestamp));
}
