// Admission against itself and against everything that moves runs, forced in both orders on connections of their own.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, describe, test } from 'node:test';
import { firstRunId, newId } from '@punctual/server/internal/base/ids';
import { prepareJob } from '@punctual/server/internal/rules/job';
import { type Admitted, admitRuns } from '@punctual/server/internal/store/admit';
import { type ClaimedRun, claimRuns } from '@punctual/server/internal/store/claim';
import { type Database, type Queryable, within } from '@punctual/server/internal/store/database';
import { redriveOne } from '@punctual/server/internal/store/dead_letters';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
import { cancelJob, pauseJob, resumeJob, updateJob } from '@punctual/server/internal/store/job_moves';
import { createJobs, type NewJob } from '@punctual/server/internal/store/jobs';
import {
  blockKeys,
  deleteKeyLimit,
  findNeglected,
  getKeyUse,
  pruneKeys,
  putKeyLimit,
} from '@punctual/server/internal/store/key_limits';
import type { Lane } from '@punctual/server/internal/store/lanes';
import { cancelRun } from '@punctual/server/internal/store/run_moves';
import { getRun } from '@punctual/server/internal/store/runs';
import { type Settlement, settleRuns } from '@punctual/server/internal/store/settle';
import { registerSession } from '@punctual/server/internal/store/workers';
import { type Book, countReaped, echoWorker, openBook } from '../support/book.ts';
import { race as raceOn } from '../support/race.ts';

const segment = 0;
const slot = { session_id: randomUUID(), worker_id: 'w' };
let book: Book;
let db: Database;
let entry: Lane;
let admitted: Lane;

before(async () => {
  book = await openBook();
  ({ db } = book);
  const key = { queue: 'default', type: 'echo', executor: 'handler', priority: 5, requires: '' };
  [entry] = (await book.lanes.ensure([{ ...key, stage: 'entry' }])) as [Lane];
  await book.lanes.ensureTwins();
  [admitted] = (await book.lanes.ensure([{ ...key, stage: 'admitted' }])) as [Lane];
});
beforeEach(async () => {
  await book.clear('jobs', 'waiting', 'ready', 'running', 'ended_runs', 'attempts', 'dead_letters', 'workers');
  await book.clear('key_limits', 'key_holds');
  await registerSession(db, slot, echoWorker, 60_000);
});
after(() => book.close());

async function submit(more: object = {}): Promise<{ job_id: string; run_id: string }> {
  const prepared = prepareJob({ type: 'echo', concurrency_key: 'k', ...more }, Date.now());
  assert.ok(!('refused' in prepared));
  const job_id = newId('job', segment);
  const { lane_id } = entry;
  const job: NewJob = { job: prepared, segment, job_id, run_id: firstRunId(job_id), lane_id, submission: null };
  await createJobs(db, [job], []);
  return { job_id, run_id: job.run_id };
}

async function submitMany(count: number, more: object = {}): Promise<{ job_id: string; run_id: string }[]> {
  const made: { job_id: string; run_id: string }[] = [];
  for (let i = 0; i < count; i++) made.push(await submit(more));
  return made;
}

interface News {
  left?: string[];
  keys?: string[];
  limit?: number;
}

const admit = (on: Database = db, { left = [], keys = [], limit = 500 }: News = {}): Promise<Admitted> => {
  const entries = book.lanes.entries.lanes.map(({ lane_id }) => ({ lane_id, after: 0 }));
  return admitRuns(on, { segment, entries, fair: new Map(), left, keys, limit });
};

const lease_id = randomUUID();
const claim = (tx: Queryable = db, slots = 100): Promise<ClaimedRun[]> =>
  claimRuns(tx, {
    segment,
    lanes: [{ lane_id: admitted.lane_id, after: 0 }],
    slots: Array.from({ length: slots }, () => slot),
    lease_id,
  });

const plain = {
  lease_id,
  started: true,
  reason: null,
  attempt_outcome: null,
  error: null,
  result: null,
  retry_delay_ms: null,
};
const end = (run_id: string): Settlement => ({ ...plain, run_id, move: 'end', status: 'SUCCESS' });
const retry = (run_id: string): Settlement => ({
  ...plain,
  run_id,
  move: 'retry',
  status: 'FAILED',
  attempt_outcome: 'failed',
  error: 'no',
  retry_delay_ms: 0,
});
const fail = (run_id: string): Settlement => ({
  ...plain,
  run_id,
  move: 'end',
  status: 'FAILED',
  reason: 'failed',
  error: 'no',
});
const limitTo = (max_concurrency: number | null, on: Queryable = db) =>
  putKeyLimit(on, [segment], 'k', { max_concurrency });

const count = async (table: string, where = 'true'): Promise<number> =>
  (await book.query<{ n: number }>(`select count(*)::integer as n from punctual.${table} where ${where}`))[0]?.n ?? 0;
const inUse = async (): Promise<number> =>
  (await count('running')) + (await count('ready', `lane_id = ${admitted.lane_id}`));
const laneOf = async (table: string, runId: string): Promise<number | undefined> =>
  (await book.query<{ lane_id: number }>(`select lane_id from punctual.${table} where run_id = '${runId}'`))[0]
    ?.lane_id;

async function whole(): Promise<void> {
  assert.deepEqual(await checkInvariants(db), []);
}

describe('admit and admit', () => {
  test('five admitters and five claimers at a limit of three let three go', async () => {
    await limitTo(3);
    await submitMany(12);
    const passes = await Promise.all(Array.from({ length: 5 }, () => admit(db, { limit: 3 })));
    assert.equal(
      passes.reduce((sum, pass) => sum + pass.admitted, 0),
      3,
    );
    const claims = await Promise.all(Array.from({ length: 5 }, () => claim()));
    assert.equal(claims.flat().length, 3);
    await Promise.all(Array.from({ length: 5 }, () => admit(db, { keys: ['k'] })));
    assert.equal(await inUse(), 3);
    assert.equal(await count('waiting', `reason = 'limit' and key = 'k'`), 9);
    await whole();
  });

  test('the second waits for the key and finds the places taken', async () => {
    await limitTo(2);
    await submitMany(2);
    const { first, second, secondWaited } = await raceOn(
      db,
      (tx) => admit(within(tx)),
      async () => {
        await submitMany(2);
        return admit();
      },
    );
    assert.ok(secondWaited);
    assert.deepEqual([first.admitted, second.admitted, second.filed], [2, 0, 2]);
    await whole();
  });

  test('two that meet a key for the first time make it once', async () => {
    await putKeyLimit(db, [segment], '*', { max_concurrency: 1 });
    await submit();
    const { first, second } = await raceOn(
      db,
      (tx) => admit(within(tx)),
      async () => {
        await submit();
        return admit();
      },
    );
    assert.deepEqual([first.admitted, second.admitted], [1, 0]);
    assert.equal(await inUse(), 1);
    await whole();
  });

  test('many admitters over many keys never wait in a circle', async () => {
    await putKeyLimit(db, [segment], '*', { max_concurrency: 1 });
    for (let i = 0; i < 60; i++) await submit({ concurrency_key: `k${i % 20}` });
    await Promise.all(Array.from({ length: 6 }, () => admit(db, { limit: 10 })));
    assert.equal(await inUse(), 20);
    assert.equal(await count('waiting'), 40);
    await whole();
  });
});

describe('admit and the end of a run', () => {
  test('a settle that is not committed gives no place; after it the next one goes, the highest priority first', async () => {
    await limitTo(1);
    const low = await submit({ priority: 5 });
    await admit();
    await claim();
    const [later, sooner] = await submitMany(2);
    await admit();
    await book.query(`update punctual.waiting set priority = 9 where run_id = '${sooner?.run_id}'`);
    const { second } = await raceOn(
      db,
      (tx) => settleRuns(tx, segment, [end(low.run_id)]),
      () => admit(db, { keys: ['k'] }),
    );
    assert.equal(second.admitted, 0);
    assert.equal((await admit(db, { left: [low.run_id] })).admitted, 1);
    assert.deepEqual(
      (await claim()).map((run) => run.run_id),
      [sooner?.run_id],
    );
    assert.equal(await laneOf('waiting', later?.run_id ?? ''), entry.lane_id);
    await whole();
  });

  test('a settle while an admission is under way: the next pass finds the place', async () => {
    await limitTo(1);
    const [one] = await submitMany(2);
    await admit();
    await claim();
    const { first } = await raceOn(
      db,
      (tx) => admit(within(tx), { keys: ['k'] }),
      () => settleRuns(db, segment, [end(one?.run_id ?? '')]),
    );
    assert.equal(first.admitted, 0);
    const neglected = await findNeglected(db, segment, 10);
    assert.deepEqual([neglected.keys, neglected.left], [['k'], [one?.run_id]]);
    assert.equal((await admit(db, neglected)).admitted, 1);
    assert.equal(await inUse(), 1);
    await whole();
  });

  test('a claim while an admission counts: the run is counted once, wherever it is', async () => {
    await limitTo(1);
    await submitMany(2);
    await admit();
    const { second } = await raceOn(
      db,
      (tx) => claim(tx),
      () => admit(db, { keys: ['k'] }),
    );
    assert.equal(second.admitted, 0);
    assert.equal(await inUse(), 1);
    await whole();
  });
});

describe('a run that waits again gives up its place and must be admitted again', () => {
  test('after a failed attempt', async () => {
    await limitTo(1);
    const [first, second] = await submitMany(2);
    await admit();
    await claim();
    await settleRuns(db, segment, [retry(first?.run_id ?? '')]);
    assert.equal(await laneOf('waiting', first?.run_id ?? ''), entry.lane_id);
    assert.equal((await admit(db, { left: [first?.run_id ?? ''] })).admitted, 1);
    assert.deepEqual(
      (await claim()).map((run) => run.run_id),
      [second?.run_id],
    );
    await book.query(`with due as (delete from punctual.waiting where reason = 'retry' returning *)
      insert into punctual.ready (segment, run_id, job_id, lane_id, attempts, cause, scheduled_for, due_at)
      select segment, run_id, job_id, lane_id, attempts, cause, scheduled_for, due_at from due`);
    assert.deepEqual(await claim(), []);
    assert.equal((await admit()).filed, 1);
    await whole();
  });

  test('after a pause and a change of its queue', async () => {
    await limitTo(1);
    const { job_id, run_id } = await submit();
    await admit();
    await pauseJob(db, job_id);
    assert.equal(await laneOf('waiting', run_id), entry.lane_id);
    assert.equal((await getKeyUse(db, segment, 'k')).in_use, 0);
    await resumeJob(db, job_id);
    assert.equal(await laneOf('ready', run_id), entry.lane_id);
    await admit();
    const update = { changes: { queue: 'other' }, schedule: null, recurring: null };
    await updateJob(db, book.lanes, { jobId: job_id, update, ifVersion: null });
    assert.equal((await getKeyUse(db, segment, 'k')).in_use, 0);
    await book.lanes.ensureTwins();
    assert.equal((await admit()).admitted, 1);
    assert.equal((await getKeyUse(db, segment, 'k')).in_use, 1);
    await whole();
  });

  test('when it failed for good and is redriven', async () => {
    await limitTo(1);
    const { run_id } = await submit();
    await admit();
    await claim();
    await settleRuns(db, segment, [fail(run_id)]);
    const again = await redriveOne(db, run_id);
    assert.equal(await laneOf('ready', again), entry.lane_id);
    assert.equal((await admit()).admitted, 1);
    await whole();
  });

  test('one that was never started, or whose worker was lost, keeps it', async () => {
    await limitTo(1);
    const run_id = (await submitMany(2))[0]?.run_id ?? '';
    await admit();
    await claim();
    await settleRuns(db, segment, [{ ...plain, started: false, run_id, move: 'release', status: 'CANCELLED' }]);
    assert.equal((await admit(db, { left: [run_id] })).admitted, 0);
    await claim();
    assert.equal(await countReaped(db, segment, [slot.session_id], 10), 1);
    assert.equal((await admit(db, { left: [run_id] })).admitted, 0);
    assert.equal(await inUse(), 1);
    await whole();
  });
});

describe('admit and cancel', () => {
  test('a cancel first: the admission passes the run by', async () => {
    const { run_id } = await submit();
    const { first, second } = await raceOn(
      db,
      (tx) => cancelRun(within(tx), run_id),
      () => admit(),
    );
    assert.deepEqual([first, second.taken.length], ['cancelled', 0]);
    await whole();
  });

  test('an admission first: the cancel waits for it, finds the run in its new lane, and the place is free again', async () => {
    await limitTo(1);
    const { run_id } = await submit();
    const { second, secondWaited } = await raceOn(
      db,
      (tx) => admit(within(tx)),
      () => cancelRun(db, run_id),
    );
    assert.deepEqual([second, secondWaited], ['cancelled', true]);
    await submit();
    assert.equal((await admit()).admitted, 1);
    await whole();
  });

  test('a cancel of the next in line while a place is given away: the one after it goes', async () => {
    await limitTo(1);
    const [held, next, last] = await submitMany(3);
    await admit();
    await cancelRun(db, held?.run_id ?? '');
    const { second } = await raceOn(
      db,
      (tx) => cancelJob(within(tx), next?.job_id ?? ''),
      () => admit(db, { left: [held?.run_id ?? ''] }),
    );
    assert.equal(second.admitted, 1);
    assert.deepEqual(
      (await claim()).map((run) => run.run_id),
      [last?.run_id],
    );
    await whole();
  });
});

describe('admit and a change of the limit', () => {
  test('lowered first: the admission waits and follows the new limit', async () => {
    await limitTo(5);
    await submitMany(5);
    const { second, secondWaited } = await raceOn(
      db,
      (tx) => limitTo(2, tx),
      () => admit(),
    );
    assert.deepEqual([second.admitted, second.filed, secondWaited], [2, 3, true]);
    await whole();
  });

  test('lowered while an admission is under way: nothing is taken back, and no more go until the holders are fewer', async () => {
    await limitTo(3);
    const runs = await submitMany(5);
    const { first } = await raceOn(
      db,
      (tx) => admit(within(tx)),
      () => limitTo(1),
    );
    assert.equal(first.admitted, 3);
    await claim();
    const ids = runs.map((run) => run.run_id);
    await settleRuns(db, segment, [end(ids[0] ?? ''), end(ids[1] ?? '')]);
    assert.equal((await admit(db, { left: ids })).admitted, 0);
    await settleRuns(db, segment, [end(ids[2] ?? '')]);
    assert.equal((await admit(db, { left: ids })).admitted, 1);
    await whole();
  });

  test('raised or removed: those that wait go, in as many passes as it takes', async () => {
    await limitTo(1);
    await submitMany(30);
    await admit();
    await limitTo(11);
    assert.equal((await admit()).admitted, 10);
    await deleteKeyLimit(db, [segment], 'k');
    let more = 0;
    for (let pass = 0; pass < 4; pass++) more += (await admit(db, { limit: 5 })).admitted;
    assert.equal(more, 19);
    assert.equal(await count('waiting'), 0);
    await whole();
  });

  test('a pause that a target asked for holds all runs of the key until it is over', async () => {
    await submit();
    await blockKeys(db, segment, [{ key: 'k', for_ms: 60_000 }]);
    assert.deepEqual([(await admit()).admitted, await count('waiting')], [0, 1]);
    assert.notEqual((await getKeyUse(db, segment, 'k')).blocked_until, null);
    await book.query(`update punctual.key_limits set blocked_until = now(), look_at = now()`);
    assert.equal((await admit()).admitted, 1);
    await whole();
  });

  test('a key that is not used is forgotten, one that is in use or limited is not, and both go on', async () => {
    await limitTo(1);
    await submitMany(2);
    await submit({ concurrency_key: 'busy' });
    const idle = await submit({ concurrency_key: 'idle' });
    await admit();
    await cancelRun(db, idle.run_id);
    await admit(db, { left: [idle.run_id] });
    await book.query(`update punctual.key_limits set updated_at = now() - interval '1 hour', look_at = null`);
    assert.equal(await pruneKeys(db, segment, 100), 1);
    assert.equal(await count('key_limits', `key = 'idle'`), 0);
    await submit({ concurrency_key: 'idle' });
    assert.equal((await admit()).admitted, 1);
    await whole();
  });
});

test('a run that waits for its key is QUEUED with reason limit', async () => {
  await limitTo(0);
  const { run_id } = await submit();
  await admit();
  const run = await getRun(db, run_id);
  assert.deepEqual([run?.status, run?.reason], ['QUEUED', 'limit']);
  await whole();
});
