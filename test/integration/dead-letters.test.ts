// Runs that failed for good: kept, inspected, redriven once however often asked, discarded; and single runs cancelled or
// tried again.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FatalError } from '@punctual/sdk';
import { eventually } from '../support/eventually.ts';
import { gate } from '../support/gate.ts';
import { Hand, outcome } from '../support/hand.ts';
import { openHouse } from '../support/house.ts';

test('a run that failed for good becomes a dead letter with its error and payload', async () => {
  await using house = await openHouse({
    workers: 1,
    handlers: {
      fatal: async () => {
        throw new FatalError('there is no such account');
      },
    },
  });
  const { job_id, run_id } = await house.client.jobs.create({ type: 'fatal', payload: { account: 7 }, max_retries: 5 });
  const run = await house.ended(job_id);
  assert.equal(run.status, 'FAILED');
  assert.equal(run.attempt_number, 1, 'a fatal error is not tried again');
  const letter = await house.client.deadLetters.get(run_id ?? '');
  assert.equal(letter.reason, 'failed');
  assert.match(letter.error_message ?? '', /no such account/);
  assert.deepEqual(letter.payload, { account: 7 });
  assert.equal(letter.attempts, 1);
  assert.deepEqual((await house.client.deadLetters.list({ q: 'NO SUCH' })).dead_letters, [letter]);
  assert.deepEqual((await house.client.deadLetters.list({ q: 'other' })).dead_letters, []);
  assert.deepEqual((await house.client.deadLetters.list({ reason: 'lost' })).dead_letters, []);
});

test('a dead letter redriven a hundred times at once runs again once', async () => {
  await using house = await openHouse({ servers: 3 });
  const hand = new Hand(house.url);
  const { job_id, run_id = '' } = await house.client.jobs.create({ type: 'echo', max_retries: 0 });
  const [run] = await hand.take();
  assert.ok(run);
  await hand.call({ accept: false, outcomes: [outcome(run, { status: 'FAILED', error_message: 'no' })] });
  const answers = await Promise.all(
    Array.from({ length: 100 }, async (_, i) => {
      const response = await fetch(`${house.servers[i % 3]?.url}/dead-letters/${run_id}/redrive`, { method: 'POST' });
      return { status: response.status, body: (await response.json()) as { redriven_run_id: string } };
    }),
  );
  assert.deepEqual(new Set(answers.map((answer) => answer.status)), new Set([202]));
  assert.equal(new Set(answers.map((answer) => answer.body.redriven_run_id)).size, 1);
  const [again] = await hand.take();
  assert.equal(again?.run_id, answers[0]?.body.redriven_run_id);
  assert.equal(again?.attempt_number, 1);
  await hand.call({ outcomes: again === undefined ? [] : [outcome(again)] });
  const { latest_run, status } = await house.client.jobs.status(job_id);
  assert.equal(latest_run?.cause, 'redrive');
  assert.equal(status, 'COMPLETED');
  assert.deepEqual((await house.client.deadLetters.list()).dead_letters, [], 'redriven ones are not shown');
  assert.equal((await house.client.deadLetters.list({ redriven: true })).dead_letters.length, 1);
  assert.equal(await house.count('ended_runs'), 2);
});

test('many are redriven by filter, and asking again redrives none twice', async () => {
  await using house = await openHouse({ servers: 2 });
  const hand = new Hand(house.url, { types: ['a', 'b'], slots: 100 });
  await house.client.jobs.createMany(
    Array.from({ length: 60 }, (_, i) => ({ type: i % 3 === 0 ? 'b' : 'a', max_retries: 0 })),
  );
  for (let failed = 0; failed < 60; ) {
    const runs = await hand.take();
    failed += runs.length;
    await hand.call({
      accept: false,
      outcomes: runs.map((run) => outcome(run, { status: 'FAILED', retryable: false, error_message: 'no' })),
    });
  }
  assert.equal(await house.count('dead_letters'), 60);
  const calls = Array.from({ length: 6 }, (_, i) =>
    fetch(`${house.servers[i % 2]?.url}/dead-letters/redrive`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ type: 'a' }),
    }),
  );
  const answers = (await Promise.all((await Promise.all(calls)).map((response) => response.json()))) as {
    redriven: number;
    done: boolean;
  }[];
  const more = await house.client.deadLetters.redriveMany({ type: 'a' });
  assert.equal(
    answers.reduce((sum, answer) => sum + answer.redriven, more.redriven),
    40,
  );
  assert.ok(more.done);
  assert.equal(await house.count('ready'), 40);
  assert.equal(await house.count('dead_letters', 'where redriven_at is null'), 20);
  assert.equal((await house.client.deadLetters.redriveMany({ limit: 5 })).done, false);
});

test('a dead letter is discarded once, and its run stays in the history', async () => {
  await using house = await openHouse();
  const hand = new Hand(house.url);
  const { job_id, run_id = '' } = await house.client.jobs.create({ type: 'echo', max_retries: 0 });
  const [run] = await hand.take();
  await hand.call({ outcomes: run === undefined ? [] : [outcome(run, { status: 'FAILED', error_message: 'no' })] });
  await house.client.deadLetters.discard(run_id);
  await assert.rejects(house.client.deadLetters.discard(run_id), { code: 'dead_letter_not_found' });
  await assert.rejects(house.client.deadLetters.redrive(run_id), { code: 'dead_letter_not_found' });
  assert.equal((await house.ended(job_id)).status, 'FAILED');
});

test('the whole time of a run bounds its attempts and its waits', async () => {
  await using house = await openHouse();
  const hand = new Hand(house.url);
  const { job_id } = await house.client.jobs.create({
    type: 'echo',
    max_retries: 50,
    backoff: { base_ms: 600_000 },
    run_timeout_ms: 60_000,
    timeout_ms: 600_000,
  });
  const [run] = await hand.take();
  assert.ok(run);
  assert.ok(run.timeout_ms <= 60_000 && run.timeout_ms > 30_000, `the attempt may take ${run.timeout_ms} ms`);
  await hand.call({ outcomes: [outcome(run, { status: 'FAILED', error_message: 'no' })] });
  const ended = await house.ended(job_id);
  assert.equal(ended.reason, 'run_timed_out', 'the next attempt would come after the end');
  assert.equal(ended.attempt_number, 1);

  const late = await house.client.jobs.create({
    type: 'echo',
    run_timeout_ms: 50,
    schedule_time: new Date(Date.now() - 1_000).toISOString(),
  });
  await eventually(async () => {
    assert.deepEqual((await hand.call({ wait: true })).runs, []);
    assert.equal((await house.client.jobs.status(late.job_id)).latest_run?.reason, 'run_timed_out');
  });
  assert.equal((await house.client.deadLetters.list()).dead_letters.length, 2);
});

test('a single run is cancelled before, during and not after', async () => {
  const hold = gate();
  await using house = await openHouse({
    workers: 1,
    handlers: { hold: async (run, ctx) => hold.enter(run.run_id, ctx.signal), echo: async () => 1 },
  });
  const waiting = await house.client.jobs.create({ type: 'hold', delay_ms: 60_000 });
  assert.equal((await house.client.runs.cancel(waiting.run_id ?? '')).status, 'CANCELLED');
  await assert.rejects(house.client.runs.cancel(waiting.run_id ?? ''), { code: 'run_ended', message: /CANCELLED/ });

  const running = await house.client.jobs.create({ type: 'hold' });
  await hold.entered(running.run_id ?? '');
  assert.equal((await house.client.runs.cancel(running.run_id ?? '')).status, 'RUNNING');
  assert.equal((await house.ended(running.job_id)).status, 'CANCELLED');

  const done = await house.client.jobs.create({ type: 'echo' });
  await house.ended(done.job_id);
  await assert.rejects(house.client.runs.cancel(done.run_id ?? ''), { code: 'run_ended', message: /SUCCESS/ });
});

test('retry skips the wait for the next attempt, and redrives what failed for good', async () => {
  await using house = await openHouse();
  const hand = new Hand(house.url);
  const { job_id, run_id = '' } = await house.client.jobs.create({
    type: 'echo',
    max_retries: 1,
    backoff: { base_ms: 3_600_000 },
  });
  const [first] = await hand.take();
  assert.ok(first);
  await hand.call({ outcomes: [outcome(first, { status: 'FAILED', error_message: 'no' })] });
  const queued = (await house.client.jobs.status(job_id)).latest_run;
  assert.equal(queued?.status, 'QUEUED');
  assert.equal(queued?.attempt_number, 2);
  assert.equal(queued?.error_message, 'no');
  assert.equal((await house.client.runs.retry(run_id)).status, 'QUEUED');
  const [second] = await hand.take();
  assert.equal(second?.attempt_number, 2);
  assert.ok((second?.fence ?? 0) > first.fence, 'the fence grows');
  await hand.call({
    outcomes: second === undefined ? [] : [outcome(second, { status: 'FAILED', error_message: 'no' })],
  });
  const { retried_run_id } = await house.client.runs.retry(run_id);
  assert.equal((await house.client.runs.retry(run_id)).retried_run_id, retried_run_id);
  const [third] = await hand.take();
  assert.equal(third?.run_id, retried_run_id);
  await hand.call({ outcomes: third === undefined ? [] : [outcome(third)] });
  await assert.rejects(house.client.runs.retry(retried_run_id ?? ''), { code: 'run_ended' });
});

test('dead letters are put together by type and error, whatever numbers and ids they name', async () => {
  await using house = await openHouse({ servers: 1 });
  const hand = new Hand(house.url, { types: ['pay', 'mail'], slots: 100 });
  await house.client.jobs.createMany([
    ...Array.from({ length: 7 }, () => ({ type: 'pay', max_retries: 0 })),
    ...Array.from({ length: 3 }, () => ({ type: 'mail', max_retries: 0 })),
  ]);
  for (let failed = 0; failed < 10; ) {
    const runs = await hand.take();
    const outcomes = runs.map((run, i) => {
      const error_message =
        run.type === 'pay' ? `no account ${failed + i} at ${run.run_id}\n    at line ${i}` : 'connection refused';
      return outcome(run, { status: 'FAILED', error_message });
    });
    failed += runs.length;
    await hand.call({ accept: false, outcomes });
  }
  const { groups, looked_at, complete } = await house.client.deadLetters.groups();
  assert.deepEqual(
    groups.map(({ type, error, q, count }) => ({ type, error, q, count })),
    [
      { type: 'pay', error: 'no account … at …', q: 'no account', count: 7 },
      { type: 'mail', error: 'connection refused', q: 'connection refused', count: 3 },
    ],
  );
  assert.deepEqual({ looked_at, complete }, { looked_at: 10, complete: true });
  const [pay] = groups;
  const fitting = await house.client.deadLetters.list({ type: 'pay', q: pay?.q ?? '' });
  assert.equal(fitting.dead_letters.length, 7, 'q finds the letters of the group');
  assert.equal((await house.client.deadLetters.groups({ type: 'mail' })).groups.length, 1);
  await house.client.deadLetters.discard(pay?.latest_run_id ?? '');
  assert.equal((await house.client.deadLetters.groups()).groups[0]?.count, 6);
});
