// Queues, priorities, gates and limits of queues and types, over several servers.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Grant, Problem } from '@punctual/contract';
import type { Handler } from '@punctual/sdk';
import { eventually } from '../support/eventually.ts';
import { Hand, outcome } from '../support/hand.ts';
import { type House, openHouse } from '../support/house.ts';
import { keepsWithin } from '../support/within.ts';

/** What operators say counts at every server within a second. */
const heeded = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 1_500));

/** Takes and settles runs until there were so many. */
async function drain(hand: Hand, expected: number): Promise<Grant[]> {
  const runs: Grant[] = [];
  let granted: Grant[] = [];
  while (runs.length < expected) {
    granted = (await hand.call({ wait: true, outcomes: granted.map((run) => outcome(run)) })).runs;
    runs.push(...granted);
  }
  await hand.call({ accept: false, outcomes: granted.map((run) => outcome(run)) });
  return runs;
}

/** Remembers how many of its runs were under way at once. */
function watcher(ms: number): { handler: Handler; most: (key?: string) => number; starts: number[] } {
  const now = new Map<string, number>();
  const most = new Map<string, number>();
  const starts: number[] = [];
  return {
    starts,
    most: (key = 'all') => most.get(key) ?? 0,
    handler: async (run) => {
      starts.push(performance.now());
      const keys = ['all', `type ${run.type}`, `queue ${run.queue}`];
      for (const key of keys) {
        const n = (now.get(key) ?? 0) + 1;
        now.set(key, n);
        most.set(key, Math.max(most.get(key) ?? 0, n));
      }
      await new Promise((resolve) => setTimeout(resolve, ms));
      for (const key of keys) now.set(key, (now.get(key) ?? 1) - 1);
    },
  };
}

const create = (house: House, fields: object, n = 1): Promise<unknown> =>
  house.client.jobs.createMany(Array.from({ length: n }, () => ({ type: 'echo', ...fields })));

test('a higher priority starts before a lower one, across all segments', async () => {
  await using house = await openHouse({ segments: 8 });
  const priorities = [0, 3, 5, 7, 9];
  // One at a time, so that they go to different segments.
  for (let i = 0; i < 60; i++) await create(house, { priority: priorities[(i * 7) % 5] });
  assert.ok(
    (await house.db.query({ name: '', text: 'select distinct segment from punctual.ready', values: [] })).length > 4,
  );
  for (const slots of [1, 4]) {
    const hand = new Hand(house.url, { slots });
    const got = (await drain(hand, 30)).slice(0, 30).map((run) => run.priority);
    await hand.call({ bye: true });
    assert.deepEqual(
      got,
      [...got].sort((a, b) => b - a),
      `with ${slots} slots`,
    );
  }
});

test('of lanes with the same priority none starves', async () => {
  await using house = await openHouse({ segments: 1 });
  await create(house, { type: 'a' }, 200);
  await create(house, { type: 'b' }, 10);
  const hand = new Hand(house.url, { slots: 1, types: ['a', 'b'] });
  const types = (await drain(hand, 40)).map((run) => run.type);
  assert.ok(types.filter((type) => type === 'b').length === 10, 'all of the second type started among the first forty');
});

test('a worker serves its queues in the order in which it names them', async () => {
  await using house = await openHouse();
  for (const queue of ['low', 'high', 'low', 'other', 'high', 'low'])
    await create(house, { queue, priority: queue === 'low' ? 9 : 1 });
  const hand = new Hand(house.url, { slots: 1, queues: ['high', 'low'] });
  assert.deepEqual(
    (await drain(hand, 5)).map((run) => run.queue),
    ['high', 'high', 'low', 'low', 'low'],
  );
});

test('a job that requires labels runs only on a worker that has them all', async () => {
  await using house = await openHouse();
  const by: Record<string, string> = {};
  const handlers = (id: string) => ({ echo: async (run: { job_id: string }) => void (by[run.job_id] = id) });
  await house.addWorker(handlers('plain'), { id: 'plain' });
  await house.addWorker(handlers('gpu'), { id: 'gpu', labels: ['gpu'] });
  const { job_id: both } = await house.client.jobs.create({ type: 'echo', requires: ['gpu', 'eu'] });
  const { job_id } = await house.client.jobs.create({ type: 'echo', requires: ['gpu'] });
  assert.equal((await house.ended(job_id)).status, 'SUCCESS');
  assert.equal(by[job_id], 'gpu');
  assert.equal((await house.client.jobs.status(both)).latest_run?.status, 'QUEUED');
  await house.addWorker(handlers('eu'), { id: 'eu', labels: ['eu', 'gpu'] });
  await house.ended(both);
  assert.equal(by[both], 'eu');
  assert.deepEqual((await house.client.jobs.get(both)).requires, ['eu', 'gpu']);
});

test('a held gate starts nothing on any server, and opened again keeps the order', async () => {
  await using house = await openHouse({ servers: 3 });
  const started: number[] = [];
  const handlers = { mail: async (run: { payload: unknown }) => void started.push(run.payload as number) };
  for (const { url } of house.servers) await house.addWorker(handlers, { url, slots: 1 });
  const gate = await house.client.gates.set('type', 'mail', { state: 'hold', note: 'provider down', author: 'ann' });
  assert.equal(gate.state, 'hold');
  await heeded();
  for (let i = 0; i < 30; i++) await create(house, { type: 'mail', payload: i });
  await create(house, { type: 'mail', payload: 99, delay_ms: 50 });
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  assert.deepEqual(started, []);
  assert.deepEqual(
    (await house.client.gates.list()).gates.map(({ name, state, note, author }) => ({ name, state, note, author })),
    [{ name: 'mail', state: 'hold', note: 'provider down', author: 'ann' }],
  );
  await house.client.gates.set('type', 'mail', { state: 'open' });
  await eventually(() => assert.equal(started.length, 31));
});

test('when a gate is answered for, the server that answered goes by it', async () => {
  const started: number[] = [];
  const handlers = { mail: (run: { payload: unknown }) => void started.push(run.payload as number) };
  await using house = await openHouse({ workers: 1, handlers });
  for (let i = 0; i < 20; i++) {
    await house.client.gates.set('type', 'mail', { state: 'hold' });
    const { run_id = '' } = await house.client.jobs.create({ type: 'mail', payload: i });
    assert.equal((await house.client.runs.get(run_id)).status, 'QUEUED', `the ${i}th started behind its gate`);
    await house.client.gates.set('type', 'mail', { state: 'open' });
    await eventually(() => assert.equal(started.length, i + 1));
  }
});

test('behind a held gate runs wait in their order', async () => {
  await using house = await openHouse({ segments: 1 });
  const hand = new Hand(house.url, { slots: 1 });
  await house.client.queues.set('default', { paused: true, note: 'upgrade' });
  await heeded();
  for (let i = 0; i < 20; i++) await create(house, { payload: i });
  assert.deepEqual((await hand.call({ wait: true })).runs, []);
  const [queue] = (await house.client.queues.list()).queues;
  assert.deepEqual({ state: queue?.state, ready: queue?.ready }, { state: 'hold', ready: 20 });
  await house.client.queues.set('default', { paused: false });
  assert.deepEqual(
    (await drain(hand, 20)).map((run) => run.payload),
    Array.from({ length: 20 }, (_, i) => i),
  );
});

test('a gate that closes while a claim is under way: what was claimed goes back where it was, and nothing starts', async () => {
  // The worker's call waits for longer than it takes until the gate counts.
  await using house = await openHouse({ segments: 1, config: { heartbeat_ms: 5_000 } });
  for (let i = 0; i < 5; i++) await create(house, { payload: i });
  const hand = new Hand(house.url, { slots: 2 });
  // The claim waits for the table of running runs, as it would for a slow database, until the gate is closed.
  const waiting = await house.db.transaction(async (tx) => {
    await tx.query({ name: '', text: 'lock table punctual.running in exclusive mode', values: [] });
    const call = hand.call({ wait: true });
    await eventually(async () =>
      assert.equal(
        (
          await house.db.query({
            ...{ name: '', values: [] },
            text: `select from pg_locks where relation = 'punctual.running'::regclass and not granted`,
          })
        ).length,
        1,
      ),
    );
    await house.client.gates.set('type', 'echo', { state: 'hold' });
    await heeded();
    return { call };
  });
  assert.deepEqual((await waiting.call).runs, []);
  await eventually(async () => assert.deepEqual([await house.count('ready'), await house.count('running')], [5, 0]));
  await house.client.gates.set('type', 'echo', { state: 'open' });
  assert.deepEqual(
    (await drain(hand, 5)).map((run) => [run.payload, run.attempt_number]),
    [0, 1, 2, 3, 4].map((payload) => [payload, 1]),
  );
});

test('a gate that drops ends each due run as DROPPED, with its record, and never starts one', async () => {
  await using house = await openHouse({
    servers: 2,
    workers: 1,
    handlers: { ads: async () => assert.fail('it started') },
  });
  await house.client.gates.set('type', 'ads', { state: 'drop', note: 'campaign over' });
  await heeded();
  await create(house, { type: 'ads' }, 50);
  const { job_id } = await house.client.jobs.create({ type: 'ads', delay_ms: 300 });
  const run = await house.ended(job_id);
  assert.deepEqual({ status: run.status, reason: run.reason }, { status: 'DROPPED', reason: 'gate' });
  await eventually(async () => assert.equal(await house.count('ended_runs', `where status = 'DROPPED'`), 51));
  await house.client.gates.set('type', 'ads', { state: 'open' });
});

test('the limits of a queue and of a type hold over three servers', async () => {
  await using house = await openHouse({ servers: 3 });
  const watch = watcher(15);
  await house.client.queues.set('mail', { max_concurrency: 5 });
  await house.client.limits.setLane('type', 'slow', { max_concurrency: 2 });
  await heeded();
  for (const { url } of [...house.servers, ...house.servers])
    await house.addWorker({ quick: watch.handler, slow: watch.handler }, { url, slots: 10 });
  for (let i = 0; i < 10; i++) {
    await create(house, { type: 'quick', queue: 'mail' }, 10);
    await create(house, { type: 'slow', queue: 'mail' }, 3);
    await create(house, { type: 'slow', queue: 'other' }, 3);
  }
  await eventually(async () => assert.equal(await house.count('ended_runs'), 160));
  assert.ok(watch.most('queue mail') <= 5, `${watch.most('queue mail')} ran at once in the queue`);
  assert.ok(watch.most('type slow') <= 2, `${watch.most('type slow')} of the type ran at once`);
  assert.ok(watch.most('queue mail') >= 3, 'the limit is used');
  const { limits } = await house.client.limits.listLanes();
  assert.deepEqual(
    limits.map(({ kind, name, max_concurrency }) => `${kind} ${name} ${max_concurrency}`),
    ['queue mail 5', 'type slow 2'],
  );
});

test('a limit can be raised, lowered and taken away while runs wait', async () => {
  await using house = await openHouse({ servers: 2 });
  const watch = watcher(30);
  await house.client.limits.setLane('type', 'echo', { max_concurrency: 0 });
  await heeded();
  for (const { url } of house.servers) await house.addWorker({ echo: watch.handler }, { url, slots: 20 });
  // So many that some are left when the limit goes.
  await create(house, {}, 120);
  await new Promise((resolve) => setTimeout(resolve, 500));
  assert.equal(watch.most(), 0);
  await house.client.limits.setLane('type', 'echo', { max_concurrency: 2 });
  await eventually(async () => assert.ok((await house.count('ended_runs')) >= 6));
  assert.equal(watch.most(), 2);
  await house.client.limits.setLane('type', 'echo', { max_concurrency: null });
  await eventually(async () => assert.equal(await house.count('ended_runs'), 120));
  assert.ok(watch.most() > 5);
});

test('a rate bounds how many runs start in a while, over two servers', async () => {
  await using house = await openHouse({ servers: 2 });
  const watch = watcher(1);
  await house.client.limits.setLane('type', 'echo', { rate: { units: 20, per_ms: 1_000, burst: 5 } });
  await heeded();
  for (const { url } of house.servers) await house.addWorker({ echo: watch.handler }, { url, slots: 20 });
  await keepsWithin(8_000, async () => {
    const all = watch.starts.length + 32;
    const began = performance.now();
    await create(house, {}, 30);
    await create(house, { units: 5 }, 2);
    await eventually(async () => assert.equal(await house.count('ended_runs'), all));
    const tookMs = (watch.starts.at(-1) ?? 0) - began;
    // 40 units at 20 a second, of which 5 may go at once.
    assert.ok(tookMs >= 1_500, `40 units took ${tookMs} ms`);
    return tookMs;
  });
});

test('a breaker holds the gate when too many attempts fail, lets one run through after a while, and opens it again', async () => {
  await using house = await openHouse({ servers: 2 });
  let healthy = false;
  let starts = 0;
  const handlers = {
    mail: async () => {
      starts++;
      if (!healthy) throw new Error('provider down');
    },
  };
  for (const { url } of house.servers) await house.addWorker(handlers, { url, slots: 3 });
  await house.client.breakers.set('mail', { error_rate: 0.5, min_attempts: 10, cool_down_ms: 1_000 });
  await heeded();
  const gate = async () => (await house.client.gates.list()).gates[0];
  const state = async () => (await house.client.breakers.list()).breakers[0]?.state;
  await create(house, { type: 'mail', max_retries: 0 }, 30);
  await eventually(async () => assert.equal((await gate())?.state, 'hold'));
  assert.match((await gate())?.note ?? '', /^circuit breaker: 100 % of \d+ attempts failed/);
  await create(house, { type: 'mail', max_retries: 0 }, 20);
  // Everybody heeds the gate, and what was under way is over: each start from now on is a probe, a second after the last.
  await heeded();
  await eventually(async () => assert.equal(await house.count('running'), 0));
  const before = starts;
  // A probe fails: one more start, and held again.
  await eventually(() => assert.ok(starts > before));
  assert.equal(starts, before + 1);
  await eventually(async () => assert.equal(await state(), 'open'));
  healthy = true;
  await eventually(async () => assert.equal((await gate())?.state, 'open'));
  await eventually(async () => assert.equal(await house.count('ready'), 0));
  assert.equal(await state(), 'closed');
});

test('a probe passes by no gate of an operator, and takes no place of a limit that is full', async () => {
  await using house = await openHouse();
  let probes = 0;
  let release: () => void = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  await house.addWorker({
    mail: async (run) => {
      if (run.queue === 'default') throw new Error('provider down');
      probes++;
    },
    other: () => released,
  });
  const breaker = async () => (await house.client.breakers.list()).breakers[0]?.state;
  await house.client.breakers.set('mail', { error_rate: 0.5, min_attempts: 2, cool_down_ms: 1_000 });
  await house.client.queues.set('full', { max_concurrency: 1 });
  await house.client.gates.set('queue', 'held', { state: 'hold' });
  await heeded();
  await create(house, { type: 'other', queue: 'full' });
  await create(house, { type: 'mail', max_retries: 0 }, 5);
  await eventually(async () => assert.notEqual(await breaker(), 'closed'));
  await eventually(async () => assert.equal(await house.count('ready'), 0));
  await eventually(async () => assert.equal(await house.count('running'), 1));
  await create(house, { type: 'mail', queue: 'held' });
  await create(house, { type: 'mail', queue: 'full' });
  // Longer than two times the breaker cools down.
  await new Promise((resolve) => setTimeout(resolve, 3_500));
  assert.equal(probes, 0);
  await house.client.gates.set('type', 'mail', { state: 'hold', author: 'ann' });
  release();
  await eventually(async () => assert.equal(await house.count('running'), 0));
  await new Promise((resolve) => setTimeout(resolve, 3_500));
  assert.equal(probes, 0, 'an operator has closed the type');
  await house.client.gates.set('type', 'mail', { state: 'open', author: 'ann' });
  await eventually(() => assert.equal(probes, 1));
  await house.client.gates.set('queue', 'held', { state: 'open' });
  await eventually(() => assert.equal(probes, 2));
});

test('jobs that say no priority get that of their queue', async () => {
  await using house = await openHouse();
  await house.client.queues.set('mail', { default_priority: 8 });
  await eventually(async () => {
    const { job_id } = await house.client.jobs.create({ type: 'x', queue: 'mail' });
    assert.equal((await house.client.jobs.get(job_id)).priority, 8);
  });
  const priorityIn = async (queue: string): Promise<number> => {
    const { job_id } = await house.client.jobs.create({ type: 'x', queue });
    return (await house.client.jobs.get(job_id)).priority;
  };
  assert.ok((await priorityIn('time-critical')) > (await priorityIn('batch')));
  assert.ok((await priorityIn('batch')) > (await priorityIn('background')));
});

test('in a queue with ageing a run moves up as it waits', async () => {
  await using house = await openHouse({ segments: 2 });
  await house.client.queues.set('aged', { ageing_ms: 1_000 });
  const { job_id: old } = await house.client.jobs.create({ type: 'echo', queue: 'aged', priority: 1 });
  const laneOf = async (): Promise<number> => (await house.client.jobs.status(old)).latest_run?.priority ?? 0;
  await eventually(async () => assert.ok((await laneOf()) >= 2));
  await eventually(async () => assert.ok((await laneOf()) >= 3));
  const { job_id: young } = await house.client.jobs.create({ type: 'echo', queue: 'aged', priority: 2 });
  const hand = new Hand(house.url, { slots: 1 });
  assert.deepEqual(
    (await drain(hand, 2)).map((run) => run.job_id),
    [old, young],
  );
});

test('what makes no sense is refused with the field', async () => {
  await using house = await openHouse();
  const put = async (path: string, body: unknown): Promise<Problem> => {
    const response = await fetch(house.url + path, {
      method: 'PUT',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    assert.equal(response.status, 400, path);
    return (await response.json()) as Problem;
  };
  const path = (problem: Problem): string | undefined => problem.errors?.[0]?.path;
  assert.equal(path(await put('/gates/type/mail', { state: 'shut' })), 'state');
  assert.equal(path(await put('/gates/type/mail', {})), 'state');
  assert.equal(path(await put('/gates/worker/mail', { state: 'hold' })), 'kind');
  assert.equal(path(await put('/gates/type/%00', { state: 'hold' })), 'name');
  assert.equal(path(await put('/queues/mail', { max_concurrency: -1 })), 'max_concurrency');
  assert.equal(path(await put('/queues/mail', { default_priority: 10 })), 'default_priority');
  assert.equal(path(await put('/queues/mail', { ageing_ms: 1 })), 'ageing_ms');
  assert.equal(path(await put('/limits/type/mail', { rate: { units: 0, per_ms: 10 } })), 'rate.units');
  assert.equal(path(await put('/limits/type/mail', { rate: { units: 1 } })), 'rate.per_ms');
  assert.equal(path(await put('/limits/type/mail', { maximum: 1 })), 'maximum');
  const missing = await fetch(`${house.url}/queues/nobody`);
  assert.equal(missing.status, 404);
});
