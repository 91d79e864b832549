// What people see of jobs and runs: ids whole, text of jobs harmless, and a hint that fits the state.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DeadLetter, Job, Run, Worker } from '@punctual/contract';
import {
  hintsFor,
  isServed,
  jobFields,
  jobHead,
  jobRow,
  letterFields,
  letterHead,
  letterHints,
  letterRow,
  runFields,
  runHead,
  runHints,
  runRow,
  workerHead,
  workerRow,
} from './show.ts';

const now = Date.UTC(2030, 0, 1, 12);
const before = (ms: number) => new Date(now - ms).toISOString();
const plain = (_: string, text: string) => text;

const job: Job = {
  ...{
    job_id: '0190a1b2-0000-7000-8000-000000000001',
    name: 'hello',
    type: 'echo',
    user_id: null,
    queue: 'default',
    priority: 5,
  },
  ...{
    tags: [],
    payload: { a: 1 },
    schedule_type: 'IMMEDIATE',
    schedule_time: null,
    max_retries: 3,
    timeout_ms: 3_600_000,
    run_timeout_ms: null,
  },
  ...{ backoff: { base_ms: 1_000, factor: 2, max_ms: 600_000, jitter: 0.2 }, status: 'SCHEDULED', version: 1 },
  ...{ created_at: before(60_000), updated_at: before(60_000) },
};
const run: Run = {
  ...{
    run_id: '0190a1b2-0000-7000-8000-000000000002',
    job_id: job.job_id,
    name: 'hello',
    type: 'echo',
    queue: 'default',
    priority: 5,
  },
  ...{
    user_id: null,
    cause: 'submit',
    status: 'QUEUED',
    reason: null,
    due_at: before(5_000),
    attempt_number: 1,
    max_attempts: 4,
  },
  ...{ start_time: null, end_time: null, modified_time: before(0), executor_id: null, error_message: null },
};
const worker: Worker = {
  ...{
    worker_id: 'w1',
    status: 'ALIVE',
    host: 'h',
    pid: 1,
    version: '1',
    slots: 20,
    running: 0,
    types: ['echo'],
    executors: ['http'],
  },
  ...{ queues: null, labels: [], started_at: before(0), seen_at: before(0), lease_until: before(-9_000) },
};

const letter: DeadLetter = {
  ...{ run_id: run.run_id, job_id: job.job_id, name: 'hello', type: 'echo', queue: 'default', priority: 5 },
  ...{ user_id: null, payload: { a: 1 }, reason: 'timed_out', error_message: 'x\u001b[2J', attempts: 4 },
  ...{ executor_id: 'w1', failed_at: before(60_000), redriven_run_id: null, redriven_at: null },
};

test('rows have a cell for every head, and the id whole', () => {
  assert.equal(jobRow(job, plain, now).length, jobHead.length);
  assert.equal(runRow(run, plain, now).length, runHead.length);
  assert.equal(workerRow(worker, plain, now).length, workerHead.length);
  assert.equal(letterRow(letter, plain, now).length, letterHead.length);
  assert.ok(jobRow(job, plain, now).includes(job.job_id));
  assert.ok(runRow(run, plain, now).includes(run.run_id));
  assert.ok(letterRow(letter, plain, now).includes(letter.run_id));
});

test('a name with escape sequences is shown harmless', () => {
  const evil = { ...job, name: 'x\u001b[2J\ny' };
  assert.ok(!JSON.stringify([jobRow(evil, plain, now), jobFields(evil, plain, now)]).includes('\\u001b'));
});

test('a run that ended shows how long it took, its error and its result', () => {
  const ended = {
    ...run,
    status: 'FAILED' as const,
    start_time: before(5_000),
    end_time: before(2_000),
    error_message: 'boom',
    result: { a: 1 },
  };
  const fields = Object.fromEntries(runFields(ended, plain, now));
  assert.equal(fields['took'], '3.0 s');
  assert.equal(fields['error'], 'boom');
  assert.equal(fields['result'], '{"a":1}');
});

test('a due run nobody can take is explained', () => {
  const hints = (theJob: Job, workers: Worker[]) => hintsFor(theJob, run, { now, workers }).join(' ');
  assert.match(hints(job, []), /no live worker serves type echo in queue default/);
  assert.match(hints(job, [worker]), /waits for a free slot/);
  assert.match(
    hints({ ...job, executor: { kind: 'shell', command: ['ls'] } }, [worker]),
    /punctual worker --allow-shell/,
  );
});

test('a worker serves by type or executor, by queue, and only while it lives', () => {
  assert.equal(isServed(job, [worker]), true);
  assert.equal(isServed(job, [{ ...worker, status: 'LOST' }]), false);
  assert.equal(isServed(job, [{ ...worker, queues: ['mail'] }]), false);
  assert.equal(
    isServed({ ...job, type: 'http', executor: { kind: 'http', url: 'http://x' } }, [{ ...worker, types: [] }]),
    true,
  );
});

test('hints follow the state', () => {
  const hints = (theJob: Job, theRun: Run | null) => hintsFor(theJob, theRun, { now, workers: [worker] }).join(' ');
  assert.match(hints({ ...job, status: 'PAUSED' }, run), /jobs resume/);
  assert.match(hints(job, { ...run, status: 'FAILED' }), /runs show .* runs retry/);
  assert.match(hints(job, { ...run, due_at: before(-60_000) }), /It starts in 60 s; .*run-now/);
  assert.match(
    hints(job, { ...run, due_at: before(-60_000), attempt_number: 2, reason: 'retry' }),
    /Attempt 2 starts in 60 s/,
  );
  assert.equal(hints(job, { ...run, status: 'SUCCESS' }), '');
  assert.equal(hints(job, null), '');
});

test('a run that failed, or that waits for its next attempt, can be tried again now', () => {
  assert.deepEqual(runHints({ ...run, status: 'FAILED' }, now), [
    `\`punctual runs retry ${run.run_id}\` runs it again.`,
  ]);
  const waiting = { ...run, attempt_number: 2, reason: 'retry', due_at: before(-60_000) };
  assert.match(runHints(waiting, now).join(), /Attempt 2 starts in 60 s; `punctual runs retry/);
  assert.deepEqual(runHints({ ...waiting, due_at: before(0) }, now), []);
  assert.deepEqual(runHints({ ...run, status: 'SUCCESS' }, now), []);
});

test('a dead letter is shown with its error made harmless, and with what to do next', () => {
  const fields = Object.fromEntries(letterFields(letter, plain, now));
  assert.equal(fields['error'], 'x␛[2J');
  assert.equal(fields['payload'], '{"a":1}');
  assert.equal(fields['redriven'], undefined);
  assert.ok(!letterRow(letter, plain, now).join().includes('\u001b'));
  assert.match(letterHints(letter).join(' '), /runs show .* dead-letters redrive/);
  const redriven = { ...letter, redriven_run_id: 'r2', redriven_at: before(1_000) };
  assert.match(Object.fromEntries(letterFields(redriven, plain, now))['redriven'] ?? '', /by run r2$/);
  assert.match(letterRow(redriven, plain, now)[1] ?? '', /redriven/);
  assert.deepEqual(letterHints(redriven), ['`punctual runs show r2` shows how it went the next time.']);
});

test('the longest time of a whole run is shown with that of an attempt', () => {
  const timeout = (theJob: Job) => Object.fromEntries(jobFields(theJob, plain, now))['timeout'];
  assert.equal(timeout(job), '1h an attempt');
  assert.equal(timeout({ ...job, run_timeout_ms: 7_200_000 }), '1h an attempt, 2h the whole run');
});

test('a run shows how far it is and how often it snoozed', () => {
  const progress = { percent: 33.333, message: 'page 1\u001b[2J', at: before(2_000) };
  const running = Object.fromEntries(runFields({ ...run, status: 'RUNNING', progress, snoozes: 2 }, plain, now));
  assert.match(running['progress'] ?? '', /^33\.3 % page 1.*2.0 s ago\)$/);
  assert.doesNotMatch(running['progress'] ?? '', /\u001b/);
  assert.match(running['attempt'] ?? '', /, snoozed 2 times$/);
  const [hint = ''] = runHints({ ...run, reason: 'snooze', due_at: before(-60_000) }, now);
  assert.match(hint, /It snoozes for /);
});
