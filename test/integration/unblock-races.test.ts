// Races about dependencies, forced in both orders on connections of their own, and servers that die between two steps: the
// passes are called by hand, so nothing happens unless a test says so.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, describe, test } from 'node:test';
import type { NeedCondition } from '@punctual/contract';
import { firstRunId, newId } from '@punctual/server/internal/base/ids';
import { openMetrics } from '@punctual/server/internal/base/metrics';
import { noReadings } from '@punctual/server/internal/base/readings';
import { prepareJob } from '@punctual/server/internal/rules/job';
import { Unblocker } from '@punctual/server/internal/scheduler/unblock';
import { type ClaimedRun, claimRuns } from '@punctual/server/internal/store/claim';
import { type Database, type Queryable, within } from '@punctual/server/internal/store/database';
import { redriveOne } from '@punctual/server/internal/store/dead_letters';
import { dropUnmet } from '@punctual/server/internal/store/drop';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
import { pauseJob, resumeJob, runJobNow } from '@punctual/server/internal/store/job_moves';
import { createJobs } from '@punctual/server/internal/store/jobs';
import { meetNeeds, releaseMet } from '@punctual/server/internal/store/release';
import { cancelRun } from '@punctual/server/internal/store/run_moves';
import { getRun } from '@punctual/server/internal/store/runs';
import { settleRuns } from '@punctual/server/internal/store/settle';
import { registerSession } from '@punctual/server/internal/store/workers';
import { type Book, echoWorker, openBook } from '../support/book.ts';
import { race as raceIn } from '../support/race.ts';

const slot = { session_id: randomUUID() as string, worker_id: 'w' };
let book: Book;
let db: Database;

before(async () => {
  book = await openBook();
  ({ db } = book);
});
beforeEach(async () => {
  await book.clear('jobs', 'waiting', 'ready', 'running', 'ended_runs', 'attempts', 'dead_letters');
  await book.clear('needs', 'dependents', 'workers');
  await registerSession(db, slot, echoWorker, 60_000);
});
after(() => book.close());

interface Made {
  job_id: string;
  run_id: string;
}

/** A job in a segment, with the runs it depends on. */
async function submit(
  segment: number,
  parents: (Made & { on?: NeedCondition })[] = [],
  tx: Queryable = db,
): Promise<Made> {
  const job = prepareJob({ type: 'echo', max_retries: 0 }, Date.now());
  assert.ok(!('refused' in job));
  const job_id = newId('job', segment);
  const needs = parents.map(({ run_id, on = 'success' }, place) => ({
    job_id,
    parent_run_id: run_id,
    on,
    place,
    sole: parents.length === 1,
  }));
  const row = { job, segment, job_id, run_id: firstRunId(job_id), lane_id: book.laneId, submission: null };
  await createJobs(tx, [parents.length === 0 ? row : { ...row, needs }], []);
  return { job_id, run_id: row.run_id };
}

const segmentOf = ({ run_id }: { run_id: string }): number => Number.parseInt(run_id.slice(33), 16);

/** Claims whatever is ready in the segment of the run and ends that run. */
async function end(run: { run_id: string }, status: 'SUCCESS' | 'FAILED' | 'CANCELLED' = 'SUCCESS'): Promise<void> {
  const segment = segmentOf(run);
  const lease_id = randomUUID();
  const order = { segment, lanes: [{ lane_id: book.laneId, after: 0 }], slots: Array.from({ length: 50 }, () => slot) };
  const claimed: ClaimedRun[] = await claimRuns(db, { ...order, lease_id });
  const plain = { started: true, reason: null, attempt_outcome: null, error: null, result: null, retry_delay_ms: null };
  const settlements = claimed.map(({ run_id }) =>
    run_id === run.run_id
      ? ({ ...plain, run_id, lease_id, move: 'end', status, reason: status === 'FAILED' ? 'failed' : null } as const)
      : ({ ...plain, run_id, lease_id, move: 'release', status: 'CANCELLED', started: false } as const),
  );
  assert.equal((await settleRuns(db, segment, settlements)).length, claimed.length);
  assert.equal((await getRun(db, run.run_id))?.status, status);
}

const need = (child: Made, parent: Made) => [{ job_id: child.job_id, parent_run_id: parent.run_id }];

/** The two steps of a server whose parent ended as asked for. */
async function release(on: Database, child: Made, parent: Made): Promise<number> {
  const released = await meetNeeds(on, segmentOf(child), need(child, parent));
  return released.length + (await releaseMet(on, segmentOf(child), [child.job_id])).length;
}

/** A server that does nothing of itself. */
function server(on: Database = db): Unblocker {
  const metrics = openMetrics(noReadings);
  return new Unblocker({ db: on, metrics, segments: Array.from({ length: 16 }, (_, i) => i), onReleased: () => {} });
}

/** Does `first` in a transaction that stays open until `second` waits for it or is done, then commits. */
async function race<A, B>(
  first: (tx: Database) => Promise<A>,
  second: () => Promise<B>,
): Promise<{ first: A; second: B; waited: boolean }> {
  const { secondWaited: waited, ...results } = await raceIn(db, (tx) => first(within(tx)), second);
  return { ...results, waited };
}

const status = async ({ run_id }: { run_id: string }): Promise<string | undefined> =>
  (await getRun(db, run_id))?.status;
const latest = async ({ job_id }: { job_id: string }): Promise<{ run_id: string; status: string }> => {
  const rows = await book.query<{ run_id: string }>(
    `select run_id::text from punctual.waiting where job_id = $1 union all select run_id::text from punctual.ready where job_id = $1
     union all select run_id::text from punctual.running where job_id = $1 union all select run_id::text from punctual.ended_runs where job_id = $1
     order by 1 desc`,
    [job_id],
  );
  const run_id = rows[0]?.run_id ?? '';
  return { run_id, status: (await status({ run_id })) ?? 'none' };
};
async function whole(): Promise<void> {
  assert.deepEqual(await checkInvariants(db), []);
}

describe('parent and parent', () => {
  for (const [name, order] of [
    ['the first', [0, 1]],
    ['the second', [1, 0]],
  ] as const)
    test(`two parents end at once, ${name} a moment earlier: the child is released once`, async () => {
      const parents = [await submit(1), await submit(2)];
      const child = await submit(3, parents);
      const [early, late] = order.map((i) => parents[i] as Made) as [Made, Made];
      for (const parent of parents) await end(parent);
      // Neither sees the mark of the other, so neither releases the child; when they look again, both see that nothing is left.
      const marks = await race(
        (tx) => meetNeeds(tx, 3, need(child, early)),
        () => meetNeeds(db, 3, need(child, late)),
      );
      assert.deepEqual([marks.first, marks.second, marks.waited], [[], [], false]);
      const { first, second, waited } = await race(
        (tx) => releaseMet(tx, 3, [child.job_id]),
        () => releaseMet(db, 3, [child.job_id]),
      );
      assert.ok(waited, 'the second must wait for the first to commit');
      assert.deepEqual([first.length, second.length], [1, 0]);
      assert.equal(await status(child), 'QUEUED');
      await server().tend();
      await whole();
    });

  test('who looks before the other parent has committed releases nothing, and the other does', async () => {
    const parents = [await submit(1), await submit(2)] as [Made, Made];
    const child = await submit(3, parents);
    for (const parent of parents) await end(parent);
    const { first, second } = await race(
      (tx) => meetNeeds(tx, 3, need(child, parents[0])),
      () => release(db, child, parents[1]),
    );
    assert.deepEqual([first, second], [[], 0]);
    assert.equal((await releaseMet(db, 3, [child.job_id])).length, 1);
    await server().tend();
    await whole();
  });

  test('who ends last, or alone, releases the child with its mark', async () => {
    const parents = [await submit(1), await submit(2)] as [Made, Made];
    const [child, other] = [await submit(3, parents), await submit(3, [parents[0]])];
    for (const parent of parents) await end(parent);
    const marks = [...need(child, parents[0]), ...need(other, parents[0])];
    assert.deepEqual(await meetNeeds(db, 3, marks), [{ job_id: other.job_id, in_ms: null }]);
    assert.deepEqual(await meetNeeds(db, 3, need(child, parents[1])), [{ job_id: child.job_id, in_ms: null }]);
    await whole();
  });

  test('a need that names another run by the time it is marked is not met', async () => {
    const [parent, next] = [await submit(1), await submit(2)];
    const child = await submit(3, [parent]);
    await end(parent);
    const renamed = `with was as (delete from punctual.needs where job_id = $1 returning *)
      insert into punctual.needs select segment, job_id, $2, place, on_condition from was`;
    const { second, waited } = await race(
      (tx) => tx.query({ name: '', text: renamed, values: [child.job_id, next.run_id] }),
      () => release(db, child, parent),
    );
    assert.deepEqual([second, waited, await status(child)], [0, true, 'BLOCKED']);
  });

  test('one parent succeeds and one fails at once: the child is dropped whoever is first', async () => {
    for (const failsFirst of [true, false]) {
      const [good, bad] = [await submit(1), await submit(2)];
      const child = await submit(3, [good, bad]);
      await end(good);
      await end(bad, 'FAILED');
      const succeed = (on: Database): Promise<unknown> => release(on, child, good);
      const fail = (on: Database): Promise<unknown> => dropUnmet(on, 3, need(child, bad));
      await race(failsFirst ? fail : succeed, () => (failsFirst ? succeed : fail)(db));
      assert.equal(await status(child), 'DROPPED');
      await server().tend();
      await whole();
    }
  });

  test('two servers that unblock the same children release each of them once', async () => {
    const parent = await submit(1);
    const children = [];
    for (let i = 0; i < 20; i++) children.push(await submit(i % 4, [parent]));
    await end(parent);
    const both = [server(), server()];
    for (const one of both) one.created([parent.run_id]);
    await Promise.all(both.map((one) => one.pass()));
    for (const child of children) assert.equal(await status(child), 'QUEUED');
    assert.deepEqual(await book.query('select from punctual.dependents'), []);
    await whole();
  });
});

describe('cancel and unblock', () => {
  test('a cancel first: the unblock finds nothing to release', async () => {
    const parent = await submit(1);
    const child = await submit(2, [parent]);
    await end(parent);
    const { first, second, waited } = await race(
      (tx) => cancelRun(tx, child.run_id),
      () => release(db, child, parent),
    );
    assert.ok(waited);
    assert.deepEqual([first, second], ['cancelled', 0]);
    assert.equal(await status(child), 'CANCELLED');
    await server().tend();
    await whole();
  });
  test('an unblock first: the cancel finds the run ready and ends it', async () => {
    const parent = await submit(1);
    const child = await submit(2, [parent]);
    await end(parent);
    const { first, second } = await race(
      (tx) => release(tx, child, parent),
      () => cancelRun(db, child.run_id),
    );
    assert.deepEqual([first, second], [1, 'cancelled']);
    assert.equal(await status(child), 'CANCELLED');
    await server().tend();
    await whole();
  });
  test('of a cancel and a drop whoever is first ends the run', async () => {
    for (const cancelFirst of [true, false]) {
      const parent = await submit(1);
      const child = await submit(2, [parent]);
      await end(parent, 'FAILED');
      const cancel = (on: Database): Promise<unknown> => cancelRun(on, child.run_id);
      const drop = (on: Database): Promise<unknown> => dropUnmet(on, 2, need(child, parent));
      await race(cancelFirst ? cancel : drop, () => (cancelFirst ? drop : cancel)(db));
      assert.equal(await status(child), cancelFirst ? 'CANCELLED' : 'DROPPED');
      await server().tend();
      await whole();
    }
  });
});

describe('pause and unblock', () => {
  test('a pause that puts the run back while it is released or dropped hides it for a second at most', async () => {
    for (const outcome of ['SUCCESS', 'FAILED'] as const) {
      const parent = await submit(1);
      const child = await submit(2, [parent]);
      await end(parent, outcome);
      await race(
        (tx) => pauseJob(tx, child.job_id),
        async () => {
          const one = server();
          one.created([parent.run_id]);
          await one.pass();
        },
      );
      await server().tend();
      if (outcome === 'SUCCESS') await resumeJob(db, child.job_id);
      assert.equal(await status(child), outcome === 'SUCCESS' ? 'QUEUED' : 'DROPPED');
      await whole();
    }
  });
  test('a blocked run is not run now', async () => {
    const parent = await submit(1);
    const child = await submit(2, [parent]);
    await assert.rejects(runJobNow(db, book.lanes, child.job_id), { code: 'run_blocked' });
    assert.equal(await status(child), 'BLOCKED');
    await whole();
  });
});

describe('retry of the parent and the child', () => {
  test('a retry before anybody was told of the failure: the child goes on waiting, for the new run', async () => {
    const parent = await submit(1);
    const child = await submit(2, [parent]);
    await end(parent, 'FAILED');
    const again = await redriveOne(db, parent.run_id);
    const one = server();
    one.created([parent.run_id]);
    await one.tend();
    assert.equal(await status(child), 'BLOCKED');
    await end({ run_id: again });
    one.created([again]);
    await one.pass();
    assert.equal(await status(child), 'QUEUED');
    await whole();
  });

  for (const retryFirst of [true, false])
    test(`a retry and the drop of the child meet, the ${retryFirst ? 'retry' : 'drop'} a moment earlier`, async () => {
      const parent = await submit(1);
      const child = await submit(2, [parent]);
      const further = await submit(2, [child]);
      const handler = await submit(2, [{ ...parent, on: 'failure' }]);
      await end(parent, 'FAILED');
      const drop = (on: Database) => async (): Promise<unknown> => {
        const one = server(on);
        one.created([parent.run_id]);
        return one.pass();
      };
      const retry = (on: Database) => async (): Promise<unknown> => {
        await redriveOne(on, parent.run_id);
        const one = server(on);
        one.retried(1);
        return one.pass();
      };
      await race((tx) => (retryFirst ? retry : drop)(tx)(), (retryFirst ? drop : retry)(db));
      await server().tend();
      const [letter] = await book.query<{ id: string }>(
        'select redriven_run_id::text as id from punctual.dead_letters',
      );
      const children = [await latest(child), await latest(further)];
      assert.deepEqual(
        children.map((run) => run.status),
        ['BLOCKED', 'BLOCKED'],
      );
      assert.equal(await status(handler), 'QUEUED', 'the failure stays what the handler waited for');
      await end({ run_id: letter?.id ?? '' });
      await server().tend();
      assert.equal(await status(children[0] ?? { run_id: '' }), 'QUEUED');
      await whole();
    });

  test('a child that comes to depend on a run that was tried again before waits for the new run', async () => {
    const parent = await submit(1);
    await end(parent, 'FAILED');
    const again = await redriveOne(db, parent.run_id);
    const child = await submit(2, [parent]);
    const one = server();
    one.created([parent.run_id]);
    await one.pass();
    assert.equal(await status(child), 'BLOCKED');
    await end({ run_id: again });
    await one.tend();
    assert.equal(await status(child), 'QUEUED');
    await whole();
  });

  test('a child that depends on a run and on the run that does it again needs only that one', async () => {
    const parent = await submit(1);
    await end(parent, 'FAILED');
    const again = { job_id: parent.job_id, run_id: await redriveOne(db, parent.run_id) };
    const child = await submit(2, [parent, again]);
    const one = server();
    one.created([parent.run_id, again.run_id]);
    await one.pass();
    assert.equal(await status(child), 'BLOCKED');
    await end(again);
    await one.tend();
    await one.tend();
    assert.equal(await status(child), 'QUEUED');
    await whole();
  });
});

describe('a server that dies', () => {
  test('after the parent ended and before anybody was told, it costs one look of another server', async () => {
    const [good, bad, gone] = [await submit(1), await submit(2), await submit(3)];
    const children = [await submit(4, [good]), await submit(4, [bad]), await submit(4, [gone])];
    const below = await submit(5, [children[1] as Made]);
    await end(good);
    await end(bad, 'FAILED');
    await cancelRun(db, gone.run_id);
    await server().tend();
    assert.deepEqual(await Promise.all(children.map(status)), ['QUEUED', 'DROPPED', 'DROPPED']);
    assert.equal(await status(below), 'DROPPED');
    await whole();
  });

  test('after the child was released and before that was noted, nothing happens twice', async () => {
    const parent = await submit(1);
    const child = await submit(2, [parent]);
    await end(parent);
    await release(db, child, parent);
    const two = server();
    two.created([parent.run_id]);
    await two.pass();
    assert.equal(await status(child), 'QUEUED');
    assert.deepEqual(await book.query('select from punctual.dependents'), []);
    await whole();
  });

  test('in the middle of bringing a tree back, another goes on where it was', async () => {
    const root = await submit(1);
    const chain = [root];
    for (let i = 0; i < 6; i++) chain.push(await submit(i % 3, [chain.at(-1) as Made]));
    await end(root, 'FAILED');
    await server().tend();
    for (const one of chain.slice(1)) assert.equal(await status(one), 'DROPPED');
    const again = await redriveOne(db, root.run_id);
    // Each of these servers dies at its second, third, … statement that changes something.
    for (let statements = 1; statements <= 12; statements++) {
      let left = statements;
      const dying: Database = {
        ...db,
        query: async (statement) => {
          if (left-- <= 0) throw new Error('killed');
          return db.query(statement);
        },
      };
      await server(dying)
        .tend()
        .catch((error: Error) => assert.equal(error.message, 'killed'));
    }
    await server().tend();
    for (const one of chain.slice(1)) assert.equal((await latest(one)).status, 'BLOCKED');
    let next = { run_id: again };
    for (const one of chain.slice(1)) {
      await end(next);
      await server().tend();
      next = await latest(one);
      assert.notEqual(next.run_id, one.run_id, 'a new run');
    }
    await end(next);
    await whole();
  });

  test('a run that is blocked although nothing is pending is found and released', async () => {
    const parent = await submit(1);
    const child = await submit(2, [parent]);
    await end(parent);
    await book.query(`update punctual.needs set state = 'met'`);
    await server().tend();
    assert.equal(await status(child), 'QUEUED');
    await whole();
  });
});

test('the safety net looks at a bounded number of runs at a time, and at all of them in turn', async () => {
  const parent = await submit(1);
  await end(parent);
  // More runs with dependents than one look takes, before the one whose end nobody told of.
  await book.query(
    `insert into punctual.dependents (segment, run_id, job_id, on_condition)
     select 1, ('01890000-0000-7000-8000-' || lpad(to_hex(i), 8, '0') || '1001')::uuid, $1, 'success'
     from generate_series(1, 5000) i`,
    [newId('job', 3)],
  );
  const child = await submit(3, [parent]);
  const one = server();
  let looks = 0;
  while ((await status(child)) === 'BLOCKED' && looks < 20) {
    await one.tend();
    looks++;
  }
  assert.equal(looks, 3);
  await book.clear('dependents');
  await whole();
});

test('an end that nobody told of is noted also when the child was cancelled meanwhile', async () => {
  const parent = await submit(1);
  const child = await submit(2, [parent]);
  await end(parent);
  await cancelRun(db, child.run_id);
  await server().tend();
  assert.equal(await status(child), 'CANCELLED');
  assert.deepEqual(await book.query('select from punctual.dependents'), []);
  await whole();
});
