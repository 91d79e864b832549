// Pruning forced to meet what people and applications do at the same moment, in both orders; and a day that is dropped while
// runs are claimed and settled and others read.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, describe, test } from 'node:test';
import type { RetentionPolicy } from '@punctual/contract';
import { firstRunId, newId } from '@punctual/server/internal/base/ids';
import { prepareJob } from '@punctual/server/internal/rules/job';
import { claimRuns } from '@punctual/server/internal/store/claim';
import { type Database, type Queryable, within } from '@punctual/server/internal/store/database';
import { redriveOne } from '@punctual/server/internal/store/dead_letters';
import { startOf } from '@punctual/server/internal/store/history';
import { dropDay, listDays } from '@punctual/server/internal/store/history_days';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
import { runJobNow } from '@punctual/server/internal/store/job_moves';
import { findSpent, removeSpent } from '@punctual/server/internal/store/job_removal';
import { createJobs, getSubmission, type NewJob } from '@punctual/server/internal/store/jobs';
import { makePartitions } from '@punctual/server/internal/store/partitions';
import { pruneSubmissions } from '@punctual/server/internal/store/record_removal';
import { setRetention } from '@punctual/server/internal/store/retention';
import { settleSuccesses } from '@punctual/server/internal/store/settle';
import { registerSession } from '@punctual/server/internal/store/workers';
import { prune } from '@punctual/server/internal/upkeep/prune';
import pg from 'pg';
import { type Book, echoWorker, openBook } from '../support/book.ts';
import { eventually } from '../support/eventually.ts';
import { Past } from '../support/past.ts';
import { race } from '../support/race.ts';

const policy: RetentionPolicy = {
  runs_days: 30,
  logs_days: 14,
  submissions_days: 7,
  operations_days: 90,
  artifacts_days: 0,
};
const options = { policy, foreseen: false };
const highest = 'ffffffff-ffff-ffff-ffff-ffffffffffff';
const slot = { session_id: randomUUID(), worker_id: 'w' };
let book: Book;
let past: Past;
let db: Database;

before(async () => {
  book = await openBook();
  ({ db } = book);
  past = new Past(book);
  await makePartitions(db);
});
beforeEach(async () => {
  await book.clear('jobs', 'waiting', 'ready', 'running', 'ended_runs', 'attempts', 'dead_letters', 'submissions');
  await book.clear('workers', 'retention');
  await registerSession(db, slot, echoWorker, 60_000);
});
after(() => book.close());

async function whole(): Promise<void> {
  assert.deepEqual(await checkInvariants(db), []);
}

async function pruneJobs(tx: Database = db): Promise<number> {
  const { job_ids } = await findSpent(tx, startOf(0), highest, options);
  return job_ids.length === 0 ? 0 : removeSpent(tx, 0, job_ids);
}

async function newJob(tx: Queryable, key: string | null): Promise<string> {
  const prepared = prepareJob({ type: 'echo' }, Date.now());
  assert.ok(!('refused' in prepared));
  const job_id = newId('job', 0);
  const job: NewJob = {
    job: prepared,
    segment: 0,
    job_id,
    run_id: firstRunId(job_id),
    lane_id: book.laneId,
    submission: key === null ? null : job_id,
  };
  const submission = { segment: 0, user_id: '', key: key ?? '', body_hash: 'h', job_id, jobs: 1 };
  const { won } = await createJobs(tx, [job], key === null ? [] : [submission]);
  return key === null || won.includes(job_id) ? job_id : '';
}

describe('prune and run now', () => {
  test('run now first: the job has a run again and is passed by', async () => {
    const { job_id } = await past.job(40);
    const { first, second, secondWaited } = await race(
      db,
      (tx) => runJobNow(within(tx), book.lanes, job_id),
      () => pruneJobs(),
    );
    assert.deepEqual([second, secondWaited], [0, false]);
    assert.deepEqual(await past.all('ready', 'run_id'), [first.run_id]);
    assert.equal(await pruneJobs(), 0);
    await whole();
  });

  test('prune first: run now waits, and then finds no job', async () => {
    const { job_id } = await past.job(40);
    const { first, second, secondWaited } = await race(
      db,
      (tx) => pruneJobs(within(tx)),
      () => runJobNow(db, book.lanes, job_id).catch((error: Error) => error),
    );
    assert.equal(first, 1);
    assert.equal(secondWaited, true);
    assert.equal((second as { code?: string }).code, 'job_not_found');
    assert.deepEqual(await past.all('ready', 'run_id'), []);
    await whole();
  });

  test('a run that is made between the look and the lock keeps its job', async () => {
    const { job_id } = await past.job(40);
    const { job_ids } = await findSpent(db, startOf(0), highest, options);
    assert.deepEqual(job_ids, [job_id]);
    await runJobNow(db, book.lanes, job_id);
    assert.equal(await removeSpent(db, 0, job_ids), 0);
    await whole();
  });
});

describe('prune and redrive', () => {
  test('redrive first: the letter, its run and its job are there, and prune does not wait', async () => {
    const letter = await past.failed(40);
    const { first, secondWaited } = await race(
      db,
      (tx) => redriveOne(within(tx), letter.run_id),
      () => pruneEverything(),
    );
    assert.equal(secondWaited, false);
    assert.deepEqual(await past.all('ready', 'run_id'), [first]);
    assert.deepEqual(await past.all('jobs', 'job_id'), [letter.job_id]);
    await whole();
  });

  test('prune first: the redrive goes through all the same', async () => {
    const letter = await past.failed(40);
    const other = await past.job(40);
    const { first, second } = await race(
      db,
      (tx) => pruneJobs(within(tx)),
      () => redriveOne(db, letter.run_id),
    );
    assert.equal(first, 1);
    assert.deepEqual(await past.all('ready', 'run_id'), [second]);
    assert.ok(!(await past.all('jobs', 'job_id')).includes(other.job_id));
    await whole();
  });
});

async function pruneEverything(): Promise<void> {
  for await (const step of prune({ db, segments: [0, 1, 2, 3], policy, dryRun: false })) void step;
}

describe('prune and a submit with the same idempotency key', () => {
  const place = { segment: 0, user_id: '', key: '' };
  const age = (key: string) =>
    book.query(`update punctual.submissions set created_at = now() - interval '10 days' where key = $1`, [key]);

  test('prune first: the submit waits, and is then the first of its key', async () => {
    await newJob(db, 'k');
    await age('k');
    const { first, second, secondWaited } = await race(
      db,
      (tx) => pruneSubmissions(within(tx), place, options),
      () => newJob(db, 'k'),
    );
    assert.equal(first.removed, 1);
    assert.equal(secondWaited, true);
    assert.equal((await getSubmission(db, { segment: 0, user_id: '', key: 'k' }))?.job_id, second);
    assert.equal((await past.all('jobs', 'job_id')).length, 2);
    await whole();
  });

  test('the submit first: what it has won is young and stays', async () => {
    const { first, second } = await race(
      db,
      (tx) => newJob(tx, 'k'),
      () => pruneSubmissions(db, place, options),
    );
    assert.equal(second.removed, 0);
    assert.equal((await getSubmission(db, { segment: 0, user_id: '', key: 'k' }))?.job_id, first);
    await whole();
  });

  test('in SQL: the submit waits for prune, and is then the first of its key', async () => {
    const submit = (tx: Queryable): Promise<{ job_id: string }[]> =>
      tx.query({ name: '', text: `select punctual.submit('echo', idempotency_key => 'sql') as job_id`, values: [] });
    const [earlier] = await submit(db);
    await age('sql');
    const segments = await book.query<{ segment: number }>(
      `select segment from punctual.submissions where key = 'sql'`,
    );
    const { second } = await race(
      db,
      (tx) => pruneSubmissions(within(tx), { ...place, segment: segments[0]?.segment ?? 0 }, options),
      () => submit(db),
    );
    assert.notEqual(second[0]?.job_id, earlier?.job_id);
    assert.equal((await past.all('submissions', 'job_id'))[0], second[0]?.job_id);
  });
});

describe('prune and a new rule', () => {
  test('a rule that keeps a day is heeded even when the day was found to be over before', async () => {
    await past.day(40);
    await past.done(40);
    const [day] = await listDays(db, 'ended_runs');
    assert.ok(day);
    await setRetention(db, 'queue', 'default', { runs_days: 90 });
    assert.equal(await dropDay(db, day, [], policy), 'kept');
    assert.equal((await past.all('ended_runs', 'run_id')).length, 1);
    await book.clear('retention');
    assert.equal(await dropDay(db, day, [], policy), 'dropped');
  });

  test('who sets a rule waits for what is being removed, so that nothing goes once it is answered', async () => {
    await past.job(40);
    const { secondWaited } = await race(
      db,
      (tx) => pruneJobs(within(tx)),
      () => setRetention(db, 'queue', 'default', { runs_days: 90 }),
    );
    assert.equal(secondWaited, true);
  });
});

describe('a day is dropped while work goes on', () => {
  test('claims and settles never wait long for it, also while others hold a snapshot or read the history', async () => {
    await past.day(41);
    await past.day(40);
    for (let i = 0; i < 50; i++) await past.done(41);
    const letter = await past.failed(41);
    await past.done(40);
    const snapshot = new pg.Client(book.url);
    const reader = new pg.Client(book.url);
    await Promise.all([snapshot.connect(), reader.connect()]);
    const waits: number[] = [];
    let going = true;
    const work = async (): Promise<void> => {
      while (going) {
        const began = performance.now();
        await newJob(db, null);
        const runs = await claimRuns(db, {
          segment: 0,
          lanes: [{ lane_id: book.laneId, after: 0 }],
          slots: [slot],
          lease_id: randomUUID(),
        });
        const [held] = await book.query<{ run_id: string; lease_id: string }>(
          'select run_id, lease_id from punctual.running where run_id = $1',
          [runs[0]?.run_id],
        );
        if (held !== undefined) await settleSuccesses(db, 0, [{ ...held, result: null, reason: null }]);
        waits.push(performance.now() - began);
      }
    };
    const working = work();
    try {
      // One that has not touched the table, and one that has.
      await snapshot.query('begin isolation level repeatable read');
      await snapshot.query('select 1');
      await reader.query('begin isolation level repeatable read');
      await reader.query('select count(*) from punctual.ended_runs');
      const [first, second] = await listDays(db, 'ended_runs');
      assert.ok(first && second);
      // Work goes on before each try and after the last, however quick tries are and however slow the work.
      const worked = (more: number): Promise<void> => eventually(() => assert.ok(waits.length >= more));
      for (let i = 0; i < 5; i++) {
        await worked(i + 1);
        assert.equal(await dropDay(db, first, [letter.run_id], policy), 'busy');
      }
      await worked(6);
      await reader.query('commit');
      await drop(first, [letter.run_id]);
      await drop(second, []);
    } finally {
      going = false;
      await working;
      await Promise.all([snapshot.end(), reader.end()]);
    }
    assert.ok(waits.length > 5, `${waits.length} life cycles`);
    // Each of the five tries would hold up one; the machine itself may stand still now and then.
    const longest = waits.sort((a, b) => b - a)[3] ?? 0;
    assert.ok(longest < 1000, `some took ${longest} ms`);
    assert.deepEqual(await past.all('ended_runs_rest', 'run_id'), [letter.run_id]);
    assert.equal((await listDays(db, 'ended_runs')).length, 0);
  });

  /** As the pass does: what is busy is tried again. */
  async function drop(day: Parameters<typeof dropDay>[1], staying: readonly string[]): Promise<void> {
    for (let tries = 0; tries < 50; tries++) if ((await dropDay(db, day, staying, policy)) === 'dropped') return;
    assert.fail(`${day.name} was busy all the time`);
  }
});
