// The SDK over a real house: nothing is made twice when answers are lost, waits outlive servers, and typed jobs are checked at
// both ends.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Client, defineJob, PunctualError, RunFailedError, Worker } from '@punctual/sdk';
import { gate } from '../support/gate.ts';
import { openHouse } from '../support/house.ts';
import { startProxy } from '../support/proxy.ts';

const steps = { one: { type: 'nobody' }, two: { type: 'nobody', needs: ['one'] } };
const range = { from: '2020-01-01T00:00:00Z', to: '2020-12-31T00:00:00Z', include_done: true };

test('whatever is submitted and whose answer is lost is made once: jobs, bulks, schedules, workflows, backfills', async () => {
  await using house = await openHouse({ servers: 2 });
  await using proxy = await startProxy(house.url);
  const client = new Client({ url: proxy.url, retry: { retries: 20, firstPauseMs: 5, maxPauseMs: 50 } });
  const monthly = { type: 'nobody', cron_expression: '0 0 1 * *' };
  const { job_id } = await house.client.jobs.create(monthly);
  const lossy = async <T>(make: () => Promise<T>): Promise<T> => {
    const before = proxy.lost;
    proxy.loseAnswers(2, (request) => request.startsWith('POST '));
    const made = await make();
    assert.equal(proxy.lost, before + 2, 'no answer was lost');
    return made;
  };
  const first = await lossy(() => client.jobs.create({ type: 'nobody' }));
  await lossy(() => client.jobs.create({ type: 'nobody', depends_on: [{ job_id: first.job_id }] }));
  await lossy(() => client.jobs.create(monthly));
  const { jobs } = await lossy(() => client.jobs.createMany(Array.from({ length: 300 }, () => ({ type: 'nobody' }))));
  await lossy(() => client.workflows.create({ steps }));
  await lossy(() => client.workflows.schedule({ steps, delay_ms: 3_600_000 }));
  const plan = await lossy(() => client.backfills.create(job_id, range));
  assert.equal(plan.runs, 12);
  client.close();
  assert.equal(new Set(jobs.map((job) => job.job_id)).size, 300);
  // Two schedules, a job and one that waits for it, the bulk, the job that begins workflows, and the first step of the workflow.
  assert.equal(await house.count('jobs'), 2 + 2 + 300 + 1 + 1);
  assert.equal(await house.count('workflows'), 1);
  assert.equal(await house.count('backfills'), 1);
  assert.deepEqual((await house.client.backfills.list(job_id)).backfills[0]?.backfill_id, plan.backfill_id);
});

test('a backfill with the same key is the same backfill, also when both come at once, and another body is refused', async () => {
  await using house = await openHouse({ servers: 2 });
  const { client } = house;
  const { job_id } = await client.jobs.create({ type: 'nobody', cron_expression: '0 0 1 * *' });
  const other = await client.jobs.create({ type: 'nobody', cron_expression: '0 0 1 * *' });
  const key = { idempotencyKey: 'first-year' };
  const plans = await Promise.all(Array.from({ length: 8 }, () => client.backfills.create(job_id, range, key)));
  assert.equal(new Set(plans.map((plan) => JSON.stringify(plan))).size, 1);
  assert.equal(await house.count('backfills'), 1);
  await assert.rejects(
    client.backfills.create(job_id, { ...range, max_concurrency: 2 }, key),
    (error) => error instanceof PunctualError && error.code === 'idempotency_key_reused',
  );
  // The key of another job's backfill, and that of a job, are other keys.
  await client.backfills.create(other.job_id, range, key);
  await client.jobs.create({ type: 'nobody' }, key);
  assert.equal(await house.count('backfills'), 2);
});

test('waits go on over a restart of the server and cut connections', async () => {
  const done = gate();
  await using house = await openHouse({ servers: 2 });
  await using proxy = await startProxy(house.servers[1]?.url ?? '');
  await house.addWorker({ wait: (_, { signal }) => done.enter('wait', signal).then(() => 'done') });
  const client = new Client({ url: proxy.url });
  const submitted = await client.jobs.create({ type: 'wait' });
  const waiting = client.runs.waitFor(submitted, { timeoutMs: 120_000 });
  const { port } = new URL(house.servers[1]?.url ?? '');
  await house.servers[1]?.stop();
  proxy.cut();
  done.open('wait');
  await house.ended(submitted.job_id);
  house.servers.pop();
  await house.addServer({ port: Number(port) });
  assert.deepEqual([(await waiting).status, (await waiting).result], ['SUCCESS', 'done']);
  client.close();
});

const divide = defineJob({
  type: 'divide',
  payload: {
    type: 'object',
    required: ['a', 'b'],
    properties: { a: { type: 'number' }, b: { type: 'number' } },
  },
  result: { type: 'object', required: ['quotient'], properties: { quotient: { type: 'number' } } },
  max_retries: 3,
  backoff: { base_ms: 10 },
});

test('a typed job is checked before it is sent and before it is done, and its result is typed', async () => {
  await using house = await openHouse();
  const { client } = house;
  const worker = new Worker({ url: house.url }).handle(divide, ({ a, b }) => {
    if (b === 0) throw new Error('cannot divide by 0');
    return { quotient: a / b };
  });
  await worker.start();
  const run = await client.runs.waitFor(await divide.submit(client, { a: 6, b: 3 }), { throwOnFailure: true });
  assert.equal(run.result?.quotient, 2);
  assert.deepEqual(await divide.result(run), { quotient: 2 });

  const many = await divide.submitMany(client, [
    { a: 1, b: 2 },
    { a: 1, b: 4 },
  ]);
  const quotients = await Promise.all(many.map(async (one) => (await client.runs.waitFor(one)).result?.quotient));
  assert.deepEqual(quotients, [0.5, 0.25]);

  const failing = await divide.submit(client, { a: 1, b: 0 }, { max_retries: 1 });
  await assert.rejects(
    client.runs.waitFor(failing, { throwOnFailure: true }),
    (error) => error instanceof RunFailedError && error.run.attempt_number === 2 && /divide by 0/.test(error.message),
  );

  // Somebody without the definition sends what does not fit: one attempt, the field and the reason.
  const wrong = await client.jobs.create({ type: 'divide', payload: { a: 'six', b: 3 }, max_retries: 5 });
  const failed = await client.runs.waitFor(wrong);
  assert.deepEqual(
    [failed.status, failed.attempt_number, failed.error_message],
    ['FAILED', 1, 'The payload does not fit jobs of the type divide: payload.a: must be number.'],
  );
  const before = await house.count('jobs');
  await assert.rejects(divide.submit(client, { a: 1 } as never), /payload\.b: is missing/);
  assert.equal(await house.count('jobs'), before);
  await worker.stop();
});

test('steps of a workflow are made of defined jobs', async () => {
  await using house = await openHouse();
  const worker = new Worker({ url: house.url }).handle(divide, ({ a, b }) => ({ quotient: a / b }));
  await worker.start();
  const { workflow_id } = await house.client.workflows.create({
    steps: {
      half: await divide.step({ a: 6, b: 2 }),
      again: await divide.step({ a: '{{steps.half.result.quotient}}', b: 2 }, { needs: ['half'] }),
    },
  });
  const workflow = await house.client.workflows.waitFor(workflow_id);
  assert.deepEqual([workflow.state, workflow.result], ['SUCCESS', { again: { quotient: 1.5 } }]);
  await worker.stop();
});
