// Encrypted workflows: nothing that they or their steps store can be read in the database, and they go on as others do.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { inspect } from 'node:util';
import type { CreateWorkflow, Workflow } from '@punctual/contract';
import { Client, FatalError } from '@punctual/sdk';
import { rotateDatabase, startServer } from '@punctual/server';
import { openLog } from '@punctual/server/internal/base/log';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
import { columnsWith } from '../support/columns.ts';
import { eventually } from '../support/eventually.ts';
import { Hand, outcome } from '../support/hand.ts';
import { type Handlers, type House, openHouse } from '../support/house.ts';
import { ask, openLockedHouse } from '../support/keys.ts';

const newKey = (name: string): string => `${name}:${randomBytes(32).toString('base64')}`;
const old = newKey('old');
const fresh = newKey('new');
const secret = 'MARKER-0815-MARKER';

const echo: Handlers = { echo: (run) => run.payload };

const stepOf = (workflow: Workflow, name: string) => workflow.steps.find(({ step }) => step === name);

/** Waits until a step stands as said. */
function stepIn(house: House, id: string, name: string, state: string): Promise<Workflow> {
  return eventually(async () => {
    const workflow = await house.client.workflows.get(id);
    const step = stepOf(workflow, name);
    assert.equal(step?.state, state, `${step?.reason} ${step?.error_message}`);
    return workflow;
  });
}

async function approve(house: House, id: string, name: string, result: unknown): Promise<void> {
  const token = stepOf(await stepIn(house, id, name, 'WAITING'), name)?.token ?? '';
  await house.client.workflows.complete(id, name, { token, result });
  // The same again gets the same answer, something else does not.
  await house.client.workflows.complete(id, name, { token, result });
  await assert.rejects(house.client.workflows.complete(id, name, { token, result: 'other' }), { code: 'step_ended' });
}

const many: CreateWorkflow = {
  name: 'w',
  encrypted: true,
  input: { card: secret, list: [1, 2, 3].map((n) => `${secret}-${n}`) },
  steps: {
    first: { type: 'echo', payload: { card: '{{input.card}}', [`literal ${secret}`]: secret } },
    judged: {
      type: 'echo',
      needs: ['first'],
      if: { value: '{{steps.first.result.card}}', is: secret },
      payload: 'text {{steps.first.result.card}}',
    },
    skipped: { type: 'echo', needs: ['first'], if: { value: '{{input.card}}', not: secret } },
    each: {
      type: 'echo',
      needs: ['first'],
      map: { over: '{{input.list}}', max_parallel: 1 },
      payload: { item: '{{item}}' },
    },
    failing: { type: 'fail', needs: ['first'], max_retries: 1, backoff: { base_ms: 1 }, payload: secret },
    handled: { type: 'echo', needs: [{ step: 'failing', on: 'failure' }], payload: '{{steps.failing.error}}' },
    wrong: { type: 'echo', needs: ['first'], payload: `{{steps.first.result.${secret}}}` },
    mended: { type: 'echo', needs: [{ step: 'wrong', on: 'failure' }], payload: 'mended' },
    within: {
      needs: ['first'],
      workflow: {
        input: { inner: '{{steps.first.result.card}}' },
        steps: { deep: { type: 'echo', payload: [`inner ${secret}`, '{{input.inner}}'] } },
      },
    },
    approval: { needs: ['judged', 'each', 'handled', 'mended', 'within'], wait: { event: 'approved' } },
    last: {
      type: 'echo',
      needs: ['approval'],
      payload: {
        by: '{{steps.approval.result.by}}',
        each: '{{steps.each.result}}',
        deep: '{{steps.within.result.deep}}',
        judged: '{{steps.judged.result}}',
        handled: '{{steps.handled.result}}',
      },
    },
  },
};

describe('an encrypted workflow', () => {
  let house: House;
  before(async () => {
    house = await openHouse({ servers: 2, config: { encryption_keys: old } });
    await house.addWorker({
      ...echo,
      fail: async (_run, ctx) => {
        await ctx.checkpoint({ at: secret });
        throw new Error(`no luck with ${secret}`);
      },
    });
  });
  after(() => house[Symbol.asyncDispose]());

  test('leaves nothing readable in the database, and results are passed on between its steps', async () => {
    const { workflow_id } = await house.client.workflows.create(many, { idempotencyKey: 'k' });
    assert.deepEqual(await columnsWith(house, secret), []);
    assert.deepEqual(await house.client.workflows.create(many, { idempotencyKey: 'k' }), { workflow_id });
    await stepIn(house, workflow_id, 'approval', 'WAITING');
    assert.deepEqual(await columnsWith(house, secret), []);
    await approve(house, workflow_id, 'approval', { by: `kim ${secret}` });
    const hidden = await house.client.workflows.waitFor(workflow_id);
    assert.deepEqual(await columnsWith(house, secret), []);
    assert.deepEqual([hidden.state, hidden.encrypted, hidden.input, hidden.result], ['SUCCESS', true, null, null]);

    const shown = await house.client.workflows.get(workflow_id, { reveal: true });
    assert.deepEqual(shown.input, many.input);
    assert.deepEqual(shown.definition, many.steps);
    assert.deepEqual((shown.result as { last: unknown }).last, {
      by: `kim ${secret}`,
      each: [1, 2, 3].map((n) => ({ item: `${secret}-${n}` })),
      deep: [`inner ${secret}`, secret],
      judged: `text ${secret}`,
      handled: `no luck with ${secret}`,
    });
    assert.equal(stepOf(shown, 'skipped')?.reason, 'condition');
    assert.equal(stepOf(shown, 'failing')?.error_message, `no luck with ${secret}`);
    assert.equal(stepOf(shown, 'wrong')?.error_message, `{{steps.first.result.${secret}}}: there is no ${secret}.`);
    assert.deepEqual([stepOf(hidden, 'wrong')?.reason, stepOf(hidden, 'wrong')?.error_message], ['invalid', null]);
  });

  test('is shown in the clear only where that is asked for', async () => {
    const { workflows } = await house.client.workflows.list({ name: 'w' });
    const id = workflows[0]?.workflow_id ?? '';
    assert.equal(workflows[0]?.encrypted, true);
    const { steps } = await house.client.workflows.get(id);
    const paths = [`/workflows/${id}`, '/workflows', '/jobs', '/runs', '/dead-letters', `/jobs?q=${secret}`];
    for (const { step, run_id, job_id } of steps) {
      paths.push(`/workflows/${id}/steps/${step}`);
      if (run_id !== null) paths.push(`/runs/${run_id}`, `/runs/${run_id}/attempts`, `/jobs/${job_id}/runs`);
    }
    for (const path of paths) {
      const answer = await ask(`${house.url}${path}`);
      assert.equal(answer.status, 200, path);
      assert.ok(!/MARKER|enc:/.test(JSON.stringify(answer.body)), path);
    }
    const look = (step: string, reveal: boolean) => house.client.workflows.step(id, step, { reveal });
    const each = [1, 2, 3].map((n) => ({ item: `${secret}-${n}` }));
    assert.deepEqual((await look('each', true)).result, each);
    const hidden = await look('each', false);
    assert.deepEqual([hidden.result, hidden.encrypted, hidden.items.length], [null, true, 3]);
    assert.deepEqual((await look('approval', true)).result, { by: `kim ${secret}` });
    assert.deepEqual((await look('within', true)).result, { deep: [`inner ${secret}`, secret] });
    const inner = stepOf(await house.client.workflows.get(id), 'within')?.workflow_id ?? '';
    const within = await house.client.workflows.get(inner, { reveal: true });
    assert.deepEqual([within.encrypted, within.input], [true, { inner: secret }]);
    const first = steps.find(({ step }) => step === 'first');
    assert.equal((await house.client.jobs.get(first?.job_id ?? '')).encrypted, true);
    // The order of its steps, and what jobs show too, is no secret.
    const { definition } = await house.client.workflows.get(id);
    assert.deepEqual((definition as CreateWorkflow['steps'])['each'], {
      type: 'echo',
      needs: ['first'],
      map: { over: null, max_parallel: 1 },
    });
  });

  test('runs again from a step, or what failed of it, with what it had', async () => {
    let fail = true;
    const seen: unknown[] = [];
    await house.addWorker({
      again: (run) => {
        if (fail && run.payload !== `${secret}-1`) throw new FatalError(secret);
        seen.push(run.payload);
        return run.payload;
      },
    });
    const { workflow_id } = await house.client.workflows.create({
      encrypted: true,
      input: [`${secret}-1`, `${secret}-2`, `${secret}-3`],
      steps: {
        each: { type: 'again', map: { over: '{{input}}', max_parallel: 2 }, payload: '{{item}}' },
        after: { type: 'echo', needs: ['each'], payload: '{{steps.each.result[2]}} {{input[0]}}' },
      },
    });
    assert.equal((await house.client.workflows.waitFor(workflow_id)).state, 'FAILED');
    fail = false;
    await house.client.workflows.retry(workflow_id);
    const all = await eventually(async () => {
      const workflow = await house.client.workflows.get(workflow_id, { reveal: true });
      assert.equal(workflow.state, 'SUCCESS');
      return workflow;
    });
    assert.deepEqual(all.result, { after: `${secret}-3 ${secret}-1` });
    assert.deepEqual(seen.toSorted(), [`${secret}-1`, `${secret}-2`, `${secret}-3`]);
    await house.client.workflows.retry(workflow_id, { from: 'each' });
    await eventually(() => assert.equal(seen.length, 6));
    const again = await house.client.workflows.waitFor(workflow_id, { reveal: true });
    assert.deepEqual(again.result, all.result);
    assert.deepEqual(await columnsWith(house, secret), []);
  });

  test('is cancelled, and leaves nothing readable of items that never began', async () => {
    const { workflow_id } = await house.client.workflows.create({
      encrypted: true,
      input: [secret, secret, secret],
      steps: {
        each: { type: 'nobody', map: { over: '{{input}}', max_parallel: 1 }, payload: '{{item}}' },
        last: { type: 'echo', needs: ['each'], payload: secret },
      },
    });
    assert.equal(
      await house.count('workflow_steps', `where workflow_id = '${workflow_id}' and payload like 'enc:%'`),
      2,
    );
    await house.client.workflows.cancel(workflow_id);
    assert.equal((await house.client.workflows.waitFor(workflow_id)).state, 'CANCELLED');
    assert.deepEqual(await columnsWith(house, secret), []);
  });

  test('leaves nothing readable in the log of the server, also when it cannot go on', async () => {
    const lines: string[] = [];
    const keep = (...words: unknown[]): void => void lines.push(inspect(words, { depth: 20 }));
    const log = Object.assign(openLog('silent', 'test'), { debug: keep, info: keep, warn: keep, error: keep });
    await using other = await openHouse({ config: { encryption_keys: old }, servers: 0 });
    other.servers.push(await startServer(other.config, { databaseUrl: other.databaseUrl, log }));
    const { workflow_id } = await other.client.workflows.create({
      encrypted: true,
      input: [secret, secret],
      steps: { each: { type: 'echo', map: { over: '{{input}}', max_parallel: 1 }, payload: '{{item}}' } },
    });
    // The next item was put into the place of another, so it cannot be decrypted and the workflow stands still.
    const change = (text: string) => other.db.query({ name: '', text, values: [] });
    const [was] = await other.db.query<{ payload: string }>({
      ...{ name: '', text: `select payload from punctual.workflow_steps where item = 1`, values: [] },
    });
    await change(`update punctual.workflow_steps set payload = left(payload, -4) || 'AAAA' where item = 1`);
    await other.addWorker(echo);
    await eventually(() => assert.match(lines.join(), /workflow not advanced; it is tried again/));
    assert.match(lines.join(), /The step payload cannot be decrypted with the key "old"/);
    await change(`update punctual.workflow_steps set payload = '${was?.payload}' where item = 1`);
    const workflow = await other.client.workflows.waitFor(workflow_id, { reveal: true });
    assert.deepEqual(workflow.result, { each: [secret, secret] });
    assert.ok(!lines.join().includes(secret));
  });

  test('is begun by a schedule that keeps it encrypted too', async () => {
    const body = {
      ...{ name: 'nightly', encrypted: true, input: { at: secret }, delay_ms: 1 },
      steps: { one: { type: 'echo', payload: ['{{input.at}}', `literal ${secret}`] } },
    };
    const { job_id } = await house.client.workflows.schedule(body, { idempotencyKey: 's' });
    const { job_id: same } = await house.client.workflows.schedule(body, { idempotencyKey: 's' });
    assert.equal(same, job_id);
    const run = await house.ended(job_id);
    assert.deepEqual([run.status, run.encrypted], ['SUCCESS', true]);
    const { workflows } = await house.client.workflows.list({ job_id });
    const workflow = await house.client.workflows.waitFor(workflows[0]?.workflow_id ?? '', { reveal: true });
    assert.deepEqual(workflow.result, { one: [secret, `literal ${secret}`] });
    assert.deepEqual(await columnsWith(house, secret), []);
    const job = await house.client.jobs.get(job_id);
    assert.deepEqual([job.payload, job.begins], [null, { steps: { one: { type: 'echo' } }, input: null }]);
    const revealed = await house.client.jobs.get(job_id, { reveal: true });
    assert.deepEqual([revealed.payload, revealed.begins], [null, { steps: body.steps, input: body.input }]);
    const later = await house.client.workflows.schedule({ ...body, delay_ms: 3_600_000 });
    await assert.rejects(house.client.jobs.update(later.job_id, { payload: 1 }), /holds the encrypted workflow/);
  });

  test('cannot be opened in another row', async () => {
    const ids: string[] = [];
    for (const input of [1, 2]) {
      const { workflow_id } = await house.client.workflows.create({
        ...{ encrypted: true, input },
        steps: { one: { type: 'echo', payload: '{{input}}' } },
      });
      await house.client.workflows.waitFor(workflow_id);
      ids.push(workflow_id);
    }
    const [one = '', two = ''] = ids;
    for (const column of ['input', 'result']) {
      const set = (to: string, value: string) =>
        house.db.query({
          name: '',
          text: `with was as (select ${column} from punctual.workflows where workflow_id = $1)
                 update punctual.workflows set ${column} = ${value} from was where punctual.workflows.workflow_id = $2`,
          values: [one, to],
        });
      const [before] = await house.db.query<{ value: string }>({
        ...{
          name: '',
          text: `select ${column} as value from punctual.workflows where workflow_id = $1`,
          values: [two],
        },
      });
      await set(two, `was.${column}`);
      await assert.rejects(house.client.workflows.get(two, { reveal: true }), { code: 'cannot_decrypt', status: 409 });
      await set(two, `'${before?.value}'`);
      assert.equal((await house.client.workflows.get(two, { reveal: true })).input, 2);
    }
  });

  test('is refused where there are no keys, and nothing is created', async () => {
    await using keyless = await openHouse();
    const body = { encrypted: true, steps: { one: { type: 'echo' } } };
    const off = { code: 'encryption_off', status: 422 };
    await assert.rejects(keyless.client.workflows.create(body), off);
    await assert.rejects(keyless.client.workflows.validate(body), off);
    await assert.rejects(keyless.client.workflows.schedule({ ...body, delay_ms: 1 }), off);
    await assert.rejects(keyless.client.workflows.create({ ...body, encrypted: 1 as never }), {
      code: 'invalid_input',
    });
    const step = { steps: { one: { type: 'echo', encrypted: true } } } as never;
    await assert.rejects(keyless.client.workflows.create(step), { code: 'invalid_input' });
    assert.deepEqual([await keyless.count('workflows'), await keyless.count('jobs')], [0, 0]);
    await keyless.client.workflows.validate({ ...body, encrypted: false });
  });

  test('that was written in the clear breaks an invariant', async () => {
    await using other = await openHouse({ workers: 1, config: { encryption_keys: old } });
    const { workflow_id } = await other.client.workflows.create({
      ...{ encrypted: true, steps: { one: { type: 'echo', payload: 1 } } },
    });
    await other.client.workflows.waitFor(workflow_id);
    const set = (value: string) =>
      other.db.query({ name: '', text: `update punctual.workflows set result = ${value}`, values: [] });
    await set(`'{"one":1}'`);
    const example = workflow_id;
    assert.deepEqual(await checkInvariants(other.db), [
      { invariant: 'an encrypted workflow stores nothing in the clear', example },
    ]);
    await set('null');
  });
});

test('what an encrypted workflow stores is revealed to those who may submit, not to all who may look', async () => {
  await using open = await openLockedHouse({ config: { encryption_keys: old } });
  const { secret: submits } = await open.makeKey('submitter');
  const { secret: looks } = await open.makeKey('viewer');
  const body = { encrypted: true, input: secret, steps: { one: { wait: {} } } };
  const made = await ask(`${open.house.url}/workflows`, { method: 'POST', key: submits, body });
  const { workflow_id } = made.body as { workflow_id: string };
  for (const path of [`/workflows/${workflow_id}`, `/workflows/${workflow_id}/steps/one`]) {
    const look = (key: string, query: string) => ask(`${open.house.url}${path}${query}`, { key });
    assert.equal((await look(looks, '')).status, 200);
    assert.equal((await look(looks, '?reveal=true')).status, 403);
    assert.equal((await look(submits, '?reveal=true')).status, 200);
    assert.equal((await look(submits, '?reveal=perhaps')).status, 400);
  }
});

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
