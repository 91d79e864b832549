// From files and a server to a plan that may be carried out: reads and checks the files, asks who is asking, reads what the
// server has of what the files hold, and compares. Changes nothing.
import type { Client } from '@punctual/sdk';
import { presetPriority } from '@punctual/server/internal/rules/flow';
import { environmentValue } from '../environment.ts';
import { CliError } from '../failure.ts';
import { now } from '../time.ts';
import { Checker, type Entry } from './check.ts';
import type { Problem } from './document.ts';
import { textsOf } from './files.ts';
import { jobKind, markOf } from './job_kind.ts';
import type { Context, Kind, Section, SettingKind } from './kind.ts';
import { kinds, settingKinds, settingKindsOf } from './kinds.ts';
import { readWishes, refusals, type Wish, writeWishes } from './permit.ts';
import { danglingNames, ordered, type Plan, planSettings } from './plan.ts';
import { planJobs } from './plan_jobs.ts';
import { prioritiesOf, readJobs, readSettings } from './present.ts';

/** Files that are not in order: all that is wrong with them. */
export class FilesError extends Error {
  override name = 'FilesError';
  readonly problems: readonly Problem[];
  constructor(problems: readonly Problem[]) {
    super('the files are not in order');
    this.problems = problems;
  }
}

export interface PrepareOptions {
  files: readonly string[];
  set: string | null;
  prune: boolean;
  pruneKinds: readonly Section[];
  sendSecrets: boolean;
  onProgress: (text: string | null) => void;
}

export interface Prepared {
  plan: Plan;
  context: Context;
  /** Why the key may not carry it out. */
  refused: string[];
}

export async function preparePlan(client: Client, options: PrepareOptions): Promise<Prepared> {
  const entries = await readEntries(options.files);
  if (options.prune && !entries.some(({ kind }) => kind === jobKind))
    throw new CliError(
      'the files hold no job, and --prune would remove all of the set: that is more likely a mistake.',
    );
  const session = await client.keys.whoAmI();
  const meant = new Set<Kind>([...entries.map(({ kind }) => kind), ...settingKindsOf(options.pruneKinds)]);
  if (options.prune) meant.add(jobKind);
  mustBeAllowed(refusals(session, readWishes(meant)));
  refuse(entries.flatMap((entry) => ofOther(entry, session.user_id)));
  const context: Context = {
    now_ms: now(),
    user: session.user_id,
    defaultPriority: meant.has(jobKind) ? await prioritiesOf(client, entries) : presetPriority,
  };
  const plan = await compare(client, entries, { ...options, context, meant });
  refuse(plan.problems);
  const wishes: Wish[] = writeWishes(plan.steps);
  return { plan, context, refused: refusals(session, wishes) };
}

async function readEntries(files: readonly string[]): Promise<Entry[]> {
  const context = { now_ms: now(), user: null, defaultPriority: presetPriority };
  const checker = new Checker({ kinds, context, environment: (name) => environmentValue(name) });
  for await (const { file, text } of textsOf(files)) if (!checker.add(text, file)) break;
  refuse(checker.problems);
  return checker.entries;
}

function refuse(problems: readonly Problem[]): void {
  if (problems.length > 0) throw new FilesError(problems);
}

export function mustBeAllowed(refused: readonly string[]): void {
  if (refused.length > 0)
    throw new CliError(`nothing was changed, because this key may not do it:\n${refused.join('\n')}`);
}

/** A key of a user meets only what is that user's. */
function ofOther({ kind, value, place, path }: Entry, user: string | null): Problem[] {
  const owner = value['user_id'];
  if (kind !== jobKind || user === null || owner === undefined || owner === user) return [];
  return [
    {
      ...place,
      path: `${path}.user_id`,
      message: `is ${JSON.stringify(owner)}, and your key belongs to the user ${user}`,
    },
  ];
}

type Compared = PrepareOptions & { context: Context; meant: ReadonlySet<Kind> };

async function compare(client: Client, entries: readonly Entry[], options: Compared): Promise<Plan> {
  const { context, meant, set, prune, onProgress } = options;
  const present = await readSettings(
    client,
    settingKinds.filter((kind) => meant.has(kind)),
  );
  const pruned = new Set<Kind>(settingKindsOf(options.pruneKinds));
  const settings = planSettings(entries, present, { context, pruned, sendSecrets: options.sendSecrets });
  const named = await danglingIn(client, entries, settings);
  let jobs: Plan = { steps: [], unchanged: 0, problems: [] };
  if (meant.has(jobKind)) {
    const own = entries.filter(({ kind }) => kind === jobKind);
    const mark = set === null ? null : markOf(set);
    const there = await readJobs(client, own, { mark, onRead: (count) => onProgress(`${count} jobs looked at`) });
    onProgress(null);
    jobs = planJobs(own, there, { context, set, prune });
  }
  return {
    steps: ordered([...settings.steps, ...jobs.steps]),
    unchanged: settings.unchanged + jobs.unchanged,
    problems: [...settings.problems, ...named, ...jobs.problems],
  };
}

const references = [
  { section: 'calendars', field: 'calendar', of: 'jobs' },
  { section: 'channels', field: 'channels', of: 'alert_rules' },
] as const;

async function danglingIn(client: Client, entries: readonly Entry[], { steps }: Plan): Promise<Problem[]> {
  const problems: Problem[] = [];
  for (const names of references) {
    if (danglingNames(entries, names, new Set()).length === 0) continue;
    const [kind] = settingKindsOf([names.section]) as [SettingKind];
    const going = new Set(steps.filter((step) => step.kind === kind && step.action === 'delete').map(({ id }) => id));
    const there = (await kind.list(client)).map((value) => String(value[kind.id])).filter((id) => !going.has(id));
    problems.push(...danglingNames(entries, names, new Set(there)));
  }
  return problems;
}
