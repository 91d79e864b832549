// Submits of jobs with unique keys over plain HTTP, and what their answers must say.
import assert from 'node:assert/strict';
import type { CreateJob, JobCreated, Problem } from '@punctual/contract';
import type { House } from './house.ts';

let keys = 0;
export const newKey = (): string => `key-${++keys}`;

export interface Answer {
  status: number;
  body: JobCreated & Problem & { jobs?: JobCreated[] };
  replayed: boolean;
}

type Post = (job: CreateJob | { jobs: CreateJob[] }, options?: { server?: number; key?: string }) => Promise<Answer>;

/** Posts to the servers of a house that is opened before the first. */
export function posts(house: () => House): {
  post: Post;
  /** A job that no other is in the way of. */
  created: (job: CreateJob) => Promise<{ job_id: string; run_id: string }>;
} {
  async function post(
    job: CreateJob | { jobs: CreateJob[] },
    options: { server?: number; key?: string } = {},
  ): Promise<Answer> {
    const url = house().servers[(options.server ?? 0) % house().servers.length]?.url;
    const response = await fetch(`${url}/jobs${'jobs' in job ? '/bulk' : ''}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...(options.key === undefined ? {} : { 'idempotency-key': options.key }),
      },
      body: JSON.stringify(job),
    });
    const replayed = response.headers.get('idempotency-replayed') === 'true';
    return { status: response.status, body: (await response.json()) as Answer['body'], replayed };
  }

  async function created(job: CreateJob): Promise<{ job_id: string; run_id: string }> {
    const { status, body } = await post(job);
    assert.equal(status, 201, JSON.stringify(body));
    assert.equal(body.existing, undefined);
    return { job_id: body.job_id, run_id: body.run_id ?? '' };
  }

  return { post, created };
}

/** Refused because of that job. */
export function refused({ status, body }: Answer, job_id: string, why: RegExp = /./): void {
  assert.deepEqual([status, body.code, body.job_id], [409, 'unique_key_taken', job_id], JSON.stringify(body));
  assert.match(body.detail ?? '', new RegExp(job_id));
  assert.match(body.detail ?? '', why);
}

/** Answered with that job, and what was done to it. */
export function existing({ status, body }: Answer, job_id: string, action: string): void {
  assert.deepEqual(
    [status, body.existing, body.conflict_action, body.job_id],
    [201, true, action, job_id],
    JSON.stringify(body),
  );
}
