// The types the stock worker serves.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FatalError, RunAbortedError } from '@punctual/sdk';
import { context, grant } from '../executors/run.test.support.ts';
import { echo } from './echo.ts';
import { sleep } from './sleep.ts';

test('echo answers its payload', async () => {
  const run = grant({ payload: { greeting: 'hello' } });
  assert.deepEqual(await echo(run, context(run)), { greeting: 'hello' });
});

test('sleep waits and says how long', async () => {
  const run = grant({ payload: { ms: 20 } });
  const from = performance.now();
  assert.deepEqual(await sleep(run, context(run)), { slept_ms: 20 });
  assert.ok(performance.now() - from >= 18);
});

test('sleep ends with the reason of its signal', async () => {
  const run = grant({ payload: { ms: 3_600_000 } });
  const ctx = context(run);
  const result = Promise.resolve(sleep(run, ctx));
  const reason = new RunAbortedError('cancelled');
  ctx.controller.abort(reason);
  await assert.rejects(result, (error) => error === reason);
});

test('sleep refuses a payload that says no sensible time', async () => {
  for (const payload of [null, {}, { ms: '5' }, { ms: -1 }, { ms: 3_600_001 }, { ms: Number.NaN }, 'ms']) {
    const run = grant({ payload });
    await assert.rejects(Promise.resolve(sleep(run, context(run))), FatalError);
  }
});
