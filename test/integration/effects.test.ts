// Handlers that complete their run in a transaction of the application: with the commit the effect and the outcome are there,
// without it neither, however the handler goes on afterwards.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Handler, RetryError, type RunContext } from '@punctual/sdk';
import pg from 'pg';
import { type Application, inTransaction, openApplication } from '../support/application.ts';
import { eventually } from '../support/eventually.ts';
import { gate } from '../support/gate.ts';
import { type House, openHouse } from '../support/house.ts';
import { keepsWithin } from '../support/within.ts';

let house: House;
let app: Application;
let pool: pg.Pool;
const gates = gate();

before(async () => {
  house = await openHouse({ servers: 2 });
  app = await openApplication(house.databaseUrl);
  await app.query('create table effects (run_id uuid, attempt integer)');
  pool = new pg.Pool({ connectionString: house.databaseUrl });
});
after(async () => {
  await pool.end();
  await app[Symbol.asyncDispose]();
  await house[Symbol.asyncDispose]();
});

async function withClient<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  try {
    return await work(client);
  } finally {
    client.release();
  }
}

const write = async (client: pg.ClientBase, ctx: RunContext): Promise<void> =>
  void (await client.query('insert into effects values ($1, $2)', [ctx.run.run_id, ctx.run.attempt_number]));

/** The effect and the completion in one transaction. */
const inOne = (ctx: RunContext, then: () => Promise<void> = async () => {}): Promise<void> =>
  withClient((client) =>
    inTransaction(client, async () => {
      await write(client, ctx);
      await ctx.completeIn(client, { attempt: ctx.run.attempt_number });
      await then();
    }),
  );

let types = 0;
async function run(handler: Handler, job: object = {}): Promise<{ job_id: string; run_id: string }> {
  const type = `effect-${types++}`;
  await house.addWorker({ [type]: handler }, { url: house.servers[1]?.url ?? '' });
  const { job_id, run_id = '' } = await house.client.jobs.create({ type, backoff: { base_ms: 10, jitter: 0 }, ...job });
  return { job_id, run_id };
}

const effects = async (runId: string): Promise<number[]> =>
  (await app.query<{ attempt: number }>('select attempt from effects where run_id = $1', [runId])).map(
    ({ attempt }) => attempt,
  );

test('completed and committed: one outcome, one effect, and the result that was given to completeIn', async () => {
  const { job_id, run_id } = await run(async (_run, ctx) => {
    await inOne(ctx);
    return 'this is not the result';
  });
  const ended = await house.ended(job_id);
  assert.deepEqual([ended.status, ended.attempt_number, ended.result], ['SUCCESS', 1, { attempt: 1 }]);
  assert.deepEqual(await effects(run_id), [1]);
  const { attempts } = await house.client.runs.attempts(run_id);
  assert.deepEqual(attempts, []);
});

test('completed and rolled back: the attempt has failed, and the next one does the effect', async () => {
  const { job_id, run_id } = await run(async (_run, ctx) => {
    const undo = new Error('undo');
    await inOne(ctx, async () => {
      if (ctx.run.attempt_number === 1) throw undo;
    }).catch((error: unknown) => assert.equal(error, undo));
  });
  const ended = await house.ended(job_id);
  assert.deepEqual([ended.status, ended.attempt_number], ['SUCCESS', 2]);
  assert.deepEqual(await effects(run_id), [2]);
  const { attempts } = await house.client.runs.attempts(run_id);
  assert.match(attempts.find(({ attempt_number }) => attempt_number === 1)?.error_message ?? '', /was not committed/);
});

test('rolled back every time: it ends as FAILED with the reason, and without an effect', async () => {
  const { job_id, run_id } = await run(
    async (_run, ctx) => {
      await inOne(ctx, () => Promise.reject(new Error('undo'))).catch(() => {});
    },
    { max_retries: 1 },
  );
  const ended = await house.ended(job_id);
  assert.deepEqual([ended.status, ended.attempt_number], ['FAILED', 2]);
  assert.match(ended.error_message ?? '', /The transaction in which the handler completed the run was not committed/);
  assert.deepEqual(await effects(run_id), []);
});

test('a handler that fails after its commit does not change the outcome', async () => {
  const failures = [new Error('too late'), new RetryError('too late', { retryAfterMs: 0 })];
  for (const failure of failures) {
    let calls = 0;
    const { job_id, run_id } = await run(async (_run, ctx) => {
      calls++;
      await inOne(ctx);
      throw failure;
    });
    const ended = await house.ended(job_id);
    await eventually(async () =>
      assert.deepEqual((await house.client.workers.list()).workers.map(({ running }) => running).filter(Boolean), []),
    );
    assert.deepEqual([ended.status, ended.error_message, calls], ['SUCCESS', null, 1]);
    assert.deepEqual(await effects(run_id), [1]);
  }
});

test('a handler that fails in its transaction is tried again', async () => {
  const { job_id, run_id } = await run(async (_run, ctx) => {
    await inOne(ctx, async () => {
      if (ctx.run.attempt_number < 3) throw new Error('not yet');
    });
  });
  assert.equal((await house.ended(job_id)).attempt_number, 3);
  assert.deepEqual(await effects(run_id), [3]);
});

test('a handler that ends before its transaction does: the attempt has failed, and the commit is refused', async () => {
  const commits: Promise<unknown>[] = [];
  const { job_id, run_id } = await run(
    async (_run, ctx) => {
      if (ctx.run.attempt_number === 2) return inOne(ctx);
      const client = await app.connect();
      await client.query('begin');
      await write(client, ctx);
      await ctx.completeIn(client);
      const later = eventually(async () =>
        assert.notEqual((await house.client.runs.get(ctx.run.run_id)).status, 'RUNNING'),
      );
      commits.push(later.then(() => client.query('commit')).catch((error: unknown) => error));
      return undefined;
    },
    { backoff: { base_ms: 3_000, jitter: 0 } },
  );
  const ended = await house.ended(job_id);
  assert.equal((((await commits[0]) as { code?: string }) ?? {}).code, 'PU001');
  assert.deepEqual([ended.status, ended.attempt_number], ['SUCCESS', 2]);
  assert.deepEqual(await effects(run_id), [2]);
});

test('a run cancelled in its transaction ends as the transaction does', async () => {
  for (const end of ['commit', 'rollback'] as const) {
    const { job_id, run_id } = await run(async (_run, ctx) => {
      await inOne(ctx, async () => {
        const cancelled = await gates.enter(end, ctx.signal).catch((reason: unknown) => reason);
        if (end === 'rollback') throw cancelled;
      });
    });
    await gates.entered(end);
    await house.client.jobs.cancel(job_id);
    assert.equal((await house.ended(job_id)).status, end === 'commit' ? 'SUCCESS' : 'CANCELLED');
    assert.deepEqual(await effects(run_id), end === 'commit' ? [1] : []);
  }
});

test('a result that is not JSON ends the run without trying again, and the transaction is rolled back', async () => {
  const { job_id, run_id } = await run(async (_run, ctx) => {
    await withClient((client) =>
      inTransaction(client, async () => {
        await write(client, ctx);
        await ctx.completeIn(client, 1n);
      }),
    );
  });
  const ended = await house.ended(job_id);
  assert.deepEqual([ended.status, ended.attempt_number], ['FAILED', 1]);
  assert.match(ended.error_message ?? '', /not JSON/);
  assert.deepEqual(await effects(run_id), []);
});

test('what waits for the end of a run is told of one that was completed in SQL', async () => {
  // The safety net under it looks every five seconds.
  await keepsWithin(1_000, async () => {
    const starts: number[] = [];
    let first = '';
    const { job_id } = await run(
      async ({ run_id }, ctx) => {
        starts.push(performance.now());
        if (starts.length === 1) {
          first = run_id;
          await gates.enter(run_id, ctx.signal);
        }
        await inOne(ctx);
      },
      { interval_ms: 1_000, overlap: 'queue_one', max_runs: 2 },
    );
    await eventually(async () =>
      assert.equal(await house.count('waiting', `where reason = 'overlap' and job_id = '${job_id}'`), 1),
    );
    const endedAt = performance.now();
    gates.open(first);
    await eventually(() => assert.equal(starts.length, 2));
    await eventually(async () => assert.equal((await house.client.jobs.get(job_id)).status, 'COMPLETED'));
    return (starts[1] ?? 0) - endedAt;
  });
});
