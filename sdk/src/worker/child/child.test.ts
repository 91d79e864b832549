// Handlers in child processes, against a server in memory.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Grant } from '@punctual/contract';
import { FakeServer } from '../fake-server.test.support.ts';
import { Worker } from '../worker.ts';
import type { ModuleHandler } from './module-handler.ts';

const module = new URL('./handlers.test.support.js', import.meta.url);

async function startWorker(server: FakeServer, handler: Omit<ModuleHandler, 'module'>, stopGraceMs = 10_000) {
  const logger = { info: () => undefined, warn: () => undefined, error: () => undefined };
  const handlers = { echo: { module, ...handler } };
  const worker = new Worker({ url: server.url, handlers, logger, stopGraceMs, slots: 1 });
  await worker.start();
  return Object.assign(worker, { [Symbol.asyncDispose]: () => worker.stop({ graceMs: 0 }) });
}

function linesOf(server: FakeServer, run: Grant): string[] {
  return server.logs
    .filter(({ run_id }) => run_id === run.run_id)
    .flatMap(({ lines }) => lines.map(({ message }) => message));
}

/** Whether a process is there and not merely waiting to be buried. */
function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

async function eventually(condition: () => boolean): Promise<void> {
  const deadline = performance.now() + 60_000;
  while (!condition()) {
    assert.ok(performance.now() < deadline, 'it did not happen within a minute');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

for (const reason of [null, 'cancelled', 'timed_out', 'shutdown'] as const) {
  describe(reason === null ? 'a run that goes on' : `a run that is stopping, ${reason}`, () => {
    test('a lost lease kills the process and what it started at once', async () => {
      await using server = await FakeServer.open({ heartbeatMs: 200, leaseMs: 600_000 });
      const worker = await startWorker(server, { export: 'deaf' }, 600_000);
      const run = server.submit(reason === 'timed_out' ? { timeout_ms: 500 } : {});
      const { run_id, lease_id } = run;
      const said = (pattern: RegExp): boolean => linesOf(server, run).some((line) => pattern.test(line));
      await server.until(() => said(/^pids/));
      const pids = linesOf(server, run)[0]?.match(/\d+/g)?.map(Number) ?? [];
      assert.deepEqual(pids.map(isAlive), [true, true]);
      if (reason === 'cancelled') server.cancel.push({ run_id, lease_id, reason: '' });
      const stopped = reason === 'shutdown' ? worker.stop({ graceMs: 0 }) : null;
      server.wake();
      if (reason !== null) await server.until(() => said(/^heard$/));
      server.refused.push({ run_id, lease_id, code: 'lease_lost' });
      server.wake();
      await eventually(() => !pids.some(isAlive));
      await (stopped ?? worker.stop());
      assert.deepEqual(server.outcomes, []);
    });
  });
}

for (const fails of [false, true]) {
  test(`a line without end belongs to the run that wrote it, which ${fails ? 'fails' : 'succeeds'}, not to the next of its process`, async () => {
    await using server = await FakeServer.open();
    await using _ = await startWorker(server, { export: 'unfinished', isolation: { pool: 1 } });
    const runs = ['first', 'second'].map((line) => server.submit({ payload: { line, fails } }));
    for (const run of runs) await server.outcomeOf(run);
    assert.deepEqual(
      runs.map((run) => linesOf(server, run)),
      [['first'], ['second']],
    );
  });
}

test('a handler that says without a pause how far it is has one such message on its way, not all', async () => {
  await using server = await FakeServer.open();
  await using _ = await startWorker(server, { export: 'busy' });
  const outcome = await server.outcomeOf(server.submit());
  assert.equal(outcome.status, 'SUCCESS', outcome.error_message);
  assert.ok((outcome.result as number) <= 2, `${String(outcome.result)} were sent`);
});

test('a process that cannot be started for want of descriptors fails its run, and later ones have their turn', async () => {
  const file = fileURLToPath(new URL('./starved.test.support.js', import.meta.url));
  const child = spawn('sh', ['-c', `ulimit -n 100; exec "${process.execPath}" "${file}"`], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let said = '';
  child.stdout.on('data', (bytes: Buffer) => (said += bytes.toString()));
  assert.deepEqual(await once(child, 'close'), [0, null]);
  assert.match(said, /^(Error: The process of the handler could not be started: spawn .*EMFILE\.\n){2}\d+\n$/);
});
