// Typed jobs: what is checked before it is sent, what reaches a handler, and what the compiler knows. The lines of
// `types` that expect an error are tests too: the build fails when one of them compiles.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CreateJob, Grant, Run } from '@punctual/contract';
import { PunctualError } from '@punctual/contract/plain';
import type { Client } from './client.ts';
import { defineJob, type JobCreator } from './define-job.ts';
import { jsonSchema, type StandardSchema } from './schema.ts';
import type { SubmitOptions } from './submit-options.ts';
import { RunFailedError } from './wait.ts';
import type { RunContext } from './worker/active-run.ts';
import { FatalError } from './worker/errors.ts';
import type { Worker } from './worker/worker.ts';

/** Whether two types are the same; nothing is the same as any. */
type Same<A, B> = 0 extends 1 & A ? false : [A] extends [B] ? ([B] extends [A] ? true : false) : false;

/** A schema as a library would make it: takes `{ to, at }` with a date as text, gives `{ to, at }` with a Date. */
const mail: StandardSchema<{ to: string; at: string; copies?: number }, { to: string; at: Date; copies: number }> = {
  '~standard': {
    version: 1,
    vendor: 'test',
    validate(value) {
      const { to, at, copies = 1 } = value as { to?: unknown; at?: unknown; copies?: number };
      const issues = [];
      if (typeof to !== 'string') issues.push({ message: 'must be text', path: ['to'] });
      if (typeof at !== 'string' || Number.isNaN(Date.parse(at)))
        issues.push({ message: 'must be a date', path: [{ key: 'at' }] });
      if (issues.length > 0) return { issues };
      return { value: { to: to as string, at: new Date(at as string), copies } };
    },
  },
};

const sendMail = defineJob({ type: 'send-mail', payload: mail, queue: 'mail', max_retries: 5 });
const addUp = defineJob({
  type: 'add-up',
  payload: {
    type: 'object',
    required: ['numbers'],
    properties: { numbers: { type: 'array', items: { type: 'number' } }, note: { type: 'string' } },
    additionalProperties: false,
  },
  result: { type: 'object', required: ['sum'], properties: { sum: { type: 'number' } } },
});

class FakeClient implements JobCreator {
  readonly sent: CreateJob[] = [];
  readonly how: SubmitOptions[] = [];
  readonly jobs = {
    create: async (job: CreateJob, how: SubmitOptions = {}) => {
      this.sent.push(job);
      this.how.push(how);
      return { job_id: 'j', run_id: 'r' };
    },
    createMany: async (jobs: CreateJob[], how: SubmitOptions = {}) => {
      this.sent.push(...jobs);
      this.how.push(how);
      return { jobs: jobs.map((_, i) => ({ job_id: `j${i}` })) };
    },
  };
}

const isInvalid = (errors: { path: string; message: string }[]) => (error: unknown) => {
  assert.ok(error instanceof PunctualError, String(error));
  assert.deepEqual([error.code, error.errors], ['invalid_input', errors]);
  assert.match(error.message, new RegExp(errors[0]?.path.replace(/[[\]]/g, '\\$&') ?? ''));
  return true;
};
const ctx = {} as RunContext;
const grant = (payload: unknown): Grant => ({ payload }) as Grant;
const run = (more: Partial<Run>): Run =>
  ({ run_id: 'r', type: 'add-up', status: 'SUCCESS', reason: null, error_message: null, ...more }) as Run;

test('a job is submitted with the defaults of its definition, and what the submit says goes before them', async () => {
  const client = new FakeClient();
  const payload = { to: 'ada', at: '2030-01-01T00:00:00Z' };
  const { signal } = new AbortController();
  assert.deepEqual(await sendMail.submit(client, payload), { job_id: 'j', run_id: 'r' });
  await sendMail.submit(client, payload, { queue: 'slow', delay_ms: 5, idempotencyKey: 'k', signal, timeoutMs: 9 });
  await sendMail.schedule(client, payload, { cron_expression: '0 9 * * *', timezone: 'Europe/Paris' });
  const common = { max_retries: 5, type: 'send-mail', payload };
  assert.deepEqual(client.sent, [
    { queue: 'mail', ...common },
    { queue: 'slow', delay_ms: 5, ...common },
    { queue: 'mail', cron_expression: '0 9 * * *', timezone: 'Europe/Paris', ...common },
  ]);
  assert.deepEqual(client.how[1], { idempotencyKey: 'k', signal, timeoutMs: 9 });
});

test('a payload that does not fit names its fields, and nothing is sent', async () => {
  const client = new FakeClient();
  await assert.rejects(
    sendMail.submit(client, { to: 1, at: 'soon' } as never),
    isInvalid([
      { path: 'payload.to', message: 'must be text' },
      { path: 'payload.at', message: 'must be a date' },
    ]),
  );
  await assert.rejects(
    addUp.submit(client, { numbers: [1, 'two'], more: 1 } as never),
    isInvalid([
      { path: 'payload.more', message: 'is not known' },
      { path: 'payload.numbers[1]', message: 'must be number' },
    ]),
  );
  await assert.rejects(
    addUp.submit(client, {} as never),
    isInvalid([{ path: 'payload.numbers', message: 'is missing' }]),
  );
  await assert.rejects(
    addUp.submitMany(client, [{ numbers: [1] }, { numbers: 'none' } as never]),
    isInvalid([{ path: 'jobs[1].payload.numbers', message: 'must be array' }]),
  );
  assert.deepEqual(client.sent, []);
});

test('what is checked is what is sent: a value that JSON would change is refused', async () => {
  const client = new FakeClient();
  const at = new Date(0);
  await sendMail.submit(client, { to: 'ada', at } as never);
  assert.deepEqual(client.sent[0]?.payload, { to: 'ada', at: '1970-01-01T00:00:00.000Z' });
  await assert.rejects(addUp.submit(client, { numbers: [Number.NaN] }), /payload\.numbers\[0\]/);
  await assert.rejects(addUp.submit(client, undefined as never), /payload: is undefined, which is not JSON/);
  await assert.rejects(addUp.submit(client, { numbers: [1n as never] }), /payload: is not JSON/);
  assert.equal(client.sent.length, 1);
});

test('many are submitted together, with one set of options', async () => {
  const client = new FakeClient();
  const made = await addUp.submitMany(client, [{ numbers: [1] }, { numbers: [2] }], { priority: 9 });
  assert.deepEqual(made, [{ job_id: 'j0' }, { job_id: 'j1' }]);
  assert.deepEqual(
    client.sent.map(({ payload, priority }) => [payload, priority]),
    [
      [{ numbers: [1] }, 9],
      [{ numbers: [2] }, 9],
    ],
  );
});

test('a handler gets what the schema makes of the payload', async () => {
  const handler = sendMail.handler((payload) => {
    assert.ok(payload.at instanceof Date);
    return { copies: payload.copies };
  });
  assert.deepEqual(await handler(grant({ to: 'ada', at: '2030-01-01T00:00:00Z' }), ctx), { copies: 1 });
});

test('a payload that does not fit fails for good, with the field and the reason', async () => {
  const handler = addUp.handler(() => assert.fail('not called'));
  await assert.rejects(
    async () => handler(grant({ numbers: 7 }), ctx),
    (error) =>
      error instanceof FatalError &&
      error.message === 'The payload does not fit jobs of the type add-up: payload.numbers: must be array.',
  );
});

test('a result that does not fit fails for good, and one that fits is what JSON makes of it', async () => {
  await assert.rejects(
    async () => addUp.handler(() => ({ sum: 'much' }) as never)(grant({ numbers: [] }), ctx),
    (error) => error instanceof FatalError && /result\.sum: must be number/.test(error.message),
  );
  assert.deepEqual(await addUp.handler(async () => ({ sum: 3 }))(grant({ numbers: [3] }), ctx), { sum: 3 });
});

test('the result of a run is read by its schema, and a run that has not succeeded throws', async () => {
  assert.deepEqual(await addUp.result(run({ result: { sum: 3 } })), { sum: 3 });
  await assert.rejects(
    addUp.result(run({ result: { total: 3 } })),
    /The result of run r does not fit its schema: result.sum/,
  );
  await assert.rejects(
    addUp.result(run({ status: 'FAILED', reason: 'failed', error_message: 'no luck' })),
    (error) =>
      error instanceof RunFailedError &&
      error.message === 'Run r of add-up is FAILED (failed): no luck' &&
      error.run.run_id === 'r',
  );
});

test('a step of a workflow is checked unless it holds templates', async () => {
  assert.deepEqual(await addUp.step({ numbers: [1] }, { needs: ['list'] }), {
    type: 'add-up',
    payload: { numbers: [1] },
    needs: ['list'],
  });
  const templated = await sendMail.step({ to: '{{input.to}}', at: '2030-01-01', copies: '{{steps.count.result}}' });
  assert.equal(templated.queue, 'mail');
  await assert.rejects(addUp.step({ numbers: ['x'] } as never), /payload\.numbers\[0\]/);
});

test('a JSON Schema may have a type that is declared', async () => {
  interface Order {
    id: string;
  }
  const ship = defineJob({ type: 'ship', payload: jsonSchema<Order>({ type: 'object', required: ['id'] }) });
  await ship.submit(new FakeClient(), { id: 'a' });
  await assert.rejects(ship.submit(new FakeClient(), {} as never), /payload\.id: is missing/);
});

test('a definition cannot be served twice, nor by a worker that runs', async () => {
  const { Worker: Real } = await import('./worker/worker.ts');
  const worker = new Real({ url: 'http://127.0.0.1:1' }).handle(addUp, () => ({ sum: 0 }));
  assert.throws(() => worker.handle(addUp, () => ({ sum: 0 })), /has a handler for add-up already/);
  assert.throws(() => worker.handle('no good', () => 0), /the type "no good" may have/);
});

/** Never called: the compiler reads it. */
export async function types(client: Client, worker: Worker): Promise<true[]> {
  const checks: true[] = [];
  checks.push(true satisfies Same<Parameters<typeof addUp.submit>[1]['numbers'][number], number>);
  checks.push(true satisfies Same<Parameters<typeof sendMail.submit>[1], { to: string; at: string; copies?: number }>);

  const submitted = await addUp.submit(client, { numbers: [1], note: 'x' });
  const ended = await client.runs.waitFor(submitted, { throwOnFailure: true });
  const sum: number | undefined = ended.result?.sum;
  checks.push(true satisfies Same<Awaited<ReturnType<typeof addUp.result>>['sum'], number>);
  const plain = await client.runs.waitFor('id');
  checks.push(true satisfies Same<typeof plain.result, unknown>);

  // @ts-expect-error a field is missing
  await addUp.submit(client, {});
  // @ts-expect-error a field has another type
  await addUp.submit(client, { numbers: ['1'] });
  // @ts-expect-error a field is not known to the schema of the library
  await sendMail.submit(client, { to: 'ada', at: 'x', cc: 'eve' });
  // @ts-expect-error the type stands in the definition
  await addUp.submit(client, { numbers: [] }, { type: 'other' });
  // @ts-expect-error a schedule has a time
  await addUp.schedule(client, { numbers: [] }, { priority: 1 });
  // @ts-expect-error the result has no such field
  checks.push(true satisfies Same<typeof ended.result, { total: number } | undefined>);
  // @ts-expect-error a step's payload is that of the job, or a template
  await addUp.step({ numbers: 'none' });

  worker.handle(sendMail, async (payload, { log }) => {
    checks.push(true satisfies Same<typeof payload, { to: string; at: Date; copies: number }>);
    log.info(payload.at.toISOString());
  });
  // @ts-expect-error the handler must return a sum
  worker.handle(addUp, async () => ({ total: 1 }));
  // @ts-expect-error the payload has no such field
  worker.handle(addUp, async (payload) => ({ sum: payload.total }));
  await client.jobs.create({ type: String(sum) });
  return checks;
}
