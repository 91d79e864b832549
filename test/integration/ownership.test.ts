// A key that belongs to a user: what it creates is that user's, what it lists is that user's, and nothing it names can be
// another's.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Client, PunctualError } from '@punctual/sdk';
import { eventually } from '../support/eventually.ts';
import { ask, type LockedHouse, openLockedHouse } from '../support/keys.ts';

const refusedWith = (code: string) => (error: unknown) => {
  assert.ok(error instanceof PunctualError, String(error));
  assert.equal(error.code, code, error.message);
  return true;
};

describe('a key of a user', () => {
  let open: LockedHouse & AsyncDisposable;
  let ann: Client;
  let bob: Client;

  before(async () => {
    open = await openLockedHouse();
    const clientOf = async (user_id: string) =>
      new Client({ url: open.house.url, apiKey: (await open.makeKey('operator', { user_id })).secret });
    ann = await clientOf('ann');
    bob = await clientOf('bob');
    await open.house.addWorker(
      {
        echo: async (run, ctx) => {
          ctx.log.info(`words of ${run.user_id}`);
          return run.payload;
        },
      },
      { apiKey: open.house.servers[0]?.workerKey ?? '' },
    );
  });
  after(async () => {
    ann.close();
    bob.close();
    await open[Symbol.asyncDispose]();
  });

  test('to look is not to reveal what is encrypted: that takes who could have submitted it', async () => {
    const { job_id } = await ann.jobs.create({ type: 'far', delay_ms: 9e8 });
    const { secret } = await open.makeKey('viewer', { user_id: 'ann' });
    const look = (query: string) => ask(`${open.house.url}/jobs/${job_id}${query}`, { method: 'GET', key: secret });
    assert.equal((await look('')).status, 200);
    assert.equal((await look('?reveal=false')).status, 200);
    assert.equal((await look('?reveal=true')).status, 403);
    await ann.jobs.get(job_id, { reveal: true });
  });

  test('a job belongs to the user of the key that submits it, and a body that names another is refused', async () => {
    const { job_id } = await ann.jobs.create({ type: 'far', delay_ms: 9e8 });
    assert.equal((await ann.jobs.get(job_id)).user_id, 'ann');
    await ann.jobs.create({ type: 'far', delay_ms: 9e8, user_id: 'ann' });
    await assert.rejects(ann.jobs.create({ type: 'far', user_id: 'bob' }), refusedWith('wrong_user'));
    const many = ann.jobs.createMany([{ type: 'far' }, { type: 'far', user_id: 'bob' }]);
    await assert.rejects(many, refusedWith('wrong_user'));
    const { jobs } = await ann.jobs.createMany([{ type: 'far', delay_ms: 9e8 }]);
    assert.equal((await ann.jobs.get(jobs[0]?.job_id ?? '')).user_id, 'ann');
    const workflow = await ann.workflows.create({ steps: { one: { wait: {} } } });
    assert.equal((await ann.workflows.get(workflow.workflow_id)).user_id, 'ann');
    await assert.rejects(
      ann.workflows.create({ user_id: 'bob', steps: { one: { wait: {} } } }),
      refusedWith('wrong_user'),
    );
    const scheduled = await ann.workflows.schedule({
      steps: { one: { wait: {} } },
      schedule_type: 'FUTURE',
      delay_ms: 9e8,
    });
    assert.equal((await ann.jobs.get(scheduled.job_id)).user_id, 'ann');
  });

  test('lists, searches and forecasts show only the rows of the user', async () => {
    const mine = await ann.jobs.create({ type: 'echo' });
    const theirs = await bob.jobs.create({ type: 'echo' });
    await bob.workflows.create({ steps: { one: { wait: {} } } });
    await bob.operations.create({ action: 'cancel', filter: { type: 'nobody' } });
    await open.house.db.query({ name: '', text: 'select 1', values: [] });
    await eventually(async () => {
      for (const [client, id] of [
        [ann, mine.job_id],
        [bob, theirs.job_id],
      ] as const)
        assert.equal((await client.jobs.status(id)).latest_run?.status, 'SUCCESS');
    });
    const users = async (items: Promise<{ user_id: string | null }[]>) =>
      new Set((await items).map((one) => one.user_id));
    assert.deepEqual(await users(ann.jobs.list().then(({ jobs }) => jobs)), new Set(['ann']));
    assert.deepEqual(await users(ann.runs.list().then(({ runs }) => runs)), new Set(['ann']));
    assert.deepEqual(await users(ann.workflows.list().then(({ workflows }) => workflows)), new Set(['ann']));
    assert.deepEqual((await ann.operations.list()).operations, []);
    assert.deepEqual((await ann.runs.list({ job_id: theirs.job_id })).runs, []);
    await assert.rejects(ann.jobs.list({ user_id: 'bob' }), refusedWith('wrong_user'));
    await assert.rejects(ann.runs.list({ user_id: 'bob' }), refusedWith('wrong_user'));
    await eventually(async () => {
      const all = await open.client.logs.search({ q: 'words' });
      assert.deepEqual(new Set(all.hits.map((hit) => hit.user_id)), new Set(['ann', 'bob']));
    });
    const found = await ann.logs.search({ q: 'words' });
    assert.deepEqual(new Set(found.hits.map((hit) => hit.user_id)), new Set(['ann']));
    await bob.jobs.create({ type: 'late', delay_ms: 60_000 });
    await bob.jobs.create({ type: 'cron', schedule_type: 'CRON', cron_expression: '* * * * *' });
    assert.equal((await ann.forecast({ hours: 1 })).runs, 0);
    assert.ok((await bob.forecast({ hours: 1 })).runs > 50);
  });

  test('a job cannot wait for a run of another user, nor of nobody', async () => {
    const theirs = await bob.jobs.create({ type: 'far', delay_ms: 9e8 });
    const nobodys = await open.client.jobs.create({ type: 'far', delay_ms: 9e8 });
    for (const job_id of [theirs.job_id, nobodys.job_id])
      await assert.rejects(
        ann.jobs.create({ type: 'echo', depends_on: [{ job_id }] }),
        refusedWith('invalid_dependency'),
      );
    const run_id = theirs.run_id ?? '';
    await assert.rejects(
      ann.jobs.create({ type: 'echo', depends_on: [{ run_id }] }),
      refusedWith('invalid_dependency'),
    );
  });

  test('Idempotency-Keys and unique keys of one user are not those of another', async () => {
    const job = { type: 'far', delay_ms: 9e8 };
    const first = await ann.jobs.create(job, { idempotencyKey: 'same' });
    assert.equal((await ann.jobs.create(job, { idempotencyKey: 'same' })).job_id, first.job_id);
    assert.notEqual((await bob.jobs.create(job, { idempotencyKey: 'same' })).job_id, first.job_id);
    assert.notEqual((await open.client.jobs.create(job, { idempotencyKey: 'same' })).job_id, first.job_id);
    const flow = { steps: { one: { wait: {} } } };
    const begun = await ann.workflows.create(flow, { idempotencyKey: 'same' });
    assert.notEqual((await bob.workflows.create(flow, { idempotencyKey: 'same' })).workflow_id, begun.workflow_id);
    const operation = { action: 'cancel', filter: { type: 'nobody' } } as const;
    const asked = await ann.operations.create(operation, { idempotencyKey: 'same' });
    assert.notEqual(
      (await bob.operations.create(operation, { idempotencyKey: 'same' })).operation_id,
      asked.operation_id,
    );
    const unique = { ...job, unique_key: 'once' };
    const holder = await ann.jobs.create(unique);
    assert.notEqual((await bob.jobs.create(unique)).job_id, holder.job_id);
    await assert.rejects(ann.jobs.create(unique), refusedWith('unique_key_taken'));
    // An id that another has chosen is not to be had.
    const chosen = { ...job, name: 'chosen' };
    const id = first.job_id.replace(/^.{8}/, (begin) => begin);
    await assert.rejects(
      bob.jobs.create(chosen, { idempotencyKey: `job:${id}` }),
      refusedWith('idempotency_key_reused'),
    );
  });

  test('an operation acts on the rows of the user only, even when it is asked for everything', async () => {
    const mine = await ann.jobs.create({ type: 'far', delay_ms: 9e8 });
    const theirs = await bob.jobs.create({ type: 'far', delay_ms: 9e8 });
    const plan = await ann.operations.create({ action: 'cancel', filter: { all: true } });
    await eventually(async () => {
      assert.equal((await ann.operations.get(plan.operation_id ?? '')).state, 'DONE');
    });
    assert.equal((await ann.jobs.get(mine.job_id)).status, 'CANCELLED');
    assert.equal((await bob.jobs.get(theirs.job_id)).status, 'SCHEDULED');
    const named = ann.operations.create({ action: 'cancel', filter: { user_id: 'bob' } });
    await assert.rejects(named, refusedWith('wrong_user'));
    await assert.rejects(bob.operations.get(plan.operation_id ?? ''), refusedWith('operation_not_found'));
  });

  test('what another user has is answered exactly as what does not exist', async () => {
    const theirs = await bob.jobs.create({ type: 'far', delay_ms: 9e8 });
    const url = open.house.url;
    const key = (await open.makeKey('viewer', { user_id: 'ann' })).secret;
    const unknown = theirs.job_id.replace(/^.{8}/, '01900000');
    const [real, none] = await Promise.all([theirs.job_id, unknown].map((id) => ask(`${url}/jobs/${id}`, { key })));
    const plain = (answer: typeof real, id: string) =>
      JSON.stringify({ ...answer?.body, request_id: '' }).replaceAll(id, 'ID');
    assert.equal(plain(real, theirs.job_id), plain(none, unknown));
    const tail = await ask(`${url}/runs/${theirs.run_id}/logs?follow=true`, { key });
    assert.equal(tail.status, 404);
  });

  test('who may only look does not see the token that completes a step, and whoever has it needs no key', async () => {
    const { workflow_id } = await ann.workflows.create({ steps: { approval: { wait: {} } } });
    const token = (await ann.workflows.get(workflow_id)).steps[0]?.token ?? '';
    assert.match(token, /^[0-9a-f-]{36}$/);
    const viewer = (await open.makeKey('viewer', { user_id: 'ann' })).secret;
    const path = `${open.house.url}/workflows/${workflow_id}`;
    for (const looked of [path, `${path}/steps/approval`]) {
      const { status, body } = await ask(looked, { key: viewer });
      assert.equal(status, 200);
      assert.ok(!JSON.stringify(body).includes(token), looked);
    }
    const body = { token, outcome: 'success' };
    assert.equal((await ask(`${path}/steps/approval/complete`, { method: 'POST', body })).status, 200);
  });
});
