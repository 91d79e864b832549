// An operation and everything else that moves runs, forced into each other: one has done its part and not committed when
// the other begins. A batch of an operation waits for nobody; what it could not take is decided one by one afterwards, and
// each item is counted once.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, test } from 'node:test';
import { type CreateOperation, PunctualError } from '@punctual/contract';
import { firstRunId, newId } from '@punctual/server/internal/base/ids';
import { prepareJob } from '@punctual/server/internal/rules/job';
import { prepareOperation } from '@punctual/server/internal/rules/operation';
import { claimRuns } from '@punctual/server/internal/store/claim';
import { type Database, type Queryable, within } from '@punctual/server/internal/store/database';
import { redriveOne } from '@punctual/server/internal/store/dead_letters';
import { moveDue } from '@punctual/server/internal/store/due';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
import { pauseJob } from '@punctual/server/internal/store/job_moves';
import { createJobs, getJob } from '@punctual/server/internal/store/jobs';
import type { Lanes } from '@punctual/server/internal/store/lanes';
import { type OperationStep, stepOperation } from '@punctual/server/internal/store/operation_steps';
import { cancelOperation, createOperation, getOperation } from '@punctual/server/internal/store/operations';
import { getRun } from '@punctual/server/internal/store/runs';
import { settleRuns, settleSuccesses } from '@punctual/server/internal/store/settle';
import { registerSession } from '@punctual/server/internal/store/workers';
import { type Book, echoWorker, openBook } from '../support/book.ts';
import { eventually } from '../support/eventually.ts';

const segment = 0;
const slot = { session_id: randomUUID() as string, worker_id: 'w' };
let book: Book;
let db: Database;
let lanes: Lanes;

before(async () => {
  book = await openBook();
  ({ db, lanes } = book);
});
beforeEach(async () => {
  await book.clear('jobs', 'waiting', 'ready', 'running', 'ended_runs', 'attempts', 'dead_letters');
  await book.clear('workers', 'operations', 'operation_parts');
  await registerSession(db, slot, echoWorker, 60_000);
});
after(() => book.close());

interface Submitted {
  job_id: string;
  run_id: string;
}

async function submit(more: object = {}): Promise<Submitted> {
  const prepared = prepareJob({ type: 'echo', ...more }, Date.now());
  assert.ok(!('refused' in prepared));
  const job_id = newId('job', segment);
  const run_id = firstRunId(job_id);
  await createJobs(db, [{ job: prepared, segment, job_id, run_id, lane_id: book.laneId, submission: null }], []);
  return { job_id, run_id };
}

async function submitSome(count: number, more: object = {}): Promise<Submitted[]> {
  const all: Submitted[] = [];
  for (let i = 0; i < count; i++) all.push(await submit(more));
  return all;
}

const claim = (tx: Queryable, slots: number, lease_id = randomUUID()) =>
  claimRuns(tx, {
    segment,
    lanes: [{ lane_id: book.laneId, after: 0 }],
    slots: Array.from({ length: slots }, () => slot),
    lease_id,
  });

async function begin(asked: CreateOperation): Promise<string> {
  const wanted = prepareOperation(asked);
  assert.ok(!('refused' in wanted));
  return (await createOperation(db, wanted, { key: null, segments: [segment] })).operation_id;
}

const step = (operation_id: string, with_: Lanes = lanes): Promise<OperationStep | null> =>
  stepOperation(db, with_, { segment, operation_id });

/** Steps until nothing is left; answers what was done and skipped. */
async function finish(
  operation_id: string,
): Promise<{ done: number; skipped: Record<string, number>; orders: number }> {
  let orders = 0;
  for (let more = true; more; ) {
    const one = await step(operation_id);
    assert.ok(one !== null);
    orders += one.orders.length;
    more = !one.ended;
  }
  const operation = await getOperation(db, operation_id, [segment]);
  assert.ok(operation !== null);
  assert.equal(operation.matched, operation.done + operation.skipped);
  const skipped = Object.fromEntries(operation.skipped_reasons.map(({ reason, count }) => [reason, count]));
  assert.deepEqual(await checkInvariants(db), []);
  return { done: operation.done, skipped, orders };
}

test('a claim first: the operation passes by, then finds those runs running and has them told', async () => {
  await submitSome(10);
  const id = await begin({ action: 'cancel', filter: { type: 'echo' } });
  await db.transaction(async (tx) => {
    assert.equal((await claim(tx, 4)).length, 4);
    const one = await step(id);
    assert.deepEqual([one?.moved, one?.left], [6, 4], 'it did not wait');
  });
  assert.deepEqual(await finish(id), { done: 10, skipped: {}, orders: 4 });
  const told = await book.query('select from punctual.running where cancel_at is not null');
  assert.equal(told.length, 4);
});

test('an operation first: the claim passes by, and gets none of its runs', async () => {
  await submitSome(10);
  const id = await begin({ action: 'cancel', filter: { type: 'echo' } });
  await db.transaction(async (tx) => {
    // The whole step in a transaction that is still open.
    assert.equal((await stepOperation(within(tx), lanes, { segment, operation_id: id }))?.moved, 10);
    assert.equal((await claim(db, 10)).length, 0, 'it did not wait');
    assert.equal(await stepOperation(db, lanes, { segment, operation_id: id }), null, 'another server leaves it');
  });
  assert.equal((await claim(db, 10)).length, 0);
  assert.equal((await getOperation(db, id, [segment]))?.done, 10);
});

test('a settle first: a run that succeeded is not cancelled, and is counted as ended', async () => {
  const jobs = await submitSome(3);
  const lease_id = randomUUID();
  await claim(db, 3, lease_id);
  const ofJobs = await begin({ action: 'cancel', filter: { type: 'echo' } });
  const ofRuns = await begin({ action: 'cancel', filter: { type: 'echo', status: 'RUNNING' } });
  await db.transaction(async (tx) => {
    const run_id = jobs[0]?.run_id ?? '';
    await settleSuccesses(tx, segment, [{ run_id, lease_id, result: null, reason: null }]);
    assert.equal((await step(ofJobs))?.left, 1);
    assert.equal((await step(ofRuns))?.left, 3, 'the jobs of the others are cancelled');
  });
  assert.deepEqual(await finish(ofJobs), { done: 2, skipped: { job_ended: 1 }, orders: 0 });
  assert.deepEqual(await finish(ofRuns), { done: 2, skipped: { run_ended: 1 }, orders: 2 });
  assert.equal((await getRun(db, jobs[0]?.run_id ?? ''))?.status, 'SUCCESS');
});

test('a failure that is tried again meanwhile is cancelled where it waits', async () => {
  const [job] = await submitSome(1);
  const lease_id = randomUUID();
  await claim(db, 1, lease_id);
  const id = await begin({ action: 'cancel', filter: { type: 'echo' } });
  await db.transaction(async (tx) => {
    const failed = {
      reason: null,
      attempt_outcome: 'failed',
      error: 'no',
      result: null,
      retry_delay_ms: 60_000,
    } as const;
    const outcome = { run_id: job?.run_id ?? '', lease_id, started: true, move: 'retry', status: 'FAILED' } as const;
    await settleRuns(tx, segment, [{ ...outcome, ...failed }]);
    assert.equal((await step(id))?.left, 1);
  });
  assert.deepEqual(await finish(id), { done: 1, skipped: {}, orders: 0 });
  assert.equal((await getRun(db, job?.run_id ?? ''))?.status, 'CANCELLED');
});

test('a mover of due runs first: the priority of those runs is changed afterwards', async () => {
  const jobs = await submitSome(6, { delay_ms: 1 });
  await eventually(async () =>
    assert.equal((await book.query('select from punctual.waiting where wake_at <= now()')).length, 6),
  );
  const id = await begin({ action: 'reprioritise', filter: { type: 'echo' }, priority: 8 });
  await db.transaction(async (tx) => {
    assert.equal(await moveDue(tx, segment, 4), 4);
    const one = await step(id);
    assert.deepEqual([one?.moved, one?.left], [2, 4], 'it did not wait');
  });
  assert.deepEqual(await finish(id), { done: 6, skipped: {}, orders: 0 });
  for (const { job_id, run_id } of jobs) {
    assert.equal((await getJob(db, job_id))?.priority, 8);
    assert.equal((await getRun(db, run_id))?.priority, 8);
  }
});

test('a pause first: the run of a paused job is not made due', async () => {
  const [job] = await submitSome(1);
  await claim(db, 1);
  await book.query(`with taken as (delete from punctual.running returning *)
    insert into punctual.waiting (segment, run_id, job_id, lane_id, attempts, cause, reason, scheduled_for, due_at, wake_at)
    select segment, run_id, job_id, lane_id, 1, cause, 'retry', scheduled_for, due_at, now() + interval '1 hour' from taken`);
  const id = await begin({ action: 'retry', filter: { type: 'echo' } });
  await db.transaction(async (tx) => {
    await pauseJob(within(tx), job?.job_id ?? '');
    assert.equal((await step(id))?.left, 1, 'it did not wait');
  });
  assert.deepEqual(await finish(id), { done: 0, skipped: { job_paused: 1 }, orders: 0 });
  assert.equal((await getRun(db, job?.run_id ?? ''))?.reason, 'paused');
});

test('a redrive by somebody else first: the dead letter is not redriven again', async () => {
  const jobs = await submitSome(3, { max_retries: 0 });
  const lease_id = randomUUID();
  await claim(db, 3, lease_id);
  const failed = {
    reason: 'failed',
    attempt_outcome: 'failed',
    error: 'no',
    result: null,
    retry_delay_ms: null,
  } as const;
  await settleRuns(
    db,
    segment,
    jobs.map(({ run_id }) => ({ run_id, lease_id, started: true, move: 'end', status: 'FAILED', ...failed })),
  );
  const id = await begin({ action: 'redrive', filter: { type: 'echo' } });
  await db.transaction(async (tx) => {
    await redriveOne(within(tx), jobs[0]?.run_id ?? '');
    assert.equal((await step(id))?.left, 1, 'it did not wait');
  });
  assert.deepEqual(await finish(id), { done: 2, skipped: { unchanged: 1 }, orders: 0 });
  assert.equal((await book.query('select from punctual.ready')).length, 3, 'one run for each');
});

test('steps that race, and some that fail in the middle, do each item once', async () => {
  const jobs = await submitSome(1200, { delay_ms: 3_600_000 });
  const id = await begin({ action: 'move_queue', filter: { type: 'echo' }, queue: 'other' });
  const failing = { ensure: () => Promise.reject(new Error('the server dies here')) } as unknown as Lanes;
  const steps = await Promise.all(
    Array.from({ length: 24 }, (_, i) => step(id, i % 3 === 0 ? failing : lanes).catch(() => null)),
  );
  const moved = steps.reduce((sum, one) => sum + (one?.moved ?? 0), 0);
  assert.ok(moved <= 1200);
  while (((await getOperation(db, id, [segment]))?.done ?? 0) < 1200) assert.ok((await step(id)) !== null);
  const rows = await book.query<{ version: number; n: number }>(
    `select version, count(*)::integer as n from punctual.jobs where queue = 'other' group by version`,
  );
  assert.deepEqual(rows, [{ version: 2, n: jobs.length }], 'each was changed once');
});

test('a step whose answer was lost is not done again', async () => {
  await submitSome(700, { delay_ms: 3_600_000 });
  const id = await begin({ action: 'reprioritise', filter: { type: 'echo' }, priority: 3 });
  const deaf: Database = {
    ...db,
    async transaction(work) {
      await db.transaction(work);
      throw new PunctualError('unavailable');
    },
  };
  const part = { segment, operation_id: id };
  await assert.rejects(stepOperation(deaf, lanes, part), { code: 'unavailable' });
  await assert.rejects(stepOperation(deaf, lanes, part), { code: 'unavailable' });
  assert.equal(await step(id), null, 'both had been done');
  const { matched, done } = (await getOperation(db, id, [segment])) ?? {};
  assert.deepEqual({ matched, done }, { matched: 700, done: 700 });
  const versions = await book.query('select version, count(*)::integer as n from punctual.jobs group by version');
  assert.deepEqual(versions, [{ version: 2, n: 700 }]);
});

test('what can never be moved is counted with its reason, and does not stop the others', async () => {
  await submitSome(2, { delay_ms: 3_600_000 });
  await submitSome(2, { delay_ms: 3_600_000, concurrency_key: 'k' });
  const full = { ensure: () => Promise.reject(new PunctualError('too_many_lanes')) } as unknown as Lanes;
  const broken = {
    ensure: (keys: { stage: string }[]) =>
      keys.some((key) => key.stage === 'entry') ? Promise.reject(new Error('a fault')) : lanes.ensure(keys as never),
  } as unknown as Lanes;
  const first = await begin({ action: 'reprioritise', filter: { type: 'echo' }, priority: 1 });
  for (let i = 0; i < 5; i++) await step(first, full);
  const refused = await getOperation(db, first, [segment]);
  assert.deepEqual(refused?.skipped_reasons, [{ reason: 'too_many_lanes', count: 4 }]);
  const second = await begin({ action: 'reprioritise', filter: { type: 'echo' }, priority: 2 });
  const faults: unknown[] = [];
  for (let i = 0; i < 3; i++) faults.push((await step(second, broken))?.fault);
  const faulty = await getOperation(db, second, [segment]);
  assert.deepEqual([faulty?.done, faulty?.skipped_reasons], [2, [{ reason: 'internal', count: 2 }]]);
  assert.equal(faults.filter((fault) => fault instanceof Error).length, 2, 'and is known to whoever keeps the log');
  const jobs = await book.query<{ priority: number }>('select priority from punctual.jobs order by priority');
  assert.deepEqual(jobs, [{ priority: 2 }, { priority: 2 }, { priority: 5 }, { priority: 5 }], 'nothing half done');
});

test('a cancel waits for the step under way, and none follows', async () => {
  await submitSome(600, { delay_ms: 3_600_000 });
  const id = await begin({ action: 'cancel', filter: { type: 'echo' } });
  let cancelled = false;
  let cancelling: Promise<void> | undefined;
  await db.transaction(async (tx) => {
    assert.equal((await stepOperation(within(tx), lanes, { segment, operation_id: id }))?.moved, 500);
    cancelling = cancelOperation(db, id, [segment]).then(() => {
      cancelled = true;
    });
    await eventually(async () =>
      assert.equal(
        (
          await book.query(
            `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
          )
        ).length,
        1,
      ),
    );
    assert.equal(cancelled, false);
  });
  await cancelling;
  assert.equal(await step(id), null);
  const { state, done } = (await getOperation(db, id, [segment])) ?? {};
  assert.deepEqual({ state, done }, { state: 'CANCELLED', done: 500 });
  assert.equal((await book.query('select from punctual.waiting')).length, 100);
});
