// Checkpoints, progress and snoozes as a worker speaks of them, call by call.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Grant, limits, type Problem, type SyncRequest } from '@punctual/contract';
import { sweepOnce } from '@punctual/server/internal/upkeep/sweep';
import { bookHash } from '../support/book_hash.ts';
import { eventually } from '../support/eventually.ts';
import { Hand, outcome } from '../support/hand.ts';
import { type House, openHouse, shortLease } from '../support/house.ts';

const one = (runs: Grant[]): Grant => {
  assert.equal(runs.length, 1);
  return runs[0] as Grant;
};
const leaseOf = ({ run_id, lease_id }: Grant): { run_id: string; lease_id: string } => ({ run_id, lease_id });
const save = (run: Grant, version: number, value: unknown) => [{ ...leaseOf(run), version, value }];

async function begin(house: House, job: object = {}): Promise<{ hand: Hand; run: Grant; job_id: string }> {
  const { job_id } = await house.client.jobs.create({ type: 'echo', backoff: { base_ms: 0 }, ...job });
  const hand = new Hand(house.url);
  return { hand, run: one(await hand.take()), job_id };
}

test('the next attempt gets the last checkpoint that was accepted, and its end removes it', async () => {
  await using house = await openHouse();
  const { hand, run, job_id } = await begin(house);
  assert.equal('checkpoint' in run, false);
  const { run_id } = run;
  for (const [version, value] of [
    [1, { page: 1 }],
    [2, null],
    [5, { page: 'ü\u0000"' }],
  ] as const) {
    const { refused } = await hand.call({ running: [run_id], checkpoints: save(run, version, value) });
    assert.deepEqual(refused, []);
  }
  const stored = await house.client.runs.checkpoint(run_id);
  assert.deepEqual([stored.version, stored.value, stored.attempt_number], [5, { page: 'ü\u0000"' }, 1]);
  await hand.call({ outcomes: [outcome(run, { status: 'FAILED', error_message: 'no' })] });
  const second = one(await hand.take());
  assert.deepEqual([second.attempt_number, second.checkpoint?.version], [2, 5]);
  assert.deepEqual(second.checkpoint?.value, { page: 'ü\u0000"' });
  assert.equal(second.checkpoint?.saved_at.slice(0, 19), stored.saved_at.slice(0, 19));
  // Saved with the outcome of the same call: it goes first.
  const last = { checkpoints: save(second, 6, 'six'), outcomes: [outcome(second, { status: 'FAILED' })] };
  assert.deepEqual((await hand.call(last)).refused, []);
  const third = one(await hand.take());
  assert.equal(third.checkpoint?.value, 'six');
  await hand.call({ outcomes: [outcome(third)] });
  assert.equal((await house.ended(job_id)).status, 'SUCCESS');
  assert.equal(await house.count('checkpoints'), 0);
  await assert.rejects(house.client.runs.checkpoint(run_id), { code: 'checkpoint_not_found' });
});

test('an older checkpoint that arrives late, or the same one again, changes nothing', async () => {
  await using house = await openHouse();
  const { hand, run } = await begin(house);
  await hand.call({ running: [run.run_id], checkpoints: save(run, 3, 'three') });
  const before = await bookHash(house);
  for (const [version, value] of [
    [2, 'two'],
    [3, 'another three'],
  ] as const) {
    const { refused } = await hand.call({ running: [run.run_id], checkpoints: save(run, version, value) });
    assert.deepEqual(refused, []);
  }
  assert.equal(await bookHash(house), before);
  await hand.call({ outcomes: [outcome(run)] });
});

test('a stale or forged lease saves no checkpoint and no progress', async () => {
  await using house = await openHouse();
  const { hand, run } = await begin(house);
  await hand.call({ running: [run.run_id], checkpoints: save(run, 1, 'mine') });
  await hand.call({ outcomes: [outcome(run, { status: 'FAILED' })] });
  const again = one(await hand.take());
  const before = await bookHash(house);
  const forged = { ...again, lease_id: crypto.randomUUID() };
  const elsewhere = { ...again, run_id: again.run_id.replace(/.{3}$/, 'fff') };
  for (const wrong of [run, forged, elsewhere]) {
    const saved = await hand.call({ running: [again.run_id], checkpoints: save(wrong, 9, 'zombie') });
    assert.deepEqual(saved.refused, [{ ...leaseOf(wrong), code: 'lease_lost' }]);
    const noted = await hand.call({ running: [again.run_id], progress: [{ ...leaseOf(wrong), percent: 99 }] });
    assert.deepEqual(noted.refused, [{ ...leaseOf(wrong), code: 'lease_lost' }]);
    const snoozed = await hand.call({
      running: [again.run_id],
      outcomes: [outcome(wrong, { status: 'SNOOZED', snooze_ms: 5 })],
    });
    assert.equal(snoozed.refused.length, wrong === run ? 0 : 1, 'the first attempt was settled before');
  }
  assert.equal(await bookHash(house), before);
  assert.match(await (await fetch(`${house.url}/metrics`)).text(), /punctual_lease_lost_total 8/);
  await hand.call({ outcomes: [outcome(again)] });
});

test('a run whose worker fell silent goes on from its last checkpoint, and the zombie saves nothing', async () => {
  await using house = await openHouse({ config: shortLease });
  const { hand: silent, run } = await begin(house);
  await silent.call({ running: [run.run_id], checkpoints: save(run, 1, 'before') });
  const other = new Hand(house.url);
  const again = one(await other.take());
  assert.deepEqual([again.attempt_number, again.checkpoint?.value], [2, 'before']);
  await assert.rejects(silent.call({ checkpoints: save(run, 2, 'zombie') }), { code: 'session_lost' });
  const reborn = new Hand(house.url, { id: silent.id });
  assert.equal((await reborn.call({ checkpoints: save(run, 3, 'zombie') })).refused[0]?.code, 'lease_lost');
  assert.equal((await house.client.runs.checkpoint(run.run_id)).value, 'before');
  await other.call({ outcomes: [outcome(again)] });
});

test('a run that is given back keeps its checkpoint', async () => {
  await using house = await openHouse();
  const { hand, run } = await begin(house);
  await hand.call({ running: [run.run_id], checkpoints: save(run, 1, 'kept') });
  await hand.call({ outcomes: [outcome(run, { status: 'RELEASED' })] });
  const again = one(await hand.take());
  assert.deepEqual([again.attempt_number, again.checkpoint?.value], [1, 'kept']);
  await hand.call({ outcomes: [outcome(again)] });
});

test('every end removes what the run kept', async () => {
  await using house = await openHouse({ config: shortLease });
  const kept = async (job: object = {}) => {
    const begun = await begin(house, job);
    await begun.hand.call({ running: [begun.run.run_id], checkpoints: save(begun.run, 1, 1) });
    return begun;
  };
  const failed = await kept({ max_retries: 0 });
  await failed.hand.call({ outcomes: [outcome(failed.run, { status: 'FAILED' })], bye: true });
  const cancelled = await kept();
  await house.client.runs.cancel(cancelled.run.run_id);
  await cancelled.hand.call({ outcomes: [outcome(cancelled.run, { status: 'CANCELLED' })], bye: true });
  const waiting = await kept({ backoff: { base_ms: 60_000 } });
  await waiting.hand.call({ outcomes: [outcome(waiting.run, { status: 'FAILED' })], bye: true });
  assert.equal(await house.count('checkpoints'), 1);
  await house.client.jobs.cancel(waiting.job_id);
  assert.equal(await house.count('checkpoints'), 0);
  // A redrive is a new run and begins anew.
  await house.client.deadLetters.redrive(failed.run.run_id);
  const redriven = new Hand(house.url);
  const run = one(await redriven.take());
  assert.equal('checkpoint' in run, false);
  await redriven.call({ outcomes: [outcome(run)], bye: true });
  const lost = await kept({ max_retries: 0 });
  assert.equal((await house.ended(lost.job_id)).reason, 'lost');
  assert.equal(await house.count('checkpoints'), 0);
});

test('what a run kept that succeeded through another server is found by the sweep', async () => {
  await using house = await openHouse({ servers: 2 });
  const { hand, run, job_id } = await begin(house);
  await hand.call({ running: [run.run_id], checkpoints: save(run, 1, 1) });
  await hand.call({ url: house.servers[1]?.url ?? '', outcomes: [outcome(run)] });
  await house.ended(job_id);
  await assert.rejects(house.client.runs.checkpoint(run.run_id), { code: 'checkpoint_not_found' });
  const live = await begin(house);
  await live.hand.call({ running: [live.run.run_id], checkpoints: save(live.run, 1, 1) });
  assert.equal(await house.count('checkpoints'), 2);
  assert.equal(await sweepOnce(house.db, [0, 1, 2, 3]), 1);
  assert.equal((await house.client.runs.checkpoint(live.run.run_id)).version, 1);
  await live.hand.call({ outcomes: [outcome(live.run)] });
});

test('runs with large checkpoints are granted in several answers, none without its own', async () => {
  await using house = await openHouse({ segments: 1 });
  const jobs = Array.from({ length: 20 }, () => ({ type: 'echo', backoff: { base_ms: 0 } }));
  await house.client.jobs.createMany(jobs);
  const hand = new Hand(house.url, { slots: 20 });
  const runs: Grant[] = [];
  while (runs.length < 20) runs.push(...(await hand.take(runs.map((run) => run.run_id))));
  for (const run of runs) {
    const value = run.run_id.repeat(Math.floor((limits.max_checkpoint_bytes - 2) / 36));
    await hand.call({ running: runs.map(({ run_id }) => run_id), checkpoints: save(run, 1, value) });
  }
  await hand.call({ outcomes: runs.map((run) => outcome(run, { status: 'FAILED' })) });
  const again: Grant[] = [];
  const answers: number[] = [];
  while (again.length < 20) {
    const got = await hand.take(again.map((run) => run.run_id));
    answers.push(got.length);
    again.push(...got);
  }
  assert.ok(answers.length > 1, `all came at once: ${answers.join()}`);
  for (const run of again) {
    assert.equal(run.attempt_number, 2, 'waiting for room cost an attempt');
    assert.ok(String(run.checkpoint?.value).startsWith(run.run_id));
  }
  await hand.call({ outcomes: again.map((run) => outcome(run)) });
});

test('progress is shown while the run runs, the newest', async () => {
  await using house = await openHouse();
  const { hand, run, job_id } = await begin(house);
  const { run_id } = run;
  assert.equal('progress' in (await house.client.runs.get(run_id)), false);
  await hand.call({ running: [run_id], progress: [{ ...leaseOf(run), percent: 12.5, message: 'reading' }] });
  const first = await house.client.runs.get(run_id);
  assert.deepEqual([first.progress?.percent, first.progress?.message], [12.5, 'reading']);
  assert.equal(first.modified_time, first.progress?.at);
  await hand.call({ running: [run_id], progress: [{ ...leaseOf(run), percent: 99 }] });
  const { progress } = (await house.client.runs.list()).runs[0] ?? {};
  assert.deepEqual([progress?.percent, progress?.message], [99, null]);
  // Of a run that the same call ends it is not refused.
  const both = { progress: [{ ...leaseOf(run), percent: 100 }], outcomes: [outcome(run, { result: 'done' })] };
  assert.deepEqual((await hand.call(both)).refused, []);
  const ended = await house.ended(job_id);
  assert.deepEqual([ended.result, 'progress' in ended], ['done', false]);
});

test('a snoozed run waits, runs again and has used no attempt; the fence grows', async () => {
  await using house = await openHouse();
  const { hand, run, job_id } = await begin(house, { max_retries: 0 });
  let last = run;
  for (let i = 1; i <= 5; i++) {
    const snoozed = outcome(last, { status: 'SNOOZED', snooze_ms: i === 1 ? 6_000 : 0 });
    // The second time its answer was lost.
    for (let k = 0; k < 2; k++) assert.deepEqual((await hand.call({ outcomes: [snoozed] })).refused, []);
    const waiting = await house.client.runs.get(run.run_id);
    assert.equal(waiting.snoozes, i);
    if (i === 1) assert.deepEqual([waiting.status, waiting.reason, waiting.attempt_number], ['QUEUED', 'snooze', 1]);
    const next = one(await hand.take());
    assert.deepEqual([next.run_id, next.attempt_number], [run.run_id, 1]);
    assert.ok(next.fence > last.fence);
    assert.equal('checkpoint' in next, false);
    last = next;
  }
  await hand.call({ outcomes: [outcome(last, { result: 'at last' })] });
  const ended = await house.ended(job_id);
  assert.deepEqual([ended.status, ended.attempt_number, ended.result], ['SUCCESS', 1, 'at last']);
  assert.equal(await house.count('checkpoints'), 0);
  assert.equal(await house.count('attempts'), 0);
});

test('a failure after a snooze counts as the first attempt', async () => {
  await using house = await openHouse();
  const { hand, run, job_id } = await begin(house, { max_retries: 1 });
  await hand.call({ outcomes: [outcome(run, { status: 'SNOOZED', snooze_ms: 0 })] });
  for (const attempt of [1, 2]) {
    const next = one(await hand.take());
    assert.equal(next.attempt_number, attempt);
    await hand.call({ outcomes: [outcome(next, { status: 'FAILED' })] });
  }
  assert.equal((await house.ended(job_id)).status, 'FAILED');
  assert.equal((await house.client.runs.attempts(run.run_id)).attempts.length, 2);
});

test('a snoozed run keeps its checkpoint, can be hurried, paused and resumed', async () => {
  await using house = await openHouse();
  const { hand, run, job_id } = await begin(house);
  await hand.call({ running: [run.run_id], checkpoints: save(run, 1, 'here') });
  await hand.call({ outcomes: [outcome(run, { status: 'SNOOZED', snooze_ms: limits.max_delay_ms })] });
  await house.client.runs.retry(run.run_id);
  const second = one(await hand.take());
  assert.deepEqual([second.attempt_number, second.checkpoint?.value], [1, 'here']);
  await hand.call({ outcomes: [outcome(second, { status: 'SNOOZED', snooze_ms: 0 })], accept: false });
  await house.client.jobs.pause(job_id);
  await house.client.jobs.resume(job_id);
  const third = one(await hand.take());
  assert.equal(third.checkpoint?.value, 'here');
  await hand.call({ outcomes: [outcome(third)] });
});

test('a run that was cancelled does not snooze', async () => {
  await using house = await openHouse();
  const { hand, run, job_id } = await begin(house);
  await house.client.runs.cancel(run.run_id);
  await hand.call({ outcomes: [outcome(run, { status: 'SNOOZED', snooze_ms: 0 })] });
  const ended = await house.ended(job_id);
  assert.deepEqual([ended.status, ended.reason, ended.attempt_number], ['CANCELLED', 'cancelled', 1]);
  assert.equal((await house.client.runs.attempts(run.run_id)).attempts[0]?.outcome, 'cancelled');
});

test('the time of the whole run and the number of snoozes are bounded', async () => {
  await using house = await openHouse();
  const late = await begin(house, { run_timeout_ms: 60_000 });
  await late.hand.call({ outcomes: [outcome(late.run, { status: 'SNOOZED', snooze_ms: 60_000 })], bye: true });
  assert.equal((await house.ended(late.job_id)).reason, 'run_timed_out');
  const often = await begin(house);
  await often.hand.call({ outcomes: [outcome(often.run, { status: 'SNOOZED', snooze_ms: 0 })] });
  await house.db.query({
    name: '',
    text: `update punctual.checkpoints set snoozes = ${limits.max_snoozes}`,
    values: [],
  });
  const run = one(await often.hand.take());
  await often.hand.call({ outcomes: [outcome(run, { status: 'SNOOZED', snooze_ms: 0 })] });
  const ended = await house.ended(often.job_id);
  assert.deepEqual([ended.status, ended.reason], ['FAILED', 'snoozed_too_often']);
  assert.match(ended.error_message ?? '', /snoozed 10000 times/);
  assert.equal((await house.client.deadLetters.get(run.run_id)).reason, 'snoozed_too_often');
});

test('reports that are wrong are refused as a whole with the place and the reason, and nothing is stored', async () => {
  await using house = await openHouse();
  const { hand, run } = await begin(house);
  await eventually(async () => assert.equal(await house.count('running'), 1));
  const before = await bookHash(house);
  const lease = leaseOf(run);
  const deep = '['.repeat(20_000) + ']'.repeat(20_000);
  const wrong: [string, RegExp][] = [
    [JSON.stringify({ checkpoints: [{ ...lease, value: 1 }] }), /checkpoints\[0\]\.version is missing/],
    [JSON.stringify({ checkpoints: save(run, 0, 1) }), /checkpoints\[0\]\.version/],
    [JSON.stringify({ checkpoints: save(run, 1.5, 1) }), /checkpoints\[0\]\.version/],
    [JSON.stringify({ checkpoints: save(run, 2 ** 31, 1) }), /checkpoints\[0\]\.version/],
    [JSON.stringify({ checkpoints: [{ ...lease, version: 1 }] }), /checkpoints\[0\]\.value is missing/],
    [JSON.stringify({ checkpoints: save(run, 1, 'x'.repeat(limits.max_checkpoint_bytes)) }), /larger than 1048576/],
    [`{"checkpoints":[{"run_id":"${run.run_id}","lease_id":"${run.lease_id}","version":1,"value":${deep}}]}`, /deeper/],
    [JSON.stringify({ progress: [{ ...lease, percent: 101 }] }), /progress\[0\]\.percent/],
    [JSON.stringify({ progress: [{ ...lease, percent: -1 }] }), /progress\[0\]\.percent/],
    [JSON.stringify({ progress: [{ ...lease, percent: '50' }] }), /progress\[0\]\.percent/],
    [JSON.stringify({ progress: [{ ...lease, percent: null }] }), /progress\[0\]\.percent/],
    [JSON.stringify({ progress: [{ ...lease, percent: 1, message: 'a\nb' }] }), /progress\[0\]\.message/],
    [JSON.stringify({ progress: [{ ...lease, percent: 1, message: 'x'.repeat(201) }] }), /progress\[0\]\.message/],
    [JSON.stringify({ outcomes: [outcome(run, { status: 'SNOOZED' })] }), /snooze_ms is missing/],
    [JSON.stringify({ outcomes: [outcome(run, { snooze_ms: 1 })] }), /snooze_ms goes with/],
    [JSON.stringify({ outcomes: [outcome(run, { status: 'SNOOZED', snooze_ms: -1 })] }), /snooze_ms/],
    [
      JSON.stringify({ outcomes: [outcome(run, { status: 'SNOOZED', snooze_ms: limits.max_delay_ms + 1 })] }),
      /snooze_ms/,
    ],
  ];
  const rest: SyncRequest = {
    session_id: hand.session_id,
    n: 99,
    concluded: hand.n,
    running: [run.run_id],
    accept: true,
    wait: false,
  };
  for (const [text, pattern] of wrong) {
    const body = `${JSON.stringify(rest).slice(0, -1)},${text.slice(1)}`;
    const response = await fetch(`${house.url}/workers/${hand.id}/sync`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    });
    const problem = (await response.json()) as Problem;
    assert.deepEqual([response.status, problem.code], [400, 'invalid_input'], text.slice(0, 200));
    assert.match(problem.detail ?? '', pattern);
  }
  assert.equal(await bookHash(house), before);
  await assert.rejects(house.client.runs.checkpoint(run.run_id), { code: 'checkpoint_not_found' });
  await assert.rejects(house.client.runs.checkpoint('nonsense'), { code: 'invalid_id' });
  await assert.rejects(house.client.runs.checkpoint(run.job_id), { code: 'run_not_found' });
  await hand.call({ outcomes: [outcome(run)] });
});
