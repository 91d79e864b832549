// Creates the jobs of an import, each once: its key and a tag are made of the file's name and of the job itself, so that
// applying again finds what is there, also when other lines of the file have changed meanwhile.
import { createHash } from 'node:crypto';
import path from 'node:path';
import type { CreateJob, Job } from '@punctual/contract';
import type { Compared } from './compare.ts';
import type { Entry } from './entry.ts';

export interface Applied {
  entry: Compared;
  job_id: string;
  /** there: an earlier import made it. ended: so it did, and the job was cancelled or has ended since. */
  outcome: 'created' | 'there' | 'ended';
}

export interface Jobs {
  create(job: CreateJob, options: { idempotencyKey: string }): Promise<{ job_id: string }>;
  get(id: string): Promise<Pick<Job, 'status'>>;
  pause(id: string, options: { note: string }): Promise<unknown>;
  all(query: { status: 'pending'; tag: string; limit: number }): AsyncIterable<Pick<Job, 'job_id' | 'tags'>>;
}

/** One key for each entry; equal lines of one file count up. */
export function keysOf(entries: readonly Entry[]): string[] {
  const seen = new Map<string, number>();
  return entries.map(({ file, job }) => {
    const text = JSON.stringify([path.basename(file), job]);
    const nth = seen.get(text) ?? 0;
    seen.set(text, nth + 1);
    return `import:${createHash('sha256').update(`${nth} ${text}`).digest('hex').slice(0, 32)}`;
  });
}

/** Tells of each as it is done, so that what exists is known when one fails. */
export async function* applyEntries(
  jobs: Jobs,
  entries: readonly Compared[],
): AsyncGenerator<Applied, void, undefined> {
  const there = await importedBefore(jobs);
  const keys = keysOf(entries);
  for (const [i, entry] of entries.entries()) {
    const key = keys[i] ?? '';
    const known = there.get(key);
    if (known !== undefined) {
      yield { entry, job_id: known, outcome: 'there' };
      continue;
    }
    const tags = [...(entry.job.tags ?? []), key];
    const { job_id } = await jobs.create({ ...entry.job, tags }, { idempotencyKey: key });
    const { status } = await jobs.get(job_id);
    const isLive = status === 'SCHEDULED' || status === 'PAUSED';
    if (isLive && entry.paused !== undefined) await jobs.pause(job_id, { note: entry.paused });
    yield { entry, job_id, outcome: isLive ? 'created' : 'ended' };
  }
}

/** Jobs that earlier imports made and that have times to come, by their key. */
async function importedBefore(jobs: Jobs): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for await (const { job_id, tags } of jobs.all({ status: 'pending', tag: 'imported', limit: 200 })) {
    for (const tag of tags) if (tag.startsWith('import:')) found.set(tag, job_id);
  }
  return found;
}
