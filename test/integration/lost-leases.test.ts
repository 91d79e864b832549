// Leases that nobody has: made in the book for a worker that never hears of them, because an answer was lost, a server died or
// stopped, a claim committed late, or the worker had gone to another server. They are found, and what was taken back is not
// handed out by whoever is late.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Grant } from '@punctual/contract';
import { within } from '@punctual/server/internal/store/database';
import { resumeJob } from '@punctual/server/internal/store/job_moves';
import { eventually } from '../support/eventually.ts';
import { Hand, outcome } from '../support/hand.ts';
import { type House, openHouse, shortLease } from '../support/house.ts';
import { isBlocked, lockWith, race } from '../support/race.ts';

const submit = async (house: House): Promise<{ job_id: string; run_id: string }> => {
  const { job_id, run_id } = await house.client.jobs.create({ type: 'echo' });
  return { job_id, run_id: run_id ?? '' };
};

const one = (runs: Grant[]): Grant => {
  assert.equal(runs.length, 1);
  return runs[0] as Grant;
};

const urlsOf = (house: House): [string, string] => [house.servers[0]?.url ?? '', house.servers[1]?.url ?? ''];

const blocked = (house: House, text: string) => eventually(async () => assert.ok(await isBlocked(house.db, text)));

/** So long that nothing here waits for its end. */
const longLease = { lease_ms: 90_000, lease_margin_ms: 10_000 };

describe('leases that nobody has', { concurrency: 3 }, () => {
  test('one whose answer was lost by a server that is gone is found by one that has known the worker for long', async () => {
    await using house = await openHouse({ servers: 2, config: longLease });
    const [there, here] = urlsOf(house);
    const hand = new Hand(there);
    await hand.call();
    for (let i = 0; i < 3; i++) await hand.call({ url: here });
    const { run_id } = await submit(house);
    one(await hand.take());
    const again = one(await hand.take([], here));
    assert.deepEqual([again.run_id, again.attempt_number], [run_id, 1]);
    await hand.call({ url: here, outcomes: [outcome(again)] });
  });

  test('one that a claim made after its server had given up waiting for it', async () => {
    await using house = await openHouse({ config: { ...shortLease, query_timeout_ms: 2_000 }, segments: 1 });
    const hand = new Hand(house.url);
    await hand.call();
    const { run_id } = await submit(house);
    const { letGo } = await lockWith(house.db, 'lock table punctual.ready in share mode');
    const taking = hand.take();
    await blocked(house, 'delete from punctual.ready');
    await new Promise((resolve) => setTimeout(resolve, 2_600));
    await letGo();
    const run = one(await taking);
    assert.deepEqual([run.run_id, run.attempt_number], [run_id, 1]);
    await hand.call({ outcomes: [outcome(run)] });
  });

  test('one that was to be given back while its row could not be had', async () => {
    await using house = await openHouse({ config: { ...longLease, query_timeout_ms: 1_000 } });
    const hand = new Hand(house.url);
    const { run_id } = await submit(house);
    one(await hand.take());
    const { letGo } = await lockWith(house.db, `select from punctual.running where run_id = '${run_id}' for update`);
    await assert.rejects(hand.call(), { code: 'unavailable' });
    // Until the database has given up too.
    await eventually(async () => assert.ok(!(await isBlocked(house.db))));
    await letGo();
    const again = one(await hand.take());
    assert.deepEqual([again.run_id, again.attempt_number], [run_id, 1]);
    await hand.call({ outcomes: [outcome(again)] });
  });

  test('one of a worker that ended long ago', async () => {
    await using house = await openHouse({ config: longLease });
    const { run_id } = await submit(house);
    const gone = new Hand(house.url);
    one(await gone.take());
    const ended = `update punctual.workers set ended_at = now() - interval '1 hour' where session_id = '${gone.session_id}'`;
    await house.db.query({ name: '', text: ended, values: [] });
    const hand = new Hand(house.url);
    const again = one(await hand.take());
    assert.deepEqual([again.run_id, again.attempt_number], [run_id, 2]);
    await hand.call({ outcomes: [outcome(again)] });
  });

  test('what runs is not taken back by a server that hears late of a call before it', async () => {
    await using house = await openHouse({ servers: 2 });
    const [here, late] = urlsOf(house);
    const hand = new Hand(here);
    await hand.call();
    // The second call is on its way to the other server; given up, the third is answered with a run.
    hand.n++;
    await submit(house);
    const run = one(await hand.take());
    const n = 2;
    const answer = await hand.call({ url: late, n, concluded: n - 1 });
    await hand.call({ url: late, n, concluded: n - 1 });
    assert.equal(answer.describe, true);
    assert.equal(await house.count('running', `where lease_id = '${run.lease_id}'`), 1);
    const { refused } = await hand.call({ outcomes: [outcome(run)] });
    assert.deepEqual(refused, []);
  });

  test('what was not sent when the worker went elsewhere is not sent when it is back', async () => {
    await using house = await openHouse({ servers: 2, config: longLease, segments: 1 });
    const [here, there] = urlsOf(house);
    const hand = new Hand(here, { slots: 1 });
    await hand.call();
    const { run_id } = await submit(house);
    const { letGo } = await lockWith(house.db, 'lock table punctual.ready in share mode');
    const left = new AbortController();
    const waiting = hand.call({ wait: true, signal: left.signal });
    await blocked(house, 'delete from punctual.ready');
    left.abort();
    await assert.rejects(waiting);
    await letGo();
    await eventually(async () => assert.equal(await house.count('running'), 1));
    const taken = await hand.take([], there);
    assert.deepEqual(
      taken.map((run) => [run.run_id, run.attempt_number]),
      [[run_id, 1]],
    );
    for (let i = 0; i < 3; i++)
      assert.deepEqual((await hand.call({ wait: true, running: [run_id] })).runs, [], 'it is handed out twice');
    assert.deepEqual((await hand.call({ outcomes: [outcome(one(taken))] })).refused, []);
  });

  test('one that was handed over while its server stopped', async () => {
    await using house = await openHouse({ servers: 2, config: { ...longLease, poll_interval_ms: 60_000 } });
    const [stopping, next] = urlsOf(house);
    const hand = new Hand(stopping);
    await hand.call();
    const waiting = hand.call({ wait: true });
    await eventually(async () =>
      assert.match(await (await fetch(`${stopping}/metrics`)).text(), /punctual_idle_slots 10/),
    );
    const { letGo } = await lockWith(house.db, 'lock table punctual.jobs in share mode');
    const submitting = submit(house);
    await blocked(house, 'insert into punctual.jobs');
    const stopped = house.servers.shift()?.stop();
    assert.deepEqual((await waiting).runs, []);
    await hand.call({ url: next });
    await hand.call({ url: next });
    await letGo();
    const { run_id } = await submitting;
    await stopped;
    const run = one(await hand.take([], next));
    assert.deepEqual([run.run_id, run.attempt_number], [run_id, 1]);
    await hand.call({ url: next, outcomes: [outcome(run)] });
  });

  test('a worker is given no more than its slots while what is known of gates is read again', async () => {
    await using house = await openHouse();
    const hand = new Hand(house.url, { slots: 1 });
    await hand.call();
    // The worker waits, call after call; what is known of gates counts for a second.
    let [open, most] = [true, 0];
    const done: Grant[] = [];
    const working = (async () => {
      let runs: Grant[] = [];
      while (open) {
        const answer = await hand.call({ wait: true, outcomes: runs.map((run) => outcome(run)) });
        done.push(...runs);
        runs = answer.runs;
        most = Math.max(most, runs.length);
      }
    })();
    const { letGo } = await lockWith(house.db, 'lock table punctual.flow_version in access exclusive mode');
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    for (let i = 0; i < 5; i++) {
      await submit(house);
      assert.ok((await house.count('running')) <= 1, 'more is leased than it has slots');
    }
    await letGo();
    await eventually(() => assert.equal(done.length, 5));
    open = false;
    await working;
    assert.equal(most, 1);
  });

  test('a job that is resumed just when its run is to be put aside: the run goes back to its place', async () => {
    await using house = await openHouse();
    const { job_id, run_id } = await submit(house);
    const pause = `update punctual.jobs set paused_at = now() where job_id = '${job_id}'`;
    await house.db.query({ name: '', text: pause, values: [] });
    const hand = new Hand(house.url);
    const { second, secondWaited } = await race(
      house.db,
      (tx) => resumeJob(within(tx), job_id),
      () => hand.take(),
    );
    assert.ok(secondWaited);
    assert.equal(one(second).run_id, run_id);
    await hand.call({ outcomes: [outcome(one(second))] });
  });
});
