// What dependencies mean: when a need is met or can no longer be, and which names are refused. Pure; the
// unblocker and whoever creates jobs call it.
import type { CreateJob, FieldError, NeedCondition, NeedState, RunStatus } from '@punctual/contract';

/** A run to wait for: one that exists, or the first run of a job of the same bulk. */
export interface Need {
  parent: { run_id: string } | { item: number };
  on: NeedCondition;
}

/** CANCELLED and DROPPED are neither success nor failure: only `any_end` is met by them. */
export function needAfter(on: NeedCondition, outcome: RunStatus): Exclude<NeedState, 'pending'> {
  if (on === 'any_end') return 'met';
  return outcome === (on === 'success' ? 'SUCCESS' : 'FAILED') ? 'met' : 'failed';
}

/** What the book knows of an id that `depends_on` names. */
export interface FoundParent {
  run_id: string;
  user_id: string | null;
  recurring: boolean;
}

type Child = Pick<CreateJob, 'depends_on' | 'user_id'> & { recurring: boolean };

/** The ids that `depends_on` of these jobs names, to be looked up. */
export function namedParents(jobs: readonly Child[]): { jobs: Set<string>; runs: Set<string> } {
  const named = { jobs: new Set<string>(), runs: new Set<string>() };
  for (const { depends_on = [] } of jobs) {
    for (const { job_id, run_id } of depends_on) {
      if (job_id !== undefined) named.jobs.add(job_id);
      if (run_id !== undefined) named.runs.add(run_id);
    }
  }
  return named;
}

/** The needs of each job of a bulk, or of a single one; or what is wrong with them, each path beginning at its job. */
export function needsOf(
  jobs: readonly Child[],
  found: ReadonlyMap<string, FoundParent>,
  bulk: boolean,
): { needs: Need[][] } | { refused: (FieldError & { job: number })[] } {
  const refused: (FieldError & { job: number })[] = [];
  const needs = jobs.map((child, job) => {
    const seen = new Map<string | number, number>();
    return (child.depends_on ?? []).flatMap((entry, k): Need[] => {
      const refuse = (message: string): Need[] => {
        refused.push({ job, path: `depends_on[${k}]`, message });
        return [];
      };
      const given = [entry.job_id, entry.run_id, entry.item].filter((name) => name !== undefined);
      if (given.length !== 1)
        return refuse('must name one run to wait for: by job_id, by run_id, or in a bulk by item');
      const parent = entry.item === undefined ? found.get(given[0] as string) : asParent(jobs[entry.item]);
      const wrong =
        entry.item !== undefined && !bulk
          ? 'names an item, which only a bulk has; use job_id or run_id'
          : whyNot(child, parent, entry);
      if (wrong !== null) return refuse(wrong);
      const key = entry.item ?? (parent as FoundParent).run_id;
      const before = seen.get(key);
      if (before !== undefined) return refuse(`names the same run as depends_on[${before}]`);
      seen.set(key, k);
      return [{ parent: typeof key === 'number' ? { item: key } : { run_id: key }, on: entry.on ?? 'success' }];
    });
  });
  if (refused.length > 0) return { refused };
  const cycle = findCycle(needs.map((list) => list.flatMap(({ parent }) => ('item' in parent ? [parent.item] : []))));
  if (cycle === null) return { needs };
  const path = [...cycle, cycle[0]].map((item) => `jobs[${item}]`).join(' → ');
  return { refused: [{ job: cycle[0] as number, path: 'depends_on', message: `makes a cycle of waiting: ${path}` }] };
}

function asParent(item: Child | undefined): FoundParent | undefined {
  return item === undefined ? undefined : { run_id: '', user_id: item.user_id ?? null, recurring: item.recurring };
}

function whyNot(
  child: Child,
  parent: FoundParent | undefined,
  { job_id, run_id, item }: NonNullable<CreateJob['depends_on']>[number],
): string | null {
  if (parent === undefined) {
    if (item !== undefined) return `names item ${item}, which the bulk does not have; the first is 0`;
    return job_id === undefined
      ? `names no run: no run has the id ${run_id}`
      : `names no job: no job has the id ${job_id}`;
  }
  if (parent.recurring && run_id === undefined)
    return 'names a recurring job, whose runs go on and on; name one of its runs by run_id';
  const theirs = parent.user_id !== null && child.user_id !== undefined && parent.user_id !== child.user_id;
  return theirs ? 'names a run of another user' : null;
}

/** A way from an item back to itself, by the items each waits for; null when there is none. Without recursion. */
export function findCycle(parents: readonly (readonly number[])[]): number[] | null {
  const done = new Set<number>();
  for (let start = 0; start < parents.length; start++) {
    const path: { item: number; next: number }[] = [];
    const onPath = new Set<number>();
    const enter = (item: number): void => {
      path.push({ item, next: 0 });
      onPath.add(item);
    };
    if (!done.has(start)) enter(start);
    for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
      const parent = parents[top.item]?.[top.next++];
      if (parent === undefined) {
        done.add(top.item);
        onPath.delete(top.item);
        path.pop();
      } else if (onPath.has(parent)) {
        const items = path.map(({ item }) => item);
        return items.slice(items.indexOf(parent));
      } else if (!done.has(parent)) {
        enter(parent);
      }
    }
  }
  return null;
}
