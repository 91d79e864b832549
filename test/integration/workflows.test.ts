// Workflows over a real house: each step begins when what it needs has ended, once, with what it refers to filled in.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Workflow } from '@punctual/contract';
import type { Handler } from '@punctual/sdk';
import { Hand, outcome } from '../support/hand.ts';
import { openHouse } from '../support/house.ts';

/** Handlers that remember what began and ended, in order. */
function recorder(): { handlers: Record<string, Handler>; log: string[] } {
  const log: string[] = [];
  const payloadOf = (run: { payload: unknown }) => run.payload as Record<string, unknown>;
  return {
    log,
    handlers: {
      note: async (run) => {
        log.push(`+${run.name}`);
        await new Promise((resolve) => setTimeout(resolve, Number(payloadOf(run)?.['ms'] ?? 0)));
        log.push(`-${run.name}`);
        return run.payload;
      },
      fail: async (run) => {
        log.push(`!${run.name}`);
        throw new Error(`no luck with ${run.name}`);
      },
      echo: async (run) => run.payload,
    },
  };
}

const states = (workflow: Workflow): Record<string, string> =>
  Object.fromEntries(
    workflow.steps.map(({ step, state, reason }) => [step, reason === null ? state : `${state} ${reason}`]),
  );

for (const servers of [1, 3]) {
  describe(`with ${servers} server${servers > 1 ? 's' : ''}`, () => {
    test('a diamond runs in order, and results are passed on', async () => {
      const { handlers, log } = recorder();
      await using house = await openHouse({ servers, workers: 1, handlers });
      const { workflow_id } = await house.client.workflows.create({
        name: 'w',
        input: { day: 'monday', n: 7 },
        steps: {
          join: {
            type: 'note',
            needs: ['left', 'right'],
            payload: { left: '{{steps.left.result.v}}', text: '{{input.day}} {{steps.top.result.rows}} {{input.n}}' },
          },
          left: { type: 'note', needs: ['top'], payload: { v: '{{steps.top.result.rows}}', ms: 5 } },
          right: { type: 'note', needs: ['top'], payload: {} },
          top: { type: 'note', payload: { rows: [1, 2, { a: null }] } },
        },
      });
      const workflow = await house.client.workflows.waitFor(workflow_id);
      assert.equal(workflow.state, 'SUCCESS');
      assert.deepEqual(workflow.result, {
        join: { left: [1, 2, { a: null }], text: 'monday [1,2,{"a":null}] 7' },
      });
      assert.deepEqual(log.slice(0, 2), ['+w.top', '-w.top']);
      assert.deepEqual(log.slice(-2), ['+w.join', '-w.join']);
      assert.equal(log.length, 8);
      assert.deepEqual(
        workflow.steps.map(({ step, level }) => `${level} ${step}`),
        ['0 top', '1 left', '1 right', '2 join'],
      );
      const [top] = workflow.steps;
      const job = await house.client.jobs.get(top?.job_id ?? '');
      assert.deepEqual(job.workflow, { workflow_id, step: 'top' });
      const { runs } = await house.client.jobs.runs(job.job_id);
      assert.deepEqual(
        runs.map(({ run_id, cause }) => [run_id, cause]),
        [[top?.run_id, 'workflow']],
      );
    });

    test('a map over five hundred items runs each once, and its result is in order', async () => {
      await using house = await openHouse({ servers, workers: 1, slots: 50 });
      const list = Array.from({ length: 500 }, (_, i) => ({ id: i }));
      const { workflow_id } = await house.client.workflows.create({
        input: { list },
        steps: {
          each: {
            type: 'echo',
            map: { over: '{{input.list}}', max_parallel: 40 },
            payload: ['{{item.id}}', '{{index}}'],
          },
          after: { type: 'echo', needs: ['each'], payload: '{{steps.each.result}}' },
        },
      });
      const workflow = await house.client.workflows.waitFor(workflow_id);
      assert.equal(workflow.state, 'SUCCESS', JSON.stringify(workflow.steps));
      assert.deepEqual(workflow.result, { after: list.map(({ id }) => [id, id]) });
      assert.deepEqual(workflow.steps[0]?.items, { total: 500, made: 500, succeeded: 500, failed: 0 });
      assert.equal(await house.count('jobs'), 501);
      const page = await house.client.workflows.step(workflow_id, 'each', { limit: 3 });
      assert.deepEqual(
        page.items.map(({ item, state }) => [item, state]),
        [0, 1, 2].map((item) => [item, 'SUCCESS']),
      );
      const next = await house.client.workflows.step(workflow_id, 'each', { limit: 1, cursor: page.next_cursor ?? '' });
      assert.equal(next.items[0]?.item, 3);
    });
  });
}

test('the worker of a step is told that others wait for its end', async () => {
  await using house = await openHouse();
  const hand = new Hand(house.url);
  const steps = { a: { type: 'echo' }, b: { type: 'echo', needs: ['a'] } };
  await house.client.workflows.create({ name: 'two', steps });
  const [first] = await hand.take();
  await hand.call({ outcomes: first === undefined ? [] : [outcome(first)] });
  const [second] = await hand.take();
  assert.equal(second?.awaited, true);
  await hand.call({ outcomes: [outcome(second)] });
});

test('a failure skips what needs success, runs what handles it, and ends as it was handled', async () => {
  const { handlers } = recorder();
  await using house = await openHouse({ workers: 1, handlers });
  const steps = {
    bad: { type: 'fail', max_retries: 0 },
    next: { type: 'note', needs: ['bad'], payload: {} },
    further: { type: 'note', needs: ['next'], payload: {} },
    always: { type: 'echo', needs: [{ step: 'bad', on: 'any_end' as const }], payload: '{{steps.bad.outcome}}' },
  };
  const plain = await house.client.workflows.create({ steps });
  const failed = await house.client.workflows.waitFor(plain.workflow_id);
  assert.equal(failed.state, 'FAILED');
  assert.deepEqual(states(failed), {
    bad: 'FAILED failed',
    next: 'SKIPPED upstream_failed',
    further: 'SKIPPED upstream_failed',
    always: 'SUCCESS',
  });
  assert.equal(failed.steps[0]?.error_message, 'no luck with workflow.bad');
  assert.deepEqual(failed.result, { always: 'FAILED' });

  const handled = await house.client.workflows.create({
    steps: {
      ...steps,
      rescue: { type: 'echo', needs: [{ step: 'further', on: 'failure' }], payload: '{{steps.bad.error}}' },
      fine: { type: 'echo', needs: [{ step: 'rescue', on: 'failure' }] },
      end: { type: 'echo', needs: ['fine'], payload: 1 },
    },
  });
  const rescued = await house.client.workflows.waitFor(handled.workflow_id);
  assert.equal(rescued.state, 'SUCCESS');
  assert.equal(states(rescued)['fine'], 'SKIPPED not_needed');
  assert.deepEqual(rescued.result, { always: 'FAILED', end: 1 });
  const rescue = await house.client.workflows.step(handled.workflow_id, 'rescue');
  assert.equal(rescue.result, 'no luck with workflow.bad');
});

test('conditions skip, and a path that is missing fails the step with its name', async () => {
  await using house = await openHouse({ workers: 1 });
  const { workflow_id } = await house.client.workflows.create({
    input: { n: 3 },
    steps: {
      first: { type: 'echo', payload: { rows: 5 } },
      small: { type: 'echo', needs: ['first'], if: { value: '{{steps.first.result.rows}}', gt: 9 } },
      large: {
        type: 'echo',
        needs: ['first'],
        if: {
          all: [
            { value: '{{steps.first.result.rows}}', in: [4, 5] },
            { none: [{ value: '{{input.x}}', exists: true }] },
          ],
        },
        payload: 'yes',
      },
      joined: {
        type: 'echo',
        needs: ['small', 'large'],
        payload: ['{{steps.small.result}}', '{{steps.large.result}}'],
      },
      missing: { type: 'echo', needs: ['first'], payload: '{{steps.first.result.rows.deep}}' },
    },
  });
  const workflow = await house.client.workflows.waitFor(workflow_id);
  assert.deepEqual(states(workflow), {
    first: 'SUCCESS',
    small: 'SKIPPED condition',
    large: 'SUCCESS',
    joined: 'SUCCESS',
    missing: 'FAILED invalid',
  });
  assert.equal(workflow.state, 'FAILED');
  assert.deepEqual(workflow.result, { joined: [null, 'yes'] });
  const missing = workflow.steps.find(({ step }) => step === 'missing');
  assert.equal(missing?.error_message, '{{steps.first.result.rows.deep}}: there is no deep.');
});
