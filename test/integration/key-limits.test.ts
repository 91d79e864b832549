// Limits per key and fair shares, through servers and workers: never more than allowed at once, nobody forgotten.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { CreateJob } from '@punctual/contract';
import { FatalError, type Handler, RetryError } from '@punctual/sdk';
import { eventually } from '../support/eventually.ts';
import { gate } from '../support/gate.ts';
import { type House, openHouse } from '../support/house.ts';

/** Handlers that know how many of a key run, and how many ever did at once. */
function watched(work: (key: string) => Promise<void>): {
  handler: Handler;
  most: Map<string, number>;
  starts: Map<string, number[]>;
} {
  const now = new Map<string, number>();
  const most = new Map<string, number>();
  const starts = new Map<string, number[]>();
  const handler: Handler = async (run) => {
    const { key } = run.payload as { key: string };
    const running = (now.get(key) ?? 0) + 1;
    now.set(key, running);
    most.set(key, Math.max(running, most.get(key) ?? 0));
    starts.set(key, [...(starts.get(key) ?? []), performance.now()]);
    await work(key);
    now.set(key, (now.get(key) ?? 1) - 1);
  };
  return { handler, most, starts };
}

const keyed = (key: string, more: object = {}): CreateJob => ({
  type: 'work',
  concurrency_key: key,
  payload: { key },
  ...more,
});
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

async function create(house: House, jobs: CreateJob[]): Promise<string[]> {
  const ids: string[] = [];
  for (let i = 0; i < jobs.length; i += 1000) {
    const made = await house.client.jobs.createMany(jobs.slice(i, i + 1000));
    ids.push(...made.jobs.map((job) => job.job_id));
  }
  return ids;
}

const allEnded = (house: House, count: number, withinMs = 30_000): Promise<void> =>
  eventually(async () => assert.equal(await house.count('ended_runs'), count), { withinMs });

describe('limits of keys', () => {
  test('of a key with a limit never more run at once, whatever their types and on whichever server', async () => {
    const { handler, most } = watched(() => pause(5));
    await using house = await openHouse({ servers: 3 });
    for (const server of house.servers)
      await house.addWorker({ work: handler, other: handler }, { url: server.url, slots: 20 });
    await house.client.limits.put('a', { max_concurrency: 3 });
    await house.client.limits.put('*', { max_concurrency: 1 });
    const jobs = Array.from({ length: 300 }, (_, i) =>
      keyed(['a', 'b', 'c'][i % 3] as string, { type: i % 2 ? 'work' : 'other' }),
    );
    await create(house, jobs);
    await allEnded(house, 300);
    assert.equal(most.get('a'), 3);
    assert.equal(most.get('b'), 1);
    assert.equal(most.get('c'), 1);
  });
});
void FatalError;
void RetryError;
void gate;
