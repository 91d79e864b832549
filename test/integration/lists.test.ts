// Lists: filters, pages that neither miss nor repeat, and a cost that does not grow with the table.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Grant, JobQuery, RunQuery } from '@punctual/contract';
import { limits } from '@punctual/contract';
import type { Queryable } from '@punctual/server/internal/store/database';
import { listJobs } from '@punctual/server/internal/store/job_list';
import { listRuns } from '@punctual/server/internal/store/runs';
import type { Sql } from '@punctual/server/internal/store/sql';
import pg from 'pg';
import { Hand, outcome } from '../support/hand.ts';
import { type House, openHouse } from '../support/house.ts';

let house: House;
const jobIds: string[] = [];

before(async () => {
  house = await openHouse();
  for (let i = 0; i < 30; i++) {
    const { job_id } = await house.client.jobs.create({
      name: `job ${i}`,
      type: i % 2 === 0 ? 'even' : 'odd',
      queue: i % 3 === 0 ? 'third' : 'default',
      user_id: `u${i % 5}`,
      tags: i % 10 === 0 ? ['round', 'ten'] : [],
      payload: { text: `needle-${i}` },
      ...(i >= 20 ? { delay_ms: 3_600_000 } : {}),
    });
    jobIds.push(job_id);
  }
  // Of the twenty that are due: the even ones succeed, three of the odd ones fail, the rest stay queued.
  const even = new Hand(house.url, { id: 'even-worker', types: ['even'], slots: 100 });
  const odd = new Hand(house.url, { id: 'odd-worker', types: ['odd'], slots: 3 });
  let done = 0;
  while (done < 10) {
    const granted = await even.take();
    done += granted.length;
    await even.call({ outcomes: granted.map((run) => outcome(run)) });
  }
  const failing: Grant[] = [];
  while (failing.length < 3) failing.push(...(await odd.take(failing.map((run) => run.run_id))));
  await odd.call({
    accept: false,
    outcomes: failing.map((run) => outcome(run, { status: 'FAILED', retryable: false, error_message: 'no' })),
  });
});
after(() => house[Symbol.asyncDispose]());

async function jobs(query: JobQuery): Promise<number[]> {
  const found: number[] = [];
  for await (const job of house.client.jobs.all(query)) found.push(jobIds.indexOf(job.job_id));
  return found;
}

async function runs(query: RunQuery): Promise<string[]> {
  const found: string[] = [];
  for await (const run of house.client.runs.all(query)) found.push(run.run_id);
  return found;
}

const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i);
const newestFirst = (numbers: number[]): number[] => numbers.toSorted((a, b) => b - a);

test('all jobs come once, newest first, whatever the size of the page', async () => {
  for (const limit of [1, 7, 29, 30, 200]) assert.deepEqual(await jobs({ limit }), newestFirst(range(0, 30)));
});

test('each filter of jobs finds what it names', async () => {
  const all = range(0, 30);
  assert.deepEqual(await jobs({ type: 'even', limit: 4 }), newestFirst(all.filter((i) => i % 2 === 0)));
  assert.deepEqual(await jobs({ queue: 'third', limit: 4 }), newestFirst(all.filter((i) => i % 3 === 0)));
  assert.deepEqual(await jobs({ user_id: 'u3', limit: 4 }), newestFirst(all.filter((i) => i % 5 === 3)));
  assert.deepEqual(await jobs({ tag: 'ten' }), [20, 10, 0]);
  assert.deepEqual(await jobs({ name: 'job 7' }), [7]);
  assert.deepEqual(await jobs({ q: 'NEEDLE-17' }), [17]);
  assert.deepEqual(await jobs({ type: 'even', user_id: 'u2', queue: 'third' }), [12]);
  assert.deepEqual(await jobs({ name: 'nothing' }), []);
  assert.deepEqual(await jobs({ name: `' or 1=1 --` }), []);
});

test('jobs are found by status', async () => {
  const waiting = range(20, 30);
  const pending = await jobs({ status: 'pending', limit: 5 });
  assert.equal(pending.length, 17, 'ten wait for their time, seven odd ones are queued');
  assert.deepEqual(pending.slice(0, 10), newestFirst(waiting));
  assert.deepEqual(await jobs({ status: 'SCHEDULED' }), pending);
  assert.equal((await jobs({ status: 'COMPLETED', limit: 3 })).length, 13);
  await house.client.jobs.pause(jobIds[25] ?? '');
  await house.client.jobs.cancel(jobIds[26] ?? '');
  assert.deepEqual(await jobs({ status: 'PAUSED' }), [25]);
  assert.deepEqual(await jobs({ status: 'CANCELLED' }), [26]);
  assert.equal((await jobs({ status: 'pending' })).length, 16);
});

test('jobs are found by when they were made', async () => {
  const middle = await house.client.jobs.get(jobIds[15] ?? '');
  const later = await jobs({ created_after: middle.created_at });
  const earlier = await jobs({ created_before: middle.created_at });
  assert.deepEqual(newestFirst([...later, ...earlier]), newestFirst(range(0, 30)));
  assert.ok(earlier.every((i) => i <= 15) && later.every((i) => i >= 14), `${earlier.join()} | ${later.join()}`);
});

test('runs are found by status, worker, type, queue, user and job', async () => {
  assert.equal((await runs({ limit: 3 })).length, 30);
  assert.equal((await runs({ status: 'SUCCESS', limit: 3 })).length, 10);
  assert.equal((await runs({ status: 'FAILED' })).length, 3);
  assert.equal((await runs({ status: 'RUNNING' })).length, 0);
  assert.equal((await runs({ worker_id: 'even-worker', limit: 4 })).length, 10);
  assert.equal((await runs({ worker_id: 'nobody' })).length, 0);
  assert.equal((await runs({ type: 'odd', limit: 4 })).length, 15);
  assert.equal((await runs({ user_id: 'u0' })).length, 6);
  assert.equal((await runs({ job_id: jobIds[3] ?? '' })).length, 1);
  assert.equal((await runs({ job_id: jobIds[3] ?? '', status: 'SUCCESS' })).length, 0);
  const executions = (await (await fetch(`${house.url}/job/executions?worker_id=odd-worker`)).json()) as {
    runs: { executor_id: string }[];
  };
  assert.equal(executions.runs.length, 3);
  assert.ok(executions.runs.every((run) => run.executor_id === 'odd-worker'));
});

test('a cursor does not go with other filters', async () => {
  const { next_cursor } = await house.client.jobs.list({ limit: 2, type: 'even' });
  await assert.rejects(house.client.jobs.list({ limit: 2, type: 'odd', cursor: next_cursor ?? '' }), {
    code: 'invalid_cursor',
  });
});

test('the cost of a page does not grow with the table', async () => {
  await using big = await openHouse();
  await fill(big, 150_000);
  for (const [query, cost] of Object.entries(await pageCosts(big))) {
    // The bounds are of the page, whatever the size of the table.
    const bound = /^(all|pending|failed|running)/.test(query) ? 3_000 : 5 * limits.max_scan;
    assert.ok(cost < bound, `${query} touched ${cost} blocks`);
  }
});

/** Adds finished jobs as the engine would have left them. */
async function fill(big: House, count: number): Promise<void> {
  const client = new pg.Client(big.databaseUrl);
  await client.connect();
  await client.query(
    `with lane as (
       insert into punctual.lanes (queue, type, executor, priority) values ('default', 'echo', 'handler', 5)
       on conflict (queue, type, executor, priority, requires, stage) do update set queue = excluded.queue returning lane_id
     ),
     made as (
       select i % 4 as segment,
              (lpad(to_hex((extract(epoch from now()) * 1000)::bigint), 12, '0') || '7' || lpad(to_hex(i % 4096), 3, '0') || '8'
               || substr(md5(i::text || now()::text), 1, 11) || '0' || lpad(to_hex(i % 4), 3, '0'))::uuid as job_id
       from generate_series(1, $1::integer) i
     ),
     job as (
       insert into punctual.jobs (segment, job_id, name, type, queue, priority, schedule_type, max_retries, timeout_ms, payload)
       select segment, job_id, 'filler', 'echo', 'default', 5, 'IMMEDIATE', 3, 1000, '{}' from made
     )
     insert into punctual.ended_runs (segment, run_id, job_id, lane_id, attempt, cause, status, worker_id, scheduled_for, due_at, started_at)
     select segment, overlay(job_id::text placing '1' from 33 for 1)::uuid, job_id, lane_id, 1, 'submit', 'SUCCESS', 'filler', now(), now(), now()
     from made, lane`,
    [count],
  );
  await client.query('vacuum analyze');
  await client.end();
}

const page = { below: null, limit: 50, segments: [0, 1, 2, 3] };
const lists: Record<string, (db: Queryable) => Promise<unknown>> = {
  'all jobs': (db) => listJobs(db, {}, page),
  'pending jobs': (db) => listJobs(db, { status: 'pending' }, page),
  'completed jobs': (db) => listJobs(db, { status: 'COMPLETED' }, page),
  'jobs of a name nobody has': (db) => listJobs(db, { name: 'missing' }, page),
  'all runs': (db) => listRuns(db, {}, page),
  'failed runs': (db) => listRuns(db, { status: 'FAILED' }, page),
  'running runs': (db) => listRuns(db, { status: 'RUNNING' }, page),
  'runs of a worker nobody knows': (db) => listRuns(db, { worker_id: 'nobody' }, page),
  'runs of a type nobody has': (db) => listRuns(db, { type: 'missing' }, page),
};

/** Blocks that PostgreSQL touches for the first page of each kind of list. */
async function pageCosts(big: House): Promise<Record<string, number>> {
  const costs: Record<string, number> = {};
  for (const [name, list] of Object.entries(lists)) {
    const explaining: Queryable = {
      async query<Row extends object>({ text, values }: Sql): Promise<Row[]> {
        const rows = await big.db.query<{ 'QUERY PLAN': { Plan: Record<string, number> }[] }>({
          name: '',
          text: `explain (analyze, buffers, format json) ${text}`,
          values,
        });
        const plan = rows[0]?.['QUERY PLAN'][0]?.Plan ?? {};
        costs[name] = (plan['Shared Hit Blocks'] ?? 0) + (plan['Shared Read Blocks'] ?? 0);
        return [];
      },
    };
    await list(explaining);
  }
  return costs;
}

test('recurring jobs are found, and the others, whatever their status', async () => {
  const { client } = house;
  const { job_id: daily } = await client.jobs.create({ type: 'odd', cron_expression: '@daily' });
  const { job_id: hourly } = await client.jobs.create({ type: 'odd', interval_ms: 3_600_000 });
  const found = async (query: JobQuery) => {
    const ids: string[] = [];
    for await (const { job_id } of client.jobs.all(query)) ids.push(job_id);
    return ids;
  };
  for (const status of [undefined, 'pending', 'SCHEDULED'] as const) {
    const all = await found(status === undefined ? {} : { status });
    const query = { ...(status === undefined ? {} : { status }), limit: 3 };
    assert.deepEqual(await found({ ...query, recurring: true }), [hourly, daily]);
    assert.deepEqual(
      await found({ ...query, recurring: false }),
      all.filter((id) => id !== hourly && id !== daily),
    );
  }
  await client.jobs.cancel(hourly);
  assert.deepEqual(await found({ status: 'pending', recurring: true }), [daily]);
  assert.deepEqual(await found({ recurring: true }), [hourly, daily]);
});
