// Claims under the limits of queues and types, forced to meet: whoever comes second counts what the first has taken.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, test } from 'node:test';
import { firstRunId, newId } from '@punctual/server/internal/base/ids';
import { prepareJob } from '@punctual/server/internal/rules/job';
import { claimLimited, type LimitedClaim } from '@punctual/server/internal/store/claim_limited';
import { type Database, within } from '@punctual/server/internal/store/database';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
import { createJobs } from '@punctual/server/internal/store/jobs';
import { setLaneLimit } from '@punctual/server/internal/store/queues';
import { settleRuns, settleSuccesses } from '@punctual/server/internal/store/settle';
import { registerSession } from '@punctual/server/internal/store/workers';
import { type Book, echoWorker, openBook } from '../support/book.ts';
import { race } from '../support/race.ts';

const slot = { session_id: randomUUID(), worker_id: 'w' };
let book: Book;
let db: Database;

before(async () => {
  book = await openBook();
  db = book.db;
  await registerSession(db, slot, echoWorker, 600_000);
});
beforeEach(() =>
  book.clear('jobs', 'waiting', 'ready', 'running', 'ended_runs', 'attempts', 'lane_limits', 'lane_holds'),
);
after(async () => {
  assert.deepEqual(await checkInvariants(db), []);
  await book.close();
});

async function fill(segment: number, n: number, fields: object = {}): Promise<void> {
  const job = prepareJob({ type: 'echo', ...fields }, Date.now());
  assert.ok(!('refused' in job));
  const rows = Array.from({ length: n }, () => {
    const job_id = newId('job', segment);
    return { job, segment, job_id, run_id: firstRunId(job_id), lane_id: book.laneId, submission: null };
  });
  await createJobs(db, rows, []);
}

const queue = { kind: 'queue', name: 'default' } as const;
const type = { kind: 'type', name: 'echo' } as const;

const claim = (
  tx: Database,
  segment = 0,
  limits: { queue: typeof queue | null; type: typeof type | null } = { queue: null, type },
): Promise<LimitedClaim & { lease_id: string }> => {
  const lease_id = randomUUID();
  const lanes = [{ lane_id: book.laneId, after: 0, limits }];
  const slots = Array.from({ length: 5 }, () => slot);
  return claimLimited(tx, { segment, lanes, slots, lease_id }).then((claimed) => ({ ...claimed, lease_id }));
};

test('N + 2 claimers of a limit of N, in several segments, get N runs together', async () => {
  for (const segment of [0, 1, 2, 3]) await fill(segment, 10);
  await setLaneLimit(db, 'type', 'echo', { max_concurrency: 3 });
  const claims = await Promise.all([0, 1, 2, 3, 0].map((segment) => claim(db, segment)));
  assert.equal(
    claims.reduce((sum, { runs }) => sum + runs.length, 0),
    3,
  );
  assert.ok(claims.every(({ cut }) => cut));
});

test('a claim that has not committed: the second waits and finds no room', async () => {
  await fill(0, 10);
  await setLaneLimit(db, 'type', 'echo', { max_concurrency: 4 });
  const { first, second, secondWaited } = await race(
    db,
    (tx) => claim(within(tx)),
    () => claim(db),
  );
  assert.equal(first.runs.length, 4);
  assert.equal(second.runs.length, 0);
  assert.ok(secondWaited);
});

test('a settle first: its place is free, and only that one', async () => {
  await fill(0, 10);
  await setLaneLimit(db, 'type', 'echo', { max_concurrency: 2 });
  const { runs, lease_id } = await claim(db);
  const done = { run_id: runs[0]?.run_id ?? '', lease_id, result: null, reason: null };
  const { second } = await race(
    db,
    (tx) => settleSuccesses(tx, 0, [done]),
    () => claim(db),
  );
  assert.equal(second.runs.length, 0, 'it had not committed');
  assert.equal((await claim(db)).runs.length, 1);
  assert.equal((await claim(db)).runs.length, 0);
});

test('a run that waits for its next attempt holds no place, and takes one when it starts again', async () => {
  await fill(0, 3, { backoff: { base_ms: 0 } });
  await setLaneLimit(db, 'type', 'echo', { max_concurrency: 1 });
  const { runs, lease_id } = await claim(db);
  const lost = {
    reason: 'failed',
    attempt_outcome: 'failed',
    error: 'no',
    result: null,
    retry_delay_ms: 60_000,
  } as const;
  await settleRuns(db, 0, [
    { run_id: runs[0]?.run_id ?? '', lease_id, move: 'retry', started: true, status: 'FAILED', ...lost },
  ]);
  assert.equal((await claim(db)).runs.length, 1);
  assert.equal((await claim(db)).runs.length, 0);
});

test('of the limit of the queue and that of the type the smaller one counts', async () => {
  await fill(0, 10);
  await setLaneLimit(db, 'type', 'echo', { max_concurrency: 4 });
  await setLaneLimit(db, 'queue', 'default', { max_concurrency: 2 });
  assert.equal((await claim(db, 0, { queue, type })).runs.length, 2);
  await setLaneLimit(db, 'queue', 'default', { max_concurrency: 9 });
  assert.equal((await claim(db, 0, { queue, type })).runs.length, 2);
});

test('a bucket gives its burst at once, then no more than its rate; a run larger than the bucket takes it whole', async () => {
  await fill(0, 10);
  await setLaneLimit(db, 'type', 'echo', { rate: { units: 1, per_ms: 3_600_000, burst: 3 } });
  const claimed = await claim(db);
  assert.equal(claimed.runs.length, 3);
  assert.ok(claimed.cut && (claimed.refillMs ?? 0) > 3_000_000);
  assert.equal((await claim(db)).runs.length, 0);
  await setLaneLimit(db, 'type', 'echo', { rate: { units: 1, per_ms: 3_600_000, burst: 4 } });
  await book.clear('ready', 'jobs', 'running');
  await fill(0, 3, { units: 7 });
  assert.equal((await claim(db)).runs.length, 1);
});
