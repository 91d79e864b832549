// Encrypted workflows: nothing that they or their steps store can be read in the database, and they go on as others do.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { inspect } from 'node:util';
import type { CreateWorkflow } from '@punctual/contract';
import { FatalError } from '@punctual/sdk';
import { startServer } from '@punctual/server';
import { openLog } from '@punctual/server/internal/base/log';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
import { columnsWith } from '../support/columns.ts';
import { eventually } from '../support/eventually.ts';
import { type Handlers, type House, openHouse } from '../support/house.ts';
import { ask, openLockedHouse } from '../support/keys.ts';
import { approve, stepIn, stepOf } from '../support/workflow_steps.ts';

const old = `old:${randomBytes(32).toString('base64')}`;
const secret = 'MARKER-0815-MARKER';

const echo: Handlers = { echo: (run) => run.payload };

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
      const [stored] = await house.db.query<{ value: string }>({
        ...{
          name: '',
          text: `select ${column} as value from punctual.workflows where workflow_id = $1`,
          values: [two],
        },
      });
      await set(two, `was.${column}`);
      await assert.rejects(house.client.workflows.get(two, { reveal: true }), { code: 'cannot_decrypt', status: 409 });
      await set(two, `'${stored?.value}'`);
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
