// What a server has, as files would say it: settings listed whole, recurring jobs page by page. Asks through the SDK only.
import type { Job, JobQuery } from '@punctual/contract';
import type { Client } from '@punctual/sdk';
import { presetPriority } from '@punctual/server/internal/rules/flow';
import type { Entry } from './check.ts';
import type { Fields } from './fields.ts';
import { jobFields, jobKind, madeKey, markPrefix } from './job_kind.ts';
import type { Context, Kind, SettingKind } from './kind.ts';
import type { PresentJob } from './plan.ts';

/** The largest page there is. */
const page_rows = 200;

export async function readSettings(
  client: Client,
  kinds: Iterable<SettingKind>,
): Promise<Map<Kind, readonly Fields[]>> {
  const present = new Map<Kind, readonly Fields[]>();
  for (const kind of kinds) present.set(kind, await kind.list(client));
  return present;
}

/** The recurring jobs with times to come, newest first. Those that begin workflows are not jobs as a file has them. */
export async function* recurringJobs(
  client: Client,
  filter: Omit<JobQuery, 'cursor' | 'limit'>,
  onWorkflow: () => void = () => {},
): AsyncGenerator<Job> {
  for await (const job of client.jobs.all({ ...filter, status: 'pending', recurring: true, limit: page_rows })) {
    if (job.schedule?.ended === true) continue;
    if (job.begins === undefined) yield job;
    else onWorkflow();
  }
}

/** Those of the server's jobs that the files may mean, or that the set manages; the others are not kept. */
export async function readJobs(
  client: Client,
  entries: readonly Entry[],
  { mark, onRead }: { mark: string | null; onRead: (count: number) => void },
): Promise<PresentJob[]> {
  const jobs = entries.filter(({ kind }) => kind === jobKind);
  const names = new Set(jobs.map(({ id }) => id));
  const ids = new Set(jobs.map(({ value }) => value['job_id']));
  const keys = new Set(jobs.map(({ id, value }) => value['unique_key'] ?? madeKey(id)));
  const revealed = new Set(jobs.filter(({ value }) => value['payload'] !== undefined).map(({ id }) => id));
  const found: PresentJob[] = [];
  let count = 0;
  for await (const job of recurringJobs(client, {})) {
    onRead(++count);
    const isMeant = names.has(job.name) || ids.has(job.job_id) || keys.has(job.unique_key ?? '');
    if (!isMeant && !(mark !== null && job.tags.includes(mark))) continue;
    const isSealed = job.encrypted === true && revealed.has(job.name);
    found.push(presentJob(isSealed ? await client.jobs.get(job.job_id, { reveal: true }) : job));
  }
  return found;
}

export function presentJob(job: Job): PresentJob {
  return {
    job_id: job.job_id,
    version: job.version,
    value: jobFields(job),
    marks: job.tags.filter((tag) => tag.startsWith(markPrefix)),
  };
}

/** The priority of jobs that say none: as the files will have it, else as the server has it. */
export async function prioritiesOf(client: Client, entries: readonly Entry[]): Promise<Context['defaultPriority']> {
  const known = new Map<string, number>();
  for (const { name, default_priority } of (await client.queues.list()).queues) known.set(name, default_priority);
  for (const { kind, id, value } of entries) {
    if (kind.section !== 'queues') continue;
    const priority = value['default_priority'];
    known.set(id, typeof priority === 'number' ? priority : presetPriority(id));
  }
  return (queue) => known.get(queue) ?? presetPriority(queue);
}
