// Planners, edits, pauses and people who press "run now", forced to meet: each planned from what it read before the other
// wrote. One of them writes, the other writes nothing, and the ledger has each time once.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, test } from 'node:test';
import { firstRunId, newId } from '@punctual/server/internal/base/ids';
import { prepareJob } from '@punctual/server/internal/rules/job';
import { planTimes } from '@punctual/server/internal/rules/plan';
import type { ScheduleRule } from '@punctual/server/internal/rules/schedule/rule';
import { prepareSchedule } from '@punctual/server/internal/rules/schedule_input';
import { claimRuns, type DirectGrant } from '@punctual/server/internal/store/claim';
import type { Database, Queryable } from '@punctual/server/internal/store/database';
import { moveDue } from '@punctual/server/internal/store/due';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
import {
  cancelJob,
  OverdueError,
  pauseJob,
  resumeJob,
  runJobNow,
  updateJob,
} from '@punctual/server/internal/store/job_moves';
import { createJobs } from '@punctual/server/internal/store/jobs';
import type { Lanes } from '@punctual/server/internal/store/lanes';
import { type Planned, writePlans } from '@punctual/server/internal/store/plans';
import {
  beginDelays,
  type DueSchedule,
  databaseNow,
  getSchedule,
  readDue,
  releaseBlocked,
} from '@punctual/server/internal/store/schedules';
import { settleSuccesses } from '@punctual/server/internal/store/settle';
import { epochMs, part, sql } from '@punctual/server/internal/store/sql';
import { registerSession } from '@punctual/server/internal/store/workers';
import { type Book, echoWorker, openBook } from '../support/book.ts';

const segment = 0;
const session = { session_id: randomUUID(), worker_id: 'w' };
let book: Book;
let db: Database;
let lanes: Lanes;
let laneId: number;
let query: Book['query'];

before(async () => {
  book = await openBook();
  ({ db, lanes, laneId, query } = book);
  await registerSession(db, session, echoWorker, 600_000);
});
beforeEach(() => book.clear('jobs', 'schedules', 'occurrences', 'waiting', 'ready', 'running', 'ended_runs'));
after(() => book.close());

/** A job of every minute, whose last time came some seconds ago and is not planned yet. */
async function overdue(fields: object = {}): Promise<string> {
  // Not at the end of a minute: the next time must not come while a test is at work.
  const leftMs = 60_000 - (Date.now() % 60_000);
  if (leftMs < 15_000) await new Promise((resolve) => setTimeout(resolve, leftMs + 50));
  const prepared = prepareJob({ type: 'echo', cron_expression: '* * * * *', ...fields }, Date.now());
  assert.ok(!('refused' in prepared));
  const context = { now_ms: await databaseNow(db), calendar: null, key: 'k' };
  const schedule = prepareSchedule('CRON', { cron_expression: '* * * * *', ...fields }, context);
  assert.ok(!('refused' in schedule), JSON.stringify(schedule));
  const job_id = newId('job', segment);
  const job = { ...prepared, schedule };
  await createJobs(db, [{ job, segment, job_id, run_id: firstRunId(job_id), lane_id: laneId, submission: null }], []);
  await query(
    `update punctual.schedules set planned_until = date_trunc('minute', now()) - interval '1 second', next_fire_at = date_trunc('minute', now()) where job_id = $1`,
    [job_id],
  );
  return job_id;
}

const read = (tx: Queryable = db): Promise<DueSchedule[]> => readDue(tx, segment, 10);

function write(due: readonly DueSchedule[], tx: Queryable = db, grant: DirectGrant | null = null): Promise<Planned> {
  const plans = due.map((row) => ({
    job_id: row.job_id,
    turn: row.turn,
    lane_id: laneId,
    plan: planTimes({
      ...row,
      rule: JSON.parse(row.rule) as ScheduleRule,
      next_ms: Number(row.next_ms),
      planned_until_ms: Number(row.planned_until_ms),
      paused_until_ms: row.paused_until_ms === null ? null : Number(row.paused_until_ms),
      now_ms: Number(row.now_ms),
      max_catch_up_age_ms: null,
    }),
  }));
  return writePlans(tx, segment, plans, grant);
}

/** The times that were planned, as run or reason. */
async function ledger(): Promise<string[]> {
  const rows = await query<{ what: string }>(
    `select coalesce(reason::text, 'run') as what from punctual.occurrences order by scheduled_for`,
  );
  return rows.map((row) => row.what);
}

async function counts(): Promise<{ ready: number; blocked: number; running: number }> {
  const [row] = await query<{ ready: number; blocked: number; running: number }>(
    `select (select count(*)::integer from punctual.ready) as ready, (select count(*)::integer from punctual.running) as running,
            (select count(*)::integer from punctual.waiting where reason = 'overlap') as blocked`,
  );
  return row as { ready: number; blocked: number; running: number };
}

async function whole(): Promise<void> {
  assert.deepEqual(await checkInvariants(db), []);
}

const claim = (from: 'ready' | 'due' = 'ready', tx: Queryable = db) =>
  claimRuns(
    tx,
    {
      segment,
      lanes: [{ lane_id: laneId, after: 0 }],
      slots: Array.from({ length: 5 }, () => session),
      lease_id: lease,
    },
    from === 'due' ? { aheadMs: 0 } : null,
  );
const lease = randomUUID();

test('two planners that read the same: one writes', async () => {
  await overdue();
  const [first, second] = [await read(), await read()];
  assert.equal(first.length, 1);
  assert.deepEqual([(await write(first)).runs, (await write(second)).runs], [1, 0]);
  assert.deepEqual(await ledger(), ['run']);
  await whole();
});

test('a planner that froze before its commit: the other waits for it and writes nothing', async () => {
  await overdue();
  const [first, second] = [await read(), await read()];
  let secondDone = false;
  let other: Promise<Planned> | null = null;
  await db.transaction(async (tx) => {
    await write(first, tx);
    other = write(second).finally(() => {
      secondDone = true;
    });
    await new Promise((resolve) => setTimeout(resolve, 100));
    assert.equal(secondDone, false);
  });
  assert.equal((await (other as unknown as Promise<Planned>)).runs, 0);
  assert.deepEqual(await ledger(), ['run']);
  await whole();
});

test('a planner that is killed before its commit leaves nothing, and the next one plans the time', async () => {
  await overdue();
  const due = await read();
  await assert.rejects(
    db.transaction(async (tx) => {
      await write(due, tx);
      throw new Error('killed');
    }),
  );
  assert.deepEqual(await ledger(), []);
  assert.equal((await write(await read())).runs, 1);
  await whole();
});

test('two planners that lease what they read: one leases it, as a claim would, and the other nothing', async () => {
  const jobId = await overdue({ payload: { a: 1 }, max_retries: 7, timeout_ms: 5_000, run_timeout_ms: 60_000 });
  const [first, second] = [await read(), await read()];
  const won = await write(first, db, { ...session, lease_id: lease });
  const lost = await write(second, db, { ...session, lease_id: randomUUID() });
  assert.deepEqual([won.runs, lost.runs, lost.granted], [1, 0, []]);
  assert.deepEqual(await counts(), { ready: 0, blocked: 0, running: 1 });
  const [granted] = won.granted;
  assert.ok(granted !== undefined);
  const [leased] = await query<{ run_id: string; lease_id: string; attempt: number; cause: string }>(
    'select run_id, lease_id, attempt, cause::text as cause from punctual.running',
  );
  assert.deepEqual(leased, { run_id: granted.run_id, lease_id: lease, attempt: 1, cause: 'schedule' });
  assert.deepEqual(
    [granted.job_id, granted.payload, granted.max_retries, granted.timeout_ms, granted.flag, granted.attempt],
    [jobId, '{"a":1}', 7, 5_000, null, 1],
  );
  assert.ok(Number(granted.fence) > 0);
  await whole();
});

test('a run that must wait for the end of another of its job is not leased', async () => {
  await overdue();
  await write(await read());
  await query(
    `update punctual.schedules set planned_until = date_trunc('minute', now()) - interval '61 seconds', next_fire_at = date_trunc('minute', now()) - interval '1 minute'`,
  );
  await query(
    `update punctual.occurrences set scheduled_for = scheduled_for - interval '1 day', through = through - interval '1 day'`,
  );
  const written = await write(await read(), db, { ...session, lease_id: lease });
  assert.deepEqual(written.granted, []);
  assert.equal((await counts()).running, 0);
  assert.equal((await counts()).blocked, 1);
});

test('a pause between reading and leasing: nothing is leased', async () => {
  const jobId = await overdue();
  const due = await read();
  await pauseJob(db, jobId);
  const written = await write(due, db, { ...session, lease_id: lease });
  assert.deepEqual([written.runs, written.granted], [0, []]);
  assert.deepEqual(await counts(), { ready: 0, blocked: 0, running: 0 });
  await whole();
});

test('a pause between reading and writing: nothing is made, and the time is recorded as paused', async () => {
  const jobId = await overdue();
  const due = await read();
  await pauseJob(db, jobId);
  assert.equal((await write(due)).runs, 0);
  assert.deepEqual([await ledger(), await read()], [[], []]);
  await resumeJob(db, jobId);
  await write(await read());
  assert.deepEqual(await ledger(), ['paused']);
  await whole();
});

test('a cancel between reading and writing: nothing is made, ever', async () => {
  const jobId = await overdue();
  const due = await read();
  await cancelJob(db, jobId);
  assert.equal((await write(due)).runs, 0);
  assert.deepEqual([await ledger(), await read()], [[], []]);
  await whole();
});

test('an edit does not pass over a time that has come: it must be planned first', async () => {
  const jobId = await overdue();
  const context = { now_ms: await databaseNow(db), calendar: null, key: 'k' };
  const next = prepareSchedule('CRON', { cron_expression: '0 0 1 1 *' }, context);
  assert.ok(!('refused' in next));
  const edit = (): Promise<void> =>
    updateJob(db, lanes, {
      jobId,
      update: { changes: {}, schedule: null, recurring: {} },
      ifVersion: null,
      recurring: next,
    });
  await assert.rejects(edit(), OverdueError);
  const stale = await read();
  await write(await read());
  await edit();
  assert.equal((await write(stale)).runs, 0);
  assert.deepEqual(await ledger(), ['run']);
  assert.equal((await getSchedule(db, jobId))?.next_fire_at?.toISOString().slice(4), '-01-01T00:00:00.000Z');
  await whole();
});

test('run now between reading and writing: the planner reads again and lets its run wait', async () => {
  const jobId = await overdue();
  const stale = await read();
  await runJobNow(db, lanes, jobId);
  assert.equal((await write(stale)).runs, 0);
  await write(await read());
  assert.deepEqual(await counts(), { ready: 1, blocked: 1, running: 0 });
  await whole();
});

test('a run that ends while the planner thinks: the one that waits for it is let go', async () => {
  const jobId = await overdue();
  await runJobNow(db, lanes, jobId);
  const [run] = await claim();
  const due = await read();
  assert.equal(due[0]?.live, 1);
  await settleSuccesses(db, segment, [{ run_id: run?.run_id as string, lease_id: lease, result: null, reason: null }]);
  assert.equal(await releaseBlocked(db, segment, [jobId]), 0);
  await write(due);
  assert.deepEqual(await counts(), { ready: 0, blocked: 1, running: 0 });
  assert.deepEqual(
    await Promise.all([releaseBlocked(db, segment, [jobId]), releaseBlocked(db, segment, null)]).then((n) => n.sort()),
    [0, 1],
  );
  assert.deepEqual(await counts(), { ready: 1, blocked: 0, running: 0 });
  await whole();
});

test('while one run is live, none that waits is let go', async () => {
  const jobId = await overdue();
  await runJobNow(db, lanes, jobId);
  await write(await read());
  assert.equal(await releaseBlocked(db, segment, null), 0);
  await claim();
  assert.equal(await releaseBlocked(db, segment, null), 0);
  assert.deepEqual(await counts(), { ready: 0, blocked: 1, running: 1 });
  await whole();
});

test('a paused job keeps what waits for another, and run now of a job takes the one that waits', async () => {
  const jobId = await overdue();
  await runJobNow(db, lanes, jobId);
  const [run] = await claim();
  await write(await read());
  await pauseJob(db, jobId);
  await settleSuccesses(db, segment, [{ run_id: run?.run_id as string, lease_id: lease, result: null, reason: null }]);
  assert.equal(await releaseBlocked(db, segment, null), 0);
  await resumeJob(db, jobId);
  const { run_id } = await runJobNow(db, lanes, jobId);
  assert.deepEqual(await counts(), { ready: 1, blocked: 0, running: 0 });
  assert.equal((await claim())[0]?.run_id, run_id);
  await whole();
});

test('a fixed delay begins once, however many servers see the end of the run', async () => {
  const jobId = await overdue();
  await query(`update punctual.schedules set fixed_delay = true, next_fire_at = null, rule = $2 where job_id = $1`, [
    jobId,
    JSON.stringify({ type: 'INTERVAL', every_ms: 60_000, anchor_ms: 0 }),
  ]);
  const begun = await Promise.all([beginDelays(db, segment, null), beginDelays(db, segment, [jobId])]);
  assert.deepEqual(begun.sort(), [0, 1]);
  await whole();
});

test('a run that is due is leased by one: straight from where it waits, or moved and claimed', async () => {
  for (const moverFirst of [true, false]) {
    await query(`delete from punctual.ready`);
    await query(`delete from punctual.running`);
    const job_id = newId('job', segment);
    const prepared = prepareJob({ type: 'echo', delay_ms: 1 }, Date.now());
    assert.ok(!('refused' in prepared));
    const row = { job: prepared, segment, job_id, run_id: firstRunId(job_id), lane_id: laneId, submission: null };
    await createJobs(db, [row], []);
    await new Promise((resolve) => setTimeout(resolve, 10));
    const found = await db.transaction(async (tx) => {
      const first = moverFirst ? await moveDue(tx, segment, 10) : (await claim('due', tx)).length;
      const second = moverFirst ? (await claim('due')).length : await moveDue(db, segment, 10);
      return [first, second];
    });
    assert.deepEqual(found, [1, 0]);
    const { ready, running } = await counts();
    assert.equal(ready + running, 1);
    await query('delete from punctual.jobs');
    await query('delete from punctual.ready');
    await query('delete from punctual.running');
  }
  await whole();
});

test('a schedule that was looked at a hair before a time has that time still before it', async () => {
  const jobId = await overdue();
  await query(
    `update punctual.schedules set planned_until = date_trunc('minute', now()) - interval '0.4 milliseconds' where job_id = $1`,
    [jobId],
  );
  await write(await read());
  const times = await query<{ due: boolean }>(
    `select scheduled_for = date_trunc('minute', scheduled_for) as due from punctual.occurrences where job_id = $1`,
    [jobId],
  );
  assert.deepEqual(times, [{ due: true }]);
  const [cut] = await db.query<{ at: string; before: string }>(sql`
    select ${epochMs(part`timestamptz '2026-11-15 17:04:16Z'`)} as at, ${epochMs(part`timestamptz '2026-11-15 17:04:15.9999Z'`)} as before`);
  assert.equal(Number(cut?.at) - Number(cut?.before), 1);
});
