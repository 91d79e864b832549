// Unique keys together with idempotency keys and in bulks.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { CreateJob, OnConflict } from '@punctual/contract';
import type { PunctualError } from '@punctual/sdk';
import { eventually } from '../support/eventually.ts';
import { gate } from '../support/gate.ts';
import { type House, openHouse } from '../support/house.ts';
import { existing, newKey, posts, refused } from '../support/unique.ts';

let house: House;
const hold = gate();
before(async () => {
  house = await openHouse({
    servers: 3,
    workers: 1,
    handlers: {
      echo: async (run) => run.payload,
      hold: async (run, ctx) => {
        await hold.enter(run.run_id, ctx.signal);
        return run.payload;
      },
    },
  });
});
after(async () => {
  await house[Symbol.asyncDispose]();
});

const { post, created } = posts(() => house);
const hour = 3_600_000;

describe('with an Idempotency-Key', () => {
  test('the same submit gets the same answer, whatever has become of the job since', async () => {
    const unique_key = newKey();
    const { job_id, run_id } = await created({ type: 'hold', unique_key, payload: 'old' });
    await hold.entered(run_id);
    const asked = (on_conflict: OnConflict): CreateJob => ({ type: 'hold', unique_key, on_conflict });
    const returned = await post(asked('return_existing'), { key: `${unique_key}-a` });
    existing(returned, job_id, 'returned');
    const rejected = await post(asked('reject'), { key: `${unique_key}-b` });
    refused(rejected, job_id);
    hold.open(run_id);
    await house.ended(job_id);
    const [again, refusedAgain] = [
      await post(asked('return_existing'), { key: `${unique_key}-a`, server: 1 }),
      await post(asked('reject'), { key: `${unique_key}-b`, server: 1 }),
    ];
    assert.deepEqual([again.body, again.replayed], [returned.body, true]);
    const { request_id: _a, ...first } = rejected.body;
    const { request_id: _b, ...second } = refusedAgain.body;
    assert.deepEqual(second, first);
    assert.equal(await house.count('jobs', `where unique_key = '${unique_key}'`), 1);
    const other = await post({ ...asked('reject'), payload: 1 }, { key: `${unique_key}-b` });
    assert.deepEqual([other.status, other.body.code], [422, 'idempotency_key_reused']);
  });
  test('a change is made once, and a job is created once, also under concurrency', async () => {
    const unique_key = newKey();
    const job: CreateJob = { type: 'hold', unique_key, delay_ms: hour, on_conflict: 'replace_payload' };
    const thirty = (key: string, payload: number) =>
      Promise.all(Array.from({ length: 30 }, (_, i) => post({ ...job, payload }, { server: i, key })));
    const first = await thirty(`${unique_key}-a`, 1);
    assert.equal(new Set(first.map(({ body }) => JSON.stringify(body))).size, 1);
    assert.equal(first.filter(({ replayed }) => !replayed).length, 1);
    const job_id = first[0]?.body.job_id ?? '';
    const second = await thirty(`${unique_key}-b`, 2);
    assert.equal(second.filter(({ replayed }) => !replayed).length, 1);
    for (const answer of second) existing(answer, job_id, 'payload_replaced');
    assert.equal((await house.client.jobs.get(job_id)).version, 2);
  });
  test('that chooses the id of the job the same holds, and the SDK says what happened', async () => {
    const unique_key = newKey();
    const { job_id } = await house.client.jobs.create({ type: 'echo', unique_key, delay_ms: hour });
    const answer = await house.client.jobs.create({ type: 'echo', unique_key, on_conflict: 'return_existing' });
    assert.deepEqual([answer.job_id, answer.existing, answer.conflict_action], [job_id, true, 'returned']);
    await assert.rejects(house.client.jobs.create({ type: 'echo', unique_key }), (error: PunctualError) => {
      assert.deepEqual([error.code, error.status, error.jobId], ['unique_key_taken', 409, job_id]);
      return true;
    });
    const time = Date.now().toString(16).padStart(12, '0');
    const random = crypto.randomUUID().replaceAll('-', '');
    const key = `job:${time.slice(0, 8)}-${time.slice(8)}-7${random.slice(0, 3)}-8${random.slice(3, 6)}-${random.slice(6, 14)}0001`;
    const chosen: CreateJob = { type: 'hold', unique_key: newKey(), delay_ms: hour };
    const [one, two] = [await post(chosen, { key }), await post(chosen, { key, server: 1 })];
    assert.deepEqual([one.status, one.body.job_id.slice(0, 32)], [201, key.slice(4, 36)]);
    assert.deepEqual([two.body, two.replayed], [one.body, true]);
    const reused = await post({ ...chosen, unique_key: newKey() }, { key });
    assert.deepEqual([reused.status, reused.body.code], [422, 'idempotency_key_reused']);
  });
});

describe('a bulk', () => {
  test('is judged in order, also between its own jobs', async () => {
    const [a, b] = [newKey(), newKey()];
    const { job_id } = await created({ type: 'hold', unique_key: a, payload: 'old', delay_ms: hour });
    const { status, body } = await post({
      jobs: [
        { type: 'hold', unique_key: a, payload: 'first', on_conflict: 'replace_payload' },
        { type: 'echo', payload: 'plain' },
        { type: 'echo', unique_key: b, payload: 'b1', delay_ms: hour },
        { type: 'echo', unique_key: b, on_conflict: 'return_existing' },
        { type: 'echo', unique_key: b, payload: 'b2', on_conflict: 'reschedule' },
        { type: 'hold', unique_key: a, payload: 'second', on_conflict: 'replace_payload' },
      ],
    });
    assert.equal(status, 201, JSON.stringify(body));
    const jobs = body.jobs ?? [];
    assert.deepEqual(
      jobs.map((job) => job.conflict_action ?? 'created'),
      ['payload_replaced', 'created', 'created', 'returned', 'rescheduled', 'payload_replaced'],
    );
    assert.deepEqual([jobs[0]?.job_id, jobs[5]?.job_id], [job_id, job_id]);
    assert.equal(new Set(jobs.slice(2, 5).map((job) => job.job_id)).size, 1);
    assert.equal((await house.client.jobs.get(job_id)).payload, 'second');
    assert.equal((await house.ended(jobs[1]?.job_id ?? '')).result, 'plain');
    assert.equal((await house.ended(jobs[2]?.job_id ?? '')).result, 'b2', 'it was rescheduled to now');
  });
  test('of which one job is refused creates and changes nothing, and names that job', async () => {
    const [a, b] = [newKey(), newKey()];
    const { job_id } = await created({ type: 'hold', unique_key: a, payload: 'old', delay_ms: hour });
    const jobsBefore = await house.count('jobs');
    const bulk = {
      jobs: [
        { type: 'echo', unique_key: b },
        { type: 'hold', unique_key: a, payload: 'new', on_conflict: 'replace_payload' as const },
        { type: 'hold', unique_key: a },
      ],
    };
    const answer = await post(bulk, { key: `${a}-bulk` });
    refused(answer, job_id, /^Nothing was created\. jobs\[2\]\.unique_key is held by job/);
    assert.equal(answer.body.errors?.[0]?.path, 'jobs[2].unique_key');
    assert.equal(await house.count('jobs'), jobsBefore);
    assert.equal((await house.client.jobs.get(job_id)).payload, 'old');
    assert.equal(await house.count('uniques', `where key = '${b}'`), 0);
    refused(await post(bulk, { key: `${a}-bulk`, server: 1 }), job_id);
  });
  test('and another with the same keys in another order never block each other', async () => {
    const names = Array.from({ length: 20 }, newKey);
    const bulk = (order: string[], payload: number) =>
      post(
        {
          jobs: order.map((unique_key) => ({
            type: 'hold',
            unique_key,
            payload,
            delay_ms: hour,
            on_conflict: 'replace_payload',
          })),
        },
        { server: payload },
      );
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, i) => bulk(i % 2 === 0 ? names : names.toReversed(), i)),
    );
    assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([201]));
    assert.equal(await house.count('jobs', `where unique_key = any ('{${names.join(',')}}')`), 20);
    const payloads = await house.db.query<{ payload: string; n: number }>({
      name: '',
      text: `select payload, count(*)::integer as n from punctual.jobs where unique_key = any ($1) group by payload`,
      values: [names],
    });
    assert.deepEqual(
      payloads.map(({ n }) => n),
      [20],
      'the last bulk is whole',
    );
  });
});

test('many that wait for one key are bounded, and stand in the way of nobody else', async () => {
  await using small = await openHouse({ workers: 1, config: { max_waiting_submits: 20, pool_size: 4 } });
  const direct = posts(() => small);
  const unique_key = newKey();
  const job: CreateJob = { type: 'echo', unique_key, delay_ms: hour, on_conflict: 'return_existing' };
  const { job_id } = await direct.created(job);
  const waiting: ReturnType<typeof direct.post>[] = [];
  let answered = 0;
  await small.db.transaction(async (tx) => {
    const text = 'select from punctual.uniques where key = $1 for update';
    await tx.query({ name: '', text, values: [unique_key] });
    for (let i = 0; i < 30; i++) waiting.push(direct.post(job).finally(() => answered++));
    const first = await Promise.any(waiting);
    assert.deepEqual([first.status, first.body.code], [429, 'overloaded']);
    const other = await direct.created({ type: 'echo', payload: 'other' });
    assert.equal((await small.ended(other.job_id)).result, 'other');
    // All have come before the key is free, also those that a slow machine sent last.
    await eventually(() => assert.equal(answered, 10));
  });
  const answers = await Promise.all(waiting);
  assert.equal(answers.filter(({ status }) => status === 429).length, 10);
  for (const answer of answers.filter(({ status }) => status !== 429)) existing(answer, job_id, 'returned');
});
