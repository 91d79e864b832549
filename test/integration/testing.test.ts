// The TestScheduler against the real thing: each scenario is played twice, once in virtual time and once by a server and a worker
// on PostgreSQL, and must come to the same.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as realSleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { CreateJob } from '@punctual/contract';
import { Client, FatalError, type Handler, PunctualError, RetryError, Snooze, type Worker } from '@punctual/sdk';
import { type TestClient, TestScheduler } from '@punctual/testing';
import { eventually } from '../support/eventually.ts';
import { type House, openHouse } from '../support/house.ts';

interface World {
  client: TestClient;
  handle(handlers: Record<string, Handler>, slots?: number): Promise<void>;
  /** For handlers. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** What the promise gives, while time goes on. */
  meanwhile<T>(promise: Promise<T>): Promise<T>;
  /** Asks until it holds, while time goes on. */
  until(holds: () => Promise<boolean>): Promise<void>;
}

let house: House;
before(async () => {
  house = await openHouse();
});
after(async () => {
  await house[Symbol.asyncDispose]();
});

async function inReality<T>(play: (world: World) => Promise<T>): Promise<T> {
  const workers: Worker[] = [];
  const client = new Client({ url: house.url });
  try {
    return await play({
      client,
      handle: async (handlers, slots = 10) => void workers.push(await house.addWorker(handlers, { slots })),
      sleep: (ms, signal) =>
        realSleep(ms, undefined, signal === undefined ? {} : { signal }).catch(() => {
          throw signal?.reason;
        }),
      meanwhile: (promise) => promise,
      until: (holds) => eventually(async () => assert.ok(await holds()), { withinMs: 60_000 }).then(() => undefined),
    });
  } finally {
    await Promise.all(workers.map((worker) => worker.stop({ graceMs: 0 })));
    client.close();
  }
}

async function inVirtualTime<T>(play: (world: World) => Promise<T>): Promise<T> {
  const scheduler = new TestScheduler({ patienceMs: 60_000 });
  const { client, clock } = scheduler;
  return play({
    client,
    handle: async (handlers) => {
      for (const [type, handler] of Object.entries(handlers)) scheduler.handle(type, handler);
    },
    sleep: (ms, signal) => clock.sleep(ms, { signal }),
    async meanwhile(promise) {
      let isOver = false;
      const over = promise.finally(() => {
        isOver = true;
      });
      over.catch(() => undefined);
      // An hour at most.
      for (let i = 0; i < 72_000 && !isOver; i++) await scheduler.advance('50ms');
      return over;
    },
    async until(holds) {
      for (let i = 0; i < 72_000; i++) {
        await scheduler.advance('10ms');
        if (await holds()) return;
      }
      assert.fail('it never held');
    },
  });
}

/** All that can be seen of a job, but times and ids. */
async function seen({ client }: World, job_id: string): Promise<unknown> {
  const { status } = await client.jobs.status(job_id);
  const { runs } = await client.jobs.runs(job_id);
  const { occurrences } = await client.jobs.occurrences(job_id);
  return {
    status,
    runs: await Promise.all(
      runs.map(
        async ({
          run_id,
          status: how,
          reason,
          attempt_number,
          max_attempts,
          error_message,
          result,
          cause,
          ...run
        }) => ({
          ...{ how, reason, attempt_number, max_attempts, error_message, result, cause },
          isByWorker: run.executor_id !== null,
          attempts: (await client.runs.attempts(run_id)).attempts.map((one) => [
            one.attempt_number,
            one.outcome,
            one.error_message,
          ]),
          logs: (await client.runs.logs(run_id)).lines.map((line) => [
            line.attempt_number,
            line.level,
            line.message,
            line.stream,
          ]),
        }),
      ),
    ),
    occurrences: occurrences.map(({ reason, times, note, run_id }) => [reason, times, note, run_id !== null]),
  };
}

const failureOf = async (work: Promise<unknown>): Promise<unknown> => {
  const error: unknown = await work.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof PunctualError, `it did not fail: ${String(error)}`);
  return [error.code, error.message.replace(/[0-9a-f-]{36}|[\dT:.-]{23}Z/g, '…'), error.errors ?? null];
};

/** Submits one job, waits for its end, shows it. */
const one =
  (job: Omit<CreateJob, 'type'>, handler: (world: World) => Handler) =>
  async (world: World): Promise<unknown> => {
    await world.handle({ play: handler(world) });
    const { job_id } = await world.client.jobs.create({ type: 'play', ...job });
    await world.meanwhile(world.client.jobs.waitFor(job_id));
    return seen(world, job_id);
  };

/** The same, for a schedule that ends. */
const recurring =
  (job: Omit<CreateJob, 'type'>, handler: (world: World) => Handler) =>
  async (world: World): Promise<unknown> => {
    await world.handle({ play: handler(world) });
    const { job_id } = await world.client.jobs.create({ type: 'play', ...job });
    await world.until(async () => (await world.client.jobs.status(job_id)).status === 'COMPLETED');
    return seen(world, job_id);
  };

const quick = { base_ms: 20, jitter: 0 } as const;

const scenarios: Record<string, (world: World) => Promise<unknown>> = {
  'a run succeeds, logs, and gives a result': one({ payload: { n: 2 }, name: 'double' }, () => (run, { log }) => {
    log.info('doubling', { run: run.attempt_number });
    log.warn('soon done');
    return { double: (run.payload as { n: number }).n * 2 };
  }),
  'a run without a result': one({}, () => () => undefined),
  'a run fails twice and then succeeds': one({ max_retries: 5, backoff: quick }, () => ({ attempt_number: n }) => {
    if (n < 3) throw n === 1 ? new Error(`not yet ${n}`) : new RetryError('soon', { retryAfterMs: 30 });
    return n;
  }),
  'a run fails for good at once': one({ max_retries: 5 }, () => () => {
    throw new FatalError('of no use');
  }),
  'a run uses up its attempts': one({ max_retries: 2, backoff: quick }, () => ({ attempt_number }) => {
    throw new TypeError(`no ${attempt_number}`);
  }),
  'an attempt takes too long': one(
    { timeout_ms: 150, max_retries: 1, backoff: quick },
    (world) =>
      async (_, { signal }) => {
        await world.sleep(60_000, signal);
      },
  ),
  'a handler that ignores its timeout and returns has timed out': one(
    { timeout_ms: 100, max_retries: 0 },
    (world) => async () => {
      await world.sleep(300);
      return 'late';
    },
  ),
  'the whole run takes too long': one(
    { run_timeout_ms: 3_000, max_retries: 5, backoff: { base_ms: 10_000, jitter: 0 } },
    () => () => {
      throw new Error('again');
    },
  ),
  'a run snoozes twice without using up attempts': one({ max_retries: 0 }, () => {
    let asked = 0;
    return () => {
      asked += 1;
      if (asked < 3) throw new Snooze(30);
      return asked;
    };
  }),
  'a checkpoint reaches the next attempt': one({ max_retries: 1, backoff: quick }, () => async (_, ctx) => {
    if (ctx.checkpointed !== undefined) return ctx.checkpointed;
    await ctx.checkpoint({ page: 7 });
    throw new Error('half way');
  }),
  'a result that is not JSON fails for good': one({ max_retries: 3 }, () => () => 10n),
  'something that is not an error is thrown': one({ max_retries: 0 }, () => () => {
    throw { odd: true };
  }),
  'a job for later runs later': async (world) => {
    const times: string[] = [];
    await world.handle({
      play: (run) => {
        times.push(run.scheduled_for === run.due_at ? 'on time' : 'moved');
        return null;
      },
    });
    const { job_id, run_id = '' } = await world.client.jobs.create({ type: 'play', delay_ms: 2_000 });
    const { status, reason, attempt_number } = await world.client.runs.get(run_id);
    await world.meanwhile(world.client.jobs.waitFor(job_id));
    return [status, reason, attempt_number, times, await seen(world, job_id)];
  },
  'a job that waits is cancelled': async (world) => {
    const { job_id } = await world.client.jobs.create({ type: 'play', delay_ms: 3_600_000 });
    const { cancelled_runs, cancelling_runs, status } = await world.client.jobs.cancel(job_id);
    return [cancelled_runs.length, cancelling_runs, status, await seen(world, job_id)];
  },
  'a run that waits is cancelled, and then it has ended': async (world) => {
    const { job_id, run_id = '' } = await world.client.jobs.create({ type: 'play', delay_ms: 3_600_000 });
    const { status } = await world.client.runs.cancel(run_id);
    return [
      status,
      await failureOf(world.client.runs.cancel(run_id)),
      await failureOf(world.client.jobs.cancel(job_id)),
      await seen(world, job_id),
    ];
  },
  'a run that runs is cancelled': async (world) => {
    let isRunning = false;
    await world.handle({
      play: async (_, { signal }) => {
        isRunning = true;
        await world.sleep(60_000, signal);
      },
    });
    const { job_id, run_id = '' } = await world.client.jobs.create({ type: 'play' });
    await world.until(async () => isRunning);
    const { cancelling_runs } = await world.client.jobs.cancel(job_id);
    await world.meanwhile(world.client.runs.waitFor(run_id));
    return [cancelling_runs.length, await seen(world, job_id)];
  },
  'a job is paused, refuses to run now, and is resumed': async (world) => {
    await world.handle({ play: () => 'done' });
    const { job_id, run_id = '' } = await world.client.jobs.create({ type: 'play', delay_ms: 2_000 });
    const paused = await world.client.jobs.pause(job_id, { note: 'wait' });
    const { status, reason } = await world.client.runs.get(run_id);
    const refused = await failureOf(world.client.jobs.runNow(job_id));
    const resumed = await world.client.jobs.resume(job_id);
    await world.meanwhile(world.client.jobs.waitFor(job_id));
    const { pause_note, version } = await world.client.jobs.get(job_id);
    return [paused.status, status, reason, refused, resumed.status, pause_note, version, await seen(world, job_id)];
  },
  'a job for later runs now, and again once it is done': async (world) => {
    await world.handle({ play: () => 'done' });
    const { job_id } = await world.client.jobs.create({ type: 'play', delay_ms: 3_600_000 });
    await world.client.jobs.runNow(job_id);
    await world.meanwhile(world.client.jobs.waitFor(job_id));
    const { run_id = '' } = await world.client.jobs.runNow(job_id);
    await world.meanwhile(world.client.runs.waitFor(run_id));
    return seen(world, job_id);
  },
  'what is ready starts by priority, then in the order of arrival': async (world) => {
    const order: unknown[] = [];
    const { jobs } = await world.client.jobs.createMany(
      [1, 9, 5, 9, 1].map((priority, i) => ({ type: 'play', priority, payload: `${priority}.${i}` })),
    );
    await world.handle({ play: (run) => void order.push(run.payload) }, 1);
    await world.meanwhile(Promise.all(jobs.map((job) => world.client.runs.waitFor(job))));
    return order;
  },
  'an interval makes two runs and ends': recurring({ interval_ms: 1000, max_runs: 2 }, () => () => 'tick'),
  'a cron expression makes two runs and ends': recurring(
    { cron_expression: '* * * * * *', max_runs: 2 },
    () => () => 'tick',
  ),
  'a fixed delay counts from the end': recurring(
    { interval_ms: 1000, interval_mode: 'fixed_delay', max_runs: 2 },
    () => () => 'tick',
  ),
  // A second in each direction: the machine of the test may be busy.
  'times that overlap wait for one another': recurring(
    { interval_ms: 2000, max_runs: 3, overlap: 'queue_one' },
    (world) => () => world.sleep(3000),
  ),
  'times that overlap are skipped': recurring(
    { interval_ms: 2000, max_runs: 2, overlap: 'skip' },
    (world) => () => world.sleep(3000),
  ),
  'times that overlap cancel the other': recurring(
    { interval_ms: 2000, max_runs: 2, overlap: 'cancel_other', max_retries: 0 },
    (world) =>
      async (_run, { signal }) => {
        await world.sleep(3000, signal);
        return 'whole';
      },
  ),
  'a job that fails too often in a row is paused': async (world) => {
    await world.handle({
      play: () => {
        throw new FatalError('no');
      },
    });
    const { job_id } = await world.client.jobs.create({ type: 'play', interval_ms: 1000, pause_after_failures: 2 });
    await world.until(async () => (await world.client.jobs.status(job_id)).status === 'PAUSED');
    const { pause_note } = await world.client.jobs.get(job_id);
    const shown = await seen(world, job_id);
    await world.client.jobs.cancel(job_id);
    return [pause_note, shown, (await world.client.jobs.status(job_id)).status];
  },
  'the same key makes one job, another body is refused': async ({ client }) => {
    const how = { idempotencyKey: `conformance-${process.pid}` };
    const first = await client.jobs.create({ type: 'nobody', payload: 1 }, how);
    const again = await client.jobs.create({ type: 'nobody', payload: 1 }, how);
    const refused = await failureOf(client.jobs.create({ type: 'nobody', payload: 2 }, how));
    return [first.job_id === again.job_id, refused];
  },
  'what does not fit is refused in the same words': async ({ client }) => {
    const wrong: unknown[] = [
      {},
      { type: 'x', priority: 10 },
      { type: 'x', colour: 'red' },
      { type: 'no good' },
      { type: 'x', cron_expression: '61 * * * *' },
      { type: 'x', cron_expression: '0 0 * * *', timezone: 'Mars/Olympus' },
      { type: 'x', interval_ms: 10 },
      { type: 'x', schedule_type: 'FUTURE' },
      { type: 'x', max_runs: 3 },
      { type: 'x', delay_ms: 5, cron_expression: '* * * * *' },
      { type: 'x', schedule_time: 'tomorrow' },
    ];
    const refused = [];
    for (const job of wrong) refused.push(await failureOf(client.jobs.create(job as CreateJob)));
    refused.push(await failureOf(client.jobs.createMany([{ type: 'x' }, { type: 'x', priority: -1 }])));
    refused.push(await failureOf(client.jobs.createMany([{ type: 'x' }, { type: 'x', cron_expression: 'never' }])));
    const nobody = '01970000-0000-7000-8000-000000000000';
    refused.push(await failureOf(client.jobs.get(nobody)));
    return refused;
  },
};

describe('in virtual time as in reality:', { concurrency: 1 }, () => {
  for (const [name, play] of Object.entries(scenarios)) {
    test(name, async () => {
      const virtual = await inVirtualTime(play);
      // Types are alike in all scenarios: one after the other, each with its own workers. A machine that stands still in the
      // middle of one changes what comes when: then it is played again.
      for (let left = 2; ; left--) {
        const real = await inReality(play);
        if (left > 0 && !isDeepStrictEqual(virtual, real)) continue;
        assert.deepEqual(virtual, real);
        return;
      }
    });
  }
});

for (const [cron_expression, timezone] of [
  ['30 2 * * *', 'Europe/Paris'],
  ['30 1 * * *', 'America/New_York'],
  ['*/15 0-3 * * *', 'Australia/Lord_Howe'],
  ['0 9 L * *', 'Asia/Kolkata'],
  ['0 0 * * MON#1', 'UTC'],
] as const) {
  test(`${cron_expression} in ${timezone} comes at the times that a server shows`, async () => {
    const start = '2030-01-01T00:00:00Z';
    const { times } = await house.client.schedules.preview({ cron_expression, timezone, from: start, count: 200 });
    const scheduler = new TestScheduler({ start }).handle('play', (run) => run.scheduled_for);
    await scheduler.client.jobs.create({ type: 'play', cron_expression, timezone });
    await scheduler.advanceTo(times.at(-1)?.utc ?? '');
    assert.deepEqual(
      scheduler.runs().map((run) => run.result),
      times.map(({ utc }) => utc),
    );
  });
}
