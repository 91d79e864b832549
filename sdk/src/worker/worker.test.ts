// Worker against a server in memory, with its real protocol thread.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Grant } from '@punctual/contract';
import type { Handler, RunContext } from './active-run.ts';
import { FatalError, RetryError, RunAbortedError } from './errors.ts';
import { deferred, FakeServer } from './fake-server.test.support.ts';
import type { WorkerEvent } from './messages.ts';
import { Worker, type WorkerOptions } from './worker.ts';

const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };

async function startWorker(server: FakeServer, handler: Handler, options: WorkerOptions = {}) {
  const worker = new Worker({
    url: server.url,
    handlers: { echo: handler },
    logger: quiet,
    stopGraceMs: 100,
    ...options,
  });
  await worker.start();
  return Object.assign(worker, { [Symbol.asyncDispose]: () => worker.stop({ graceMs: 0 }) });
}

/** A handler that ends only when its signal is aborted, and tells when it started. */
function patient() {
  const started = deferred<{ run: Grant; ctx: RunContext }>();
  const handler: Handler = (run, ctx) =>
    new Promise((_, reject) => {
      ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason as Error));
      started.resolve({ run, ctx });
    });
  return { handler, started: started.promise };
}

test('a run is given to the handler of its type and what it returns is reported as the result', async () => {
  await using server = await FakeServer.open();
  await using worker = await startWorker(server, async (run) => ({ said: run.payload, attempt: run.attempt_number }));
  const outcome = await server.outcomeOf(server.submit({ payload: { a: 'ü' } }));
  assert.equal(outcome.status, 'SUCCESS');
  assert.deepEqual(outcome.result, { said: { a: 'ü' }, attempt: 1 });
  assert.equal(server.calls[0]?.worker_id, worker.id);
  assert.deepEqual(server.calls[0]?.worker?.types, ['echo']);
});

test('a handler that returns nothing succeeds without a result, also when it is not async', async () => {
  await using server = await FakeServer.open();
  await using _ = await startWorker(server, () => undefined);
  const outcome = await server.outcomeOf(server.submit());
  assert.equal(outcome.status, 'SUCCESS');
  assert.equal('result' in outcome, false);
});

test('a thousand runs are reported once each and never more are held than there are slots', async () => {
  await using server = await FakeServer.open();
  const runs = Array.from({ length: 1000 }, () => server.submit());
  let now = 0;
  let most = 0;
  await using _ = await startWorker(
    server,
    async () => {
      now += 1;
      most = Math.max(most, now);
      await new Promise(setImmediate);
      now -= 1;
    },
    { slots: 50 },
  );
  await server.until(() => server.outcomes.length === 1000);
  assert.equal(new Set(server.outcomes.map((outcome) => outcome.run_id)).size, runs.length);
  assert.ok(most <= 50, `${most} at once`);
});

test('a throw is a failure to try again, a FatalError is final and a RetryError says when', async () => {
  await using server = await FakeServer.open();
  await using _ = await startWorker(server, async (run) => {
    if (run.payload === 'fatal') throw new FatalError('never');
    if (run.payload === 'later') throw new RetryError('busy', { retryAfterMs: 5_000 });
    if (run.payload === 'odd') throw 'a string';
    throw new TypeError('x is undefined', { cause: new Error('deeper') });
  });
  const [plain, fatal, later, odd] = await Promise.all(
    [undefined, 'fatal', 'later', 'odd'].map((payload) => server.outcomeOf(server.submit({ payload }))),
  );
  assert.deepEqual(
    [plain?.status, plain?.retryable, plain?.error_message],
    ['FAILED', true, 'TypeError: x is undefined (caused by deeper)'],
  );
  assert.deepEqual([fatal?.status, fatal?.retryable, fatal?.error_message], ['FAILED', false, 'never']);
  assert.deepEqual([later?.retryable, later?.retry_after_ms], [true, 5_000]);
  assert.match(odd?.error_message ?? '', /a string/);
});

test('after completeIn only the transaction can make it a success: the worker reports a failure, which counts if that failed', async () => {
  await using server = await FakeServer.open();
  const asked: unknown[][] = [];
  const tx = {
    query: async (text: string, values: unknown[]) => {
      asked.push([text, ...values]);
      if (values[2] === '"refused"') throw new Error('lease_lost');
    },
  };
  await using _ = await startWorker(server, async (run, ctx) => {
    if (run.payload === 'swallowed') await ctx.completeIn(tx, 'refused').catch(() => {});
    else await ctx.completeIn(tx, run.payload);
    if (run.payload === 'thrown') throw new RetryError('afterwards', { retryAfterMs: 7 });
    return 'ignored';
  });
  for (const payload of [{ a: 1 }, undefined, 'thrown', 'refused', 'swallowed']) {
    const run = server.submit({ payload });
    const outcome = await server.outcomeOf(run);
    assert.equal(outcome.status, 'FAILED');
    assert.equal(outcome.retryable, true);
    const [text, runId, leaseId, result] = asked.pop() ?? [];
    assert.match(String(text), /^select punctual\.complete\(/);
    assert.deepEqual([runId, leaseId], [outcome.run_id, outcome.lease_id]);
    assert.equal(result, payload === 'swallowed' ? '"refused"' : (JSON.stringify(payload) ?? null));
    const expected =
      payload === 'thrown' ? /^afterwards$/ : payload === 'refused' ? /^lease_lost$/ : /was not committed/;
    assert.match(outcome.error_message ?? '', expected);
  }
});

test('a result that is too large, circular or no JSON is a fatal failure that says so', async () => {
  await using server = await FakeServer.open();
  const circular: Record<string, unknown> = {};
  circular['self'] = circular;
  const results: Record<string, unknown> = {
    large: 'x'.repeat(1024 * 1024),
    circular,
    symbol: Symbol('s'),
    bigint: 1n,
  };
  await using _ = await startWorker(server, async (run) => results[run.payload as string]);
  for (const [payload, pattern] of Object.entries({
    large: /1048578 bytes; at most 1048576/,
    circular: /not JSON/,
    symbol: /not JSON/,
    bigint: /not JSON/,
  })) {
    const outcome = await server.outcomeOf(server.submit({ payload }));
    assert.deepEqual([outcome.status, outcome.retryable], ['FAILED', false]);
    assert.match(outcome.error_message ?? '', pattern);
  }
});

test('an outcome whose answer was lost is sent again', async () => {
  await using server = await FakeServer.open();
  await using _ = await startWorker(server, async () => 'done');
  let cuts = 0;
  server.mischief = (call) => {
    if ((call.outcomes ?? []).length === 0 || cuts === 2) return null;
    cuts += 1;
    return 'cut';
  };
  const run = server.submit();
  await server.until(() => server.outcomes.length === 3);
  assert.deepEqual(
    server.outcomes.map((outcome) => outcome.run_id),
    [run.run_id, run.run_id, run.run_id],
  );
});

test('a call that waits is overtaken by a newer one, and calls are numbered and concluded', async () => {
  await using server = await FakeServer.open({ isOld: true });
  const { handler, started } = patient();
  const end = deferred<void>();
  await using _ = await startWorker(server, (run, ctx) => (run.payload === 'quick' ? end.promise : handler(run, ctx)), {
    slots: 3,
  });
  const long = server.submit();
  await started;
  const quick = server.submit({ payload: 'quick' });
  await server.until(() => server.calls.at(-1)?.running?.length === 2);
  end.resolve();
  await server.outcomeOf(quick);
  server.calls.forEach((call, i) => {
    assert.equal(call.n, i + 1);
    assert.ok(call.concluded < call.n && call.concluded >= call.n - 2, `call ${call.n} concluded ${call.concluded}`);
  });
  assert.deepEqual(server.calls.at(-1)?.running, [long.run_id]);
});

test('a run whose outcome is in an unanswered call is still listed as running by the next call', async () => {
  await using server = await FakeServer.open({ heartbeatMs: 100, leaseMs: 60_000, isOld: true });
  await using _ = await startWorker(server, async () => 'done', { slots: 2 });
  server.mischief = (call) => ((call.outcomes ?? []).length > 0 ? 'silence' : null);
  const run = server.submit();
  await server.until(() => server.calls.some((call) => call.outcomes?.[0]?.run_id === run.run_id));
  const from = server.calls.length;
  await server.until(() => server.calls.length > from);
  assert.deepEqual(server.calls[from]?.running, [run.run_id]);
  server.mischief = () => null;
  assert.equal((await server.outcomeOf(run)).status, 'SUCCESS');
});

test('a cancelled run is aborted and reported as CANCELLED when its handler throws', async () => {
  await using server = await FakeServer.open();
  const { handler, started } = patient();
  await using _ = await startWorker(server, handler);
  const run = server.submit();
  const { ctx } = await started;
  server.cancel.push({ run_id: run.run_id, lease_id: run.lease_id, reason: 'by user u003' });
  server.wake();
  const outcome = await server.outcomeOf(run);
  assert.equal(outcome.status, 'CANCELLED');
  assert.equal(outcome.error_message, 'The run was cancelled: by user u003.');
  assert.equal((ctx.signal.reason as RunAbortedError).reason, 'cancelled');
});

test('a handler that succeeds in spite of a cancel reports its success', async () => {
  await using server = await FakeServer.open();
  const started = deferred<void>();
  await using _ = await startWorker(server, async (_run, ctx) => {
    started.resolve();
    await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve));
    return 'all the same';
  });
  const run = server.submit();
  await started.promise;
  server.cancel.push({ run_id: run.run_id, lease_id: run.lease_id, reason: '' });
  server.wake();
  const outcome = await server.outcomeOf(run);
  assert.deepEqual([outcome.status, outcome.result], ['SUCCESS', 'all the same']);
});

test('a run that takes longer than its timeout is aborted and reported as timed out', async () => {
  await using server = await FakeServer.open();
  const { handler, started } = patient();
  await using _ = await startWorker(server, handler);
  const outcome = await server.outcomeOf(server.submit({ timeout_ms: 20 }));
  assert.deepEqual([outcome.status, outcome.timed_out, outcome.retryable], ['FAILED', true, true]);
  assert.equal(((await started).ctx.signal.reason as RunAbortedError).reason, 'timed_out');
});

test('a handler deaf to its timeout is reported after the grace and keeps its slot until it ends', async () => {
  await using server = await FakeServer.open();
  const end = deferred<string>();
  await using _ = await startWorker(server, (run) => (run.payload === 'deaf' ? end.promise : 'quick'), {
    slots: 1,
    stopGraceMs: 30,
  });
  const deaf = server.submit({ payload: 'deaf', timeout_ms: 20 });
  const outcome = await server.outcomeOf(deaf);
  assert.equal(outcome.timed_out, true);
  const reporting = server.calls.find((call) => call.outcomes?.some(({ run_id }) => run_id === deaf.run_id));
  assert.equal(reporting?.accept, false);
  const next = server.submit();
  end.resolve('too late');
  assert.equal((await server.outcomeOf(next)).result, 'quick');
  assert.equal(server.outcomes.filter(({ run_id }) => run_id === deaf.run_id).length, 1);
});

test('when no server answers, work is aborted before the lease ends and nothing of it is reported', async () => {
  const leaseMs = 6_000;
  const abortedAfter = async (): Promise<number> => {
    await using server = await FakeServer.open({ heartbeatMs: 100, leaseMs });
    const { handler, started } = patient();
    await using _ = await startWorker(server, handler);
    const run = server.submit();
    const { ctx } = await started;
    const from = performance.now();
    server.mischief = () => 'silence';
    await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve));
    const tookMs = performance.now() - from;
    assert.equal((ctx.signal.reason as RunAbortedError).reason, 'lease_lost');
    server.mischief = () => null;
    const sessions = () => new Set(server.calls.map((call) => call.session_id));
    await server.until(() => sessions().size === 2 && (server.calls.at(-1)?.n ?? 0) > 1);
    assert.ok(!server.outcomes.some(({ run_id }) => run_id === run.run_id));
    const [, second] = [...sessions()];
    assert.equal(server.calls.find((call) => call.session_id === second)?.n, 1);
    return tookMs;
  };
  // On a machine that stands still for longer than the margin it is late, but not each time.
  const took: number[] = [];
  while (took.length < 5 && !took.some((ms) => ms < leaseMs)) took.push(await abortedAfter());
  assert.ok(Math.min(...took) < leaseMs, `aborted after ${took.join(', ')} ms`);
});

test('a session the server has ended aborts its runs, and a new one takes work', async () => {
  await using server = await FakeServer.open();
  const { handler, started } = patient();
  await using _ = await startWorker(server, (run, ctx) => (run.payload === 'new' ? 'fresh' : handler(run, ctx)));
  const lost = server.submit();
  const { ctx } = await started;
  const oldSession = server.calls[0]?.session_id;
  server.mischief = (call) => (call.session_id === oldSession ? 'session_lost' : null);
  server.submit({ payload: 'wakes the call that waits' });
  await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve));
  assert.equal((ctx.signal.reason as RunAbortedError).reason, 'lease_lost');
  server.held.delete(lost.run_id);
  assert.equal((await server.outcomeOf(server.submit({ payload: 'new' }))).result, 'fresh');
});

test('a run the server refuses is aborted as lost', async () => {
  await using server = await FakeServer.open();
  const { handler, started } = patient();
  await using _ = await startWorker(server, handler);
  const run = server.submit();
  const { ctx } = await started;
  server.refused.push({ run_id: run.run_id, lease_id: run.lease_id, code: 'lease_lost' });
  server.wake();
  await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve));
  assert.equal((ctx.signal.reason as RunAbortedError).reason, 'lease_lost');
});

test('an outcome the server refuses is told to whoever runs the worker', async () => {
  await using server = await FakeServer.open();
  const refused = deferred<WorkerEvent>();
  const onEvent = (event: WorkerEvent): void => {
    if (event.type === 'run_refused') refused.resolve(event);
  };
  const refuse: Handler = ({ run_id, lease_id }) => void server.refused.push({ run_id, lease_id, code: 'lease_lost' });
  await using _ = await startWorker(server, refuse, { onEvent });
  const run = server.submit();
  assert.deepEqual(await refused.promise, { type: 'run_refused', run_id: run.run_id, code: 'lease_lost' });
});

test('stop waits for what runs, takes nothing new and says goodbye', async () => {
  await using server = await FakeServer.open();
  const end = deferred<string>();
  const started = deferred<void>();
  const worker = await startWorker(server, () => {
    started.resolve();
    return end.promise;
  });
  const run = server.submit();
  await started.promise;
  const stopped = worker.stop({ graceMs: 60_000 });
  await server.until(() => server.calls.at(-1)?.accept === false);
  const late = server.submit();
  end.resolve('finished');
  await stopped;
  assert.equal((await server.outcomeOf(run)).result, 'finished');
  assert.equal(server.byes, 1);
  assert.ok(server.waiting.includes(late));
  assert.equal(server.held.size, 0);
});

test('stop aborts what does not end within the grace and reports it as a failure to try again', async () => {
  await using server = await FakeServer.open();
  const { handler, started } = patient();
  const worker = await startWorker(server, handler);
  const run = server.submit();
  await started;
  await worker.stop({ graceMs: 0 });
  const outcome = await server.outcomeOf(run);
  assert.deepEqual([outcome.status, outcome.retryable], ['FAILED', true]);
  assert.match(outcome.error_message ?? '', /worker was stopped before the run ended/);
  assert.equal(server.byes, 1);
});

test('a run that came while every slot was taken is given back unstarted when the worker stops', async () => {
  await using server = await FakeServer.open();
  const { handler, started } = patient();
  const worker = await startWorker(server, handler, { slots: 1 });
  server.submit();
  await started;
  server.overcommits = true;
  const second = server.submit();
  const third = server.submit();
  server.cancel.push({ run_id: third.run_id, lease_id: third.lease_id, reason: '' });
  server.wake();
  const cancelled = await server.outcomeOf(third);
  await worker.stop({ graceMs: 0 });
  assert.equal(cancelled.status, 'CANCELLED');
  assert.equal((await server.outcomeOf(second)).status, 'RELEASED');
});

test('a server that answers every call at once is not asked without pause', async () => {
  await using server = await FakeServer.open();
  server.isHasty = true;
  await using _ = await startWorker(server, () => undefined);
  // However many came while the worker started: ten more take their time.
  const before = server.calls.length;
  const from = performance.now();
  await server.until(() => server.calls.length >= before + 10);
  assert.ok(performance.now() - from > 200, `ten calls in ${performance.now() - from} ms`);
  await server.outcomeOf(server.submit());
});

test('a worker that is told to drain finishes what it runs, takes nothing new, and says goodbye', async () => {
  await using server = await FakeServer.open();
  const end = deferred<string>();
  await using _ = await startWorker(server, () => end.promise);
  const run = server.submit();
  await server.until(() => server.calls.at(-1)?.running?.length === 1);
  server.drain = true;
  server.wake();
  await server.until(() => server.calls.at(-1)?.accept === false);
  server.drain = false; // heard once is enough: another server may not know of it
  await server.until(() => server.calls.filter(({ accept, bye }) => !accept && bye !== true).length > 2);
  end.resolve('done');
  assert.equal((await server.outcomeOf(run)).result, 'done');
  await server.until(() => server.calls.at(-1)?.bye === true);
});

test('what a run logs arrives before or with its outcome, in order', async () => {
  await using server = await FakeServer.open();
  await using _ = await startWorker(server, async (_run, ctx) => {
    ctx.log.info('first', { a: 1 });
    ctx.log.error('second \0 \ud800');
    ctx.log.debug('x'.repeat(10_000));
    for (const odd of [7, null, ['a', 'b'], undefined]) ctx.log.info(odd as never);
  });
  const run = server.submit();
  await server.outcomeOf(run);
  const lines = server.logs.flatMap((chunk) => chunk.lines);
  assert.deepEqual(
    lines.slice(0, 2).map(({ level, message }) => [level, message]),
    [
      ['info', 'first {"a":1}'],
      ['error', 'second \ufffd \ufffd'],
    ],
  );
  assert.equal(lines[2]?.message.length, 8 * 1024);
  assert.deepEqual(
    lines.slice(3).map(({ message }) => message),
    ['7', 'null', 'a,b', 'undefined'],
  );
});

test('an outcome does not overtake lines whose call was not answered', async () => {
  await using server = await FakeServer.open({ heartbeatMs: 100, leaseMs: 60_000 });
  const end = deferred<void>();
  await using _ = await startWorker(server, (_run, ctx) => {
    ctx.log.info('said before the end');
    return end.promise;
  });
  let silenced = 0;
  server.mischief = (call) => {
    if (call.logs === undefined || silenced > 0) return null;
    silenced += 1;
    end.resolve();
    return 'silence';
  };
  await server.outcomeOf(server.submit());
  assert.equal(silenced, 1);
  assert.deepEqual(
    server.logs.flatMap((chunk) => chunk.lines.map(({ message }) => message)),
    ['said before the end'],
  );
});

test('a run that floods its log loses lines, and a line says how many', async () => {
  await using server = await FakeServer.open();
  await using _ = await startWorker(server, (_run, ctx) => {
    for (let i = 0; i < 100_000; i += 1) ctx.log.info(`line ${i} ${'x'.repeat(100)}`);
  });
  await server.outcomeOf(server.submit());
  const lines = server.logs.flatMap((chunk) => chunk.lines);
  const dropped = lines
    .map(({ message }) => Number(/^(\d+) log lines were dropped/.exec(message)?.[1] ?? 0))
    .reduce((a, b) => a + b);
  const kept = lines.filter(({ message }) => message.startsWith('line ')).length;
  assert.equal(kept + dropped, 100_000);
  assert.ok(kept > 1_000 && dropped > 50_000, `${kept} kept, ${dropped} dropped`);
  assert.ok(server.logs.every((chunk) => chunk.lines.length <= 1000));
});

test('a worker that finds no server says so once, and works when one appears', async () => {
  const server = await FakeServer.open();
  const { port } = server;
  await server[Symbol.asyncDispose]();
  const events: WorkerEvent[] = [];
  const worker = new Worker({
    url: `http://127.0.0.1:${port}`,
    handlers: { echo: () => 'hello' },
    logger: quiet,
    onEvent: (event) => events.push(event),
  });
  await worker.start();
  assert.match(
    (events[0] as { message: string }).message,
    /No Punctual server answers at http:\/\/127.0.0.1:\d+ \(connection refused\)/,
  );
  await server.listen(port);
  await using _ = server;
  assert.equal((await server.outcomeOf(server.submit())).result, 'hello');
  assert.deepEqual(
    events.map((event) => event.type),
    ['unreachable', 'reachable', 'connected'],
  );
  await worker.stop();
});

test('wrong options are refused at once', () => {
  assert.throws(() => new Worker({ handlers: {} }).start(), /at least one handler/);
  assert.throws(() => new Worker({ handlers: { 'two words': () => 1 } }), /the type "two words"/);
  assert.throws(() => new Worker({ handlers: { a: () => 1 }, slots: 0 }), /slots is 0/);
  assert.throws(() => new Worker({ handlers: { a: () => 1 }, queues: [] }), /queues is empty/);
});
