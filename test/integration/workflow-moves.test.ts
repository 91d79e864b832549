// What people do to workflows over a real house: complete, cancel, pause, resume, retry; workflows within; what is refused.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type CreateWorkflow, limits, type PunctualError, type Workflow, type WorkflowStep } from '@punctual/contract';
import type { Handler } from '@punctual/sdk';
import { eventually } from '../support/eventually.ts';
import { gate } from '../support/gate.ts';
import { type House, openHouse } from '../support/house.ts';

const states = (workflow: Workflow): Record<string, string> =>
  Object.fromEntries(
    workflow.steps.map(({ step, state, reason }) => [step, reason === null ? state : `${state} ${reason}`]),
  );

async function stepWith(house: House, id: string, name: string, state: WorkflowStep['state']): Promise<WorkflowStep> {
  return eventually(async () => {
    const { steps } = await house.client.workflows.get(id);
    const found = steps.find(({ step }) => step === name);
    assert.equal(found?.state, state, JSON.stringify(found));
    return found;
  });
}

const code = (expected: string) => (error: unknown) => {
  assert.equal((error as PunctualError).code, expected, String(error));
  return true;
};

const echo: Record<string, Handler> = { echo: async (run) => run.payload };

test('a wait is completed with its token, once, and its result is passed on', async () => {
  await using house = await openHouse({ servers: 2, workers: 1, handlers: echo });
  const flows = house.client.workflows;
  const definition: CreateWorkflow = {
    steps: {
      approval: { wait: { event: 'approved', timeout_ms: 60_000 } },
      go: { type: 'echo', needs: ['approval'], payload: 'by {{steps.approval.result.by}}' },
    },
  };
  const { workflow_id } = await flows.create(definition);
  const other = await flows.create(definition);
  const { token = '', expires_at } = await stepWith(house, workflow_id, 'approval', 'WAITING');
  const theirs = await stepWith(house, other.workflow_id, 'approval', 'WAITING');
  assert.equal((await flows.get(workflow_id)).state, 'WAITING');
  assert.deepEqual((await flows.list({ state: 'WAITING' })).workflows.length, 2);
  assert.ok(Math.abs(Date.parse(expires_at ?? '') - Date.now() - 60_000) < 20_000);

  await assert.rejects(flows.complete(workflow_id, 'approval', { token: 'guess' }), code('wrong_token'));
  await assert.rejects(flows.complete(workflow_id, 'approval', { token: theirs.token ?? '' }), code('wrong_token'));
  await assert.rejects(flows.complete(workflow_id, 'go', { token }), code('step_not_found'));
  await assert.rejects(flows.complete(workflow_id, 'nobody', { token }), code('step_not_found'));
  await assert.rejects(
    flows.complete(workflow_id, 'approval', { token, result: 'x'.repeat(limits.max_result_bytes) }),
    code('body_too_large'),
  );

  const answers = await Promise.all(
    Array.from({ length: 10 }, () => flows.complete(workflow_id, 'approval', { token, result: { by: 'kim' } })),
  );
  assert.ok(answers.every(({ state }) => state === 'SUCCESS'));
  const done = await flows.waitFor(workflow_id);
  assert.deepEqual(done.result, { go: 'by kim' });
  assert.equal(await house.count('jobs'), 1);
  assert.equal(done.steps[0]?.token, undefined, 'the token is no longer shown');
  const kept = await house.db.query<{ token: string }>({
    name: '',
    text: `select token from punctual.workflow_steps where workflow_id = $1 and step = 'approval'`,
    values: [workflow_id],
  });
  assert.notEqual(kept[0]?.token, token, 'nor kept');
  await assert.rejects(flows.complete(workflow_id, 'approval', { token, outcome: 'failure' }), code('step_ended'));
  await assert.rejects(flows.complete(workflow_id, 'approval', { token: 'guess' }), code('wrong_token'));

  await flows.complete(other.workflow_id, 'approval', { token: theirs.token ?? '', outcome: 'failure' });
  const refused = await flows.waitFor(other.workflow_id);
  assert.equal(refused.state, 'FAILED');
  assert.deepEqual(states(refused), { approval: 'FAILED refused', go: 'SKIPPED upstream_failed' });
});

test('a wait that nobody completes times out, and its token completes it no more', async () => {
  await using house = await openHouse({ workers: 1, handlers: echo });
  const flows = house.client.workflows;
  const { workflow_id } = await flows.create({
    steps: {
      late: { wait: { timeout_ms: 8_000 } },
      instead: { type: 'echo', needs: [{ step: 'late', on: 'failure' }], payload: '{{steps.late.error}}' },
    },
  });
  const { token = '' } = await stepWith(house, workflow_id, 'late', 'WAITING');
  const workflow = await flows.waitFor(workflow_id);
  assert.equal(workflow.state, 'SUCCESS');
  assert.deepEqual(states(workflow), { late: 'FAILED timed_out', instead: 'SUCCESS' });
  assert.deepEqual(workflow.result, { instead: 'Nobody completed the step in time.' });
  await assert.rejects(flows.complete(workflow_id, 'late', { token }), code('step_ended'));
});

test('cancelled, what waits ends, what runs is told, and nothing else begins', async () => {
  const hold = gate();
  await using house = await openHouse({
    servers: 2,
    workers: 1,
    slots: 2,
    handlers: { hold: async (run, ctx) => hold.enter(run.name, ctx.signal) },
  });
  const flows = house.client.workflows;
  const { workflow_id } = await flows.create({
    name: 'w',
    steps: {
      run: { type: 'hold' },
      queued: { type: 'hold', queue: 'nobody-serves', requires: ['moon'] },
      many: { type: 'hold', requires: ['moon'], map: { over: [1, 2, 3], max_parallel: 2 } },
      sleeping: { wait: {} },
      inner: { workflow: { steps: { deep: { type: 'hold' }, deeper: { type: 'hold', needs: ['deep'] } } } },
      next: { type: 'hold', needs: ['run'] },
    },
  });
  await Promise.all([hold.entered('w.run'), hold.entered('w.inner.deep')]);
  const { token = '' } = await stepWith(house, workflow_id, 'sleeping', 'WAITING');
  assert.equal((await flows.cancel(workflow_id)).state, 'CANCELLED');
  assert.equal((await flows.cancel(workflow_id)).state, 'CANCELLED');
  const workflow = await flows.waitFor(workflow_id);
  assert.deepEqual(
    [...new Set(workflow.steps.map(({ state }) => state))],
    ['CANCELLED'],
    JSON.stringify(states(workflow)),
  );
  const inner = workflow.steps.find(({ step }) => step === 'inner');
  assert.equal((await flows.get(inner?.workflow_id ?? '')).state, 'CANCELLED');
  assert.equal((await house.count('ready')) + (await house.count('waiting')) + (await house.count('running')), 0);
  await assert.rejects(flows.complete(workflow_id, 'sleeping', { token }), code('step_ended'));
  for (const call of [flows.pause, flows.resume]) await assert.rejects(call(workflow_id), code('workflow_ended'));

  await flows.retry(workflow_id);
  await eventually(async () => assert.equal((await flows.get(workflow_id)).state, 'RUNNING'));
  hold.open('w.run');
  hold.open('w.next');
  await stepWith(house, workflow_id, 'next', 'SUCCESS');
  const { items } = await stepWith(house, workflow_id, 'many', 'RUNNING');
  assert.deepEqual(items, { total: 3, made: 2, succeeded: 0, failed: 0 });
  await flows.cancel(workflow_id);
  await flows.waitFor(workflow_id);
});

test('paused, no further step begins until it is resumed, also within', async () => {
  const hold = gate();
  await using house = await openHouse({
    workers: 1,
    handlers: { ...echo, hold: async (run, ctx) => hold.enter(run.name, ctx.signal) },
  });
  const flows = house.client.workflows;
  const { workflow_id } = await flows.create({
    name: 'w',
    steps: {
      first: { type: 'hold' },
      second: { type: 'echo', needs: ['first'], payload: 2 },
      inner: { workflow: { steps: { a: { type: 'hold' }, b: { type: 'echo', needs: ['a'], payload: 'b' } } } },
    },
  });
  await Promise.all([hold.entered('w.first'), hold.entered('w.inner.a')]);
  assert.equal((await flows.pause(workflow_id)).state, 'PAUSED');
  hold.open('w.first');
  hold.open('w.inner.a');
  const { workflow_id: within } = await stepWith(house, workflow_id, 'inner', 'RUNNING');
  await stepWith(house, workflow_id, 'first', 'SUCCESS');
  await stepWith(house, within ?? '', 'a', 'SUCCESS');
  assert.equal(await house.count('jobs'), 2);
  assert.deepEqual((await flows.list({ state: 'PAUSED' })).workflows.length, 2);
  await flows.resume(workflow_id);
  const workflow = await flows.waitFor(workflow_id);
  assert.deepEqual(workflow.result, { second: 2, inner: { b: 'b' } });
});

test('retried, what failed runs again and what succeeded does not; from a step on, all after it', async () => {
  const ran: string[] = [];
  let broken = true;
  const work: Handler = async (run) => {
    ran.push(run.name);
    if (broken && run.payload === 'breaks') throw new Error('broken');
    return run.payload;
  };
  await using house = await openHouse({ servers: 2, workers: 1, handlers: { work } });
  const flows = house.client.workflows;
  const { workflow_id } = await flows.create({
    name: 'w',
    input: ['fine', 'breaks', 'fine', 'breaks'],
    steps: {
      good: { type: 'work', payload: 'fine' },
      bad: { type: 'work', needs: ['good'], payload: 'breaks', max_retries: 0 },
      after: { type: 'work', needs: ['bad'], payload: '{{steps.bad.result}}' },
      each: { type: 'work', map: { over: '{{input}}', max_parallel: 1 }, payload: '{{item}}', max_retries: 0 },
      late: { type: 'work', needs: ['each'], payload: '{{steps.each.result}}' },
    },
  });
  const failed = await flows.waitFor(workflow_id);
  assert.equal(failed.state, 'FAILED');
  assert.deepEqual(states(failed), {
    good: 'SUCCESS',
    each: 'FAILED items_failed',
    bad: 'FAILED failed',
    late: 'SKIPPED upstream_failed',
    after: 'SKIPPED upstream_failed',
  });
  const letters = await house.client.deadLetters.list();
  assert.equal(letters.dead_letters.length, 3);
  const [letter] = letters.dead_letters;
  await assert.rejects(house.client.deadLetters.redrive(letter?.run_id ?? ''), code('job_in_workflow'));
  await assert.rejects(house.client.jobs.runNow(letter?.job_id ?? ''), code('job_in_workflow'));

  broken = false;
  ran.length = 0;
  await Promise.allSettled(Array.from({ length: 5 }, () => flows.retry(workflow_id)));
  const mended = await flows.waitFor(workflow_id);
  assert.equal(mended.state, 'SUCCESS', JSON.stringify(states(mended)));
  assert.deepEqual(ran.toSorted(), ['w.after', 'w.bad', 'w.each', 'w.each', 'w.late']);
  assert.deepEqual(mended.result, { after: 'breaks', late: ['fine', 'breaks', 'fine', 'breaks'] });
  await assert.rejects(flows.retry(workflow_id), code('workflow_ended'));
  await assert.rejects(flows.retry(workflow_id, { from: 'nobody' }), code('step_not_found'));

  ran.length = 0;
  await flows.retry(workflow_id, { from: 'bad' });
  const again = await flows.waitFor(workflow_id);
  assert.equal(again.state, 'SUCCESS');
  assert.deepEqual(ran, ['w.bad', 'w.after']);
});

test('a workflow within a workflow gets its input, answers its result, and fails the step when it fails', async () => {
  await using house = await openHouse({
    servers: 3,
    workers: 1,
    handlers: { ...echo, fail: async () => Promise.reject(new Error('no')) },
  });
  const flows = house.client.workflows;
  const { workflow_id } = await flows.create({
    name: 'w',
    user_id: 'u1',
    steps: {
      first: { type: 'echo', payload: { n: 5 } },
      inner: {
        needs: ['first'],
        workflow: {
          input: { n: '{{steps.first.result.n}}' },
          steps: {
            x: { type: 'echo', payload: '{{input.n}}' },
            innermost: { workflow: { input: '{{input}}', steps: { y: { type: 'echo', payload: '{{input.n}}!' } } } },
          },
        },
      },
      last: { type: 'echo', needs: ['inner'], payload: '{{steps.inner.result}}' },
      bad: { workflow: { steps: { z: { type: 'fail', max_retries: 0 } } } },
      saved: { type: 'echo', needs: [{ step: 'bad', on: 'failure' }], payload: '{{steps.bad.outcome}}' },
    },
  });
  const workflow = await flows.waitFor(workflow_id);
  assert.equal(workflow.state, 'SUCCESS', JSON.stringify(states(workflow)));
  assert.deepEqual(workflow.result, { last: { x: 5, innermost: { y: '5!' } }, saved: 'FAILED' });
  const inner = await flows.get(workflow.steps.find(({ step }) => step === 'inner')?.workflow_id ?? '');
  assert.deepEqual(inner.parent, { workflow_id, step: 'inner' });
  assert.equal(inner.user_id, 'u1');
  assert.equal((await flows.list({ user_id: 'u1' })).workflows.length, 4);
  await assert.rejects(flows.retry(inner.workflow_id), code('workflow_ended'));
});

test('the same key and body make one workflow', async () => {
  await using house = await openHouse({ servers: 2, workers: 1 });
  const body = { steps: { a: { type: 'echo' } } };
  const made = await Promise.all(
    Array.from({ length: 20 }, () => house.client.workflows.create(body, { idempotencyKey: 'k1' })),
  );
  assert.equal(new Set(made.map(({ workflow_id }) => workflow_id)).size, 1);
  assert.equal(await house.count('workflows'), 1);
  await assert.rejects(
    house.client.workflows.create({ steps: { b: { type: 'echo' } } }, { idempotencyKey: 'k1' }),
    code('idempotency_key_reused'),
  );
  await house.client.workflows.waitFor(made[0]?.workflow_id ?? '');
});

test('what cannot be run is refused with the step and the reason, and nothing is stored', async () => {
  await using house = await openHouse();
  const { workflows } = house.client;
  const refuse = async (body: unknown, expected: string): Promise<string> => {
    for (const call of [workflows.create, workflows.validate])
      await assert.rejects(call(body as CreateWorkflow), code(expected), JSON.stringify(body).slice(0, 200));
    const error = await workflows.validate(body as CreateWorkflow).catch((caught: unknown) => caught as PunctualError);
    return (error as PunctualError).detail ?? '';
  };
  const job = { type: 'echo' };
  const cycle = { a: { ...job, needs: ['b'] }, b: { ...job, needs: ['a'] } };
  assert.equal(await refuse({ steps: cycle }, 'invalid_workflow'), 'steps.a.needs makes a cycle: a needs b needs a');
  await refuse({ steps: { a: { ...job, needs: ['x'] } } }, 'invalid_workflow');
  await refuse({ steps: { a: { ...job, payload: '{{constructor.constructor}}' } } }, 'invalid_workflow');
  await refuse({ steps: { a: { ...job, if: { value: 1 } } } }, 'invalid_workflow');
  const names = Array.from({ length: 142 }, (_, i) => `s${i}`);
  const dense = Object.fromEntries(names.map((name, i) => [name, { ...job, needs: names.slice(0, i) }]));
  assert.match(await refuse({ steps: dense }, 'invalid_workflow'), /10011 needs together; 10000 is the most/);
  const deep = JSON.parse('['.repeat(100) + ']'.repeat(100)) as unknown;
  await refuse({ steps: { a: { ...job, payload: deep } } }, 'invalid_workflow');
  await refuse({ steps: { a: job }, input: deep }, 'invalid_input');
  await refuse({ steps: { a: { workflow: { steps: { b: { nope: 1 } } } } } }, 'invalid_workflow');
  await refuse({ steps: { a: { workflow: 7 } } }, 'invalid_workflow');
  await refuse({ steps: {} }, 'invalid_input');
  await refuse({ steps: { '1a': job } }, 'invalid_input');
  await refuse({ steps: { a: { ...job, cron_expression: '* * * * *' } } }, 'invalid_input');
  await refuse({ steps: Object.fromEntries(Array.from({ length: 1001 }, (_, i) => [`s${i}`, job])) }, 'invalid_input');
  await refuse({ steps: { a: { ...job, map: { over: 1, more: 1 } } } }, 'invalid_input');
  await refuse({ steps: { a: job }, input: 'x'.repeat(limits.max_payload_bytes) }, 'body_too_large');
  assert.equal((await house.count('workflows')) + (await house.count('jobs')), 0);
  const plan = await workflows.validate({ steps: { a: job, b: { ...job, needs: ['a'] } } });
  assert.deepEqual(plan, { steps: 2, edges: 1, levels: [['a'], ['b']] });
  assert.equal(await house.count('workflows'), 0);
});

test('what is wrong only when it runs fails its step and says why', async () => {
  const big: Handler = async () => 'x'.repeat(limits.max_payload_bytes + 10);
  await using house = await openHouse({ workers: 1, handlers: { ...echo, big } });
  const { workflow_id } = await house.client.workflows.create({
    input: { many: Array.from({ length: 10_001 }, () => 0), text: 'no list', own: {} },
    steps: {
      big: { type: 'big' },
      pass: { type: 'echo', needs: ['big'], payload: '{{steps.big.result}}' },
      many: { type: 'echo', map: { over: '{{input.many}}' } },
      text: { type: 'echo', map: { over: '{{input.text}}' } },
      trick: { type: 'echo', payload: '{{input.own.toString}}' },
      compare: { type: 'echo', if: { value: '{{input.text}}', gt: 5 } },
    },
  });
  const workflow = await house.client.workflows.waitFor(workflow_id);
  const error = (name: string): string => workflow.steps.find(({ step }) => step === name)?.error_message ?? '';
  assert.match(error('pass'), /payload is larger than 262144 bytes/);
  assert.match(error('many'), /10001 items to map over; 10000 is the most/);
  assert.match(error('text'), /not an array/);
  assert.equal(error('trick'), '{{input.own.toString}}: there is no toString.');
  assert.match(error('compare'), /compare two numbers or two texts/);
  assert.equal(workflow.state, 'FAILED');
});

test('the job of a step that is cancelled fails the step, and steps with a concurrency key are found again', async () => {
  await using house = await openHouse({ workers: 1, segments: 8 });
  await house.client.limits.put('a-key', { max_concurrency: 0 });
  const { workflow_id } = await house.client.workflows.create({
    steps: {
      stuck: { type: 'nobody-serves' },
      held: { type: 'echo', concurrency_key: 'a-key' },
      after: { type: 'echo', needs: [{ step: 'stuck', on: 'failure' }] },
    },
  });
  const { job_id, run_id } = await stepWith(house, workflow_id, 'stuck', 'QUEUED');
  await house.client.jobs.cancel(job_id ?? '');
  assert.equal((await stepWith(house, workflow_id, 'stuck', 'CANCELLED')).run_id, run_id);
  await stepWith(house, workflow_id, 'after', 'SUCCESS');
  const held = await stepWith(house, workflow_id, 'held', 'QUEUED');
  await house.client.runs.cancel(held.run_id ?? '');
  assert.equal((await house.client.workflows.waitFor(workflow_id)).state, 'FAILED');
});

test('a workflow on a schedule begins once for each time, and one at a time when it comes', async () => {
  await using house = await openHouse({ servers: 3, workers: 1, handlers: echo });
  const flows = house.client.workflows;
  const steps = { a: { type: 'echo', payload: '{{input.x}}' } };
  const every = await flows.schedule({
    name: 'tick',
    input: { x: 1 },
    steps,
    interval_ms: 1000,
    max_runs: 3,
    overlap: 'allow',
  });
  const once = await flows.schedule({ user_id: 'u1', steps: { a: { type: 'echo' } }, delay_ms: 300 });
  await eventually(async () => {
    const { workflows } = await flows.list({ job_id: every.job_id });
    assert.deepEqual(
      workflows.map(({ state }) => state),
      Array.from({ length: 3 }, () => 'SUCCESS'),
    );
    assert.ok(workflows.every(({ name, job_id }) => name === 'tick' && job_id === every.job_id));
  });
  const { runs } = await house.client.jobs.runs(every.job_id);
  assert.equal(runs.length, 3);
  assert.ok(
    runs.every(
      ({ status, result }) =>
        status === 'SUCCESS' && typeof (result as { workflow_id: string }).workflow_id === 'string',
    ),
  );
  const run = await house.ended(once.job_id);
  const { workflow_id } = run.result as { workflow_id: string };
  assert.equal((await flows.waitFor(workflow_id)).user_id, 'u1');
  const job = await house.client.jobs.get(every.job_id);
  assert.deepEqual([job.begins, job.executor], [{ steps, input: { x: 1 } }, undefined]);
  await assert.rejects(
    flows.schedule({ steps: { a: { type: 'echo', needs: ['b'] } }, interval_ms: 1000 }),
    code('invalid_workflow'),
  );
  await assert.rejects(flows.schedule({ steps, cron_expression: '0 0 30 2 *' }), code('invalid_schedule'));

  // Paused before its time has come; where the machine stood still meanwhile, another one is.
  const held = await eventually(async () => {
    const made = await flows.schedule({ steps, delay_ms: 2_000 });
    await house.client.jobs.pause(made.job_id);
    assert.equal((await flows.list({ job_id: made.job_id })).workflows.length, 0);
    return made;
  });
  await new Promise((resolve) => setTimeout(resolve, 2_500));
  assert.equal((await flows.list({ job_id: held.job_id })).workflows.length, 0);
  await house.client.jobs.resume(held.job_id);
  await house.ended(held.job_id);
  assert.equal((await flows.list({ job_id: held.job_id })).workflows.length, 1);
});
