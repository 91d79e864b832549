// Runs are handed to workers a moment before their time, which then start them on the millisecond: never before it, never to
// a worker that does not wait, and whoever gives one back, cancels it or edits its schedule meanwhile is heeded.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import type { CreateJob, Grant } from '@punctual/contract';
import { firstRunId, newId } from '@punctual/server/internal/base/ids';
import { openLog } from '@punctual/server/internal/base/log';
import { openMetrics } from '@punctual/server/internal/base/metrics';
import { noReadings } from '@punctual/server/internal/base/readings';
import { prepareJob } from '@punctual/server/internal/rules/job';
import { prepareSchedule } from '@punctual/server/internal/rules/schedule_input';
import { planOnce } from '@punctual/server/internal/scheduler/plan';
import type { DirectGrant } from '@punctual/server/internal/store/claim';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
import { runJobNow } from '@punctual/server/internal/store/job_moves';
import { createJobs } from '@punctual/server/internal/store/jobs';
import { databaseNow, replaceSchedule } from '@punctual/server/internal/store/schedules';
import { registerSession } from '@punctual/server/internal/store/workers';
import { type Book, echoWorker, openBook } from '../support/book.ts';
import { eventually } from '../support/eventually.ts';
import { Hand, outcome } from '../support/hand.ts';
import { type House, openHouse } from '../support/house.ts';

/** A whole second: time enough to act before the run starts, on most tries. */
const far = { hand_over_ahead_ms: 1000 };

/** Creates jobs until a run comes before its time; what comes at its time, to a machine that stood still, is settled. */
async function takeEarly({ client }: House, hand: Hand, fields: Partial<CreateJob>) {
  for (let tries = 0; tries < 20; tries++) {
    const { job_id } = await client.jobs.create({ type: 'echo', ...fields });
    const runs = await hand.take();
    const at = Date.now() + 1; // it counts whole milliseconds only
    const [run] = runs;
    if (run?.job_id === job_id && run.start_in_ms !== undefined) return { job_id, run, at, inMs: run.start_in_ms };
    await client.jobs.cancel(job_id);
    await hand.call({ outcomes: runs.map((one) => outcome(one)) });
  }
  throw new Error('no run came before its time');
}

describe('before the time of a run', { concurrency: 3 }, () => {
  test('a worker that waits is handed it, with how long to wait; it counts as running from its time', async () => {
    await using house = await openHouse({ config: far, segments: 1 });
    const hand = new Hand(house.url, { slots: 4, waits: true });
    await hand.call();
    for (const schedule of [{ interval_ms: 2000, overlap: 'allow' as const }, { delay_ms: 3000 }]) {
      const { job_id, run, at, inMs } = await takeEarly(house, hand, schedule);
      const dueAt = Date.parse(run.due_at);
      // A second, and what the server does not know of the time of the database.
      assert.ok(inMs <= 3000, `${inMs}`);
      assert.ok(at + inMs >= dueAt, `it would start ${dueAt - at - inMs} ms early`);
      const { status, start_time } = await house.client.runs.get(run.run_id);
      assert.equal(status, 'RUNNING');
      assert.ok(Date.parse(start_time ?? '') >= dueAt, `${start_time} is before ${run.due_at}`);
      await house.client.jobs.cancel(job_id);
      await hand.call({ outcomes: [outcome(run, { status: 'CANCELLED' })] });
    }
  });

  test('a worker that does not say that it waits gets it at its time', async () => {
    await using house = await openHouse({ config: far, segments: 1 });
    const hand = new Hand(house.url, { slots: 4 });
    await hand.call();
    await house.client.jobs.create({ type: 'echo', interval_ms: 1000, overlap: 'allow' });
    await house.client.jobs.create({ type: 'echo', delay_ms: 1500 });
    for (let taken = 0; taken < 4; ) {
      const runs = await hand.take();
      for (const run of runs) assert.ok(Date.now() >= Date.parse(run.due_at), `${run.due_at} is yet to come`);
      for (const run of runs) assert.equal(run.start_in_ms, undefined);
      await hand.call({ outcomes: runs.map((run) => outcome(run)) });
      taken += runs.length;
    }
  });

  test('half of the slots of a worker stay free for what may start at once', async () => {
    await using house = await openHouse({ config: far, segments: 1 });
    const hand = new Hand(house.url, { slots: 4, waits: true });
    await hand.call();
    const schedule_time = new Date(Date.now() + 4000).toISOString();
    await house.client.jobs.createMany(Array.from({ length: 8 }, () => ({ type: 'echo', schedule_time })));
    const held: Grant[] = [];
    const ended: Grant[] = [];
    while (held.length + ended.length < 8) {
      const running = held.map((run) => run.run_id);
      const { runs } = await hand.call({ wait: true, running });
      const early = runs.filter((run) => run.start_in_ms !== undefined);
      held.push(...early);
      assert.ok(held.length <= 2, `${held.length} of 4 slots were taken before the time`);
      const late = runs.filter((run) => run.start_in_ms === undefined);
      // What came before its time ends when others came at it.
      const over = late.length > 0 ? [...late, ...held.splice(0)] : [];
      if (over.length > 0) await hand.call({ outcomes: over.map((run) => outcome(run)) });
      ended.push(...over);
      if (ended.length === 6 && held.length === 2) break;
    }
    await hand.call({ outcomes: held.map((run) => outcome(run)) });
  });

  test('one that is given back waits for its time again, and has lost no attempt', async () => {
    await using house = await openHouse({ config: far, segments: 1 });
    const hand = new Hand(house.url, { slots: 4, waits: true });
    await hand.call();
    await eventually(async () => {
      const { run, inMs } = await takeEarly(house, hand, { delay_ms: 2000 });
      // Back before its time, or this try shows nothing.
      await hand.call({ accept: false, outcomes: [outcome(run, { status: 'RELEASED' })] });
      const { status, reason } = await house.client.runs.get(run.run_id);
      const [again] = await hand.take();
      await hand.call({ outcomes: again === undefined ? [] : [outcome(again)] });
      assert.equal(again?.run_id, run.run_id);
      assert.equal(again.attempt_number, 1);
      assert.ok(Date.now() + 1 + (again.start_in_ms ?? 0) >= Date.parse(run.due_at), 'it would start early');
      assert.ok(inMs > 100 && Date.now() < Date.parse(run.due_at), 'too slow to show it');
      assert.equal(`${status} ${reason}`, 'QUEUED due_later');
    });
  });

  test('one that is cancelled never starts', async () => {
    let started = 0;
    const handlers = { echo: () => void started++ };
    await using house = await openHouse({ config: far, segments: 1, workers: 1, slots: 4, handlers });
    await eventually(async () => {
      const before = started;
      const { job_id, run_id = '' } = await house.client.jobs.create({ type: 'echo', delay_ms: 2000 });
      await eventually(async () => assert.notEqual((await house.client.runs.get(run_id)).start_time, null));
      await house.client.runs.cancel(run_id);
      const { status, start_time, end_time } = await house.ended(job_id);
      assert.ok(Date.parse(end_time ?? '') >= Date.parse(start_time ?? ''));
      assert.deepEqual([started, status], [before, 'CANCELLED'], 'it was cancelled too late to show it');
    });
  });

  test('a worker that is stopped gives it back, and another starts it at its time', async () => {
    const starts: { by: string; lateMs: number }[] = [];
    await using house = await openHouse({ config: far, segments: 1 });
    const handler = (by: string) => ({
      echo: (run: { due_at: string }) => void starts.push({ by, lateMs: Date.now() - Date.parse(run.due_at) }),
    });
    const first = await house.addWorker(handler('first'), { slots: 4 });
    const { job_id, run_id = '' } = await house.client.jobs.create({ type: 'echo', delay_ms: 2500 });
    await eventually(async () => assert.notEqual((await house.client.runs.get(run_id)).start_time, null));
    await first.stop();
    await house.addWorker(handler('second'), { slots: 4 });
    const { status, attempt_number } = await house.ended(job_id);
    assert.deepEqual([status, attempt_number, starts.length], ['SUCCESS', 1, 1]);
    assert.ok((starts[0]?.lateMs ?? -1) >= 0, JSON.stringify(starts));
  });

  test('workers start hundreds of runs at their time and none before it, with three servers', async () => {
    const lateMs: number[] = [];
    await using house = await openHouse({ servers: 3 });
    const handlers = {
      echo: (run: { due_at: string }) => void lateMs.push(Date.now() - Math.ceil(Date.parse(run.due_at))),
    };
    for (const server of house.servers) await house.addWorker(handlers, { slots: 50, url: server.url });
    const often = { type: 'echo', interval_ms: 1000, overlap: 'allow' as const };
    await house.client.jobs.createMany(Array.from({ length: 20 }, () => often));
    const once = Array.from({ length: 200 }, (_, i) => ({ type: 'echo', delay_ms: 1000 + i * 10 }));
    await house.client.jobs.createMany(once);
    await eventually(() => assert.ok(lateMs.length >= 300, `${lateMs.length}`));
    assert.deepEqual(
      lateMs.filter((ms) => ms < 0),
      [],
    );
  });
});

describe('planning before the time', () => {
  const segment = 0;
  const inMs = 600_000;
  const session = { session_id: randomUUID(), worker_id: 'w' };

  async function planned(book: Book, options: { offers?: boolean; aheadMs?: number } = {}) {
    const { db, lanes } = book;
    const { offers = true, aheadMs = 2 * inMs } = options;
    const grant: DirectGrant = { ...session, lease_id: randomUUID() };
    const taken = { grant, committed: () => {}, failed: () => {} };
    const acted = await planOnce(
      {
        ...{ db, lanes, metrics: openMetrics(noReadings), log: openLog('silent', 'test') },
        offerRuns: (_lane, _count, ahead) => (offers && ahead ? taken : null),
        aheadMs,
        onPlanned: () => {},
        onCancelled: () => {},
      },
      segment,
      aheadMs,
    );
    const rows = await book.query<{ on_time: boolean }>(
      `select r.started_at = o.scheduled_for as on_time from punctual.occurrences o join punctual.running r using (segment, run_id)`,
    );
    return { acted, runs: rows.map((row) => row.on_time) };
  }

  /** A job every hour, with its next time in ten minutes. */
  async function upcoming({ db, laneId, query }: Book, fields: object): Promise<string> {
    const prepared = prepareJob({ type: 'echo', interval_ms: 3_600_000, ...fields }, Date.now());
    assert.ok(!('refused' in prepared));
    const context = { now_ms: await databaseNow(db), calendar: null, key: 'k' };
    const spec = { interval_ms: 3_600_000, start_at: new Date(Date.now() + inMs).toISOString(), ...fields };
    const schedule = prepareSchedule('INTERVAL', spec, context);
    assert.ok(!('refused' in schedule), JSON.stringify(schedule));
    const job_id = newId('job', segment);
    const row = { segment, job_id, run_id: firstRunId(job_id), lane_id: laneId, submission: null };
    await createJobs(db, [{ ...row, job: { ...prepared, schedule } }], []);
    await query('update punctual.schedules set planned_until = now() where job_id = $1', [job_id]);
    return job_id;
  }

  test('a time is planned when somebody takes its run, and left until it has come when nobody does', async () => {
    const book = await openBook();
    try {
      await registerSession(book.db, session, echoWorker, 600_000);
      await upcoming(book, { overlap: 'skip' });
      const left = await planned(book, { offers: false });
      assert.deepEqual(left.runs, []);
      assert.ok(typeof left.acted === 'object' && left.acted.next?.ahead_ms === 0);
      assert.ok(left.acted.next.in_ms > inMs / 2 && left.acted.next.in_ms <= inMs, 'it is looked at again at its time');
      const taken = await planned(book);
      assert.deepEqual(taken.runs, [true]);
      assert.ok(typeof taken.acted === 'object' && taken.acted.next?.ahead_ms === 2 * inMs);
      assert.deepEqual(await checkInvariants(book.db), []);
    } finally {
      await book.close();
    }
  });

  test('while another run of the job is not done its next time is left: it may end by then', async () => {
    const book = await openBook();
    try {
      await registerSession(book.db, session, echoWorker, 600_000);
      const jobId = await upcoming(book, { overlap: 'skip' });
      await runJobNow(book.db, book.lanes, jobId);
      assert.deepEqual((await planned(book)).runs, []);
      assert.deepEqual(await book.query('select 1 from punctual.occurrences'), [], 'nothing is decided yet');
      await book.query('delete from punctual.ready');
      assert.deepEqual((await planned(book)).runs, [true]);
    } finally {
      await book.close();
    }
  });

  test('an edit after that does not make the same time again', async () => {
    const book = await openBook();
    try {
      await registerSession(book.db, session, echoWorker, 600_000);
      const jobId = await upcoming(book, { overlap: 'allow' });
      assert.deepEqual((await planned(book)).runs, [true]);
      const [{ next_ms } = { next_ms: 0 }] = await book.query<{ next_ms: number }>(
        'select (extract(epoch from scheduled_for) * 1000)::double precision as next_ms from punctual.occurrences',
      );
      // The same time again, by another rule.
      const spec = { interval_ms: 7_200_000, start_at: new Date(next_ms).toISOString(), overlap: 'allow' as const };
      const context = { now_ms: await databaseNow(book.db), calendar: null, key: 'k' };
      const schedule = prepareSchedule('INTERVAL', spec, context);
      assert.ok(!('refused' in schedule));
      assert.equal(schedule.next_ms, next_ms);
      assert.ok(await replaceSchedule(book.db, { jobId, next: schedule, paused: false }));
      await planned(book);
      assert.equal((await book.query('select 1 from punctual.occurrences')).length, 1);
      assert.deepEqual(await checkInvariants(book.db), []);
    } finally {
      await book.close();
    }
  });
});
