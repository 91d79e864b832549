// Keys of encrypted workflows: rotated while these go on, gone, and brought back.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import type { CreateWorkflow } from '@punctual/contract';
import { Client } from '@punctual/sdk';
import { rotateDatabase } from '@punctual/server';
import { columnsWith } from '../support/columns.ts';
import { eventually } from '../support/eventually.ts';
import { Hand, outcome } from '../support/hand.ts';
import { type Handlers, openHouse } from '../support/house.ts';
import { race } from '../support/race.ts';
import { approve, stepIn, stepOf } from '../support/workflow_steps.ts';

const newKey = (name: string): string => `${name}:${randomBytes(32).toString('base64')}`;
const old = newKey('old');
const fresh = newKey('new');
const secret = 'MARKER-0816-MARKER';
const echo: Handlers = { echo: (run) => run.payload };

describe('keys of workflows', () => {
  test('are rotated with all that workflows hold, also while they go on', async () => {
    await using house = await openHouse({ config: { encryption_keys: old } });
    const worker = await house.addWorker(echo);
    const ended = await house.client.workflows.create({
      encrypted: true,
      input: secret,
      steps: { one: { type: 'echo', payload: '{{input}}' } },
    });
    await house.client.workflows.waitFor(ended.workflow_id);
    const { workflow_id } = await house.client.workflows.create({
      encrypted: true,
      input: { list: [`${secret}-1`, `${secret}-2`] },
      steps: {
        asked: { wait: {} },
        wrong: { type: 'echo', payload: '{{input.nothing}}' },
        open: { needs: ['asked'], wait: {} },
        each: { type: 'later', map: { over: '{{input.list}}', max_parallel: 1 }, payload: '{{item}}' },
        last: { type: 'echo', needs: ['each', 'open'], payload: ['{{steps.each.result}}', '{{steps.asked.result}}'] },
      },
    });
    await approve(house, workflow_id, 'asked', secret);
    await stepIn(house, workflow_id, 'open', 'WAITING');
    await worker.stop();

    const both = { ...house.config, encryption_keys: `${fresh},${old}` };
    const columns = new Map<string, number>();
    const use = async (dryRun: boolean) => {
      columns.clear();
      const onStep = (step: { column: string; rotated: number; unreadable: object }) => {
        assert.deepEqual(step.unreadable, {});
        if (step.rotated > 0) columns.set(step.column, (columns.get(step.column) ?? 0) + step.rotated);
      };
      const keys = await rotateDatabase(both, { databaseUrl: house.databaseUrl, dryRun, onStep });
      return Object.fromEntries(keys.map(({ name, values }) => [name, values]));
    };
    // Two payloads of jobs, a result of a run, two workflows, the result of one, an item, an error, an answer.
    assert.deepEqual(await use(true), { new: 0, old: 9 });
    assert.deepEqual(await use(false), { new: 0, old: 9 });
    assert.deepEqual(Object.fromEntries(columns), {
      'jobs.payload': 2,
      'ended_runs.result': 1,
      'workflows.input': 2,
      'workflows.result': 1,
      'workflow_steps.payload': 1,
      'workflow_steps.error': 1,
      'workflow_steps.result': 1,
    });
    assert.deepEqual(await use(false), { new: 9, old: 0 });
    assert.equal(columns.size, 0);

    // A server that never had the old key goes on with it.
    await house.servers.pop()?.stop();
    const { url } = await house.addServer({ encryption_keys: fresh });
    const client = new Client({ url });
    await house.addWorker({ ...echo, later: (run) => run.payload });
    const token = stepOf(await client.workflows.get(workflow_id), 'open')?.token ?? '';
    await client.workflows.complete(workflow_id, 'open', { token });
    const done = await client.workflows.waitFor(workflow_id, { reveal: true });
    assert.deepEqual(done.result, { last: [[`${secret}-1`, `${secret}-2`], secret] });
    assert.match(stepOf(done, 'wrong')?.error_message ?? '', /there is no nothing/);
    assert.deepEqual((await client.workflows.get(ended.workflow_id, { reveal: true })).result, { one: secret });
    assert.deepEqual(await columnsWith(house, secret), []);
    client.close();
  });

  test('an item that begins while its key is rotated is not brought back by the rotation', async () => {
    await using house = await openHouse({ config: { encryption_keys: old } });
    const { workflow_id } = await house.client.workflows.create({
      encrypted: true,
      input: [1, 2],
      steps: { each: { type: 'later', map: { over: '{{input}}', max_parallel: 1 }, payload: '{{item}}' } },
    });
    await house.client.workflows.cancel(workflow_id);
    const both = { ...house.config, encryption_keys: `${fresh},${old}` };
    let rotated = 0;
    const { secondWaited } = await race(
      house.db,
      (tx) => tx.query({ name: '', text: 'update punctual.workflow_steps set payload = null', values: [] }),
      () =>
        rotateDatabase(both, {
          databaseUrl: house.databaseUrl,
          dryRun: false,
          onStep: (step) => {
            if (step.column === 'workflow_steps.payload') rotated += step.rotated;
          },
        }),
    );
    assert.deepEqual([secondWaited, rotated], [true, 0]);
    assert.equal(await house.count('workflow_steps', 'where payload is not null'), 0);
  });

  test('a step whose key is gone fails with a reason that names the key, can be cancelled, and runs again when it is back', async () => {
    await using house = await openHouse({ config: { encryption_keys: old } });
    const body: CreateWorkflow = {
      encrypted: true,
      input: secret,
      steps: { held: { type: 'held' }, next: { type: 'echo', needs: ['held'], payload: '{{input}}' } },
    };
    const { workflow_id } = await house.client.workflows.create(body);
    const waits: CreateWorkflow = {
      encrypted: true,
      steps: { open: { wait: {} }, next: { type: 'echo', needs: ['open'], payload: secret } },
    };
    const { workflow_id: other } = await house.client.workflows.create(waits, { idempotencyKey: 'k' });
    const { job_id } = await house.client.workflows.schedule({ ...body, delay_ms: 3_600_000 });
    const token = stepOf(await house.client.workflows.get(other), 'open')?.token ?? '';
    const hand = new Hand(house.url, { types: ['held'] });
    const [run] = await hand.take();
    assert.ok(run);
    await house.servers.pop()?.stop();

    const { url } = await house.addServer({ encryption_keys: fresh });
    const client = new Client({ url });
    await hand.call({ url, outcomes: [outcome(run, { result: 1 })] });
    const failed = await client.workflows.waitFor(workflow_id);
    assert.deepEqual([failed.state, stepOf(failed, 'next')?.reason], ['FAILED', 'cannot_decrypt']);
    assert.match(
      stepOf(failed, 'next')?.error_message ?? '',
      /The workflow is encrypted under the key "old", which this server does not have/,
    );
    const refused = { code: 'cannot_decrypt', status: 409 };
    await assert.rejects(client.workflows.get(workflow_id, { reveal: true }), refused);
    await assert.rejects(client.workflows.retry(workflow_id), refused);
    await assert.rejects(client.workflows.complete(other, 'open', { token, result: 1 }), refused);
    await client.workflows.pause(other);
    await assert.rejects(client.workflows.resume(other), refused);
    await client.jobs.runNow(job_id);
    const begun = await eventually(async () => {
      const { latest_run: latest } = await client.jobs.status(job_id);
      assert.equal(latest?.status, 'FAILED');
      return latest;
    });
    assert.deepEqual([begun?.reason, await house.count('workflows')], ['cannot_decrypt', 2]);
    // Others are not harmed.
    await house.addWorker(echo);
    const { workflow_id: plain } = await client.workflows.create({ steps: { one: { type: 'echo', payload: 1 } } });
    assert.deepEqual((await client.workflows.waitFor(plain)).result, { one: 1 });
    assert.equal((await client.workflows.cancel(other)).state, 'CANCELLED');
    client.close();
    await house.servers.pop()?.stop();

    const { url: back } = await house.addServer({ encryption_keys: `${fresh},${old}` });
    const again = new Client({ url: back });
    await house.addWorker(echo);
    await again.workflows.retry(workflow_id);
    await eventually(async () => {
      const { result } = await again.workflows.get(workflow_id, { reveal: true });
      assert.deepEqual(result, { next: secret });
    });
    // A request that is sent again is known also under another key.
    assert.deepEqual(await again.workflows.create(waits, { idempotencyKey: 'k' }), { workflow_id: other });
    await assert.rejects(again.workflows.create({ ...waits, input: 1 }, { idempotencyKey: 'k' }), {
      code: 'idempotency_key_reused',
    });
    again.close();
    assert.deepEqual(await columnsWith(house, secret), []);
  });

  test('a result that a server without keys could not keep is not taken for nothing by the next step', async () => {
    await using house = await openHouse({ config: { encryption_keys: old } });
    const { workflow_id } = await house.client.workflows.create({
      encrypted: true,
      steps: {
        held: { type: 'held' },
        there: { type: 'echo', needs: ['held'], if: { value: '{{steps.held.result}}', exists: false } },
        next: { type: 'echo', needs: ['held'], payload: '{{steps.held.result}}' },
      },
    });
    const hand = new Hand(house.url, { types: ['held'] });
    const [run] = await hand.take();
    assert.ok(run);
    await house.client.workflows.pause(workflow_id);
    const { url: keyless } = await house.addServer({ encryption_keys: null });
    await hand.call({ url: keyless, outcomes: [outcome(run, { result: secret })] });
    await eventually(async () => assert.equal(await house.count('ended_runs'), 1));
    await house.servers.pop()?.stop();
    await stepIn(house, workflow_id, 'held', 'SUCCESS');
    await house.client.workflows.resume(workflow_id);
    const workflow = await house.client.workflows.waitFor(workflow_id, { reveal: true });
    for (const name of ['there', 'next']) {
      assert.equal(stepOf(workflow, name)?.reason, 'result_not_encrypted');
      assert.match(stepOf(workflow, name)?.error_message ?? '', /the result of held was not kept/);
    }
    assert.deepEqual(await columnsWith(house, secret), []);
  });
});
