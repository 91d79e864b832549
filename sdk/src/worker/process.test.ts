// What only a whole process can show: heartbeats while its event loop is blocked, its death at the end of a lost lease,
// and its end by signals.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Grant } from '@punctual/contract';
import { FakeServer } from './fake-server.test.support.ts';

const file = fileURLToPath(new URL('./deaf-worker.test.support.js', import.meta.url));

async function startProcess(server: FakeServer) {
  const child = spawn(process.execPath, [file, server.url], { stdio: ['ignore', 'ignore', 'ignore'] });
  await server.until(() => server.calls.length > 0);
  return Object.assign(child, { [Symbol.dispose]: () => void child.kill('SIGKILL') });
}

test('heartbeats go on while a handler blocks the event loop for two seconds', async () => {
  await using server = await FakeServer.open({ heartbeatMs: 200, leaseMs: 30_000 });
  using _ = await startProcess(server);
  const longestGap = async (): Promise<number> => {
    const run = server.submit({ type: 'block', payload: { block_ms: 2_000 } });
    await server.until(() => server.held.has(run.run_id));
    const from = performance.now();
    const outcome = await server.outcomeOf(run);
    assert.equal(outcome.status, 'SUCCESS');
    assert.ok(performance.now() - from > 1_900);
    const times = [from, ...server.calls.map((call) => call.at).filter((at) => at >= from), performance.now()];
    return Math.max(...times.slice(1).map((at, i) => at - (times[i] as number)));
  };
  // A machine that stands still makes a gap too, but not each time.
  const gaps: number[] = [];
  while (gaps.length < 5 && !gaps.some((gap) => gap < 700)) gaps.push(await longestGap());
  assert.ok(Math.min(...gaps) < 700, `gaps of ${gaps.join(', ')} ms`);
  assert.equal(new Set(server.calls.map((call) => call.session_id)).size, 1);
});

test('a run that blocks the event loop past its timeout is reported all the same', async () => {
  await using server = await FakeServer.open({ heartbeatMs: 500, leaseMs: 60_000 });
  using _ = await startProcess(server);
  const outcome = await server.outcomeOf(
    server.submit({ type: 'block', payload: { block_ms: 60_000 }, timeout_ms: 10 }),
  );
  assert.deepEqual([outcome.status, outcome.timed_out], ['FAILED', true]);
});

test('a process whose handler goes on at the end of a lost lease is killed, and not before the margin', async () => {
  const leaseMs = 3_000;
  const killedAfter = async (): Promise<number> => {
    await using server = await FakeServer.open({ heartbeatMs: 100, leaseMs });
    using child = await startProcess(server);
    const exit = once(child, 'exit') as Promise<[number | null, string | null]>;
    const run = server.submit({ type: 'never' });
    await server.until(() => server.calls.at(-1)?.running?.includes(run.run_id) ?? false);
    const lastAnswered = server.calls.at(-1)?.at as number;
    server.mischief = () => 'silence';
    assert.deepEqual(await exit, [null, 'SIGKILL']);
    return performance.now() - lastAnswered;
  };
  // On a machine that stands still meanwhile it is late, and early where a call took long to arrive, but not each time.
  const isInTime = (ms: number): boolean => ms > leaseMs * 0.8 && ms < leaseMs + 300;
  const took: number[] = [];
  while (took.length < 5 && !took.some(isInTime)) took.push(await killedAfter());
  assert.ok(took.some(isInTime), `killed after ${took.join(', ')} ms`);
});

test('SIGTERM gives a started run back as a failure to try again, says goodbye and ends the process', async () => {
  await using server = await FakeServer.open({ heartbeatMs: 100, leaseMs: 30_000 });
  using child = await startProcess(server);
  const run = server.submit({ type: 'never' });
  await server.until(() => server.calls.at(-1)?.running?.includes(run.run_id) ?? false);
  child.kill('SIGTERM');
  const [code] = (await once(child, 'exit')) as [number | null];
  assert.equal(code, 0);
  const outcome = await server.outcomeOf(run);
  assert.deepEqual([outcome.status, outcome.retryable], ['FAILED', true]);
  assert.equal(server.byes, 1);
});

test('runs that came with one that blocks do not start when they were cancelled meanwhile', async () => {
  await using server = await FakeServer.open({ heartbeatMs: 500, leaseMs: 60_000 });
  using _ = await startProcess(server);
  // No call is answered until there are three, so that one answer grants them.
  server.isPaused = true;
  const runs = [0, 1, 2].map(() => server.submit({ type: 'block', payload: { block_ms: 1_000 } }));
  server.isPaused = false;
  server.wake();
  await server.until(() => server.held.size === 3);
  const { run_id, lease_id } = runs[1] as Grant;
  server.cancel.push({ run_id, lease_id, reason: '' });
  server.wake();
  assert.deepEqual(
    (await Promise.all(runs.map((run) => server.outcomeOf(run)))).map(({ status }) => status),
    ['SUCCESS', 'CANCELLED', 'SUCCESS'],
  );
});

test('a run that came while another blocks does not start when it was cancelled meanwhile', async () => {
  await using server = await FakeServer.open({ heartbeatMs: 500, leaseMs: 60_000 });
  using _ = await startProcess(server);
  const first = server.submit({ type: 'block', payload: { block_ms: 1_500 } });
  await server.until(() => server.held.has(first.run_id));
  const second = server.submit({ type: 'block', payload: { block_ms: 1 } });
  const { run_id, lease_id } = second;
  await server.until(() => server.held.has(run_id));
  server.cancel.push({ run_id, lease_id, reason: '' });
  server.wake();
  assert.equal((await server.outcomeOf(second)).status, 'CANCELLED');
  assert.equal((await server.outcomeOf(first)).status, 'SUCCESS');
});
