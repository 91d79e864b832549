// What a server refuses, and what something else answers in its place, against a server in memory.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Handler } from './active-run.ts';
import { FakeServer } from './fake-server.test.support.ts';
import type { WorkerEvent } from './messages.ts';
import { Worker, type WorkerOptions } from './worker.ts';

const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };

async function startWorker(server: FakeServer, handler: Handler, options: WorkerOptions = {}) {
  const worker = new Worker({ url: server.url, handlers: { echo: handler }, logger: quiet, ...options });
  await worker.start();
  return Object.assign(worker, { [Symbol.asyncDispose]: () => worker.stop({ graceMs: 0 }) });
}

test('an outcome the server chokes on becomes a failure, and the others arrive', async () => {
  await using server = await FakeServer.open();
  await using _ = await startWorker(server, (run) => run.payload, { slots: 5 });
  server.mischief = (call) => (JSON.stringify(call.outcomes ?? []).includes('poison') ? 'internal' : null);
  const poison = server.submit({ payload: 'poison' });
  const good = server.submit({ payload: 'good' });
  assert.equal((await server.outcomeOf(good)).result, 'good');
  const outcome = await server.outcomeOf(poison);
  assert.deepEqual([outcome.status, outcome.retryable], ['FAILED', false]);
  assert.match(outcome.error_message ?? '', /The server refused the outcome of this run/);
});

for (const [name, mischief] of [
  ['something else answers that nothing is there', { status: 404, text: '<h1>Not found</h1>' }],
  ['something else answers with a page', { status: 200, text: '<h1>Back soon</h1>' }],
  ['something else answers with an error', { status: 500, text: '{"message":"upstream","code":13}' }],
  ['the server fails over every call', 'internal'],
] as const) {
  test(`while ${name} a success is kept, and it is reported as such afterwards`, async () => {
    await using server = await FakeServer.open();
    const events: WorkerEvent[] = [];
    await using _ = await startWorker(server, () => 'done', { slots: 2, onEvent: (event) => events.push(event) });
    const run = server.submit();
    let reports = 0;
    let refused = 0;
    server.mischief = (call) => {
      reports += call.outcomes?.length ?? 0;
      return reports > 0 && ++refused <= 4 ? mischief : null;
    };
    const outcome = await server.outcomeOf(run);
    assert.deepEqual([outcome.status, outcome.result], ['SUCCESS', 'done']);
    if (mischief !== 'internal')
      assert.match(JSON.stringify(events.find(({ type }) => type === 'unreachable')), /or a proxy in between\?/);
  });
}
