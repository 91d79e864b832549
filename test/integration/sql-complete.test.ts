// Runs completed in SQL, in a transaction of whoever does the work: settled with its commit and fenced by the lease, whatever
// happens to the run while the transaction is open.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, describe, test } from 'node:test';
import { limits } from '@punctual/contract';
import { firstRunId, newId } from '@punctual/server/internal/base/ids';
import { openMetrics } from '@punctual/server/internal/base/metrics';
import { noReadings } from '@punctual/server/internal/base/readings';
import { settleOutcomes } from '@punctual/server/internal/dispatch/settle';
import { prepareJob } from '@punctual/server/internal/rules/job';
import { claimRuns } from '@punctual/server/internal/store/claim';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
import { createJobs } from '@punctual/server/internal/store/jobs';
import { cancelRun } from '@punctual/server/internal/store/run_moves';
import { getRun } from '@punctual/server/internal/store/runs';
import { type Lease, settleSuccesses } from '@punctual/server/internal/store/settle';
import { registerSession } from '@punctual/server/internal/store/workers';
import type pg from 'pg';
import { type Application, inTransaction, openApplication } from '../support/application.ts';
import { type Book, countReaped, echoWorker, openBook } from '../support/book.ts';

const segment = 1;
const session = randomUUID();
const slot = { session_id: session, worker_id: 'w' };
const metrics = openMetrics(noReadings);
let book: Book;
let app: Application;
let tx: pg.Client;

before(async () => {
  book = await openBook();
  app = await openApplication(book.url);
  tx = await app.connect();
  await app.query('create table effects (run_id uuid)');
});
beforeEach(async () => {
  await tx.query('rollback').catch(() => {});
  await book.clear('jobs', 'waiting', 'ready', 'running', 'ended_runs', 'attempts', 'dead_letters', 'workers');
  await app.query('delete from effects');
  await registerSession(book.db, slot, echoWorker, 60_000);
});
after(async () => {
  assert.deepEqual(await checkInvariants(book.db), []);
  await app[Symbol.asyncDispose]();
  await book.close();
});

async function leased(more: object = {}): Promise<Lease & { job_id: string }> {
  const prepared = prepareJob({ type: 'echo', ...more }, Date.now());
  assert.ok(!('refused' in prepared));
  const job_id = newId('job', segment);
  const run_id = firstRunId(job_id);
  await createJobs(book.db, [{ job: prepared, segment, job_id, run_id, lane_id: book.laneId, submission: null }], []);
  return { job_id, ...(await claim()), run_id };
}

async function claim(): Promise<{ lease_id: string }> {
  const lease_id = randomUUID();
  const order = { segment, lanes: [{ lane_id: book.laneId, after: 0 }], slots: [slot], lease_id };
  assert.equal((await claimRuns(book.db, order)).length, 1);
  return { lease_id };
}

const complete = (client: pg.ClientBase, { run_id, lease_id }: Lease, result: unknown = null): Promise<unknown> =>
  client.query('select punctual.complete($1, $2, $3)', [run_id, lease_id, JSON.stringify(result)]);

/** The effect and the completion, not committed. */
async function begin(lease: Lease): Promise<void> {
  await tx.query('begin');
  await tx.query('insert into effects values ($1)', [lease.run_id]);
  await complete(tx, lease);
}

const effects = async (): Promise<number> => (await app.query('select from effects')).length;
const isLeaseLost = (error: unknown): boolean => {
  const { code, message, hint } = error as { code: string; message: string; hint: string };
  return code === 'PU001' && message === 'lease_lost' && hint.startsWith('Roll back');
};
const fail = (lease: Lease) =>
  settleOutcomes({ db: book.db, segments: 4, metrics }, [
    { run_id: lease.run_id, lease_id: lease.lease_id, status: 'FAILED', error_message: 'no' },
  ]);
/** Ends the session, and takes its runs back as the reaper does. */
const reap = (): Promise<number> => countReaped(book.db, segment, [session], 10);

describe('commit and rollback', () => {
  test('a run completed in SQL ends with the commit, as if a server had settled it', async () => {
    const [bySql, byServer] = [await leased(), await leased()];
    await begin(bySql);
    await app.query('select from effects');
    assert.equal((await getRun(book.db, bySql.run_id))?.status, 'RUNNING');
    await tx.query('commit');
    await settleSuccesses(book.db, segment, [{ ...byServer, result: 'null', reason: null }]);
    const rows = await app.query<{ run_id: string; ended_ms: number; row: object }>(
      `select e.run_id, extract(epoch from clock_timestamp() - e.ended_at)::float * 1000 as ended_ms,
              to_jsonb(e) - array['run_id', 'job_id', 'lease_id', 'scheduled_for', 'due_at', 'started_at', 'ended_at']
              || jsonb_build_object('lease', e.lease_id = any ($1), 'times', e.started_at <= e.ended_at and e.due_at <= e.started_at, 'due', e.due_at = e.scheduled_for) as row
       from punctual.ended_runs e`,
      [[bySql.lease_id, byServer.lease_id]],
    );
    assert.equal(rows.length, 2);
    assert.deepEqual(rows[0]?.row, rows[1]?.row);
    for (const { ended_ms } of rows) assert.ok(ended_ms >= 0 && ended_ms < 60_000, String(ended_ms));
    assert.equal((await getRun(book.db, bySql.run_id))?.status, 'SUCCESS');
    assert.equal(await effects(), 1);
  });

  test('a rollback leaves the run leased as it was', async () => {
    const lease = await leased();
    await begin(lease);
    await tx.query('rollback');
    assert.equal((await getRun(book.db, lease.run_id))?.status, 'RUNNING');
    await inTransaction(tx, () => complete(tx, lease, { n: 1 }));
    assert.deepEqual((await getRun(book.db, lease.run_id))?.result, { n: 1 });
  });

  test('a result over the limit is not kept, and the run says so', async () => {
    const [fits, large] = [await leased(), await leased()];
    await complete(tx, fits, 'x'.repeat(limits.max_result_bytes - 2));
    await complete(tx, large, 'x'.repeat(limits.max_result_bytes - 1));
    const [kept, dropped] = [await getRun(book.db, fits.run_id), await getRun(book.db, large.run_id)];
    assert.deepEqual([kept?.reason, dropped?.reason, dropped?.status], [null, 'result_too_large', 'SUCCESS']);
    assert.equal(dropped?.result ?? null, null);
  });

  test('several runs are completed by one transaction, all or none', async () => {
    const [a, b, c] = [await leased(), await leased(), await leased()];
    await tx.query('begin');
    for (const lease of [a, b, c]) await complete(tx, lease);
    await settleSuccesses(book.db, segment, [{ ...b, result: null, reason: null }]);
    await assert.rejects(tx.query('commit'), isLeaseLost);
    assert.equal((await getRun(book.db, a.run_id))?.status, 'RUNNING');
    await inTransaction(tx, async () => {
      for (const lease of [a, c]) await complete(tx, lease);
    });
    assert.equal((await getRun(book.db, c.run_id))?.status, 'SUCCESS');
  });
});

describe('the fence', () => {
  test('a forged, foreign or stale lease is refused at once and changes nothing', async () => {
    const lease = await leased();
    const other = await leased();
    const forged: Lease[] = [
      { ...lease, lease_id: randomUUID() },
      { ...lease, lease_id: other.lease_id },
      { run_id: randomUUID(), lease_id: lease.lease_id },
      { run_id: `${lease.run_id.slice(0, 33)}fff`, lease_id: lease.lease_id },
      { run_id: lease.job_id, lease_id: lease.lease_id },
      { run_id: null as unknown as string, lease_id: null as unknown as string },
    ];
    for (const one of forged) await assert.rejects(complete(tx, one), isLeaseLost);
    assert.equal((await getRun(book.db, lease.run_id))?.status, 'RUNNING');
    await complete(tx, lease);
    await assert.rejects(complete(tx, lease), isLeaseLost, 'it has ended');
  });

  test('a run is completed once, also within one transaction', async () => {
    const lease = await leased();
    await begin(lease);
    await complete(tx, lease);
    await assert.rejects(tx.query('commit'), isLeaseLost);
    assert.equal(await effects(), 0);
  });

  test('a commit whose answer was lost cannot be repeated', async () => {
    const lease = await leased();
    await begin(lease);
    await tx.query('commit');
    await assert.rejects(begin(lease), isLeaseLost);
    await tx.query('rollback');
    assert.equal(await effects(), 1);
  });
});

describe('while the transaction is open', () => {
  test('a worker that is lost in its transaction does not keep its run: the reaper takes it, and the commit is refused', async () => {
    const lease = await leased();
    await begin(lease);
    assert.equal(await reap(), 1, 'the reaper passed by');
    const again = { run_id: lease.run_id, ...(await claim()) };
    await assert.rejects(tx.query('commit'), isLeaseLost);
    assert.equal(await effects(), 0);
    await begin(again);
    await tx.query('commit');
    assert.equal(await effects(), 1);
    const run = await getRun(book.db, lease.run_id);
    assert.deepEqual([run?.status, run?.attempt_number], ['SUCCESS', 2]);
  });

  test('under repeatable read the commit is refused too', async () => {
    const lease = await leased();
    await tx.query('begin isolation level repeatable read');
    await tx.query('insert into effects values ($1)', [lease.run_id]);
    await complete(tx, lease);
    await reap();
    await assert.rejects(tx.query('commit'));
    assert.equal(await effects(), 0);
    assert.equal((await getRun(book.db, lease.run_id))?.status, 'QUEUED');
  });

  test('a completion first: nothing is left to reap', async () => {
    const lease = await leased();
    await begin(lease);
    await tx.query('commit');
    assert.equal(await reap(), 0);
  });

  test('a cancel does not wait for it, and a success is still recorded as what it is', async () => {
    const lease = await leased();
    await begin(lease);
    const order = await cancelRun(book.db, lease.run_id);
    assert.ok(typeof order === 'object', 'it was told to stop');
    await tx.query('commit');
    assert.equal((await getRun(book.db, lease.run_id))?.status, 'SUCCESS');
    assert.equal(await cancelRun(book.db, lease.run_id), 'ended');
  });

  test('a failure reported before the commit counts, and the commit is refused', async () => {
    const lease = await leased();
    await begin(lease);
    const { refused } = await fail(lease);
    assert.deepEqual(refused, []);
    await assert.rejects(tx.query('commit'), isLeaseLost);
    assert.equal(await effects(), 0);
    const run = await getRun(book.db, lease.run_id);
    assert.deepEqual([run?.status, run?.reason], ['QUEUED', 'retry']);
  });

  test('a failure reported after the commit changes nothing, and is not refused', async () => {
    const lease = await leased({ max_retries: 0 });
    await begin(lease);
    await tx.query('commit');
    for (let i = 0; i < 2; i++) assert.deepEqual((await fail(lease)).refused, []);
    const run = await getRun(book.db, lease.run_id);
    assert.deepEqual([run?.status, run?.error_message, run?.attempt_number], ['SUCCESS', null, 1]);
    assert.deepEqual(await app.query('select from punctual.dead_letters'), []);
    assert.deepEqual(await app.query('select from punctual.attempts'), []);
    assert.deepEqual(await checkInvariants(book.db), []);
  });

  test('of a commit and a failure at the same moment one counts, a hundred times', async () => {
    for (let i = 0; i < 100; i++) {
      const lease = await leased();
      await begin(lease);
      const soFar = await effects();
      const commit = tx.query('commit').then(
        () => true,
        (error: unknown) => (isLeaseLost(error) ? false : assert.fail(String(error))),
      );
      const [committed] = await Promise.all([commit, fail(lease)]);
      const run = await getRun(book.db, lease.run_id);
      assert.equal(run?.status, committed ? 'SUCCESS' : 'QUEUED');
      assert.equal((await effects()) - soFar, committed ? 1 : 0);
      await book.clear('jobs', 'waiting', 'attempts', 'ended_runs');
    }
  });

  test('a session that passes over triggers does not pass over this one', async () => {
    const lease = await leased();
    await tx.query(`set session_replication_role = 'replica'`);
    await inTransaction(tx, () => complete(tx, lease));
    await tx.query('reset session_replication_role');
    assert.equal((await getRun(book.db, lease.run_id))?.status, 'SUCCESS');
  });

  test('a role that may only execute it completes, and sees nothing', async () => {
    const role = `completer_${process.pid}`;
    const lease = await leased();
    await app.query(`create role ${role} login`);
    try {
      const weak = await app.connect(role);
      await assert.rejects(complete(weak, lease), /permission denied/);
      await app.query(
        `grant usage on schema punctual to ${role}; grant execute on function punctual.complete to ${role}`,
      );
      await inTransaction(weak, () => complete(weak, lease));
      await assert.rejects(weak.query('select from punctual.completions'), /permission denied/);
      assert.equal((await getRun(book.db, lease.run_id))?.status, 'SUCCESS');
    } finally {
      await app.query(`drop owned by ${role}; drop role ${role}`);
    }
  });
});
