// What a handler says while it runs: checkpoints, progress, snoozes; against a server in memory, with a real thread.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Handler, RunContext } from './active-run.ts';
import { FatalError, RunAbortedError, Snooze } from './errors.ts';
import { deferred, FakeServer } from './fake-server.test.support.ts';
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

test('a checkpoint is sent at once, and its promise resolves when the server has accepted it', async () => {
  await using server = await FakeServer.open({ heartbeatMs: 20_000, leaseMs: 120_000 });
  const seen: number[] = [];
  await using _ = await startWorker(server, async (_run, { checkpoint, checkpointed }) => {
    assert.equal(checkpointed, undefined);
    const from = performance.now();
    for (const value of [{ page: 1 }, null, 'ü']) {
      await checkpoint(value);
      seen.push(server.checkpoints.length);
    }
    return performance.now() - from;
  });
  const run = server.submit();
  const outcome = await server.outcomeOf(run);
  assert.deepEqual(seen, [1, 2, 3]);
  assert.deepEqual(
    server.checkpoints.map(({ run_id, lease_id, version, value }) => [run_id, lease_id, version, value]),
    [{ page: 1 }, null, 'ü'].map((value, i) => [run.run_id, run.lease_id, i + 1, value]),
  );
  assert.ok((outcome.result as number) < 15_000, `three checkpoints took ${String(outcome.result)} ms`);
});

test('an attempt finds what was saved before, and its versions go on from there', async () => {
  await using server = await FakeServer.open();
  await using _ = await startWorker(server, async (run, ctx) => {
    await ctx.checkpoint('next');
    return [ctx.checkpointed, run.checkpoint?.version];
  });
  const checkpoint = { version: 7, value: { page: 3 }, saved_at: '2030-01-31T09:00:00Z' };
  const outcome = await server.outcomeOf(server.submit({ checkpoint }));
  assert.deepEqual(outcome.result, [{ page: 3 }, 7]);
  assert.equal(server.checkpoints[0]?.version, 8);
});

test('many checkpoints at once: only the newest that waits is sent, and all promises are kept', async () => {
  await using server = await FakeServer.open();
  await using _ = await startWorker(server, async (_run, ctx) => {
    await Promise.all(Array.from({ length: 1_000 }, (_unused, i) => ctx.checkpoint(i)));
  });
  assert.equal((await server.outcomeOf(server.submit())).status, 'SUCCESS');
  assert.ok(server.checkpoints.length <= 3, `${server.checkpoints.length} were sent`);
  assert.equal(server.checkpoints.at(-1)?.value, 999);
});

test('a checkpoint nobody waited for arrives before the outcome, or with it', async () => {
  await using server = await FakeServer.open();
  await using _ = await startWorker(server, (_run, ctx) => {
    void ctx.checkpoint('first');
    void ctx.checkpoint('last');
    throw new Error('and now it fails');
  });
  const run = server.submit();
  await server.outcomeOf(run);
  assert.equal(server.checkpoints.at(-1)?.value, 'last');
  const outcomeAt = server.calls.findIndex((call) => (call.outcomes ?? []).length > 0);
  const checkpointAt = server.calls.findLastIndex((call) => (call.checkpoints ?? []).length > 0);
  assert.ok(checkpointAt <= outcomeAt);
});

test('a checkpoint whose answer was lost is sent again under the same version', async () => {
  await using server = await FakeServer.open();
  let cuts = 0;
  server.mischief = (call) => {
    if ((call.checkpoints ?? []).length === 0 || cuts === 2) return null;
    cuts += 1;
    return 'cut';
  };
  await using _ = await startWorker(server, async (_run, ctx) => ctx.checkpoint('x'));
  assert.equal((await server.outcomeOf(server.submit())).status, 'SUCCESS');
  assert.deepEqual(
    server.checkpoints.map(({ version }) => version),
    [1, 1, 1],
  );
});

test('a checkpoint that the fence refuses is rejected, aborts the run, and no other can be saved', async () => {
  await using server = await FakeServer.open();
  const ended = deferred<{ first: unknown; later: unknown; aborted: boolean }>();
  await using _ = await startWorker(server, async (run, ctx) => {
    server.stale.add(run.lease_id);
    const first: unknown = await ctx.checkpoint(1).catch((error: unknown) => error);
    const later: unknown = await ctx.checkpoint(2).catch((error: unknown) => error);
    ended.resolve({ first, later, aborted: ctx.signal.aborted });
  });
  server.submit();
  const { first, later, aborted } = await ended.promise;
  for (const error of [first, later]) assert.equal(error instanceof RunAbortedError && error.reason, 'lease_lost');
  assert.equal(aborted, true);
  assert.equal(server.calls.filter((call) => (call.checkpoints ?? []).length > 0).length, 1);
  assert.deepEqual(server.outcomes, []);
});

test('a checkpoint under way when no server answers is rejected with the loss of the lease', async () => {
  await using server = await FakeServer.open({ leaseMs: 6_000, heartbeatMs: 100 });
  const ended = deferred<unknown>();
  await using _ = await startWorker(server, async (_run, ctx) => {
    server.mischief = () => 'silence';
    ended.resolve(await ctx.checkpoint(1).catch((error: unknown) => error));
  });
  server.submit();
  const error = await ended.promise;
  assert.equal(error instanceof RunAbortedError && error.reason, 'lease_lost');
  server.mischief = () => null;
});

test('a cancel ends the wait for a checkpoint, and the handler can save a last one', async () => {
  await using server = await FakeServer.open({ leaseMs: 60_000, heartbeatMs: 100 });
  const begun = deferred<RunContext>();
  await using _ = await startWorker(server, async (_run, ctx) => {
    begun.resolve(ctx);
    // The server keeps silent about the first.
    await ctx.checkpoint('first').catch(() => undefined);
    assert.equal(ctx.signal.aborted, true);
    await ctx.checkpoint('last');
    throw ctx.signal.reason;
  });
  server.mischief = (call) => ((call.checkpoints ?? []).some(({ value }) => value === 'first') ? 'silence' : null);
  const run = server.submit();
  await begun.promise;
  await server.until(() => server.calls.some((call) => (call.checkpoints ?? []).length > 0));
  server.cancel.push({ run_id: run.run_id, lease_id: run.lease_id, reason: '' });
  server.wake();
  await server.until(() => server.calls.at(-1)?.n !== undefined && server.cancel.length === 0);
  server.mischief = () => null;
  const outcome = await server.outcomeOf(run);
  assert.equal(outcome.status, 'CANCELLED');
  assert.equal(server.checkpoints.at(-1)?.value, 'last');
});

test('a checkpoint that is no JSON or too large is a fatal error that says so, and nothing is sent', async () => {
  await using server = await FakeServer.open();
  const circular: Record<string, unknown> = {};
  circular['self'] = circular;
  const values = [circular, undefined, Symbol('s'), 1n, 'x'.repeat(1024 * 1024)];
  await using _ = await startWorker(server, async (run, ctx) => ctx.checkpoint(values[run.payload as number]));
  for (const [i] of values.entries()) {
    const outcome = await server.outcomeOf(server.submit({ payload: i }));
    assert.deepEqual([outcome.status, outcome.retryable], ['FAILED', false]);
    assert.match(outcome.error_message ?? '', i === 4 ? /1048578 bytes; at most 1048576/ : /checkpoint.*not JSON/);
  }
  assert.deepEqual(server.checkpoints, []);
});

test('a checkpoint that only this server refuses is rejected with its words, and the run goes on', async () => {
  await using server = await FakeServer.open({ leaseMs: 60_000 });
  server.mischief = (call) => ((call.checkpoints ?? []).length > 0 ? 'invalid_input' : null);
  await using _ = await startWorker(server, async (_run, ctx) => {
    const error: unknown = await ctx.checkpoint(1).catch((reason: unknown) => reason);
    return error instanceof Error ? error.message : 'it was accepted';
  });
  const outcome = await server.outcomeOf(server.submit());
  assert.equal(outcome.status, 'SUCCESS');
  assert.match(String(outcome.result), /The checkpoint was not saved\. The server refused it/);
});

test('progress is sent about once a second, the newest, and never after the end', async () => {
  await using server = await FakeServer.open();
  await using _ = await startWorker(server, async (_run, { progress, signal }) => {
    for (let i = 0; i < 150; i++) {
      progress(i / 2, `step ${i}`);
      await new Promise((resolve) => setTimeout(resolve, 10));
      signal.throwIfAborted();
    }
    progress(100);
  });
  const secondReport = async (): Promise<number> => {
    server.progress.length = 0;
    const began = performance.now();
    await server.outcomeOf(server.submit());
    const reports = server.progress.map(({ percent }) => percent);
    const most = 3 + (performance.now() - began) / 1000;
    assert.ok(reports.length >= 2 && reports.length <= most, `${reports.length} reports`);
    assert.deepEqual([reports[0], server.progress[0]?.message], [0, 'step 0']);
    const { n } = server.calls.at(-1) ?? { n: 0 };
    await server.until(() => (server.calls.at(-1)?.n ?? 0) >= n);
    assert.equal(server.progress.length, reports.length);
    return reports[1] ?? 0;
  };
  // Where the handler itself stands still it has come no further.
  const seconds: number[] = [];
  while (seconds.length < 5 && !seconds.some((percent) => percent > 10)) seconds.push(await secondReport());
  assert.ok(Math.max(...seconds) > 10, `the second is not the newest: ${seconds.join()}`);
});

test('progress that is no number from 0 to 100 is an error, and odd words are made a line', async () => {
  await using server = await FakeServer.open();
  const odd = 'two\nlines\u0000 and \ud800'.padEnd(500, '.');
  await using _ = await startWorker(server, async (run, ctx) => {
    if (run.payload === 'odd') ctx.progress(50, odd);
    else ctx.progress(run.payload as number);
    await new Promise((resolve) => setTimeout(resolve, 50));
  });
  for (const payload of [-1, 100.1, null, '50', Number.NaN]) {
    const outcome = await server.outcomeOf(server.submit({ payload }));
    assert.equal(outcome.status, 'FAILED');
    assert.match(outcome.error_message ?? '', /Progress is a number from 0 to 100, not/);
  }
  assert.equal((await server.outcomeOf(server.submit({ payload: 'odd' }))).status, 'SUCCESS');
  const { message = '' } = server.progress[0] ?? {};
  assert.match(message, /^two lines {2}and \ufffd\.+…$/);
  assert.equal(message.length, 200);
});

test('a Snooze is reported with its time; a bad time is a plain failure', async () => {
  await using server = await FakeServer.open();
  await using _ = await startWorker(server, async (run) => {
    throw new Snooze(run.payload as number);
  });
  const snoozed = await server.outcomeOf(server.submit({ payload: 1_500.5 }));
  assert.deepEqual([snoozed.status, snoozed.snooze_ms, snoozed.error_message], ['SNOOZED', 1_501, undefined]);
  for (const payload of [-1, 'soon', 4e11]) {
    const outcome = await server.outcomeOf(server.submit({ payload }));
    assert.deepEqual([outcome.status, outcome.retryable], ['FAILED', true]);
    assert.match(outcome.error_message ?? '', /can snooze for 0 to 315360000000 milliseconds/);
  }
});

test('a run that was cancelled or took too long does not snooze; one whose worker stops may', async () => {
  await using server = await FakeServer.open();
  const begun: string[] = [];
  const worker = await startWorker(
    server,
    async (run, ctx) => {
      begun.push(run.run_id);
      await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve));
      throw new Snooze(5);
    },
    { slots: 3, stopGraceMs: 1_000 },
  );
  const [cancelled, late, stopped] = [server.submit(), server.submit({ timeout_ms: 50 }), server.submit()];
  await server.until(() => server.held.size + server.outcomes.length === 3);
  assert.deepEqual([(await server.outcomeOf(late)).timed_out], [true]);
  server.cancel.push({ run_id: cancelled.run_id, lease_id: cancelled.lease_id, reason: '' });
  server.wake();
  const outcome = await server.outcomeOf(cancelled);
  assert.deepEqual([outcome.status, outcome.error_message], ['CANCELLED', 'The run was cancelled.']);
  await worker.stop({ graceMs: 0 });
  assert.equal((await server.outcomeOf(stopped)).status, 'SNOOZED');
});

test('a FatalError after a checkpoint is what it is', async () => {
  await using server = await FakeServer.open();
  await using _ = await startWorker(server, async (_run, ctx) => {
    await ctx.checkpoint(1);
    throw new FatalError('never');
  });
  assert.equal((await server.outcomeOf(server.submit())).retryable, false);
});
