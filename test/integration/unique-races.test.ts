// Races of submits with unique keys, forced in both orders: with each other, with claim, settle, the due mover, cancel, the
// planner and the sweep. Whoever comes second waits or passes by; the answer says what happened, and the worker has just that.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, describe, test } from 'node:test';
import type { CreateJob, JobCreated, PunctualError } from '@punctual/contract';
import { firstRunId, newId } from '@punctual/server/internal/base/ids';
import { prepareJob } from '@punctual/server/internal/rules/job';
import { prepareSchedule } from '@punctual/server/internal/rules/schedule_input';
import { type ClaimedRun, claimRuns } from '@punctual/server/internal/store/claim';
import type { Database, Queryable } from '@punctual/server/internal/store/database';
import { moveDue } from '@punctual/server/internal/store/due';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
import { cancelJob } from '@punctual/server/internal/store/job_moves';
import { getJob, type NewJob } from '@punctual/server/internal/store/jobs';
import { writePlans } from '@punctual/server/internal/store/plans';
import { getRun } from '@punctual/server/internal/store/runs';
import { readDue } from '@punctual/server/internal/store/schedules';
import { type Settlement, settleRuns } from '@punctual/server/internal/store/settle';
import { AnsweredError, createUnique, recordRefusal } from '@punctual/server/internal/store/unique_moves';
import { registerSession } from '@punctual/server/internal/store/workers';
import { sweepUniques } from '@punctual/server/internal/upkeep/uniques';
import { type Book, echoWorker, openBook } from '../support/book.ts';

const segment = 0;
const segments = 4;
const slot = { session_id: randomUUID(), worker_id: 'w' };
let book: Book;
let db: Database;

before(async () => {
  book = await openBook();
  db = book.db;
});
beforeEach(async () => {
  await book.clear('jobs', 'waiting', 'ready', 'running', 'ended_runs', 'attempts', 'submissions', 'uniques');
  await book.clear('schedules', 'occurrences', 'workers');
  await registerSession(db, slot, echoWorker, 60_000);
});
after(() => book.close());

function newJob(more: CreateJob): NewJob {
  const prepared = prepareJob({ type: 'echo', unique_key: 'k', ...more }, Date.now());
  assert.ok(!('refused' in prepared));
  const job_id = newId('job', segment);
  return { job: prepared, segment, job_id, run_id: firstRunId(job_id), lane_id: book.laneId, submission: null };
}

const once = (key: string, body_hash = 'h') => ({ segment, user_id: '', key, body_hash });

/** What a submit is answered: what happened to which job, or the job that is in the way. */
async function submit(
  on: Database,
  more: CreateJob = {},
  key: ReturnType<typeof once> | null = null,
): Promise<JobCreated> {
  const { answers } = await createUnique(on, [newJob(more)], { segments, once: key, seal: (job) => job });
  return answers[0] as JobCreated;
}
const orRefused = (answer: Promise<JobCreated>): Promise<JobCreated | PunctualError> =>
  answer.catch((error: PunctualError) => error);

const claim = (on: Queryable): Promise<ClaimedRun[]> =>
  claimRuns(on, { segment, lanes: [{ lane_id: book.laneId, after: 0 }], slots: [slot], lease_id: randomUUID() });

async function leased(more: CreateJob = {}): Promise<{ job_id: string; run_id: string; lease_id: string }> {
  const { job_id, run_id = '' } = await submit(db, more);
  const lease_id = randomUUID();
  await claimRuns(db, { segment, lanes: [{ lane_id: book.laneId, after: 0 }], slots: [slot], lease_id });
  return { job_id, run_id, lease_id };
}

const settle = (on: Queryable, lease: { run_id: string; lease_id: string }, more: Partial<Settlement> = {}) => {
  const plain = { started: true, reason: null, attempt_outcome: null, error: null, result: null, retry_delay_ms: null };
  return settleRuns(on, segment, [{ ...plain, ...lease, move: 'end', status: 'SUCCESS', ...more }]);
};

/** Does `first` in a transaction that stays open until `second` waits for it or is done, then commits or rolls back. */
async function race<A, B>(
  first: (tx: Database) => Promise<A>,
  second: () => Promise<B>,
  { commit = true } = {},
): Promise<{ first: A; second: B; secondWaited: boolean }> {
  let [done, waited] = [false, false];
  let result: A | undefined;
  let other: Promise<B> | undefined;
  const undone = new Error('rolled back');
  const outer = db.transaction(async (tx) => {
    result = await first({ query: tx.query.bind(tx), transaction: (work) => work(tx), close: async () => {} });
    other = second().finally(() => {
      done = true;
    });
    other.catch(() => {});
    for (const deadline = performance.now() + 30_000; !done && !waited && performance.now() < deadline; ) {
      const blocked = await book.query(
        `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
      );
      waited = blocked.length > 0;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    if (!commit) throw undone;
  });
  await outer.catch((error: unknown) => assert.equal(error, undone));
  return { first: result as A, second: await (other as Promise<B>), secondWaited: waited };
}

async function whole(): Promise<void> {
  assert.deepEqual(await checkInvariants(db), []);
}

const jobs = async (): Promise<number> => (await book.query('select from punctual.jobs')).length;

function isRefused(answer: JobCreated | PunctualError, job_id: string, why: RegExp): void {
  assert.ok(answer instanceof Error, JSON.stringify(answer));
  assert.deepEqual([answer.code, answer.jobId], ['unique_key_taken', job_id]);
  assert.match(answer.message, why);
}

describe('unique and unique', () => {
  test('the second waits for the commit of the first and then acts on it', async () => {
    for (const on_conflict of ['reject', 'return_existing', 'replace_payload', 'reschedule'] as const) {
      await book.clear('jobs', 'waiting', 'ready', 'uniques');
      const { first, second, secondWaited } = await race(
        (tx) => submit(tx, { payload: 'first' }),
        () => orRefused(submit(db, { payload: 'second', delay_ms: 60_000, on_conflict })),
      );
      assert.ok(secondWaited);
      assert.equal(await jobs(), 1);
      if (on_conflict === 'reject') isRefused(second, first.job_id, /has not started/);
      else assert.deepEqual([(second as JobCreated).job_id, (second as JobCreated).existing], [first.job_id, true]);
      const job = await getJob(db, first.job_id);
      const changed = on_conflict === 'replace_payload' || on_conflict === 'reschedule';
      assert.deepEqual([job?.payload, job?.version], changed ? ['second', 2] : ['first', 1]);
      assert.equal((await getRun(db, first.run_id ?? ''))?.reason, on_conflict === 'reschedule' ? 'due_later' : null);
      // From its nominal time counts how long a run may take as a whole: it moves with the due time.
      const apart = await book.query('select from punctual.waiting where scheduled_for <> due_at');
      assert.equal(apart.length, 0);
      await whole();
    }
  });
  test('when the first is rolled back, the second creates the job', async () => {
    const { second, secondWaited } = await race(
      (tx) => submit(tx),
      () => submit(db),
      { commit: false },
    );
    assert.ok(secondWaited);
    assert.equal(second.existing, undefined);
    assert.equal(await jobs(), 1);
    await whole();
  });
  test('of two that find the key free again, one creates the job', async () => {
    const { job_id } = await submit(db, { delay_ms: 60_000 });
    await cancelJob(db, job_id);
    const { first, second, secondWaited } = await race(
      (tx) => submit(tx),
      () => orRefused(submit(db)),
    );
    assert.ok(secondWaited);
    isRefused(second, first.job_id, /has not started/);
    assert.equal(await jobs(), 2);
    await whole();
  });
  test('keys of different users pass each other by', async () => {
    const { first, second, secondWaited } = await race(
      (tx) => submit(tx, { user_id: 'a' }),
      () => submit(db, { user_id: 'b' }),
    );
    assert.notEqual(first.job_id, second.job_id);
    assert.equal(secondWaited, false);
    await whole();
  });
  test('with one Idempotency-Key the second waits and gets the answer of the first', async () => {
    const { first, second, secondWaited } = await race(
      (tx) => submit(tx, {}, once('i')),
      () => submit(db, {}, once('i')).catch((error: AnsweredError) => error.earlier),
    );
    assert.ok(secondWaited);
    assert.deepEqual(JSON.parse((second as { answer: string }).answer), { jobs: [first] });
    assert.equal(await jobs(), 1);
    await whole();
  });
  test('a refusal that comes to be kept after another answer gives way to it', async () => {
    const { job_id } = await submit(db);
    const refusal = (await orRefused(submit(db, {}, once('i')))) as PunctualError;
    const { first, second } = await race(
      (tx) => submit(tx, { on_conflict: 'return_existing' }, once('i')),
      () => recordRefusal(db, once('i'), refusal).catch((error: AnsweredError) => error.earlier),
    );
    assert.equal(first.job_id, job_id);
    assert.deepEqual(JSON.parse((second as { answer: string }).answer), { jobs: [first] });
    await whole();
  });
});

describe('unique and settle', () => {
  test('a settle that has not committed: the job has not ended, and the new one is refused without waiting', async () => {
    const run = await leased();
    const { second, secondWaited } = await race(
      (tx) => settle(tx, run),
      () => orRefused(submit(db)),
    );
    isRefused(second, run.job_id, /has started/);
    assert.equal(secondWaited, false);
    assert.equal((await submit(db)).existing, undefined, 'after the commit the key is free');
    await whole();
  });
  test('an answer that names the running job does not keep it from ending', async () => {
    const run = await leased();
    const { first, second, secondWaited } = await race(
      (tx) => submit(tx, { on_conflict: 'return_existing' }),
      () => settle(db, run),
    );
    assert.deepEqual([first.job_id, first.existing], [run.job_id, true]);
    assert.equal(second.length, 1);
    assert.equal(secondWaited, false);
    await whole();
  });
});

test('a cancelled job whose run has not stopped yet holds its key only while live', async () => {
  for (const scope of [
    { unique_scope: 'live' },
    { unique_scope: 'waiting' },
    { unique_scope: 'period', unique_period_ms: 60_000 },
  ] as const) {
    const job = { ...scope, unique_key: scope.unique_scope };
    const run = await leased(job);
    await cancelJob(db, run.job_id);
    const answer = await orRefused(submit(db, job));
    if (scope.unique_scope === 'live') isRefused(answer, run.job_id, /cancelled but still running/);
    else assert.equal((answer as JobCreated).existing, undefined);
    await settle(db, run);
    if (scope.unique_scope === 'live') assert.equal((await submit(db, job)).existing, undefined);
    await book.clear('ready');
    await book.clear('jobs', 'ended_runs', 'uniques');
  }
});

for (const on_conflict of ['replace_payload', 'reschedule'] as const) {
  describe(`${on_conflict} and claim`, () => {
    test('a claim first: it waits, finds the run started and changes nothing', async () => {
      const { job_id } = await submit(db, { payload: 'old' });
      const { first, second, secondWaited } = await race(
        (tx) => claim(tx),
        () => orRefused(submit(db, { payload: 'new', on_conflict })),
      );
      assert.ok(secondWaited);
      assert.deepEqual(
        first.map((run) => run.payload),
        ['"old"'],
      );
      isRefused(second, job_id, /has started: its (payload|due time) can no longer be changed/);
      assert.deepEqual([(await getJob(db, job_id))?.payload, (await getJob(db, job_id))?.version], ['old', 1]);
      await whole();
    });
    test('a claim first, and the key held only while waiting: a job of its own is created', async () => {
      const { job_id } = await submit(db, { payload: 'old', unique_scope: 'waiting' });
      const { first, second } = await race(
        (tx) => claim(tx),
        () => submit(db, { payload: 'new', unique_scope: 'waiting', on_conflict }),
      );
      assert.deepEqual(
        first.map((run) => run.payload),
        ['"old"'],
      );
      assert.equal(second.existing, undefined);
      assert.deepEqual(
        (await claim(db)).map((run) => [run.job_id, run.payload]),
        [[second.job_id, '"new"']],
      );
      assert.equal((await getJob(db, job_id))?.payload, 'old');
      await whole();
    });
    test('a claim and a failed attempt first: it waits, and the run keeps what it began with', async () => {
      const { job_id, run_id = '' } = await submit(db, { payload: 'old' });
      const { second, secondWaited } = await race(
        async (tx) => {
          const lease_id = randomUUID();
          await claimRuns(tx, { segment, lanes: [{ lane_id: book.laneId, after: 0 }], slots: [slot], lease_id });
          const failed = { status: 'FAILED', attempt_outcome: 'failed', error: 'no', retry_delay_ms: 60_000 } as const;
          await settle(tx, { run_id, lease_id }, { move: 'retry', ...failed });
        },
        () => orRefused(submit(db, { payload: 'new', on_conflict })),
      );
      assert.ok(secondWaited);
      isRefused(second, job_id, /has started/);
      assert.deepEqual([(await getRun(db, run_id))?.reason, (await getJob(db, job_id))?.payload], ['retry', 'old']);
      await whole();
    });
    test('a claim that is rolled back: it waits, and the next claim has the new payload', async () => {
      const { job_id } = await submit(db, { payload: 'old' });
      const { second, secondWaited } = await race(
        (tx) => claim(tx),
        () => submit(db, { payload: 'new', on_conflict }),
        { commit: false },
      );
      assert.ok(secondWaited);
      assert.deepEqual([second.job_id, second.existing], [job_id, true]);
      assert.deepEqual(
        (await claim(db)).map((run) => run.payload),
        ['"new"'],
      );
      await whole();
    });
    test('it first: the claim passes by, and the next one has the new payload', async () => {
      const { job_id } = await submit(db, { payload: 'old' });
      const { first, second, secondWaited } = await race(
        (tx) => submit(tx, { payload: 'new', on_conflict }),
        () => claim(db),
      );
      assert.deepEqual([first.job_id, first.existing], [job_id, true]);
      assert.deepEqual([second, secondWaited], [[], false]);
      assert.deepEqual(
        (await claim(db)).map((run) => run.payload),
        ['"new"'],
      );
      await whole();
    });
  });
}

test('a run whose payload is replaced keeps its place among those that wait for a worker', async () => {
  const { job_id } = await submit(db, { payload: 'old' });
  await submit(db, { unique_key: 'later' });
  for (let i = 0; i < 3; i++) await submit(db, { payload: i, on_conflict: 'replace_payload' });
  assert.deepEqual(
    (await claim(db)).map((run) => [run.job_id, run.payload]),
    [[job_id, '2']],
  );
  await whole();
});

describe('reschedule and the due mover', () => {
  const due = async (): Promise<{ job_id: string; run_id?: string }> => {
    const made = await submit(db, { payload: 'old', delay_ms: 1 });
    await new Promise((resolve) => setTimeout(resolve, 10));
    return made;
  };
  test('a mover first: the run is taken out of ready again', async () => {
    const { job_id, run_id = '' } = await due();
    const { first, second, secondWaited } = await race(
      (tx) => moveDue(tx, segment, 10),
      () => submit(db, { payload: 'new', delay_ms: 60_000, on_conflict: 'reschedule' }),
    );
    assert.ok(secondWaited);
    assert.deepEqual([first, second.job_id, second.conflict_action], [1, job_id, 'rescheduled']);
    assert.equal((await getRun(db, run_id))?.reason, 'due_later');
    assert.deepEqual(await claim(db), []);
    await whole();
  });
  test('a reschedule first: the mover passes by', async () => {
    const { run_id = '' } = await due();
    const { second } = await race(
      (tx) => submit(tx, { payload: 'new', delay_ms: 60_000, on_conflict: 'reschedule' }),
      () => moveDue(db, segment, 10),
    );
    assert.equal(second, 0);
    assert.equal((await getRun(db, run_id))?.reason, 'due_later');
    await whole();
  });
});

describe('replace_payload and cancel', () => {
  test('a cancel first: it waits, and creates a job of its own', async () => {
    const { job_id } = await submit(db, { payload: 'old' });
    const { second, secondWaited } = await race(
      (tx) => cancelJob(tx, job_id),
      () => submit(db, { payload: 'new', on_conflict: 'replace_payload' }),
    );
    assert.ok(secondWaited);
    assert.equal(second.existing, undefined);
    assert.equal((await getJob(db, job_id))?.payload, 'old');
    await whole();
  });
  test('it first: the cancel waits and cancels the job with its new payload', async () => {
    const { job_id, run_id } = await submit(db, { payload: 'old' });
    const { second, secondWaited } = await race(
      (tx) => submit(tx, { payload: 'new', on_conflict: 'replace_payload' }),
      () => cancelJob(db, job_id),
    );
    assert.ok(secondWaited);
    assert.deepEqual(second.cancelled, [run_id]);
    assert.equal((await getJob(db, job_id))?.payload, 'new');
    await whole();
  });
});

describe('replace_payload of a recurring job', () => {
  /** One whose first time has come. */
  const recurring = async (): Promise<string> => {
    const now_ms = Date.now();
    const fields = { interval_ms: 3_600_000, start_at: new Date(now_ms + 100).toISOString() };
    const schedule = prepareSchedule('INTERVAL', fields, { now_ms, calendar: null, key: 'x' });
    assert.ok(!('refused' in schedule));
    const row = newJob({ ...fields, payload: 'old' });
    await createUnique(db, [{ ...row, job: { ...row.job, schedule } }], { segments, once: null, seal: (job) => job });
    await new Promise((resolve) => setTimeout(resolve, 150));
    return row.job_id;
  };
  const plan = async () => {
    const [read] = await readDue(db, segment, 10);
    assert.ok(read !== undefined);
    const ms = Number(read.next_ms);
    const time = {
      nominal_ms: ms,
      through_ms: ms,
      times: 1,
      reason: null,
      effective_ms: ms,
      blocked: false,
      note: null,
    };
    return {
      ...read,
      lane_id: book.laneId,
      plan: {
        times: [time],
        planned_until_ms: ms,
        next_ms: ms + 3_600_000,
        ended: false,
        cancel_others: false,
      },
    };
  };
  const replace = (on: Database) => submit(on, { payload: 'new', on_conflict: 'replace_payload' });

  test('and the planner: one that read before it writes nothing, and plans again', async () => {
    await recurring();
    const stale = await plan();
    const { second, secondWaited } = await race(replace, () => writePlans(db, segment, [stale]));
    assert.ok(secondWaited);
    assert.equal(second.runs, 0);
    assert.equal((await writePlans(db, segment, [await plan()])).runs, 1);
    assert.deepEqual(
      (await claim(db)).map((run) => run.payload),
      ['"new"'],
    );
    await whole();
  });
  test('and a claim first: it waits and is refused, because a run has started', async () => {
    const job_id = await recurring();
    await writePlans(db, segment, [await plan()]);
    const { first, second, secondWaited } = await race(
      (tx) => claim(tx),
      () => orRefused(replace(db)),
    );
    assert.ok(secondWaited);
    assert.deepEqual(
      first.map((run) => run.payload),
      ['"old"'],
    );
    isRefused(second, job_id, /a run of which has started/);
    await whole();
  });
  test('and a cancel first: it waits and creates a job of its own', async () => {
    const job_id = await recurring();
    const { second, secondWaited } = await race(
      (tx) => cancelJob(tx, job_id),
      () => replace(db),
    );
    assert.ok(secondWaited);
    assert.equal(second.existing, undefined);
    assert.equal((await getJob(db, job_id))?.payload, 'old');
    await whole();
  });
});

describe('unique and sweep', () => {
  const stale = async (): Promise<void> => {
    const { job_id } = await submit(db, { delay_ms: 60_000 });
    await cancelJob(db, job_id);
    await book.query(`update punctual.uniques set look_at = now() - interval '1 second'`);
  };
  test('a key that is being taken is passed by', async () => {
    await stale();
    const { first, second, secondWaited } = await race(
      (tx) => submit(tx),
      () => sweepUniques(db, [0, 1, 2, 3]),
    );
    assert.deepEqual([first.existing, second, secondWaited], [undefined, 0, false]);
    isRefused(await orRefused(submit(db)), first.job_id, /has not started/);
    await whole();
  });
  test('a key that is being forgotten is taken by who waits for it', async () => {
    await stale();
    const { first, second, secondWaited } = await race(
      (tx) => sweepUniques(tx, [0, 1, 2, 3]),
      () => submit(db),
    );
    assert.deepEqual([first, second.existing, secondWaited], [1, undefined, true]);
    isRefused(await orRefused(submit(db)), second.job_id, /has not started/);
    await whole();
  });
});
