// Races forced in both orders, on connections of their own: one transaction has done its part and not committed when the
// other begins. Whoever comes second must wait or pass by, and the book must be whole afterwards.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, describe, test } from 'node:test';
import { firstRunId, newId } from '@punctual/server/internal/base/ids';
import { prepareJob } from '@punctual/server/internal/rules/job';
import { packLogs } from '@punctual/server/internal/rules/log_rows';
import { type ClaimedRun, claimRuns } from '@punctual/server/internal/store/claim';
import { type Database, type Queryable, within } from '@punctual/server/internal/store/database';
import { redriveOne } from '@punctual/server/internal/store/dead_letters';
import { moveDue } from '@punctual/server/internal/store/due';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
import { cancelJob, pauseJob, runJobNow, updateJob } from '@punctual/server/internal/store/job_moves';
import { createJobs, type NewJob } from '@punctual/server/internal/store/jobs';
import type { Lanes } from '@punctual/server/internal/store/lanes';
import { appendLogs } from '@punctual/server/internal/store/logs';
import { cancelRun } from '@punctual/server/internal/store/run_moves';
import { getRun } from '@punctual/server/internal/store/runs';
import { type Settlement, settleRuns } from '@punctual/server/internal/store/settle';
import { expireSessions, extendSessions, registerSession } from '@punctual/server/internal/store/workers';
import { type Book, countReaped, echoWorker, openBook } from '../support/book.ts';
import { race } from '../support/race.ts';

const segment = 0;
const session = randomUUID();
const slot = { session_id: session, worker_id: 'w' };
let book: Book;
let db: Database;
let lanes: Lanes;
let laneId: number;

before(async () => {
  book = await openBook();
  ({ db, lanes, laneId } = book);
});
beforeEach(async () => {
  await book.clear(
    'jobs',
    'waiting',
    'ready',
    'running',
    'ended_runs',
    'attempts',
    'dead_letters',
    'log_chunks',
    'checkpoints',
    'submissions',
  );
  await book.clear('workers');
  await registerSession(db, slot, echoWorker, 60_000);
});
after(() => book.close());

async function submit(more: object = {}, tx: Queryable = db): Promise<{ job_id: string; run_id: string }> {
  const prepared = prepareJob({ type: 'echo', ...more }, Date.now());
  assert.ok(!('refused' in prepared));
  const job_id = newId('job', segment);
  const job: NewJob = { job: prepared, segment, job_id, run_id: firstRunId(job_id), lane_id: laneId, submission: null };
  await createJobs(tx, [job], []);
  return { job_id, run_id: job.run_id };
}

const claim = (tx: Queryable, slots = 10): Promise<ClaimedRun[]> =>
  claimRuns(tx, {
    segment,
    lanes: [{ lane_id: laneId, after: 0 }],
    slots: Array.from({ length: slots }, () => slot),
    lease_id: randomUUID(),
  });

async function leased(): Promise<{ job_id: string; run_id: string; lease_id: string }> {
  const { job_id, run_id } = await submit();
  const lease_id = randomUUID();
  await claimRuns(db, {
    segment,
    lanes: [{ lane_id: laneId, after: 0 }],
    slots: [slot],
    lease_id,
  });
  return { job_id, run_id, lease_id };
}

const success = (lease: { run_id: string; lease_id: string }): Settlement => ({
  ...plain,
  ...lease,
  move: 'end',
  status: 'SUCCESS',
});
const retry = (lease: { run_id: string; lease_id: string }): Settlement => ({
  ...plain,
  ...lease,
  move: 'retry',
  status: 'FAILED',
  attempt_outcome: 'failed',
  error: 'no',
  retry_delay_ms: 0,
});
const plain = { started: true, reason: null, attempt_outcome: null, error: null, result: null, retry_delay_ms: null };

async function whole(): Promise<void> {
  assert.deepEqual(await checkInvariants(db), []);
}

describe('claim and claim', () => {
  test('two claimers never get the same run, and neither waits for the other', async () => {
    for (let i = 0; i < 20; i++) await submit();
    const { first, second, secondWaited } = await race(
      db,
      (tx) => claim(tx, 15),
      () => claim(db, 15),
    );
    assert.equal(first.length, 15);
    assert.equal(second.length, 5);
    assert.equal(new Set([...first, ...second].map((run) => run.run_id)).size, 20);
    assert.equal(secondWaited, false);
    await whole();
  });
});

describe('claim and cancel', () => {
  test('a claim first: the cancel finds the run running', async () => {
    const { job_id, run_id } = await submit();
    const { second } = await race(
      db,
      (tx) => claim(tx),
      () => cancelJob(db, job_id),
    );
    assert.deepEqual(second.cancelled, []);
    assert.deepEqual(
      second.orders.map((order) => order.run_id),
      [run_id],
    );
    await whole();
  });
  test('a cancel first: the claim passes by', async () => {
    const { job_id, run_id } = await submit();
    const { first, second } = await race(
      db,
      (tx) => cancelJob(within(tx), job_id),
      () => claim(db),
    );
    assert.deepEqual(first.cancelled, [run_id]);
    assert.deepEqual(second, []);
    assert.equal((await getRun(db, run_id))?.status, 'CANCELLED');
    await whole();
  });
});

describe('claim and pause', () => {
  test('a claim first: the run goes on, and nothing of it is moved', async () => {
    const { job_id, run_id } = await submit();
    await race(
      db,
      (tx) => claim(tx),
      () => pauseJob(db, job_id),
    );
    assert.equal((await getRun(db, run_id))?.status, 'RUNNING');
    await whole();
  });
  test('a run that becomes ready while its job is being paused is held at the claim', async () => {
    const { job_id, run_id } = await submit({ delay_ms: 1 });
    await new Promise((resolve) => setTimeout(resolve, 10));
    await race(
      db,
      (tx) => moveDue(tx, segment, 10),
      () => pauseJob(db, job_id),
    );
    // Whether the pause found it or came too late for it, it does not start.
    const claimed = await claim(db);
    assert.ok(claimed.every((run) => run.flag === 'paused'));
    if (claimed.length === 0) assert.equal((await getRun(db, run_id))?.reason, 'paused');
    await whole();
  });
});

describe('settle and cancel', () => {
  test('a settle first: the cancel is told that the run has ended', async () => {
    const run = await leased();
    const { second, secondWaited } = await race(
      db,
      (tx) => settleRuns(tx, segment, [success(run)]),
      () => cancelRun(db, run.run_id),
    );
    assert.equal(second, 'ended');
    assert.ok(secondWaited);
    assert.equal((await getRun(db, run.run_id))?.status, 'SUCCESS');
    await whole();
  });
  test('a cancel first: success is still recorded as what it is', async () => {
    const run = await leased();
    const { first, second } = await race(
      db,
      (tx) => cancelRun(within(tx), run.run_id),
      () => settleRuns(db, segment, [success(run)]),
    );
    assert.equal(typeof first, 'object');
    assert.equal(second.length, 1);
    assert.equal((await getRun(db, run.run_id))?.status, 'SUCCESS');
    await whole();
  });
  test('a cancel first: a failure is not tried again', async () => {
    const run = await leased();
    await race(
      db,
      (tx) => cancelRun(within(tx), run.run_id),
      () => settleRuns(db, segment, [retry(run)]),
    );
    assert.equal((await getRun(db, run.run_id))?.status, 'CANCELLED');
    await whole();
  });
  test('a retry first: the cancel finds the run where it waits', async () => {
    const run = await leased();
    const { second } = await race(
      db,
      (tx) => settleRuns(tx, segment, [retry(run)]),
      () => cancelRun(db, run.run_id),
    );
    assert.equal(second, 'cancelled');
    assert.equal((await getRun(db, run.run_id))?.status, 'CANCELLED');
    await whole();
  });
});

describe('settle and reap', () => {
  test('a settle first: nothing is left to reap', async () => {
    const run = await leased();
    const { second } = await race(
      db,
      (tx) => settleRuns(tx, segment, [success(run)]),
      () => countReaped(db, segment, [session], 10),
    );
    assert.equal(second, 0);
    assert.equal((await getRun(db, run.run_id))?.status, 'SUCCESS');
    await whole();
  });
  test('a reap first: the settle is refused', async () => {
    const run = await leased();
    const { first, second } = await race(
      db,
      (tx) => countReaped(tx, segment, [session], 10),
      () => settleRuns(db, segment, [success(run)]),
    );
    assert.equal(first, 1);
    assert.deepEqual(second, []);
    assert.equal((await getRun(db, run.run_id))?.status, 'QUEUED');
    await whole();
  });
  test('two reapers take a run once', async () => {
    await leased();
    const { first, second } = await race(
      db,
      (tx) => countReaped(tx, segment, [session], 10),
      () => countReaped(db, segment, [session], 10),
    );
    assert.deepEqual([first, second], [1, 0]);
    await whole();
  });
});

describe('settle and settle', () => {
  test('of two settles with one lease one is applied', async () => {
    const run = await leased();
    const { first, second } = await race(
      db,
      (tx) => settleRuns(tx, segment, [success(run)]),
      () => settleRuns(db, segment, [retry(run)]),
    );
    assert.deepEqual([first.length, second.length], [1, 0]);
    assert.equal((await getRun(db, run.run_id))?.status, 'SUCCESS');
    await whole();
  });
});

describe('log and reap', () => {
  test('a reap first: the lines are refused', async () => {
    const run = await leased();
    const lines = [{ at: new Date().toISOString(), level: 'info' as const, message: 'x' }];
    const { second } = await race(
      db,
      (tx) => countReaped(tx, segment, [session], 10),
      () => appendLogs(db, segment, packLogs([{ ...run, lines }])),
    );
    assert.equal(second.size, 0);
    await whole();
  });
});

describe('extend and reap', () => {
  const expire = (): Promise<unknown> =>
    db.query({ name: '', text: `update punctual.workers set lease_until = now() - interval '1 second'`, values: [] });
  test('a renewal first: the session lives', async () => {
    await expire();
    const { first, second } = await race(
      db,
      (tx) => extendSessions(tx, [{ session_id: session, draining: false }], 10_000),
      () => expireSessions(db),
    );
    assert.equal(first.size, 1);
    assert.deepEqual(second, []);
  });
  test('an expiry first: the renewal is refused', async () => {
    await expire();
    const { first, second } = await race(
      db,
      (tx) => expireSessions(tx),
      () => extendSessions(db, [{ session_id: session, draining: false }], 10_000),
    );
    assert.equal(first.length, 1);
    assert.equal(second.size, 0);
  });
});

describe('due and due, due and edit', () => {
  test('two movers move a run once, and neither waits', async () => {
    await submit({ delay_ms: 1 });
    await new Promise((resolve) => setTimeout(resolve, 10));
    const { first, second, secondWaited } = await race(
      db,
      (tx) => moveDue(tx, segment, 10),
      () => moveDue(db, segment, 10),
    );
    assert.deepEqual([first, second, secondWaited], [1, 0, false]);
    await whole();
  });
  test('a mover first: an edit of the time takes the run out of ready again', async () => {
    const { job_id, run_id } = await submit({ delay_ms: 1 });
    await new Promise((resolve) => setTimeout(resolve, 10));
    const update = { changes: {}, schedule: { schedule_time: null, delay_ms: 60_000 }, recurring: null };
    await race(
      db,
      (tx) => moveDue(tx, segment, 10),
      () => updateJob(db, lanes, { jobId: job_id, update, ifVersion: null }),
    );
    assert.equal((await getRun(db, run_id))?.reason, 'due_later');
    assert.deepEqual(await claim(db), []);
    await whole();
  });
  test('an edit first: the mover passes by', async () => {
    const { job_id, run_id } = await submit({ delay_ms: 1 });
    await new Promise((resolve) => setTimeout(resolve, 10));
    const update = { changes: {}, schedule: { schedule_time: null, delay_ms: 60_000 }, recurring: null };
    const { second } = await race(
      db,
      (tx) => updateJob(within(tx), lanes, { jobId: job_id, update, ifVersion: null }),
      () => moveDue(db, segment, 10),
    );
    assert.equal(second, 0);
    assert.equal((await getRun(db, run_id))?.reason, 'due_later');
    await whole();
  });
});

describe('submit and submit with one key', () => {
  test('the second waits for the first and creates nothing', async () => {
    const make = (): {
      job: NewJob;
      submission: { segment: number; user_id: string; key: string; body_hash: string; job_id: string; jobs: number };
    } => {
      const prepared = prepareJob({ type: 'echo' }, Date.now());
      assert.ok(!('refused' in prepared));
      const job_id = newId('job', segment);
      return {
        job: { job: prepared, segment, job_id, run_id: firstRunId(job_id), lane_id: laneId, submission: job_id },
        submission: { segment, user_id: '', key: 'k', body_hash: 'h', job_id, jobs: 1 },
      };
    };
    const [a, b] = [make(), make()];
    const { first, second, secondWaited } = await race(
      db,
      (tx) => createJobs(tx, [a.job], [a.submission]),
      () => createJobs(db, [b.job], [b.submission]),
    );
    assert.deepEqual(first.won, [a.job.job_id]);
    assert.deepEqual(second.won, []);
    assert.ok(secondWaited);
    const [c, d] = [make(), make()];
    c.submission.key = 'same statement';
    d.submission.key = 'same statement';
    const { won } = await createJobs(db, [c.job, d.job], [c.submission, d.submission]);
    assert.equal(won.length, 1);
    const rows = await db.query<{ n: number }>({
      name: '',
      text: 'select count(*)::integer as n from punctual.jobs',
      values: [],
    });
    assert.equal(rows[0]?.n, 2);
    await whole();
  });
});

describe('redrive and redrive, run now and run now', () => {
  test('the second redrive answers the run of the first', async () => {
    const run = await leased();
    await settleRuns(db, segment, [{ ...retry(run), move: 'end', reason: 'failed' }]);
    const { first, second } = await race(
      db,
      (tx) => redriveOne(within(tx), run.run_id),
      () => redriveOne(db, run.run_id),
    );
    assert.equal(first, second);
    await whole();
  });
  test('two run-nows of a job that is done make one run', async () => {
    const run = await leased();
    await settleRuns(db, segment, [success(run)]);
    const { first, second } = await race(
      db,
      (tx) => runJobNow(within(tx), lanes, run.job_id),
      () => runJobNow(db, lanes, run.job_id),
    );
    assert.equal(first.run_id, second.run_id);
    await whole();
  });
});
