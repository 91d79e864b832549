// Limits per key and fair shares, through servers and workers: never more than allowed at once, nobody forgotten.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { CreateJob } from '@punctual/contract';
import { type Handler, RetryError } from '@punctual/sdk';
import { eventually } from '../support/eventually.ts';
import { gate } from '../support/gate.ts';
import { type House, openHouse } from '../support/house.ts';
import { keepsWithin, timed } from '../support/within.ts';

/** Handlers that know how many of a key run, and how many ever did at once. */
function watched(work: (key: string) => Promise<void>): {
  handler: Handler;
  most: Map<string, number>;
  starts: Map<string, number[]>;
} {
  const now = new Map<string, number>();
  const most = new Map<string, number>();
  const starts = new Map<string, number[]>();
  const handler: Handler = async (run) => {
    const { key } = run.payload as { key: string };
    const running = (now.get(key) ?? 0) + 1;
    now.set(key, running);
    most.set(key, Math.max(running, most.get(key) ?? 0));
    starts.set(key, [...(starts.get(key) ?? []), performance.now()]);
    await work(key);
    now.set(key, (now.get(key) ?? 1) - 1);
  };
  return { handler, most, starts };
}

const keyed = (key: string, more: object = {}): CreateJob => ({
  type: 'work',
  concurrency_key: key,
  payload: { key },
  ...more,
});
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

async function create(house: House, jobs: CreateJob[]): Promise<string[]> {
  const ids: string[] = [];
  for (let i = 0; i < jobs.length; i += 1000) {
    const made = await house.client.jobs.createMany(jobs.slice(i, i + 1000));
    ids.push(...made.jobs.map((job) => job.job_id));
  }
  return ids;
}

const allEnded = (house: House, count: number, withinMs = 60_000): Promise<void> =>
  eventually(async () => assert.equal(await house.count('ended_runs'), count), { withinMs });

describe('limits of keys', () => {
  test('of a key with a limit never more run at once, whatever their types and on whichever server', async () => {
    const { handler, most } = watched(() => pause(20));
    await using house = await openHouse({ servers: 3 });
    for (const server of house.servers)
      await house.addWorker({ work: handler, other: handler }, { url: server.url, slots: 20 });
    await house.client.limits.put('a', { max_concurrency: 3 });
    await house.client.limits.put('*', { max_concurrency: 1 });
    const jobs = Array.from({ length: 150 }, (_, i) =>
      keyed(['a', 'b', 'c'][i % 3] as string, { type: i % 2 ? 'work' : 'other' }),
    );
    await create(house, jobs);
    await allEnded(house, 150);
    assert.equal(most.get('a'), 3);
    assert.equal(most.get('b'), 1);
    assert.equal(most.get('c'), 1);
  });

  test('one that waits for its next attempt gives up its place, and takes its turn again', async () => {
    const order: string[] = [];
    await using house = await openHouse({
      workers: 1,
      handlers: {
        work: async (run) => {
          const { name } = run.payload as { name: string };
          order.push(name);
          if (name === 'fails' && run.attempt_number === 1) throw new Error('not yet');
        },
      },
    });
    await house.client.limits.put('k', { max_concurrency: 1 });
    // So long that the two others have gone by then, also where the machine stands still for seconds.
    const backoff = { base_ms: 8_000, factor: 1, jitter: 0 };
    await create(
      house,
      ['fails', 'second', 'third'].map((name) => ({ ...keyed('k'), payload: { name }, backoff })),
    );
    await allEnded(house, 3);
    assert.deepEqual(order, ['fails', 'second', 'third', 'fails']);
  });

  test('a rate holds over three servers: never more than the burst and what came in since', async () => {
    const { handler, starts } = watched(async () => {});
    await using house = await openHouse({ servers: 3 });
    for (const server of house.servers) await house.addWorker({ work: handler }, { url: server.url, slots: 20 });
    await house.client.limits.put('k', { rate: { units: 20, per_ms: 1000, burst: 5 } });
    // 40 runs of one unit and 10 of two: 60 units, of which 5 are there and 55 take 2.75 s.
    const jobs = Array.from({ length: 50 }, (_, i) =>
      keyed('k', i % 5 === 0 ? { units: 2, payload: { key: 'k', units: 2 } } : {}),
    );
    await keepsWithin(8_000, async () => {
      const before = starts.get('k')?.length ?? 0;
      const from = performance.now();
      await create(house, jobs);
      await allEnded(house, before + 50);
      const times = starts.get('k')?.slice(before) ?? [];
      assert.equal(times.length, 50);
      const tookMs = (times.at(-1) ?? 0) - from;
      assert.ok(tookMs > 2500, `60 units at 20 a second, 5 at once, took ${tookMs} ms`);
      // A start may follow its admission late, never come before it.
      for (const [k, to] of times.entries())
        assert.ok(k + 1 <= 5 + (20 * (to - from)) / 1000, `${k + 1} runs started within ${to - from} ms`);
      return tookMs;
    });
  });

  test('a run that needs more units than the bucket holds goes when it is full', async () => {
    await using house = await openHouse({ workers: 1, handlers: { work: async () => {} } });
    await house.client.limits.put('k', { rate: { units: 5, per_ms: 100, burst: 2 } });
    await create(house, [keyed('k'), keyed('k', { units: 10 }), keyed('k')]);
    await allEnded(house, 3);
  });

  test('Retry-After slows the whole key down, and is shown', async () => {
    const starts: number[] = [];
    await using house = await openHouse({
      workers: 1,
      handlers: {
        work: async (run) => {
          starts.push(performance.now());
          if (starts.length === 1 && run.attempt_number === 1)
            throw new RetryError('slow down', { retryAfterMs: 4000 });
        },
      },
    });
    await house.client.limits.put('k', { max_concurrency: 1 });
    await create(house, [keyed('k'), keyed('k'), keyed('k')]);
    await eventually(async () => assert.notEqual((await house.client.limits.get('k')).blocked_until, null));
    await allEnded(house, 3);
    assert.ok(
      (starts[1] ?? 0) - (starts[0] ?? 0) > 3950,
      `the next run started after ${(starts[1] ?? 0) - (starts[0] ?? 0)} ms`,
    );
  });

  test('limits are changed while runs wait, through any server, and shown with who uses them', async () => {
    const gates = gate();
    await using house = await openHouse({ servers: 3 });
    const hold: Handler = (run, ctx) => gates.enter(run.name, ctx.signal);
    await house.addWorker({ work: hold }, { url: house.servers[1]?.url ?? '', slots: 20 });
    const { limits } = house.client;
    let tries = 0;
    // A change counts within a second.
    await keepsWithin(1_000, async () => {
      const key = `k${tries++}`;
      await limits.put(key, { max_concurrency: 0, note: 'closed' });
      await create(
        house,
        Array.from({ length: 6 }, (_, i) => keyed(key, { name: `${key} ${i}` })),
      );
      await eventually(async () => assert.equal((await limits.get(key)).waiting, 6));
      const tookMs = await timed(async () => {
        await limits.put(key, { max_concurrency: 2 });
        await Promise.all([gates.entered(`${key} 0`), gates.entered(`${key} 1`)]);
      });
      const use = await limits.get(key);
      assert.deepEqual([use.source, use.in_use, use.holders.length, use.waiting, use.note], ['own', 2, 2, 4, null]);
      await limits.put(key, { max_concurrency: 1 });
      gates.open(`${key} 0`);
      await eventually(async () => assert.equal((await limits.get(key)).in_use, 1));
      await pause(500);
      assert.equal((await limits.get(key)).in_use, 1, 'lowering ends nothing, and lets nobody go');
      await limits.delete(key);
      await Promise.all([2, 3, 4, 5].map((i) => gates.entered(`${key} ${i}`)));
      for (let i = 0; i < 6; i++) gates.open(`${key} ${i}`);
      await allEnded(house, 6 * tries);
      return tookMs;
    });
  });

  test('the default holds for keys without a limit, and can be raised for all of them at once', async () => {
    await using house = await openHouse({ servers: 2 });
    const { limits } = house.client;
    await limits.put('*', { max_concurrency: 0 });
    await limits.put('free', {});
    await create(
      house,
      ['a', 'b', 'c', 'free'].map((key) => keyed(key)),
    );
    await house.addWorker({ work: async () => {} });
    await allEnded(house, 1);
    assert.deepEqual((await limits.get('a')).source, 'default');
    await limits.put('*', { max_concurrency: 1 });
    await allEnded(house, 4);
    await limits.delete('*');
    assert.equal((await limits.get('a')).source, 'none');
  });

  test('runs are limited however they come about: at a time, at once, by a schedule, run now', async () => {
    const { handler, most } = watched(() => pause(50));
    await using house = await openHouse({ workers: 2, handlers: { work: handler }, slots: 10 });
    await house.client.limits.put('k', { max_concurrency: 1 });
    await house.client.jobs.create(keyed('k', { delay_ms: 50 }));
    const every = await house.client.jobs.create(keyed('k', { interval_ms: 3_600_000, overlap: 'allow' }));
    await house.client.jobs.runNow(every.job_id);
    await house.client.jobs.runNow(every.job_id);
    await create(house, [keyed('k'), keyed('k')]);
    await allEnded(house, 5);
    assert.equal(most.get('k'), 1);
  });
});

describe('runs that start straight from their entry lane', () => {
  test('hold their place by running; who waits for it goes as soon as it is free, on whichever server it was', async () => {
    const gates = gate();
    const hold: Handler = (run, ctx) => gates.enter(run.name, ctx.signal);
    await using house = await openHouse({ servers: 2 });
    const [one, two] = house.servers.map((server) => server.url) as [string, string];
    await house.client.limits.put('k', { max_concurrency: 1 });
    await house.addWorker({ work: hold }, { url: one });
    let tries = 0;
    await keepsWithin(1_000, async () => {
      const [before, behind] = [`first ${tries}`, `second ${tries}`];
      const [first] = await create(house, [keyed('k', { name: before })]);
      await gates.entered(before);
      if (tries++ === 0) {
        assert.deepEqual([await house.count('running', `where key = 'k'`), await house.count('key_holds')], [1, 0]);
        await house.addWorker({ work: hold, other: hold }, { url: two });
      }
      await create(house, [keyed('k', { name: behind, type: 'other' })]);
      await eventually(async () => assert.equal(await house.count('waiting', `where key = 'k'`), 1));
      const { latest_run } = await house.client.jobs.status(first ?? '');
      assert.deepEqual((await house.client.limits.get('k')).holders, [latest_run?.run_id]);
      const tookMs = await timed(async () => {
        gates.open(before);
        await gates.entered(behind);
      });
      gates.open(behind);
      await allEnded(house, 2 * tries);
      return tookMs;
    });
  });

  test('thousands of keys of one run each are never admitted: nothing is written but their start and end', async () => {
    await using house = await openHouse({ segments: 4, workers: 1, slots: 200, handlers: { work: async () => {} } });
    await house.client.limits.put('*', { max_concurrency: 1 });
    await create(
      house,
      Array.from({ length: 3000 }, (_, i) => keyed(`k${i}`)),
    );
    await allEnded(house, 3000);
    assert.equal(await house.count('key_limits', `where key <> '*'`), 0);
    assert.equal(await house.count('key_holds'), 0);
  });

  test('a run behind a closed gate has no place: others of its key go, and it goes when the gate is open', async () => {
    await using house = await openHouse({ workers: 1, handlers: { work: async () => {}, shut: async () => {} } });
    await house.client.limits.put('k', { max_concurrency: 1 });
    await house.client.gates.set('type', 'shut', { state: 'hold' });
    await pause(1000);
    await create(house, [keyed('k', { type: 'shut' }), keyed('k')]);
    await allEnded(house, 1);
    assert.equal((await house.client.limits.get('k')).in_use, 0);
    await house.client.gates.set('type', 'shut', { state: 'open' });
    await allEnded(house, 2);
  });

  test('a run whose type is limited as well is admitted first, and is counted by both', async () => {
    const { handler, most } = watched(() => pause(5));
    await using house = await openHouse({ servers: 2, segments: 2 });
    for (const { url } of house.servers) await house.addWorker({ work: handler, other: handler }, { url, slots: 20 });
    await house.client.limits.put('k', { max_concurrency: 2 });
    // Set while runs come in: those that are in entry lanes then are left to the admitter.
    const jobs = Array.from({ length: 60 }, (_, i) => keyed('k', { type: i % 2 ? 'work' : 'other' }));
    await create(house, jobs.slice(0, 20));
    await house.client.limits.setLane('type', 'work', { max_concurrency: 1 });
    await create(house, jobs.slice(20));
    await allEnded(house, 60);
    assert.equal(most.get('k'), 2);
  });

  test('a breaker lets one of them through its gate', async () => {
    let healthy = false;
    await using house = await openHouse({
      workers: 1,
      handlers: {
        work: async () => {
          if (!healthy) throw new Error('down');
        },
      },
    });
    await house.client.breakers.set('work', { error_rate: 0.5, min_attempts: 10, cool_down_ms: 1_000 });
    await pause(1000);
    const some = Array.from({ length: 12 }, (_, i) => keyed(`k${i}`, { max_retries: 0 }));
    await create(house, some);
    await eventually(async () => assert.equal((await house.client.gates.list()).gates[0]?.state, 'hold'));
    healthy = true;
    await create(house, some);
    await allEnded(house, 24);
  });

  test('runs with keys and runs without take turns at one priority, and a higher priority goes first', async () => {
    const order: string[] = [];
    const gates = gate();
    await using house = await openHouse({
      segments: 1,
      workers: 1,
      slots: 1,
      handlers: {
        first: (run, ctx) => gates.enter(run.name, ctx.signal),
        work: async (run) => {
          order.push(run.name);
        },
      },
    });
    await house.client.jobs.create({ type: 'first', name: 'first' });
    await gates.entered('first');
    const plain = Array.from({ length: 30 }, () => ({ type: 'work', name: 'plain' }));
    const withKeys = Array.from({ length: 30 }, (_, i) => keyed(`k${i}`, { name: 'keyed' }));
    await create(house, [...plain, ...withKeys, keyed('urgent', { name: 'urgent', priority: 9 })]);
    gates.open('first');
    await allEnded(house, 62);
    assert.equal(order[0], 'urgent');
    const half = order.slice(1, 31);
    for (const kind of ['plain', 'keyed'])
      assert.ok(half.filter((name) => name === kind).length > 5, `of the first half: ${half.join(' ')}`);
  });
});

describe('fair queues', () => {
  test('while one user has twenty thousand due runs, the job of another starts within two seconds', async () => {
    const started = new Map<string, number>();
    await using house = await openHouse({
      servers: 2,
      workers: 1,
      slots: 20,
      handlers: {
        work: async (run) => {
          if (run.user_id !== 'crowd') started.set(run.name, performance.now());
          await pause(2);
        },
      },
    });
    await house.client.limits.putFair('shared', { share: 20 });
    const job = { type: 'work', queue: 'shared' };
    await create(
      house,
      Array.from({ length: 20_000 }, () => ({ ...job, user_id: 'crowd' })),
    );
    for (const user_id of ['single', undefined]) {
      await keepsWithin(2_000, async () => {
        const name = `of ${user_id} ${started.size}`;
        const at = performance.now();
        await house.client.jobs.create({ ...job, name, ...(user_id === undefined ? {} : { user_id }) });
        const startedAt = await eventually(() => {
          const time = started.get(name);
          assert.ok(time !== undefined);
          return time;
        });
        return startedAt - at;
      });
    }
    assert.ok((await house.count('waiting', `where reason = 'limit' and key = 'user shared crowd'`)) > 1000);
    // The rest is not worth waiting for.
    await house.client.limits.deleteFair('shared');
    await eventually(async () => assert.equal(await house.count('waiting'), 0));
  });

  test('a user has at most its share ready in a segment, by its weight, and all of it is done', async () => {
    await using house = await openHouse({ segments: 1 });
    await house.client.limits.putFair('shared', { share: 4, weights: { big: 2.5 } });
    const users = ['big', 'small', undefined];
    const jobs = users.flatMap((user_id) =>
      Array.from({ length: 30 }, () => ({
        type: 'work',
        queue: 'shared',
        ...(user_id === undefined ? {} : { user_id }),
      })),
    );
    await create(house, jobs);
    await eventually(async () => assert.equal(await house.count('waiting', `where reason = 'limit'`), 90 - 10 - 4 - 4));
    const held = await house.db.query<{ key: string; n: number }>({
      name: '',
      text: 'select key, count(*)::integer as n from punctual.key_holds group by key order by key',
      values: [],
    });
    assert.deepEqual(held, [
      { key: 'user shared ', n: 4 },
      { key: 'user shared big', n: 10 },
      { key: 'user shared small', n: 4 },
    ]);
    await house.addWorker({ work: async () => {} }, { slots: 3 });
    await allEnded(house, 90);
  });

  test('a run with a key in a fair queue goes when both have room', async () => {
    const { handler, most } = watched(() => pause(5));
    await using house = await openHouse({ segments: 1, workers: 2, handlers: { work: handler }, slots: 10 });
    await house.client.limits.put('k', { max_concurrency: 1 });
    await house.client.limits.putFair('shared', { share: 2 });
    const jobs = Array.from({ length: 40 }, (_, i) =>
      i % 2 === 0
        ? keyed('k', { queue: 'shared', user_id: `u${i % 4}` })
        : { type: 'work', queue: 'shared', user_id: `u${i % 4}`, payload: { key: 'none' } },
    );
    await create(house, jobs);
    await allEnded(house, 40);
    assert.equal(most.get('k'), 1);
  });

  test('a queue becomes fair and unfair again while its runs wait', async () => {
    await using house = await openHouse({ servers: 2, segments: 1 });
    await create(
      house,
      Array.from({ length: 50 }, () => ({ type: 'work', queue: 'shared', user_id: 'u' })),
    );
    await house.client.limits.putFair('shared', { share: 3 });
    await eventually(async () => assert.equal(await house.count('waiting', `where reason = 'limit'`), 47));
    await house.client.limits.putFair('shared', { share: 5 });
    await eventually(async () => assert.equal(await house.count('waiting', `where reason = 'limit'`), 45));
    assert.equal((await house.client.limits.listFair()).fair_queues[0]?.share, 5);
    await house.client.limits.deleteFair('shared');
    await eventually(async () => assert.equal(await house.count('waiting'), 0));
    await house.addWorker({ work: async () => {} });
    await allEnded(house, 50);
  });
});

describe('limits at the door', () => {
  test('they are listed by key in pages, the default once', async () => {
    await using house = await openHouse();
    const { limits } = house.client;
    const keys = ['a', 'b', 'c/d', 'e', '*'];
    for (const key of keys) await limits.put(key, { max_concurrency: 1, rate: { units: 2, per_ms: 10 } });
    const first = await limits.list({ limit: 3 });
    const second = await limits.list({ limit: 3, cursor: first.next_cursor ?? '' });
    assert.equal(second.next_cursor, null);
    const listed = [...first.limits, ...second.limits];
    assert.deepEqual(listed.map((limit) => limit.key).sort(), [...keys].sort());
    assert.deepEqual(listed[0]?.rate, { units: 2, per_ms: 10, burst: 2 });
    assert.equal((await limits.get('c/d')).max_concurrency, 1);
  });

  test('what makes no sense is refused, and nothing is stored', async () => {
    await using house = await openHouse();
    const send = async (method: string, path: string, body?: unknown): Promise<string> => {
      const response = await fetch(`${house.url}${path}`, {
        method,
        ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
      });
      return `${response.status} ${((await response.json()) as { code?: string }).code}`;
    };
    const wrong: [unknown, string?][] = [
      [{ max_concurrency: -1 }],
      [{ max_concurrency: 1.5 }],
      [{ max_concurrency: 1e9 }],
      [{ max_concurrency: '3' }],
      [{ maximum: 3 }],
      [{ rate: { units: 0, per_ms: 1000 } }],
      [{ rate: { units: 1 } }],
      [{ rate: { units: 1, per_ms: 0 } }],
      [{ rate: { units: 1, per_ms: 1000, burst: 0 } }],
      [{ note: 'a\u0000b' }],
      [[]],
    ];
    for (const [body] of wrong)
      assert.equal(await send('PUT', '/limits/key/k', body), '400 invalid_input', JSON.stringify(body));
    for (const key of ['**', '%20', '%00', 'a%20b', 'x'.repeat(129)])
      assert.equal(await send('PUT', `/limits/key/${key}`, {}), '400 invalid_id', key);
    assert.equal(await send('DELETE', '/limits/key/k'), '404 limit_not_found');
    assert.equal(await send('DELETE', '/limits/fair/q'), '404 limit_not_found');
    assert.equal(await send('GET', '/limits?cursor=xyz'), '400 invalid_cursor');
    for (const body of [
      { share: 0 },
      { weights: { u: 0 } },
      { weights: { 'a b': 1 } },
      { weights: { u: 'x' } },
      { weights: [] },
    ])
      assert.equal(await send('PUT', '/limits/fair/q', body), '400 invalid_input', JSON.stringify(body));
    assert.equal(await house.count('key_limits'), 0);
    assert.equal(await house.count('fair_queues'), 0);
  });
});
