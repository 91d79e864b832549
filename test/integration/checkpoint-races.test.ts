// Races of what a run says while it runs, with whoever ends it, forced in both orders as in interleavings.test.ts.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, describe, test } from 'node:test';
import { firstRunId, newId } from '@punctual/server/internal/base/ids';
import { prepareJob } from '@punctual/server/internal/rules/job';
import { forgetEnded, getCheckpoint, keptBy, saveCheckpoints } from '@punctual/server/internal/store/checkpoints';
import { type ClaimedRun, claimRuns } from '@punctual/server/internal/store/claim';
import { type Database, type Queryable, within } from '@punctual/server/internal/store/database';
import { moveDue } from '@punctual/server/internal/store/due';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
import { updateJob } from '@punctual/server/internal/store/job_moves';
import { createJobs } from '@punctual/server/internal/store/jobs';
import { noteProgress } from '@punctual/server/internal/store/progress';
import { cancelRun } from '@punctual/server/internal/store/run_moves';
import { getRun } from '@punctual/server/internal/store/runs';
import { type Lease, type Settlement, settleRuns } from '@punctual/server/internal/store/settle';
import { registerSession } from '@punctual/server/internal/store/workers';
import { type Book, countReaped, echoWorker, openBook } from '../support/book.ts';
import { race as raceIn } from '../support/race.ts';

const segment = 0;
const session = randomUUID();
const slot = { session_id: session, worker_id: 'w' };
let book: Book;
let db: Database;
let laneId: number;

before(async () => {
  book = await openBook();
  ({ db, laneId } = book);
});
beforeEach(async () => {
  await book.clear('jobs', 'waiting', 'ready', 'running', 'ended_runs', 'attempts', 'dead_letters', 'checkpoints');
  await book.clear('workers');
  await registerSession(db, slot, echoWorker, 60_000);
});
after(() => book.close());

const race = <A, B>(first: (tx: Queryable) => Promise<A>, second: () => Promise<B>) => raceIn(db, first, second);
const whole = async (): Promise<void> => assert.deepEqual(await checkInvariants(db), []);

async function submit(more: object = {}): Promise<{ job_id: string; run_id: string }> {
  const job = prepareJob({ type: 'echo', ...more }, Date.now());
  assert.ok(!('refused' in job));
  const job_id = newId('job', segment);
  const run_id = firstRunId(job_id);
  await createJobs(db, [{ job, segment, job_id, run_id, lane_id: laneId, submission: null }], []);
  return { job_id, run_id };
}

const claimAll = (lease_id: string = randomUUID()): Promise<ClaimedRun[]> =>
  claimRuns(db, { segment, lanes: [{ lane_id: laneId, after: 0 }], slots: [slot], lease_id });

async function leased(): Promise<Lease> {
  const { run_id } = await submit();
  const lease_id = randomUUID();
  await claimAll(lease_id);
  return { run_id, lease_id };
}

const plain = { started: true, reason: null, attempt_outcome: null, error: null, result: null, retry_delay_ms: null };
const success = (lease: Lease): Settlement => ({ ...plain, ...lease, move: 'end', status: 'SUCCESS' });
const retry = (lease: Lease): Settlement => ({
  ...plain,
  ...lease,
  move: 'retry',
  status: 'FAILED',
  attempt_outcome: 'failed',
  error: 'no',
  retry_delay_ms: 0,
});
const save = (tx: Queryable, lease: Lease, version: number, value = String(version)) =>
  saveCheckpoints(tx, segment, [{ ...lease, version, value }]);
const snooze = (lease: Lease): Settlement => ({
  ...plain,
  ...lease,
  move: 'snooze',
  status: 'CANCELLED',
  reason: 'cancelled',
  retry_delay_ms: 0,
});

describe('checkpoint and reap', () => {
  test('a checkpoint first: the reap takes the run only afterwards, and the next attempt sees it', async () => {
    const run = await leased();
    const { first, second } = await race(
      (tx) => save(tx, run, 1),
      () => countReaped(db, segment, [session], 10),
    );
    assert.equal(first.size, 1);
    assert.equal(second, 0, 'the reap did not pass by');
    assert.equal(await countReaped(db, segment, [session], 10), 1);
    const [again] = await claimAll();
    assert.equal(again?.attempt, 2);
    assert.equal((await keptBy(db, segment, [run.run_id], 1)).get(run.run_id)?.value, '1');
    await whole();
  });
  test('a reap first: the checkpoint is refused', async () => {
    const run = await leased();
    await save(db, run, 1);
    const { first, second, secondWaited } = await race(
      (tx) => countReaped(tx, segment, [session], 10),
      () => save(db, run, 2),
    );
    assert.deepEqual([first, second.size, secondWaited], [1, 0, true]);
    assert.equal((await getCheckpoint(db, { ...run, job_id: '' }))?.version, 1);
    await whole();
  });
  test('a reap that ends the run first: nothing of it is kept', async () => {
    const run = await leased();
    await save(db, run, 1);
    await book.query('update punctual.jobs set max_retries = 0');
    const { second } = await race(
      (tx) => countReaped(tx, segment, [session], 10),
      () => save(db, run, 2),
    );
    assert.equal(second.size, 0);
    assert.deepEqual(await book.query('select from punctual.checkpoints'), []);
    await whole();
  });
});

describe('checkpoint and checkpoint', () => {
  test('of two at once the newer stays, whichever comes first', async () => {
    for (const [early, late] of [
      [1, 2],
      [4, 3],
    ] as const) {
      const run = await leased();
      await race(
        (tx) => save(tx, run, early),
        () => save(db, run, late),
      );
      assert.equal((await getCheckpoint(db, { ...run, job_id: '' }))?.version, Math.max(early, late));
    }
    await whole();
  });
  test('two versions of a run in one statement: the higher one is kept', async () => {
    const run = await leased();
    await saveCheckpoints(db, segment, [
      { ...run, version: 2, value: '"b"' },
      { ...run, version: 1, value: '"a"' },
    ]);
    assert.equal((await getCheckpoint(db, { ...run, job_id: '' }))?.value, 'b');
  });
});

describe('checkpoint and settle', () => {
  test('a settle first: the checkpoint is refused and leaves nothing', async () => {
    const run = await leased();
    const { second, secondWaited } = await race(
      (tx) => settleRuns(tx, segment, [success(run)]),
      () => save(db, run, 1),
    );
    assert.deepEqual([second.size, secondWaited], [0, true]);
    assert.deepEqual(await book.query('select from punctual.checkpoints'), []);
    await whole();
  });
  test('a run that goes on is not forgotten, one that ended is', async () => {
    const run = await leased();
    await save(db, run, 1);
    await forgetEnded(db, segment, [run.run_id]);
    assert.equal((await getCheckpoint(db, { ...run, job_id: '' }))?.version, 1);
    await settleRuns(db, segment, [retry(run)]);
    await forgetEnded(db, segment, [run.run_id]);
    assert.equal((await getCheckpoint(db, { ...run, job_id: '' }))?.version, 1);
    await moveDue(db, segment, 10);
    const lease_id = randomUUID();
    await claimAll(lease_id);
    await settleRuns(db, segment, [success({ run_id: run.run_id, lease_id })]);
    await forgetEnded(db, segment, [run.run_id]);
    assert.deepEqual(await book.query('select from punctual.checkpoints'), []);
    await whole();
  });
});

describe('snooze and cancel', () => {
  test('a cancel first: the run ends as CANCELLED instead, and its attempt counts', async () => {
    const run = await leased();
    await race(
      (tx) => cancelRun(within(tx), run.run_id),
      () => settleRuns(db, segment, [snooze(run)]),
    );
    const ended = await getRun(db, run.run_id);
    assert.deepEqual([ended?.status, ended?.reason, ended?.attempt_number], ['CANCELLED', 'cancelled', 1]);
    assert.notEqual(ended?.start_time, null);
    assert.deepEqual(await book.query('select from punctual.checkpoints'), []);
    await whole();
  });
  test('a snooze first: the cancel finds the run where it waits', async () => {
    const run = await leased();
    const { second, secondWaited } = await race(
      (tx) => settleRuns(tx, segment, [snooze(run)]),
      () => cancelRun(db, run.run_id),
    );
    assert.deepEqual([second, secondWaited], ['cancelled', true]);
    assert.equal((await getRun(db, run.run_id))?.status, 'CANCELLED');
    assert.deepEqual(await book.query('select from punctual.checkpoints'), []);
    await whole();
  });
});

describe('progress and settle', () => {
  test('a settle under way: progress passes by without waiting', async () => {
    const run = await leased();
    const { secondWaited } = await race(
      (tx) => settleRuns(tx, segment, [success(run)]),
      () => noteProgress(db, segment, [{ ...run, percent: 1 }]),
    );
    assert.equal(secondWaited, false);
    assert.equal((await getRun(db, run.run_id))?.status, 'SUCCESS');
    await whole();
  });
});

describe('snooze and edit', () => {
  test('a time set back to the first one does not hide what the run has kept', async () => {
    const at = new Date(Date.now() + 20).toISOString();
    const { job_id, run_id } = await submit({ schedule_time: at });
    await new Promise((resolve) => setTimeout(resolve, 30));
    await moveDue(db, segment, 10);
    const lease = { run_id, lease_id: randomUUID() };
    await claimAll(lease.lease_id);
    await save(db, lease, 1);
    await settleRuns(db, segment, [{ ...snooze(lease), retry_delay_ms: 60_000 }]);
    const update = { changes: {}, schedule: { schedule_time: at, delay_ms: null }, recurring: null };
    await updateJob(db, book.lanes, { jobId: job_id, update, ifVersion: null });
    const [again] = await claimAll();
    assert.deepEqual([again?.run_id, again?.attempt], [run_id, 1]);
    assert.notEqual(again?.scheduled_for, null, 'the claim would not look for it');
    await whole();
  });
});
