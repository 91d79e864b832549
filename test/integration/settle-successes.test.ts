// Settling runs that succeeded, the statement that all of them pass through: what it reads does not grow with how many have
// ended before, and it loses nothing to what changes a run in the same moment. And that such statements are planned once.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { firstRunId, newId } from '@punctual/server/internal/base/ids';
import { prepareJob } from '@punctual/server/internal/rules/job';
import { claimRuns } from '@punctual/server/internal/store/claim';
import { openDatabase, type PooledDatabase, type Queryable } from '@punctual/server/internal/store/database';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
import { createJobs } from '@punctual/server/internal/store/jobs';
import { type Lease, type Success, settleSuccesses } from '@punctual/server/internal/store/settle';
import { part, type Sql, sql, sqlPlannedOnce } from '@punctual/server/internal/store/sql';
import { registerSession } from '@punctual/server/internal/store/workers';
import pg from 'pg';
import { type Book, echoWorker, openBook } from '../support/book.ts';
import { race } from '../support/race.ts';

const segment = 0;
const session = { session_id: randomUUID(), worker_id: 'w' };
let book: Book;
/** One connection. */
let db: PooledDatabase;

before(async () => {
  book = await openBook();
  db = openDatabase({ url: book.url, poolSize: 1, queryTimeoutMs: 60_000 });
});
beforeEach(async () => {
  await book.clear('jobs', 'ready', 'running', 'ended_runs', 'workers');
  await registerSession(book.db, session, echoWorker, 600_000);
});
afterEach(async () => assert.deepEqual(await checkInvariants(book.db), []));
after(async () => {
  await db.close();
  await book.close();
});

/** Runs that a worker works on. */
async function running(by: Queryable, n: number): Promise<Lease[]> {
  const jobs = Array.from({ length: n }, () => {
    const job = prepareJob({ type: 'echo' }, Date.now());
    assert.ok(!('refused' in job));
    const job_id = newId('job', segment);
    return { job, segment, job_id, run_id: firstRunId(job_id), lane_id: book.laneId, submission: null };
  });
  await createJobs(db, jobs, []);
  const lease_id = randomUUID();
  const lanes = [{ lane_id: book.laneId, after: 0 }];
  const runs = await claimRuns(by, { segment, lanes, slots: jobs.map(() => session), lease_id });
  return runs.map(({ run_id }) => ({ run_id, lease_id }));
}

interface Way {
  by: Queryable;
  succeeded: (lease: Lease) => Success;
}

/** Those with a result take another way than those without, and both take another in a PostgreSQL before 17. */
const ways: Record<string, () => Way> = {
  'with a result': () => ({ by: db, succeeded: (lease) => ({ ...lease, result: '{"n":1}', reason: null }) }),
  'with a result, before 17': () => ({
    by: older,
    succeeded: (lease) => ({ ...lease, result: '{"n":1}', reason: null }),
  }),
  'with a reason': () => ({ by: db, succeeded: (lease) => ({ ...lease, result: null, reason: 'result_too_large' }) }),
  without: () => ({ by: db, succeeded: (lease) => ({ ...lease, result: null, reason: null }) }),
  'without, before 17': () => ({ by: older, succeeded: (lease) => ({ ...lease, result: null, reason: null }) }),
};

const older: Queryable = {
  query: (statement, deadlineMs) =>
    db.query(typeof statement === 'function' ? statement(160_000) : statement, deadlineMs),
};

function testEach(title: string, check: (way: Way) => Promise<void>): void {
  for (const [name, way] of Object.entries(ways)) test(`${title}: ${name}`, () => check(way()));
}

const ended = (): Promise<object[]> =>
  book.query('select run_id, lease_id, status::text, result from punctual.ended_runs order by run_id');

for (const count of [1, 2])
  testEach(
    `of ${count}, one that is being changed in that moment is settled when that is over`,
    async ({ by, succeeded }) => {
      const leases = await running(by, count);
      const { second, secondWaited } = await race(
        book.db,
        (tx) => tx.query(sql`update punctual.running set cancel_at = now() where run_id = ${leases[0]?.run_id}`),
        () => settleSuccesses(by, segment, leases.map(succeeded)),
      );
      assert.deepEqual([second.settled, secondWaited], [count, true]);
      assert.equal((await ended()).length, count);
    },
  );

testEach('one that another settle or a reap took in that moment is not settled again', async ({ by, succeeded }) => {
  const [taken, other] = (await running(by, 2)) as [Lease, Lease];
  const { second, secondWaited } = await race(
    book.db,
    (tx) =>
      tx.query(sql`
        with gone as (delete from punctual.running where run_id = ${taken.run_id} returning *)
        insert into punctual.ready (segment, run_id, job_id, lane_id, attempts, cause, seq, scheduled_for, due_at)
        select segment, run_id, job_id, lane_id, attempt, cause, 1, scheduled_for, due_at from gone`),
    () => settleSuccesses(by, segment, [succeeded(taken), succeeded(other)]),
  );
  assert.deepEqual([second.settled, secondWaited], [1, true]);
  assert.deepEqual(
    (await ended()).map((run) => (run as Lease).run_id),
    [other.run_id],
  );
});

testEach('a lease that goes with another run of the batch settles nothing', async ({ by, succeeded }) => {
  const [first] = (await running(by, 1)) as [Lease];
  const [second] = (await running(by, 1)) as [Lease];
  const crossed = [
    { ...first, lease_id: second.lease_id },
    { ...second, lease_id: first.lease_id },
  ];
  assert.equal((await settleSuccesses(by, segment, crossed.map(succeeded))).settled, 0);
  assert.deepEqual(await ended(), []);
  assert.equal((await settleSuccesses(by, segment, [first, second].map(succeeded))).settled, 2);
});

testEach(
  'the same success twice in a batch, and one of another lease beside it, make one outcome',
  async ({ by, succeeded }) => {
    const [lease] = (await running(by, 1)) as [Lease];
    const stranger = succeeded({ ...lease, lease_id: randomUUID() });
    const { settled } = await settleSuccesses(by, segment, [stranger, succeeded(lease), stranger, succeeded(lease)]);
    assert.equal(settled, 1);
    const { result } = succeeded(lease);
    assert.deepEqual(await ended(), [{ ...lease, status: 'SUCCESS', result }]);
    assert.equal((await settleSuccesses(by, segment, [succeeded(lease)])).settled, 0);
  },
);

// Those of one claim have one lease, and a way of their own.
for (const claims of [1, 2])
  testEach(
    `what it reads of ${claims} claims does not grow with the ended runs, even while none can be removed`,
    async ({ by, succeeded }) => {
      const snapshot = new pg.Client({ connectionString: book.url });
      await snapshot.connect();
      try {
        await snapshot.query('begin isolation level repeatable read');
        await snapshot.query('select 1');
        const each = 50;
        const read = async (): Promise<number> => {
          await db.query({ name: '', text: 'select pg_stat_force_next_flush()', values: [] });
          const [row] = await db.query<{ n: number }>({
            name: '',
            text: `select sum(idx_tup_read)::integer as n from pg_stat_user_indexes where relid = 'punctual.running'::regclass`,
            values: [],
          });
          return row?.n ?? 0;
        };
        const settle = async (): Promise<number> => {
          const leases: Lease[] = [];
          while (leases.length < each) leases.push(...(await running(by, each / claims)));
          const readBefore = await read();
          assert.equal((await settleSuccesses(by, segment, leases.map(succeeded))).settled, each);
          return (await read()) - readBefore;
        };
        for (let i = 0; i < 30; i++) await settle();
        const last = await settle();
        assert.ok(last >= each && last <= 2 * each, `${last} entries were read for ${each} runs`);
      } finally {
        await snapshot.end();
      }
    },
  );

testEach(
  'what runs all the time is planned once, the rest as PostgreSQL likes, even after failures',
  async ({ by, succeeded }) => {
    const setting = part`current_setting('plan_cache_mode') || ' ' || current_setting('enable_bitmapscan') as is`;
    const [often, seldom] = [sqlPlannedOnce`select ${setting}`, sql`select 'x' as x, ${setting}`];
    const settings = async (statement: Sql): Promise<string> =>
      (await db.query<{ is: string }>(statement))[0]?.is ?? '';
    const failing = (statement: Sql) =>
      db.transaction(async (tx) => {
        await tx.query(statement);
        throw new Error('no');
      });
    assert.equal(await settings(seldom), 'auto on');
    assert.equal(await settings(often), 'force_generic_plan off');
    await assert.rejects(failing(seldom), /no/);
    assert.equal(await settings(often), 'force_generic_plan off');
    assert.equal(await settings(seldom), 'auto on');
    await assert.rejects(failing(often), /no/);
    assert.equal(await settings(seldom), 'auto on');
    assert.equal(await settings(often), 'force_generic_plan off');

    for (let i = 0; i < 10; i++) await settleSuccesses(by, segment, (await running(by, 3)).map(succeeded));
    const plans = await db.query<{ custom: number; statements: number }>({
      name: '',
      text: `select sum(custom_plans)::integer as custom, count(*)::integer as statements from pg_prepared_statements
           where statement like '%punctual.running%' or statement like '%punctual.ready%'`,
      values: [],
    });
    assert.ok((plans[0]?.statements ?? 0) >= 3);
    assert.equal(plans[0]?.custom, 0);
  },
);
