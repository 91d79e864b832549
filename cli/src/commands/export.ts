// `punctual export`: prints recurring jobs, gates, limits, calendars, alerts and settings as YAML that `punctual apply` reads.
// Always in the same order, without what is as by default, and without secrets.
import { type JobQuery, type Session } from '@punctual/contract';
import type { Command } from 'commander';
import type { Fields } from '../apply/fields.ts';
import { jobKind, madeKey, markOf } from '../apply/job_kind.ts';
import type { Context, Section } from '../apply/kind.ts';
import { sections } from '../apply/kind.ts';
import { sectionsOf, settingKindsOf } from '../apply/kinds.ts';
import { readWishes, refusals } from '../apply/permit.ts';
import { mustBeAllowed } from '../apply/prepare.ts';
import { presentJob, prioritiesOf, recurringJobs } from '../apply/present.ts';
import { documentTexts, itemText } from '../apply/render.ts';
import { UsageError } from '../failure.ts';
import { type ClientSession, remotely } from '../session.ts';
import { now } from '../time.ts';

interface Given {
  only?: string;
  name?: string;
  type?: string;
  queue?: string;
  tag?: string;
  user?: string;
  set?: string;
}

export function addExport(command: Command): void {
  command
    .option('--only <kinds>', `Only these kinds, with commas: ${sections.join(', ')}`)
    .option('--name <name>', 'Only jobs of this name')
    .option('--type <type>', 'Only jobs of this type')
    .option('--queue <queue>', 'Only jobs of this queue')
    .option('--tag <tag>', 'Only jobs with this tag')
    .option('--user <user>', 'Only the jobs of this user')
    .option('--set <name>', 'Only jobs of this set')
    .addHelpText(
      'after',
      `
What chooses jobs leaves everything else out, unless --only names it.

Examples:
  punctual export > punctual.yaml
  punctual export --only jobs,calendars --queue reports`,
    )
    .action(remotely(exportAll));
}

async function exportAll({ client, output }: ClientSession, given: Given): Promise<void> {
  if (output.asJson) throw new UsageError('an export is YAML; --json is not for it.');
  const session = await client.keys.whoAmI();
  const wanted = sectionsFor(given, session, (text) => output.remark(text, 'yellow'));
  const context: Context = {
    now_ms: now(),
    user: session.user_id,
    defaultPriority: await prioritiesOf(client, []),
  };
  const told: string[] = [];
  let isFirst = true;
  const print = (section: Section, items: readonly string[]): void => {
    for (const text of documentTexts(section, items, isFirst)) {
      output.line(text.slice(0, -1));
      isFirst = false;
    }
    if (items.length > 0) told.push(`${section.replace('_', ' ')} ${items.length}`);
  };
  for (const section of wanted) {
    if (section === 'jobs') continue;
    const items: string[] = [];
    for (const kind of settingKindsOf([section]))
      for (const value of byId(await kind.list(client), kind.id))
        if (kind.isOver?.(value, context.now_ms) !== true) items.push(itemText(kind, value, context));
    print(section, items);
  }
  if (wanted.includes('jobs')) print('jobs', await jobItems({ client, output }, filterOf(given), context));
  output.remark(`exported: ${told.length === 0 ? 'nothing, because nothing fits' : told.join(', ')}`, 'dim');
}

function byId(values: readonly Fields[], id: string): Fields[] {
  return values.toSorted((a, b) => (String(a[id]) < String(b[id]) ? -1 : 1));
}

function filterOf({ name, type, queue, tag, user, set }: Given): Omit<JobQuery, 'cursor' | 'limit'> {
  if (tag !== undefined && set !== undefined) throw new UsageError('--tag and --set do not go together.');
  return {
    ...(name === undefined ? {} : { name }),
    ...(type === undefined ? {} : { type }),
    ...(queue === undefined ? {} : { queue }),
    ...(user === undefined ? {} : { user_id: user }),
    ...(tag === undefined ? {} : { tag }),
    ...(set === undefined ? {} : { tag: markOf(set) }),
  };
}

/** What was asked for; else everything that the key may see, saying what is left out. */
function sectionsFor(given: Given, session: Session, remark: (text: string) => void): Section[] {
  const may = (section: Section): string[] =>
    refusals(session, readWishes(section === 'jobs' ? [jobKind] : settingKindsOf([section])));
  if (given.only !== undefined) {
    const only = sectionsOf(given.only);
    if ('unknown' in only) throw new UsageError(`--only: ${only.unknown} is not one of ${sections.join(', ')}.`);
    mustBeAllowed(only.flatMap(may));
    return only;
  }
  if (Object.keys(filterOf(given)).length > 0) return ['jobs'];
  return sections.filter((section) => {
    const refused = may(section);
    for (const reason of refused) remark(`left out: ${reason}`);
    return refused.length === 0;
  });
}

interface Item {
  sort: string;
  identity: string;
  job_id: string;
  value: Fields;
}

/** Sorted by name, user and key. Jobs that could not be told apart by that are given their id. */
async function jobItems(
  { client, output }: Pick<ClientSession, 'client' | 'output'>,
  filter: Omit<JobQuery, 'cursor' | 'limit'>,
  context: Context,
): Promise<string[]> {
  const items: Item[] = [];
  const seen = new Map<string, number>();
  let workflows = 0;
  for await (const job of recurringJobs(client, filter, () => (workflows += 1))) {
    const { value, job_id } = presentJob(job);
    const identity = JSON.stringify([job.user_id, job.unique_key ?? madeKey(job.name)]);
    seen.set(identity, (seen.get(identity) ?? 0) + 1);
    items.push({
      sort: JSON.stringify([job.name, job.user_id, job.unique_key ?? '', job_id]),
      identity,
      job_id,
      value,
    });
    if (items.length % 200 === 0) output.progress(`${items.length} jobs read`);
  }
  output.progress(null);
  if (workflows > 0)
    output.remark(
      `left out: ${workflows} recurring ${workflows === 1 ? 'workflow' : 'workflows'}, which files do not hold`,
      'yellow',
    );
  return items
    .sort((a, b) => (a.sort < b.sort ? -1 : 1))
    .map(({ value, identity, job_id }) =>
      itemText(jobKind, (seen.get(identity) ?? 0) > 1 ? { ...value, job_id } : value, context),
    );
}
