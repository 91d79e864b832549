// `punctual import …`: shows what jobs a crontab, timers of systemd or CronJobs of Kubernetes become, with their next
// times side by side, and creates them with --apply. What cannot be translated is named and makes the command fail,
// before anything is created, unless --skip-unsupported says that this is known.
import path from 'node:path';
import { CreateJob, type PreviewRequest, timing } from '@punctual/contract';
import type { Command } from 'commander';
import { UsageError } from '../failure.ts';
import { flagsFrom } from '../flags.ts';
import { type Applied, applyEntries } from '../import/apply.ts';
import { type Comparison, type Context, compareTimes } from '../import/compare.ts';
import { parseCrontab } from '../import/crontab.ts';
import type { ImportOptions, Parsed } from '../import/entry.ts';
import { readImport } from '../import/read.ts';
import { showComparison } from '../import/show.ts';
import { partOf } from '../progress.ts';
import { type ClientSession, remotely } from '../session.ts';
import { machineZone, now } from '../time.ts';

const sharedFlags = [
  ...flagsFrom(timing, ['timezone'], {
    words: { timezone: 'The time zone of the machine it comes from, where it names none' },
    defaults: false,
  }),
  ...flagsFrom(CreateJob.properties, ['queue'], {
    words: { queue: 'The queue of the jobs, for the workers that shall run them' },
  }),
];

interface Given {
  tz?: string;
  queue?: string;
  apply?: true;
  skipUnsupported?: true;
  system?: true;
}

export function addImport(command: Command): void {
  addKind(command.command('crontab'))
    .description('Jobs from a crontab')
    .argument('<file>', 'The crontab; - reads standard input')
    .option('--system', 'It has a column of users, as /etc/crontab and /etc/cron.d have')
    .addHelpText(
      'after',
      '\nExamples:\n  crontab -l | punctual import crontab -\n  punctual import crontab /etc/crontab --system --apply',
    )
    .action(remotely(importCrontab));
  addKind(command.command('systemd'))
    .description('Jobs from timers of systemd')
    .argument('<timer...>', 'Files that end with .timer; their services are looked for beside them')
    .addHelpText('after', '\nExample:\n  punctual import systemd /etc/systemd/system/backup.timer --apply')
    .action(remotely(importSystemd));
  addKind(command.command('kubernetes'))
    .description('Jobs from CronJobs of Kubernetes, in one or more YAML documents')
    .argument('<file>', 'The file; - reads standard input')
    .addHelpText(
      'after',
      '\nA CronJob without timeZone follows its cluster, which is UTC unless --tz is given.\n\nExample:\n  kubectl get cronjobs -A -o yaml | punctual import kubernetes -',
    )
    .action(remotely(importKubernetes));
}

function addKind(command: Command): Command {
  for (const { option } of sharedFlags) command.addOption(option);
  return command
    .option('--apply', 'Create the jobs; without it they are only shown. Applying again creates nothing twice')
    .option('--skip-unsupported', 'Leave out what cannot be translated, instead of failing');
}

async function importCrontab(session: ClientSession, file: string, given: Given): Promise<number> {
  const options = { ...optionsOf(given, machineZone()), file, system: given.system === true };
  return await finish(session, parseCrontab(await readImport(file), options), { given, system: 'cron' });
}

async function importSystemd(session: ClientSession, files: string[], given: Given): Promise<number> {
  const { parseTimer, systemdNotes, unitOf } = await import('../import/systemd.ts');
  const { parseUnitFile } = await import('../import/unit_file.ts');
  const options = optionsOf(given, machineZone());
  const parsed: Parsed = { entries: [], refused: [], notes: systemdNotes };
  for (const file of files) {
    if (!file.endsWith('.timer'))
      throw new UsageError(`${file} does not end with .timer; services are found beside timers.`);
    const text = await readImport(file);
    const name = path.basename(file, '.timer');
    const service = path.join(path.dirname(file), path.basename(unitOf(parseUnitFile(text), name)));
    const one = parseTimer(text, await readIfThere(service), { ...options, file, name });
    parsed.entries.push(...one.entries);
    parsed.refused.push(...one.refused);
  }
  return await finish(session, parsed, { given, system: 'systemd', unsure: ['dst_overlap'] });
}

async function importKubernetes(session: ClientSession, file: string, given: Given): Promise<number> {
  const { parseKubernetes } = await import('../import/kubernetes.ts');
  const parsed = parseKubernetes(await readImport(file), { ...optionsOf(given, 'UTC'), file });
  return await finish(session, parsed, { given, system: 'Kubernetes' });
}

function optionsOf({ tz, queue }: Given, zone: string): ImportOptions {
  return { timezone: tz ?? zone, ...(queue === undefined ? {} : { queue }) };
}

/** Null when there is no such file. */
async function readIfThere(file: string): Promise<string | null> {
  try {
    return await readImport(file);
  } catch (error) {
    if (((error as Error).cause as NodeJS.ErrnoException | undefined)?.code === 'ENOENT') return null;
    throw error;
  }
}

async function finish(session: ClientSession, parsed: Parsed, how: Context & { given: Given }): Promise<number> {
  const { output } = session;
  const { given, system } = how;
  const comparison = await compared(session, parsed, how);
  const isRefused = comparison.refused.length > 0 && given.skipUnsupported !== true;
  const isApplied = given.apply === true && !isRefused;
  if (!output.asJson) showComparison(output, comparison, system);
  const applied = isApplied ? await apply(session, comparison) : [];
  if (output.asJson) output.json(documentOf(comparison, applied, isApplied));
  else if (isRefused)
    output.remark('\nnothing was created: some of it is not supported; --skip-unsupported leaves that out', 'yellow');
  else if (!isApplied && comparison.entries.length > 0)
    output.remark('\nnothing was created; --apply creates these jobs', 'dim');
  return isRefused ? 1 : 0;
}

async function compared({ client, output }: ClientSession, parsed: Parsed, context: Context): Promise<Comparison> {
  const from = new Date(now()).toISOString();
  try {
    let asked = 0;
    const ask = (request: PreviewRequest) => {
      asked += 1;
      output.progress(`asking for the times of entry ${Math.min(asked, parsed.entries.length)}`);
      return client.schedules.preview(request);
    };
    return await compareTimes(parsed, ask, { ...context, from });
  } catch (error) {
    if ((error as { code?: unknown }).code === 'unreachable' && !output.asJson)
      output.remark(
        'An import asks a server for the times of each entry, so one must be reachable; nothing was created.',
      );
    throw error;
  } finally {
    output.progress(null);
  }
}

const outcomes = {
  created: 'created',
  there: 'is there already',
  ended: 'was imported before and has ended or was cancelled; `punctual jobs create` makes a new one',
};

async function apply({ client, output }: ClientSession, { entries }: Comparison): Promise<Applied[]> {
  const applied: Applied[] = [];
  if (!output.asJson) output.line();
  try {
    for await (const one of applyEntries(client.jobs, entries)) {
      applied.push(one);
      output.progress(null);
      if (!output.asJson) output.line(`job ${one.job_id} ${outcomes[one.outcome]} (line ${one.entry.line})`);
      const { length } = applied;
      output.progress(`${length} of ${entries.length} jobs applied`, partOf(length, entries.length));
    }
  } catch (error) {
    if (!output.asJson)
      output.remark(
        `${applied.length} of ${entries.length} are there; apply again for the rest: nothing is created twice.`,
      );
    throw error;
  } finally {
    output.progress(null);
  }
  return applied;
}

function documentOf({ entries, refused, notes }: Comparison, applied: readonly Applied[], isApplied: boolean): object {
  const jobs = entries.map(({ file, line, name, words, times, sourceTimes, sourceWords, notes: own, job }, i) => ({
    ...{ file, line, name, words, source_times: sourceTimes, source_words: sourceWords, times, notes: own, job },
    ...(applied[i] === undefined ? {} : { job_id: applied[i].job_id, outcome: applied[i].outcome }),
  }));
  return { applied: isApplied, jobs, unsupported: refused, notes };
}
