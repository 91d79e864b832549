// `punctual apply` and `punctual diff`: make recurring jobs, gates, limits, calendars, alerts and settings as YAML files say.
// Everything is checked and the whole plan is shown before anything is done; applying again goes on where it ended.
import { Label } from '@punctual/contract';
import { checker } from '@punctual/server/internal/api/validation';
import { type Command, Option } from 'commander';
import { markOf } from '../apply/job_kind.ts';
import { sectionsOf } from '../apply/kinds.ts';
import { FilesError, mustBeAllowed, type Prepared, preparePlan } from '../apply/prepare.ts';
import { problemText, showPlan } from '../apply/show.ts';
import { planJson } from '../apply/summary.ts';
import { carryOut, type Outcome } from '../apply/write.ts';
import { confirmed, refuseUnasked } from '../confirm.ts';
import { UsageError } from '../failure.ts';
import { harmless } from '../output.ts';
import { type ClientSession, remotely } from '../session.ts';

interface Given {
  file?: string[];
  dryRun?: true;
  prune?: true;
  pruneKinds?: string;
  set?: string;
  sendSecrets?: true;
  yes?: true;
}

/** `diff` answers so when something would change; 1 stands for failures. */
const differs_code = 2;

export function addApply(command: Command): void {
  addShared(command)
    .option('--dry-run', 'Show what would change, and change nothing')
    .option('--yes', 'Do not ask')
    .addHelpText(
      'after',
      `
Examples:
  punctual apply -f punctual.yaml
  punctual apply -f jobs/ --set billing --prune --yes
  punctual export | punctual --url http://other:7600 apply -f - --yes`,
    )
    .action(remotely(apply));
}

export function addDiff(command: Command): void {
  addShared(command)
    .addHelpText(
      'after',
      '\nExit code 0: nothing would change. 2: something would. 1: it could not be told.\n\nExample:\n  punctual diff -f punctual.yaml',
    )
    .action(remotely(diff));
}

function addShared(command: Command): Command {
  return command
    .addOption(new Option('-f, --file <file...>', 'A YAML file, a folder of them, or - for standard input'))
    .option('--set <name>', 'Mark the jobs as belonging to this set, by the tag managed-by:NAME')
    .option('--prune', 'Remove jobs of the set that the files no longer hold; needs --set')
    .option('--prune-kinds <kinds>', 'Remove all of these kinds that the files do not hold, such as calendars,limits')
    .option('--send-secrets', 'Send the secrets of channels that the files give, which cannot be compared');
}

async function diff(session: ClientSession, given: Given): Promise<number> {
  return await reporting(session, async () => {
    const { plan } = await prepared(session, given);
    if (session.output.asJson) session.output.json(planJson(plan, [], false));
    else showPlan(session.output, plan);
    return plan.steps.length === 0 ? 0 : differs_code;
  });
}

async function apply(session: ClientSession, given: Given): Promise<number> {
  return await reporting(session, async () => {
    const { output } = session;
    const ready = await prepared(session, given);
    const { plan, refused } = ready;
    const count = plan.steps.length;
    if (!output.asJson) showPlan(output, plan);
    if (count === 0 || given.dryRun === true) {
      if (output.asJson) output.json(planJson(plan, [], false));
      return 0;
    }
    mustBeAllowed(refused);
    if (given.yes !== true) {
      refuseUnasked(`this would change ${count === 1 ? 'an object' : `${count} objects`}`);
      if (!(await confirmed(output, 'Do it?'))) {
        output.remark('nothing was changed');
        return 1;
      }
    }
    return await carriedOut(session, ready, given.set ?? null);
  });
}

async function prepared({ client, output }: ClientSession, given: Given): Promise<Prepared> {
  const { file = [], set, prune = false, pruneKinds = '', sendSecrets = false } = given;
  if (file.length === 0) throw new UsageError('say what to apply: -f FILE, -f FOLDER, or -f - for standard input.');
  if (prune && set === undefined)
    throw new UsageError(
      '--prune removes jobs of a set: say which one by --set NAME. Jobs get its mark when they are applied with it.',
    );
  if (set !== undefined && checker(Label)(markOf(set)).length > 0)
    throw new UsageError(`--set: ${set} is not a short name of letters, digits and . _ : / @ + -.`);
  const sections = sectionsOf(pruneKinds);
  if ('unknown' in sections) throw new UsageError(`--prune-kinds: ${sections.unknown} is not a kind of object.`);
  if (sections.includes('jobs'))
    throw new UsageError('--prune-kinds: jobs are removed by --prune with --set, which knows which ones are yours.');
  return await preparePlan(client, {
    ...{ files: file, set: set ?? null, prune, pruneKinds: sections, sendSecrets },
    onProgress: (text) => output.progress(text),
  });
}

/** Says what is wrong with files, each with its place. */
async function reporting({ output }: ClientSession, work: () => Promise<number>): Promise<number> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof FilesError)) throw error;
    const { problems } = error;
    if (output.asJson) output.remark(JSON.stringify({ code: 'invalid_files', title: error.message, problems }));
    else {
      for (const problem of problems) output.remark(problemText(problem), 'red');
      output.remark(`punctual: ${error.message}; nothing was changed.`);
    }
    return 1;
  }
}

async function carriedOut(session: ClientSession, { plan, context }: Prepared, set: string | null): Promise<number> {
  const { client, output } = session;
  const outcomes: Outcome[] = [];
  const done = () => outcomes.filter(({ state }) => state === 'done').length;
  const all = plan.steps.length;
  try {
    for await (const outcome of carryOut(client, plan.steps, { context, set })) {
      outcomes.push(outcome);
      if (output.asJson) continue;
      output.progress(`${outcomes.length} of ${all}`);
      tell(session, outcome);
    }
  } catch (error) {
    output.progress(null);
    if (output.asJson) output.json(planJson(plan, outcomes, true));
    else
      output.remark(
        `${done()} of ${all} were done; apply again once this is mended, and it goes on from here.`,
        'yellow',
      );
    throw error;
  }
  output.progress(null);
  if (output.asJson) output.json(planJson(plan, outcomes, true));
  else output.line(`${done()} of ${all} done`);
  return done() === all ? 0 : 1;
}

function tell({ output }: ClientSession, { step, state, reason, told }: Outcome): void {
  if (state === 'done' && told === undefined) return;
  output.progress(null);
  if (told !== undefined) output.line(told);
  if (state === 'conflict')
    output.remark(
      harmless(`${step.kind.noun} ${step.id} was left alone: ${reason ?? ''}; apply again to see what is left to do`),
      'yellow',
    );
}
