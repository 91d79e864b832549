// The worker protocol, call by call: leases, fences, answers that are lost, servers that change.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { type Grant, type OwnGrant, type SyncHead, twoPartType } from '@punctual/contract';
import { Client } from '@punctual/sdk';
import { cancelJob } from '@punctual/server/internal/store/job_moves';
import { eventually } from '../support/eventually.ts';
import { gate } from '../support/gate.ts';
import { Hand, outcome } from '../support/hand.ts';
import { type House, openHouse, shortLease } from '../support/house.ts';
import { keepsWithin, timed } from '../support/within.ts';

const submit = async (house: House): Promise<{ job_id: string; run_id: string }> => {
  const { job_id, run_id } = await house.client.jobs.create({ type: 'echo', backoff: { base_ms: 0 } });
  return { job_id, run_id: run_id ?? '' };
};

/** So long that whoever waits for a heartbeat shows it. */
const rareHeartbeats = { heartbeat_ms: 15_000, lease_ms: 90_000, lease_margin_ms: 10_000 };

const one = (runs: Grant[]): Grant => {
  assert.equal(runs.length, 1);
  return runs[0] as Grant;
};

// Some at once: those that wait for leases to run out take longest.
describe('the worker protocol', { concurrency: 3 }, () => {
  test('a call that waits is answered within milliseconds of a submit', async () => {
    await using house = await openHouse({ config: { ...rareHeartbeats, poll_interval_ms: 60_000 } });
    const hand = new Hand(house.url);
    await hand.call();
    await keepsWithin(900, async () => {
      const waiting = hand.call({ wait: true });
      await eventually(async () =>
        assert.match(await (await fetch(`${house.url}/metrics`)).text(), /punctual_idle_slots 10/),
      );
      const tookMs = await timed(async () => {
        const { run_id } = await submit(house);
        assert.equal(one((await waiting).runs).run_id, run_id);
      });
      await hand.call({ outcomes: [outcome(one((await waiting).runs))] });
      return tookMs;
    });
  });

  test('a time of a schedule is leased to an idle worker by the statement that plans it', async () => {
    await using house = await openHouse({ segments: 1 });
    const metric = async (name: string): Promise<number> =>
      Number(new RegExp(`^${name} (\\d+)`, 'm').exec(await (await fetch(`${house.url}/metrics`)).text())?.[1]);
    const hand = new Hand(house.url, { slots: 2 });
    await house.client.jobs.create({ type: 'echo', interval_ms: 1000 });
    let settled: ReturnType<typeof outcome>[] = [];
    await eventually(async () => {
      const run = one((await hand.call({ wait: true, outcomes: settled })).runs);
      settled = [outcome(run)];
      assert.ok((await metric('punctual_runs_handed_over_total')) > 0);
    });
    await hand.call({ outcomes: settled });
  });

  test('a submit to an idle worker is leased by the statement that creates it; with work waiting it queues up behind', async () => {
    await using house = await openHouse({ config: { ...rareHeartbeats, poll_interval_ms: 60_000 }, segments: 1 });
    const metric = async (name: string): Promise<number> =>
      Number(new RegExp(`^${name} (\\d+)`, 'm').exec(await (await fetch(`${house.url}/metrics`)).text())?.[1]);
    const hand = new Hand(house.url, { slots: 2 });
    const first = await submit(house); // makes the lane, and waits for somebody
    const behind = await submit(house);
    assert.equal(await metric('punctual_runs_handed_over_total'), 0);
    const runs = await hand.take();
    assert.deepEqual(
      runs.map((run) => run.run_id),
      [first.run_id, behind.run_id],
    );
    // Nothing waits and the worker is idle: sooner or later one goes straight to it, with a fence above all before.
    let settled = runs.map((run) => outcome(run));
    const { direct, granted } = await eventually(async () => {
      const waiting = hand.call({ wait: true, outcomes: settled });
      await eventually(async () => assert.equal(await metric('punctual_idle_slots'), 2), { withinMs: 10_000 });
      const { job_id, run_id = '' } = await house.client.jobs.create({ type: 'echo' });
      const submitted = { job_id, run_id };
      const run = one((await waiting).runs);
      settled = [outcome(run)];
      assert.equal(await metric('punctual_runs_handed_over_total'), 1);
      return { direct: submitted, granted: run };
    });
    assert.equal(granted.run_id, direct.run_id);
    assert.equal(granted.attempt_number, 1);
    assert.ok(granted.fence > (runs[1]?.fence ?? 0));
    // Its answer is lost: it is given back and comes again, at no cost.
    const again = one(await hand.take());
    assert.equal(again.run_id, direct.run_id);
    assert.equal(again.attempt_number, 1);
    assert.ok(again.fence > granted.fence);
    await hand.call({ outcomes: [outcome(again)] });
    assert.equal((await house.ended(direct.job_id)).status, 'SUCCESS');
  });

  test('a newer call makes the server answer the older one at once', async () => {
    await using house = await openHouse({ config: rareHeartbeats });
    const hand = new Hand(house.url);
    await hand.call();
    const older = hand.call({ wait: true });
    await eventually(async () =>
      assert.match(await (await fetch(`${house.url}/metrics`)).text(), /punctual_idle_slots 10/),
    );
    const began = performance.now();
    const newer = hand.call({ wait: true, concluded: 1 });
    assert.deepEqual((await older).runs, []);
    assert.ok(performance.now() - began < rareHeartbeats.heartbeat_ms - 5_000, 'it waited for the heartbeat');
    await submit(house);
    await hand.call({ running: [one((await newer).runs).run_id], outcomes: [] });
  });

  test('settling twice gives the same answer and one outcome', async () => {
    await using house = await openHouse();
    const { job_id } = await submit(house);
    const hand = new Hand(house.url);
    const run = one(await hand.take());
    const first = await hand.call({ outcomes: [outcome(run, { result: 1 })] });
    const second = await hand.call({ outcomes: [outcome(run, { result: 2 })] });
    assert.deepEqual([first.refused, second.refused], [[], []]);
    assert.equal((await house.ended(job_id)).result, 1);
    assert.equal(await house.count('ended_runs'), 1);
  });

  test('a failure reported twice makes one attempt', async () => {
    await using house = await openHouse();
    const { job_id, run_id } = await submit(house);
    const hand = new Hand(house.url);
    const run = one(await hand.take());
    for (let i = 0; i < 2; i++) {
      const { refused } = await hand.call({ outcomes: [outcome(run, { status: 'FAILED', error_message: 'no' })] });
      assert.deepEqual(refused, []);
    }
    assert.equal((await house.client.runs.attempts(run_id)).attempts.length, 1);
    const again = one(await hand.take());
    assert.equal(again.attempt_number, 2);
    assert.notEqual(again.lease_id, run.lease_id);
    await hand.call({ outcomes: [outcome(again)] });
    assert.equal((await house.ended(job_id)).status, 'SUCCESS');
  });

  test('a forged or stale lease is refused and changes nothing', async () => {
    await using house = await openHouse();
    const { job_id } = await submit(house);
    const hand = new Hand(house.url);
    const run = one(await hand.take());
    const forged = { run_id: run.run_id, lease_id: crypto.randomUUID() };
    const line = { at: new Date().toISOString(), level: 'info' as const, message: 'I am still here' };
    for (const status of ['SUCCESS', 'FAILED', 'CANCELLED'] as const) {
      const { refused } = await hand.call({ running: [run.run_id], outcomes: [outcome(forged, { status })] });
      assert.deepEqual(refused, [{ ...forged, code: 'lease_lost' }]);
    }
    const { refused } = await hand.call({ running: [run.run_id], logs: [{ ...forged, lines: [line] }] });
    assert.deepEqual(refused, [{ ...forged, code: 'lease_lost' }]);
    assert.equal(await house.count('log_chunks'), 0);
    assert.equal((await house.client.jobs.status(job_id)).latest_run?.status, 'RUNNING');
    const metrics = await (await fetch(`${house.url}/metrics`)).text();
    assert.match(metrics, /punctual_lease_lost_total 4/);
    await hand.call({ outcomes: [outcome(run)] });
  });

  test('a grant whose answer was lost is given back at once and costs no attempt', async () => {
    await using house = await openHouse();
    const { run_id } = await submit(house);
    const hand = new Hand(house.url);
    one(await hand.take());
    // The answer was lost: the next call does not list the run.
    const again = one(await hand.take());
    assert.equal(again.run_id, run_id);
    assert.equal(again.attempt_number, 1);
    await hand.call({ outcomes: [outcome(again)] });
  });

  test('calls may leave out what runs once a server has read it; one that lists it finds what was lost', async () => {
    await using house = await openHouse({ servers: 2 });
    const { run_id } = await submit(house);
    const hand = new Hand(house.url);
    // JSON leaves out what is undefined.
    const unlisted = { running: undefined } as unknown as { running: string[] };
    const run = one(await hand.take());
    assert.equal((await hand.call(unlisted)).brief, true);
    await hand.call(unlisted);
    assert.equal(await house.count('running', `where run_id = '${run_id}'`), 1);
    // Another server has read nothing yet: it takes nothing back and wants to hear what runs.
    const url = house.servers[1]?.url ?? '';
    const [strange, told] = [await hand.call({ ...unlisted, url }), await hand.call({ running: [run_id], url })];
    assert.deepEqual([strange.brief, strange.describe, told.brief], [false, true, true]);
    assert.equal(await house.count('running', `where run_id = '${run_id}'`), 1);
    // Whoever lists nothing has lost it.
    const again = one(await hand.take());
    assert.deepEqual([again.run_id, again.attempt_number, again.lease_id === run.lease_id], [run_id, 1, false]);
    await hand.call({ outcomes: [outcome(again)] });
  });

  test('who asks for an answer in two parts gets the same grants; their successes may be named by lease', async () => {
    await using house = await openHouse();
    const hand = new Hand(house.url);
    await hand.call();
    const jobs = Array.from({ length: 5 }, (_, i) => ({
      type: 'echo',
      name: i === 3 ? 'other' : 'one',
      payload: { i },
    }));
    const { jobs: created } = await house.client.jobs.createMany(jobs);
    const text = await hand.ask(twoPartType, { wait: true });
    const end = text.indexOf('\n');
    const { batches } = JSON.parse(text.slice(0, end)) as SyncHead;
    const own = JSON.parse(text.slice(end)) as OwnGrant[];
    const runs = batches
      .flatMap(({ run_ids, alike }) => run_ids.map((run_id) => ({ run_id, ...alike })))
      .map((run, i) => ({ ...run, ...own[i] }));
    assert.deepEqual(
      runs.map(({ run_id, name, type, payload }) => ({ run_id, name, type, payload })),
      created.map(({ run_id }, i) => ({ run_id, ...jobs[i] })),
    );
    assert.equal(batches.length, 1);
    const [first, ...rest] = runs.map(({ run_id }) => run_id) as [string, ...string[]];
    const { lease_id } = batches[0]?.alike ?? { lease_id: '' };
    const stale = { lease_id: randomUUID(), run_ids: [first] };
    const { refused } = await hand.call({ succeeded: [{ lease_id, run_ids: rest }, stale], running: [first] });
    assert.deepEqual(refused, [{ run_id: first, lease_id: stale.lease_id, code: 'lease_lost' }]);
    assert.deepEqual(
      [await house.count('ended_runs', "where status = 'SUCCESS'"), await house.count('running')],
      [4, 1],
    );
    // A second time it is the same.
    assert.deepEqual((await hand.call({ succeeded: [{ lease_id, run_ids: [...rest, first] }] })).refused, []);
    assert.deepEqual([await house.count('ended_runs'), await house.count('running')], [5, 0]);
    const many = { lease_id, run_ids: Array.from({ length: 4000 }, () => first) };
    await assert.rejects(hand.call({ succeeded: [many, { lease_id, run_ids: [first] }] }), { code: 'invalid_input' });
    await assert.rejects(hand.call({ succeeded: [{ lease_id, run_ids: [] }] }), { code: 'invalid_input' });
  });

  test('a grant on its way through an older call is not taken back', async () => {
    await using house = await openHouse();
    const { run_id } = await submit(house);
    const hand = new Hand(house.url);
    const run = one(await hand.take());
    // A call that was sent before the answer arrived says nothing about the run.
    await hand.call({ concluded: hand.n - 1 });
    assert.equal(await house.count('running', `where run_id = '${run_id}'`), 1);
    await hand.call({ running: [run_id], outcomes: [] });
    await hand.call({ outcomes: [outcome(run)] });
  });

  test('grants that a dead server remembers are found by comparing with the book', async () => {
    await using house = await openHouse({ servers: 2 });
    const { run_id } = await submit(house);
    const hand = new Hand(house.url);
    one(await hand.take());
    // The worker never saw the answer and goes on at the other server.
    await eventually(async () => {
      await hand.call({ url: house.servers[1]?.url ?? '' });
      assert.equal(await house.count('running'), 0);
    });
    const again = one(await hand.take());
    assert.equal(again.run_id, run_id);
    assert.equal(again.attempt_number, 1);
    await hand.call({ outcomes: [outcome(again)] });
  });

  test('a silent worker loses its session, its runs go to another, and it is told', async () => {
    await using house = await openHouse({ config: shortLease });
    await keepsWithin(house.config.lease_ms + 2_000, async () => {
      const { job_id } = await submit(house);
      const silent = new Hand(house.url);
      const run = one(await silent.take());
      const other = new Hand(house.url);
      const began = performance.now();
      const again = one(await other.take());
      const tookMs = performance.now() - began;
      assert.equal(again.run_id, run.run_id);
      assert.equal(again.attempt_number, 2);
      await assert.rejects(silent.call({ running: [run.run_id] }), { code: 'session_lost' });
      // Its outcome comes too late, under the old session or a new one.
      await assert.rejects(silent.call({ outcomes: [outcome(run, { result: 'zombie' })] }), { code: 'session_lost' });
      const reborn = new Hand(house.url, { id: silent.id });
      assert.equal((await reborn.call({ outcomes: [outcome(run, { result: 'zombie' })] })).refused.length, 1);
      await other.call({ outcomes: [outcome(again, { result: 'true' })] });
      assert.equal((await house.ended(job_id)).result, 'true');
      const { attempts } = await house.client.runs.attempts(run.run_id);
      assert.deepEqual(
        attempts.map((attempt) => attempt.outcome),
        ['lost'],
      );
      return tookMs;
    });
  });

  test('a run that loses its worker every time ends as FAILED after exactly its attempts', async () => {
    await using house = await openHouse({ config: shortLease });
    const { job_id, run_id } = await house.client.jobs.create({ type: 'echo', max_retries: 2 });
    for (let attempt = 1; attempt <= 3; attempt++) {
      const hand = new Hand(house.url);
      assert.equal(one(await hand.take()).attempt_number, attempt);
    }
    const run = await house.ended(job_id);
    assert.equal(run.status, 'FAILED');
    assert.equal(run.reason, 'lost');
    assert.equal((await house.client.runs.attempts(run_id ?? '')).attempts.length, 3);
  });

  test('a cancel of which nobody is told, as when its server dies at once, reaches the worker with its next heartbeat', async () => {
    await using house = await openHouse();
    const hand = new Hand(house.url, { waits: true });
    const { job_id, run_id } = await submit(house);
    const run = one(await hand.take());
    assert.deepEqual((await cancelJob(house.db, job_id)).cancelled, []);
    // The calls wait as long as they may: the answer to one of the first two is the heartbeat's.
    const told = [...(await hand.call({ running: [run_id], wait: true })).cancel];
    if (told.length === 0) told.push(...(await hand.call({ running: [run_id], wait: true })).cancel);
    assert.deepEqual(told, [{ run_id, lease_id: run.lease_id, reason: 'cancelled' }]);
    await hand.call({ outcomes: [outcome(run, { status: 'CANCELLED' })] });
    assert.equal((await house.ended(job_id)).status, 'CANCELLED');
  });

  test('goodbye gives back what the worker holds, without an attempt', async () => {
    await using house = await openHouse();
    await submit(house);
    const hand = new Hand(house.url);
    const run = one(await hand.take());
    await hand.call({ bye: true, accept: false });
    const next = new Hand(house.url);
    const again = one(await next.take());
    assert.equal(again.run_id, run.run_id);
    assert.equal(again.attempt_number, 1);
    await next.call({ outcomes: [outcome(again)] });
    await assert.rejects(hand.call(), { code: 'session_lost' });
  });

  test('a worker gets only types and queues it serves, the highest priority first, and no more than its slots', async () => {
    await using house = await openHouse({ segments: 1 });
    for (const [type, priority, queue] of [
      ['a', 1, 'x'],
      ['b', 9, 'x'],
      ['a', 9, 'x'],
      ['a', 5, 'x'],
      ['a', 9, 'y'],
    ] as const) {
      await house.client.jobs.create({ type, priority, queue });
    }
    const hand = new Hand(house.url, { types: ['a'], slots: 2 });
    const first = await hand.take();
    assert.deepEqual(
      first.map((run) => [run.type, run.priority]),
      [
        ['a', 9],
        ['a', 9],
      ],
    );
    const { runs: none } = await hand.call({ wait: true, running: first.map((run) => run.run_id) });
    assert.deepEqual(none, [], 'more than its slots');
    await hand.call({ accept: false, outcomes: first.map((run) => outcome(run)) });
    const rest = await hand.take();
    assert.deepEqual(
      rest.map((run) => [run.type, run.priority]),
      [
        ['a', 5],
        ['a', 1],
      ],
    );
    await hand.call({ outcomes: rest.map((run) => outcome(run)) });
    assert.equal(await house.count('ready'), 1);
  });

  test('a worker that drains gets nothing new', async () => {
    await using house = await openHouse();
    const hand = new Hand(house.url);
    await hand.call();
    await submit(house);
    assert.deepEqual((await hand.call({ wait: true, accept: false })).runs, []);
    await eventually(async () => assert.equal((await house.client.workers.list()).workers[0]?.status, 'DRAINING'));
  });

  test('a worker that is ordered to drain finishes what it runs and ends, whichever server is asked', async () => {
    await using house = await openHouse({ servers: 2 });
    const door = gate();
    await house.addWorker({ slow: (_, ctx) => door.enter('slow', ctx.signal) }, { id: 'leaving' });
    const { job_id } = await house.client.jobs.create({ type: 'slow' });
    await door.entered('slow');
    const other = new Client({ url: house.servers[1]?.url ?? '' });
    await eventually(async () =>
      assert.deepEqual(await other.workers.drain('leaving'), { worker_id: 'leaving', told: true }),
    );
    const stateOf = async () => (await house.client.workers.list()).workers[0]?.status;
    await eventually(async () => assert.equal(await stateOf(), 'DRAINING'));
    const later = await house.client.jobs.create({ type: 'slow' });
    door.open('slow');
    assert.equal((await house.ended(job_id)).status, 'SUCCESS');
    await eventually(async () => assert.equal(await stateOf(), 'GONE'));
    assert.equal((await house.client.jobs.status(later.job_id)).latest_run?.status, 'QUEUED');
    await assert.rejects(other.workers.drain('leaving'), { code: 'worker_not_found' });
    other.close();
  });

  test('a worker that does not heed the order to drain gets nothing new all the same', async () => {
    await using house = await openHouse();
    const hand = new Hand(house.url);
    await hand.call();
    const orders: unknown[] = [];
    let known = false;
    const calling = (async () => {
      while (!known) orders.push((await hand.call({ wait: true })).drain);
    })();
    await eventually(async () => assert.equal((await house.client.workers.drain(hand.id)).told, true));
    known = true;
    await calling;
    for (let i = 0; i < 2; i++) orders.push((await hand.call({ wait: true })).drain);
    const heard = orders.slice(orders.indexOf(true));
    assert.ok(heard.length > 1 && heard.every((drain) => drain === true), 'it is told again with each answer');
    await submit(house);
    assert.deepEqual((await hand.call({ wait: true })).runs, []);
  });
});
