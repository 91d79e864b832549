// Claims from the entry lanes of jobs with keys, against themselves and everything that gives or takes places, forced in both
// orders on connections of their own.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, describe, test } from 'node:test';
import { firstRunId, newId } from '@punctual/server/internal/base/ids';
import { prepareJob } from '@punctual/server/internal/rules/job';
import { type Admitted, admitRuns } from '@punctual/server/internal/store/admit';
import { type ClaimedRun, claimRuns } from '@punctual/server/internal/store/claim';
import { claimKeyed, type KeyedClaim } from '@punctual/server/internal/store/claim_keyed';
import { type Database, type Queryable, within } from '@punctual/server/internal/store/database';
import { moveDue } from '@punctual/server/internal/store/due';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
import { pauseJob, resumeJob } from '@punctual/server/internal/store/job_moves';
import { createJobs, type NewJob } from '@punctual/server/internal/store/jobs';
import {
  blockKeys,
  deleteKeyLimit,
  findNeglected,
  getKeyUse,
  keysWithRoom,
  putKeyLimit,
} from '@punctual/server/internal/store/key_limits';
import type { Lane } from '@punctual/server/internal/store/lanes';
import { cancelRun } from '@punctual/server/internal/store/run_moves';
import { findSettled, type Settlement, settleRuns, settleSuccesses } from '@punctual/server/internal/store/settle';
import { registerSession } from '@punctual/server/internal/store/workers';
import { type Book, countReaped, echoWorker, openBook } from '../support/book.ts';
import { race as raceOn } from '../support/race.ts';

const segment = 0;
const slot = { session_id: randomUUID(), worker_id: 'w' };
let book: Book;
let db: Database;
let entry: Lane;
let urgent: Lane;
let admitted: Lane;

before(async () => {
  book = await openBook();
  ({ db } = book);
  const key = { queue: 'default', type: 'echo', executor: 'handler', requires: '' };
  const [five, nine] = await book.lanes.ensure([
    { ...key, priority: 5, stage: 'entry' },
    { ...key, priority: 9, stage: 'entry' },
  ]);
  [entry, urgent] = [five as Lane, nine as Lane];
  await book.lanes.ensureTwins();
  [admitted] = (await book.lanes.ensure([{ ...key, priority: 5, stage: 'admitted' }])) as [Lane];
});
beforeEach(async () => {
  await book.clear('jobs', 'waiting', 'ready', 'running', 'ended_runs', 'attempts', 'dead_letters', 'workers');
  await book.clear('key_limits', 'key_holds');
  await registerSession(db, slot, echoWorker, 600_000);
});
after(() => book.close());

async function submit(key = 'k', lane: Lane = entry): Promise<{ job_id: string; run_id: string }> {
  const prepared = prepareJob({ type: 'echo', concurrency_key: key, priority: lane.priority }, Date.now());
  assert.ok(!('refused' in prepared));
  const job_id = newId('job', segment);
  const { lane_id } = lane;
  const job: NewJob = { job: prepared, segment, job_id, run_id: firstRunId(job_id), lane_id, submission: null };
  await createJobs(db, [job], []);
  return { job_id, run_id: job.run_id };
}

async function submitMany(count: number, key = 'k'): Promise<string[]> {
  const made: string[] = [];
  for (let i = 0; i < count; i++) made.push((await submit(key)).run_id);
  return made;
}

const lease_id = randomUUID();
const order = (slots: number) => ({
  segment,
  lanes: [urgent, entry].map(({ lane_id }) => ({ lane_id, after: 0 })),
  slots: Array.from({ length: slots }, () => slot),
  lease_id,
});
const claim = (on: Database = db, slots = 100): Promise<KeyedClaim> => claimKeyed(on, order(slots));
const claimAdmitted = (tx: Queryable = db): Promise<ClaimedRun[]> =>
  claimRuns(tx, { ...order(100), lanes: [{ lane_id: admitted.lane_id, after: 0 }] });
const admit = (on: Database = db, keys: string[] = [], left: string[] = []): Promise<Admitted> =>
  admitRuns(on, { segment, entries: [], fair: new Map(), left, keys, limit: 500 });
/** As the server does after a claim has filed somebody or a place has become free. */
const follow = async (keys: readonly string[]): Promise<Admitted> =>
  admit(db, await keysWithRoom(db, segment, [...keys]));
const limitTo = (max_concurrency: number | null, key = 'k', on: Queryable = db) =>
  putKeyLimit(on, [segment], key, { max_concurrency });

const plain = {
  lease_id,
  started: true,
  reason: null,
  attempt_outcome: null,
  error: null,
  result: null,
  retry_delay_ms: null,
};
const settle = (settlement: Partial<Settlement> & { run_id: string }, tx: Queryable = db) =>
  settleRuns(tx, segment, [{ ...plain, move: 'end', status: 'SUCCESS', ...settlement }]);

const idsOf = (runs: readonly { run_id: string }[]): string[] => runs.map((run) => run.run_id);
const count = async (table: string, where = 'true'): Promise<number> =>
  (await book.query<{ n: number }>(`select count(*)::integer as n from punctual.${table} where ${where}`))[0]?.n ?? 0;
const inUse = async (key = 'k'): Promise<number> => (await getKeyUse(db, segment, key)).in_use;
async function whole(): Promise<void> {
  assert.deepEqual(await checkInvariants(db), []);
}

describe('a claim from entry lanes', () => {
  test('starts as many as there is room for, in their order, and files the rest', async () => {
    await limitTo(3);
    const runs = await submitMany(5);
    const { runs: started, filed, more } = await claim();
    assert.deepEqual(idsOf(started), runs.slice(0, 3));
    assert.deepEqual([filed.length, more], [2, false]);
    assert.equal(await count('running', `key = 'k'`), 3);
    assert.equal(await count('waiting', `reason = 'limit' and key = 'k' and priority = 5 and wake_at = 'infinity'`), 2);
    assert.equal(await count('key_holds'), 0);
    const use = await getKeyUse(db, segment, 'k');
    assert.deepEqual([use.in_use, use.holders.sort(), use.waiting], [3, runs.slice(0, 3).sort(), 2]);
    await whole();
  });

  test('looks at no more than it has slots, and says that there may be more', async () => {
    await limitTo(1);
    await submitMany(5);
    const first = await claim(db, 3);
    assert.deepEqual([first.runs.length, first.filed.length, first.more], [1, 2, true]);
    const second = await claim(db, 3);
    assert.deepEqual([second.runs.length, second.filed.length, second.more], [0, 2, false]);
    await whole();
  });

  test('lets the first lanes go first, and gives each session its slots', async () => {
    await limitTo(2);
    const other = { session_id: randomUUID(), worker_id: 'other' };
    await registerSession(db, other, echoWorker, 600_000);
    await submitMany(2);
    const { run_id } = await submit('k', urgent);
    const { runs } = await claimKeyed(db, { ...order(0), slots: [slot, other, slot] });
    assert.equal(runs[0]?.run_id, run_id);
    assert.deepEqual(
      runs.map((run) => run.slot),
      [1, 2],
    );
    const held = await book.query<{ worker_id: string }>(
      `select worker_id from punctual.running order by lane_id desc`,
    );
    assert.deepEqual(
      held.map((row) => row.worker_id),
      ['w', 'other'],
    );
    await whole();
  });

  test('follows each key by its own limit, by the default, or by none', async () => {
    await limitTo(1, '*');
    await limitTo(0, 'shut');
    await limitTo(null, 'free');
    await limitTo(2, 'two');
    for (const key of ['other', 'shut', 'free', 'two']) await submitMany(3, key);
    await claim();
    const started = async (key: string): Promise<number> => count('running', `key = '${key}'`);
    assert.deepEqual(await Promise.all(['other', 'shut', 'free', 'two'].map(started)), [1, 0, 3, 2]);
    await deleteKeyLimit(db, [segment], '*');
    await submitMany(3, 'any');
    assert.equal((await claim()).runs.length, 3);
    // A limit that is set later counts what runs already.
    await limitTo(3, 'any');
    await submit('any');
    assert.equal((await claim()).filed.length, 1);
    await whole();
  });

  test('leaves keys with a rate, or that rest, to the admitter', async () => {
    await putKeyLimit(db, [segment], 'rated', { rate: { units: 10, per_ms: 1000 } });
    await blockKeys(db, segment, [{ key: 'rests', for_ms: 60_000 }]);
    await submit('rated');
    await submit('rests');
    const { runs, filed } = await claim();
    assert.deepEqual([runs.length, filed.map((run) => run.key).sort()], [0, ['rated', 'rests']]);
    assert.equal((await follow(['rated', 'rests'])).admitted, 1);
    assert.equal((await claimAdmitted()).length, 1);
    await putKeyLimit(db, [segment], '*', { rate: { units: 10, per_ms: 1000 } });
    await submit('by default');
    assert.deepEqual([(await claim()).filed.length, (await follow(['by default'])).admitted], [1, 1]);
    await whole();
  });

  test('counts the places that admission gave away, and admission counts those of runs that a claim started', async () => {
    await limitTo(1);
    const [one, two] = await submitMany(2);
    await claim();
    await limitTo(2);
    assert.equal((await admit()).admitted, 1);
    await claimAdmitted();
    await limitTo(3);
    await submitMany(2);
    const { runs, filed } = await claim();
    assert.deepEqual([runs.length, filed.length, await inUse()], [1, 1, 3]);
    assert.equal((await follow(['k'])).admitted, 0);
    await settle({ run_id: one ?? '' });
    await settle({ run_id: two ?? '' });
    assert.equal((await follow(['k'])).admitted, 1);
    assert.equal(await inUse(), 2);
    await whole();
  });

  test('nobody overtakes those that wait under the key, even when there is room', async () => {
    await limitTo(1);
    const [one, two] = await submitMany(2);
    await claim();
    await settle({ run_id: one ?? '' });
    const [three] = await submitMany(1);
    assert.deepEqual(idsOf((await claim()).runs), []);
    assert.equal((await follow(['k'])).admitted, 1);
    assert.deepEqual(idsOf(await claimAdmitted()), [two]);
    await settle({ run_id: two ?? '' });
    assert.equal((await admit(db, ['k'])).admitted, 1);
    assert.deepEqual(idsOf(await claimAdmitted()), [three]);
    await whole();
  });

  test('a run whose job is paused meanwhile is taken with a flag, and its place is free when it is settled', async () => {
    await limitTo(1);
    const { job_id, run_id } = await submit();
    await book.query(`update punctual.jobs set paused_at = now() where job_id = '${job_id}'`);
    const { runs } = await claim();
    assert.equal(runs[0]?.flag, 'paused');
    const [settled] = await settle({ run_id, started: false, move: 'hold', status: 'CANCELLED' });
    assert.equal(settled?.key, 'k');
    assert.equal(await inUse(), 0);
    await resumeJob(db, job_id);
    assert.deepEqual(idsOf((await claim()).runs), [run_id]);
    await pauseJob(db, job_id);
    await whole();
  });
});

test('an end of which the answer was lost, or that a handler wrote in SQL, tells its key when it is reported', async () => {
  await limitTo(1);
  const [one] = await submitMany(2);
  await claim();
  await settle({ run_id: one ?? '' });
  const [found] = await findSettled(db, segment, [{ run_id: one ?? '', lease_id }]);
  assert.equal(found?.key, 'k');
});

/** Anything at all in any order; then everybody goes in the end. */
test('whatever happens in whichever order, never more than the limit and nobody is forgotten', async () => {
  const keys = ['a', 'b', 'c'];
  const pick = <T>(from: readonly T[]): T => from[Math.floor(Math.random() * from.length)] as T;
  const most = new Map<string, number>();
  let made = 0;
  const running = () =>
    book.query<{ run_id: string; lease_id: string }>('select run_id, lease_id from punctual.running');
  const acts: (() => Promise<unknown>)[] = [
    () => {
      made += 3;
      return submitMany(3, pick(keys));
    },
    () => Promise.all([claim(db, 2), claim(db, 3)]),
    () => Promise.all([claim(db, 2), follow(keys), claimAdmitted()]),
    () => limitTo(pick([0, 1, 2, 3, null]), pick([...keys, '*'])),
    () => deleteKeyLimit(db, [segment], pick([...keys, '*'])),
    async () => {
      const some = pick(await running());
      const move = pick(['end', 'retry', 'release', 'snooze'] as const);
      const moved = { ...some, move, status: 'SUCCESS', retry_delay_ms: 0 } as const;
      if (some !== undefined) await Promise.all([settle(moved), claim(db, 2), follow(keys)]);
    },
    () => moveDue(db, segment, 100),
    () => countReaped(db, segment, [slot.session_id], 2),
  ];
  for (let i = 0; i < 250; i++) {
    await pick(acts)();
    for (const key of keys) {
      const { max_concurrency, in_use, holders } = await getKeyUse(db, segment, key);
      assert.equal(new Set(holders).size, in_use, 'a run is counted once');
      const last = most.get(key) ?? 0;
      most.set(key, in_use);
      if (max_concurrency !== null && in_use > last)
        assert.ok(in_use <= max_concurrency, `${in_use} of ${key}, ${max_concurrency} allowed`);
    }
  }
  await Promise.all([...keys, '*'].map((key) => limitTo(1, key)));
  for (let i = 0; i < 3 * made && (await count('ended_runs')) < made; i++) {
    await moveDue(db, segment, 100);
    const { keys: neglected, left } = await findNeglected(db, segment, 100);
    await admit(db, neglected, left);
    await claim();
    await claimAdmitted();
    for (const one of await running()) await settle(one);
  }
  assert.equal(await count('ended_runs'), made);
  await whole();
});

describe('two at once', () => {
  test('N + 2 claimers at a limit of N start N, however they meet', async () => {
    await limitTo(3);
    await submitMany(20);
    const claims = await Promise.all(Array.from({ length: 5 }, () => claim(db, 4)));
    assert.equal(claims.flatMap(({ runs }) => runs).length, 3);
    assert.equal(await inUse(), 3);
    await whole();
  });

  test('claim and claim: the second waits for the first and counts what it took', async () => {
    await limitTo(2);
    await submitMany(2);
    const { first, second, secondWaited } = await raceOn(
      db,
      (tx) => claim(within(tx)),
      async () => {
        await submitMany(2);
        return claim();
      },
    );
    assert.ok(secondWaited);
    assert.deepEqual([first.runs.length, second.runs.length, second.filed.length], [2, 0, 2]);
    await whole();
  });

  test('claim and admission: the admission waits and finds the place taken', async () => {
    await limitTo(1);
    const [one] = await submitMany(2);
    await claim();
    await settle({ run_id: one ?? '' });
    await book.query(`with w as (delete from punctual.waiting returning *)
      insert into punctual.ready (segment, run_id, job_id, lane_id, attempts, cause, scheduled_for, due_at)
      select segment, run_id, job_id, lane_id, attempts, cause, scheduled_for, due_at from w`);
    const { first, second, secondWaited } = await raceOn(
      db,
      (tx) => claim(within(tx)),
      () => admit(db, ['k']),
    );
    assert.deepEqual([first.runs.length, second.admitted, secondWaited], [1, 0, true]);
    await whole();
  });

  test('admission and claim: the claim waits, counts who was admitted, and files behind them', async () => {
    await limitTo(1);
    const [one] = await submitMany(2);
    await claim();
    await settle({ run_id: one ?? '' });
    const { first, second, secondWaited } = await raceOn(
      db,
      (tx) => admit(within(tx), ['k']),
      async () => {
        await submitMany(1);
        return claim();
      },
    );
    assert.deepEqual([first.admitted, second.runs.length, second.filed.length, secondWaited], [1, 0, 1, true]);
    assert.equal(await inUse(), 1);
    await whole();
  });

  test('a settle that is not committed gives no place; whoever asks after both finds who was filed', async () => {
    await limitTo(1);
    const [one] = await submitMany(1);
    await claim();
    const { first, second } = await raceOn(
      db,
      (tx) => settleSuccesses(tx, segment, [{ run_id: one ?? '', lease_id, result: null, reason: null }]),
      async () => {
        await submitMany(1);
        const claimed = await claim();
        // Asked before the settle was committed: nothing to be done yet.
        assert.deepEqual(await keysWithRoom(db, segment, ['k']), []);
        return claimed;
      },
    );
    assert.deepEqual([first.settled, first.keys, second.runs.length, second.filed.length], [1, ['k'], 0, 1]);
    assert.equal((await follow(first.keys)).admitted, 1);
    await whole();
  });

  test('a claim that is not committed while a run is settled: it is asked again after the claim, and the filed one goes', async () => {
    await limitTo(1);
    const [one] = await submitMany(1);
    await claim();
    await submitMany(1);
    const { first } = await raceOn(
      db,
      (tx) => claim(within(tx)),
      async () => {
        await settle({ run_id: one ?? '' });
        assert.deepEqual(await keysWithRoom(db, segment, ['k']), []);
      },
    );
    assert.equal(first.filed.length, 1);
    assert.equal((await follow(first.filed.map((run) => run.key))).admitted, 1);
    await whole();
  });

  test('a limit that is being lowered: a claim goes by the old one until that is committed, and by the new one after it', async () => {
    await limitTo(3);
    await submitMany(2);
    const { second } = await raceOn(
      db,
      (tx) => limitTo(1, 'k', tx),
      () => claim(),
    );
    assert.equal(second.runs.length, 2);
    await submitMany(1);
    assert.equal((await claim()).filed.length, 1);
    await settle({ run_id: second.runs[0]?.run_id ?? '' });
    assert.equal((await follow(['k'])).admitted, 0, 'lowering ends nothing, and lets nobody go');
    await settle({ run_id: second.runs[1]?.run_id ?? '' });
    assert.equal((await follow(['k'])).admitted, 1);
    await whole();
  });

  test('a cancel of a run at the head: the claim passes it by, and the next one has its place', async () => {
    await limitTo(1);
    const [one, two] = await submitMany(2);
    const { first, second } = await raceOn(
      db,
      (tx) => cancelRun(within(tx), one ?? ''),
      () => claim(),
    );
    assert.equal(first, 'cancelled');
    assert.deepEqual(idsOf(second.runs), [two]);
    await whole();
  });
});

describe('a run that leaves frees its place by itself, and the next one starts', () => {
  const leave: Record<string, (run: { job_id: string; run_id: string }) => Promise<unknown>> = {
    'when it succeeds': ({ run_id }) =>
      settleSuccesses(db, segment, [{ run_id, lease_id, result: null, reason: null }]),
    'when it fails for good': ({ run_id }) => settle({ run_id, status: 'FAILED', reason: 'failed', error: 'no' }),
    'when it waits for its next attempt': ({ run_id }) =>
      settle({ run_id, move: 'retry', status: 'FAILED', attempt_outcome: 'failed', error: 'no', retry_delay_ms: 1e6 }),
    'when it snoozes': ({ run_id }) => settle({ run_id, move: 'snooze', status: 'CANCELLED', retry_delay_ms: 1e6 }),
    'when it was cancelled': async ({ run_id }) => {
      await cancelRun(db, run_id);
      await settle({ run_id, status: 'CANCELLED', reason: 'cancelled', attempt_outcome: 'cancelled' });
    },
  };
  for (const [when, act] of Object.entries(leave))
    test(when, async () => {
      await limitTo(1);
      const one = await submit();
      const two = await submit();
      await claim();
      await act(one);
      assert.equal(await inUse(), 0);
      assert.deepEqual((await findNeglected(db, segment, 10)).keys, ['k']);
      assert.equal((await follow(['k'])).admitted, 1);
      assert.deepEqual(idsOf(await claimAdmitted()), [two.run_id]);
      await whole();
    });

  const back: Record<string, (runId: string) => Promise<unknown>> = {
    'one that was never started goes back to its entry lane': (run_id) =>
      settle({ run_id, started: false, move: 'release', status: 'CANCELLED' }),
    'one whose worker was lost goes back to its entry lane': () => countReaped(db, segment, [slot.session_id], 10),
  };
  for (const [what, act] of Object.entries(back))
    test(`${what}, and waits its turn`, async () => {
      await limitTo(1);
      const one = await submit();
      const two = await submit();
      await claim();
      await act(one.run_id);
      assert.equal(await count('ready', `lane_id = ${entry.lane_id} and run_id = '${one.run_id}'`), 1);
      assert.equal(await inUse(), 0);
      assert.deepEqual(idsOf((await claim()).runs), []);
      assert.equal((await follow(['k'])).admitted, 1);
      // It was due first.
      assert.deepEqual(idsOf(await claimAdmitted()), [one.run_id]);
      await settle({ run_id: one.run_id });
      assert.equal((await admit(db, ['k'])).admitted, 1);
      assert.deepEqual(idsOf(await claimAdmitted()), [two.run_id]);
      await whole();
    });

  test('a hold from before is not counted beside the run that now holds its place by running', async () => {
    await limitTo(1);
    const [one, two] = await submitMany(2);
    await claim();
    await settle({ run_id: one ?? '' });
    await follow(['k']);
    await claimAdmitted();
    await settle({ run_id: two ?? '', move: 'retry', status: 'FAILED', retry_delay_ms: 0 });
    await limitTo(5);
    await moveDue(db, segment, 10);
    assert.equal(await count('key_holds'), 1);
    assert.deepEqual(idsOf((await claim()).runs), [two]);
    assert.equal(await inUse(), 1);
    assert.deepEqual((await findNeglected(db, segment, 10)).left, [two]);
    await whole();
  });
});
