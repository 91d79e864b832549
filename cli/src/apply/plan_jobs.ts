// The plan for jobs: which job of the server a file means, what changes of it, and what goes because its set no longer has it.
// A job is known by its user and its unique_key; one without a key of its own by its user and its name. Pure.
import { limits } from '@punctual/contract';
import type { Entry } from './check.ts';
import { differences } from './fields.ts';
import { changeable, jobKind, madeKey, markOf, markPrefix } from './job_kind.ts';
import type { Context } from './kind.ts';
import { cannotKeep, normal, nothingToKeep, type Plan, type PresentJob } from './plan.ts';

export interface JobOptions {
  context: Context;
  /** What the jobs of these files belong to. */
  set: string | null;
  /** Remove the jobs of the set that the files do not hold. */
  prune: boolean;
}

export function planJobs(entries: readonly Entry[], present: readonly PresentJob[], options: JobOptions): Plan {
  const plan: Plan = { steps: [], unchanged: 0, problems: [] };
  const matches = match(entries, present, options.context, plan);
  const meant = new Set<PresentJob>();
  for (const [entry, job] of matches) {
    if (job !== null) meant.add(job);
    planJob(plan, entry, job, options);
  }
  const mark = options.set === null ? null : markOf(options.set);
  if (!options.prune || mark === null) return plan;
  for (const job of present) {
    if (meant.has(job) || !job.marks.includes(mark)) continue;
    const before = normal(jobKind, job.value, options.context);
    const id = String(job.value['name']);
    plan.steps.push({ action: 'delete', kind: jobKind, id, before, after: null, changes: [], given: null, job });
  }
  return plan;
}

const keyOf = (user: unknown, key: unknown): string => JSON.stringify([user ?? null, key]);

/** The job that each entry means; null when it is to be made. */
function match(
  entries: readonly Entry[],
  present: readonly PresentJob[],
  context: Context,
  plan: Plan,
): Map<Entry, PresentJob | null> {
  const byId = new Map(present.map((job) => [job.job_id, job]));
  const byKey = new Map<string, PresentJob>();
  const byName = new Map<string, PresentJob[]>();
  for (const job of present) {
    const { user_id, unique_key, name } = job.value;
    if (unique_key !== undefined) byKey.set(keyOf(user_id, unique_key), job);
    // Who has a key of its own is known by that alone.
    if (unique_key !== undefined && unique_key !== madeKey(String(name))) continue;
    const list = byName.get(keyOf(user_id, name)) ?? [];
    list.push(job);
    byName.set(keyOf(user_id, name), list);
  }
  const found = new Map<Entry, PresentJob | null>();
  const taken = new Map<PresentJob, Entry>();
  const take = (entry: Entry, job: PresentJob): void => {
    const other = taken.get(job);
    if (other !== undefined)
      plan.problems.push({
        ...entry.place,
        path: entry.path,
        message: `means the job ${job.job_id}, as ${other.place.file}:${other.place.line} does: keep one of them`,
      });
    taken.set(job, entry);
    found.set(entry, job);
  };
  const refuse = (entry: Entry, path: string, message: string): void => {
    plan.problems.push({ ...entry.place, path: `${entry.path}${path}`, message });
    found.set(entry, null);
  };
  const rest: Entry[] = [];
  for (const entry of entries) {
    const user = entry.value['user_id'] ?? context.user;
    const { job_id, unique_key = madeKey(entry.id) } = entry.value;
    const pinned = typeof job_id === 'string' ? byId.get(job_id) : undefined;
    const holder = byKey.get(keyOf(user, unique_key));
    if (pinned !== undefined) take(entry, pinned);
    else if (job_id !== undefined)
      refuse(entry, '.job_id', 'is of no recurring job that is there: leave it out to make a new one');
    else if (holder !== undefined) take(entry, holder);
    else rest.push(entry);
  }
  for (const entry of rest) {
    const user = entry.value['user_id'] ?? context.user;
    const named = (byName.get(keyOf(user, entry.id)) ?? []).filter((job) => !taken.has(job));
    const [only] = named;
    if (only === undefined) found.set(entry, null);
    else if (named.length === 1) take(entry, only);
    else {
      const ids = named.slice(0, 5).map(({ job_id }) => job_id);
      refuse(entry, '.name', `is the name of ${named.length} jobs: say which one by job_id (${ids.join(', ')})`);
    }
  }
  return found;
}

function planJob(plan: Plan, entry: Entry, job: PresentJob | null, { context, set }: JobOptions): void {
  const { kind, id, value, place, path } = entry;
  const wrong = (message: string, field = ''): void =>
    void plan.problems.push({ ...place, path: `${path}${field}`, message });
  const { job_id: _, ...asked } = value;
  const wanted = normal(kind, asked, context);
  const mark = set === null ? null : markOf(set);
  const tags = (wanted['tags'] as string[]).length + Math.max(job?.marks.length ?? 0, mark === null ? 0 : 1);
  if (tags > limits.max_tags) wrong(`are ${tags} with that of the set, and ${limits.max_tags} at most`, '.tags');
  plan.problems.push(...nothingToKeep(entry, job ?? undefined));
  if (job === null) {
    plan.steps.push({ action: 'create', kind, id, before: null, after: wanted, changes: [], given: entry });
    return;
  }
  const other = job.marks.find((one) => one !== mark);
  if (mark !== null && other !== undefined)
    wrong(
      `is managed by the set ${other.slice(markPrefix.length)}: take it out there, and its tag ${other} from the job`,
    );
  const before = normal(kind, job.value, context);
  const after = kind.align?.(wanted, before, entry) ?? wanted;
  const changes = differences(before, after);
  if (mark !== null && !job.marks.includes(mark)) changes.push({ path: 'managed by', before: undefined, after: set });
  if (changes.length === 0) {
    plan.unchanged += 1;
    return;
  }
  const isChange = changes.every(({ path: field }) => field === 'managed by' || changeable.has(topOf(field)));
  const action = isChange ? 'update' : 'replace';
  if (action === 'replace') plan.problems.push(...cannotKeep(entry, 'the job must be made anew'));
  plan.steps.push({ action, kind, id, before, after, changes, given: entry, job });
}

/** The field of a job that a path begins with. */
export function topOf(path: string): string {
  return /^[\w-]+/.exec(path)?.[0] ?? path;
}
