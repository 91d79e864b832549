// "Why is it waiting?", asked of runs that wait for each of the things a run can wait for.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Explanation } from '@punctual/contract';
import { eventually } from '../support/eventually.ts';
import { gate } from '../support/gate.ts';
import { type House, openHouse } from '../support/house.ts';

const held = gate();
let house: House;

before(async () => {
  house = await openHouse({
    servers: 2,
    workers: 1,
    slots: 2,
    handlers: {
      hold: (run, { signal }) => held.enter(run.run_id, signal),
      fail: () => {
        throw new Error('no such account');
      },
    },
  });
});
after(() => house[Symbol.asyncDispose]());

const create = async (fields: object): Promise<{ job_id: string; run_id: string }> => {
  const { job_id, run_id = '' } = await house.client.jobs.create({ type: 'hold', ...fields });
  return { job_id, run_id };
};

/** Waits until the reason is given, and answers the whole. */
const explained = (runId: string, code: string): Promise<Explanation> =>
  eventually(async () => {
    const explanation = await house.client.runs.explain(runId);
    const codes = explanation.reasons.map((reason) => reason.code);
    assert.ok((codes as string[]).includes(code), `${code} is not among ${codes.join(', ')}`);
    return explanation;
  });

const textOf = ({ reasons }: Explanation, code: string): string =>
  reasons.find((reason) => reason.code === code)?.text ?? '';

test('a run that is not due, failed before, or whose job is paused says so', async () => {
  const later = await create({ delay_ms: 3_600_000 });
  const waits = await explained(later.run_id, 'not_due');
  assert.match(textOf(waits, 'not_due'), /in 60 min\.$/);
  assert.ok((waits.estimate.starts_in_ms ?? 0) > 3_500_000);
  await house.client.jobs.pause(later.job_id, { note: 'until the audit is over' });
  assert.match(textOf(await explained(later.run_id, 'paused'), 'paused'), /\(until the audit is over\)/);
  const failing = await create({ type: 'fail', max_retries: 1, backoff: { base_ms: 60_000 } });
  assert.match(textOf(await explained(failing.run_id, 'retry'), 'retry'), /Attempt 2 .* failed: .*no such account/);
});

test('a run behind a gate names the gate, who closed it and why', async () => {
  await house.client.gates.set('queue', 'shut', { state: 'hold', author: 'ann', note: 'moving house' });
  // Within a second it counts.
  await new Promise((resolve) => setTimeout(resolve, 1_100));
  const { run_id } = await create({ queue: 'shut' });
  const waits = await explained(run_id, 'gate');
  assert.match(textOf(waits, 'gate'), /^The gate of queue shut is held by ann since .*: moving house\.$/);
  assert.equal(waits.estimate.starts_in_ms, null);
});

test('a run nobody serves says which worker is missing', async () => {
  const { run_id } = await create({ requires: ['gpu'] });
  assert.match(
    textOf(await explained(run_id, 'no_worker'), 'no_worker'),
    /type hold in queue default with the label gpu/,
  );
});

test('a run under a limit names those that hold the places', async () => {
  await house.client.limits.put('acme', { max_concurrency: 1 });
  await house.client.limits.setLane('type', 'narrow', { max_concurrency: 0 });
  const first = await create({ concurrency_key: 'acme' });
  await held.entered(first.run_id);
  const second = await create({ concurrency_key: 'acme' });
  const waits = await explained(second.run_id, 'key_limit');
  assert.equal(textOf(waits, 'key_limit'), 'The limit of key acme is reached: 1 of 1 at once.');
  assert.deepEqual(waits.reasons[0]?.run_ids, [first.run_id]);
  const child = await create({ depends_on: [{ run_id: first.run_id }] });
  assert.match(
    textOf(await explained(child.run_id, 'dependency'), 'dependency'),
    new RegExp(`success of run ${first.run_id}`),
  );
  held.open(first.run_id);
  await held.entered(second.run_id);
  held.open(second.run_id);
  await held.entered(child.run_id);
  held.open(child.run_id);
  const running = await house.ended(child.job_id);
  assert.equal((await explained(running.run_id, 'ended')).reasons.length, 1);
});

test('a run behind others counts them', async () => {
  const busy = [await create({}), await create({})];
  for (const { run_id } of busy) await held.entered(run_id);
  const urgent = await create({ priority: 9 });
  const normal = [await create({}), await create({})];
  const last = normal[1]?.run_id ?? '';
  const waits = await explained(last, 'behind');
  assert.match(textOf(waits, 'workers_busy'), /All slots of the 1 worker/);
  const counts = waits.reasons.filter((reason) => reason.code === 'behind').map((reason) => reason.text);
  assert.deepEqual(counts, [
    '1 run of its queue with a higher priority is ahead.',
    '1 run of the same priority came before it.',
  ]);
  for (const { run_id } of [...busy, urgent, ...normal]) held.open(run_id);
  for (const { job_id } of [...busy, urgent, ...normal]) await house.ended(job_id);
});

test('an id that is none of ours is told', async () => {
  const response = await fetch(`${house.url}/runs/01930000-0000-7000-8000-000000001000/explain`);
  assert.equal(response.status, 404);
});
