// The stock worker as a whole, against a server that grants each run once and keeps what is reported.
import assert from 'node:assert/strict';
import * as http from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import type { Grant, Outcome, SyncAnswer, SyncRequest } from '@punctual/contract';
import { grant, isolationForTests } from './executors/run.test.support.ts';
import { startStockWorker } from './index.ts';

/** A call that has nothing to bring waits, as with a real one, until the next call comes. */
async function openServer(runs: Grant[], done: (outcomes: ReadonlyMap<string, Outcome>) => void) {
  const calls: SyncRequest[] = [];
  // What is reported again counts once.
  const outcomes = new Map<string, Outcome>();
  let answerParked = (): void => undefined;
  const server = http.createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += String(chunk);
    const call = JSON.parse(body) as SyncRequest;
    calls.push(call);
    for (const outcome of call.outcomes ?? []) outcomes.set(outcome.run_id, outcome);
    const answer: SyncAnswer = {
      server_id: 's',
      margin_ms: 1_000,
      lease_ms: 15_000,
      heartbeat_ms: 4_000,
      describe: false,
      runs: runs.splice(0),
      cancel: [],
      refused: [],
      drain: false,
    };
    const say = (): void => void response.end(JSON.stringify(answer));
    const waits = call.wait && answer.runs.length === 0;
    answerParked();
    answerParked = waits ? say : () => undefined;
    if (!waits) say();
    done(outcomes);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    calls,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => (server.closeAllConnections(), server.close()),
  };
}

const id = (n: number) => `01970000-0000-7000-8000-0000000000${n}`;
const options = { slots: 5, queues: null, httpAllow: [], stopGraceMs: 100 };

test('it serves echo, sleep, http and, when allowed, shell', async () => {
  const runs = [
    grant({ run_id: id(10), type: 'echo', payload: 'hello' }),
    grant({ run_id: id(11), type: 'sleep', payload: { ms: 1 } }),
    grant({ run_id: id(12), type: 'shell', executor: { kind: 'shell', command: ['echo', 'from a program'] } }),
    grant({ run_id: id(13), type: 'http', executor: { kind: 'http', url: 'http://127.0.0.1:1/' } }),
  ];
  let arrived: (all: ReadonlyMap<string, Outcome>) => void = () => undefined;
  const all = new Promise<ReadonlyMap<string, Outcome>>((resolve) => {
    arrived = resolve;
  });
  const server = await openServer(runs, (outcomes) => outcomes.size === 4 && arrived(outcomes));
  const worker = await startStockWorker({ ...options, url: server.url, shell: await isolationForTests() });
  const outcomes = await all;
  await worker.stop();
  server.close();
  const of = (n: number) => outcomes.get(id(n));
  assert.equal(of(10)?.result, 'hello');
  assert.deepEqual(of(11)?.result, { slept_ms: 1 });
  assert.deepEqual(of(12)?.result, { exit_code: 0, stdout_tail: 'from a program\n' });
  assert.match(of(13)?.error_message ?? '', /127\.0\.0\.1 is not a public address/);
  assert.deepEqual(server.calls[0]?.worker?.executors, ['http', 'shell']);
});

test('it does not offer shell unless allowed', async () => {
  const server = await openServer([], () => undefined);
  const worker = await startStockWorker({ ...options, url: server.url, shell: null });
  await worker.stop();
  server.close();
  assert.deepEqual(server.calls[0]?.worker?.executors, ['http']);
  assert.deepEqual(server.calls[0]?.worker?.types, ['echo', 'sleep']);
});

test('a wrong entry of PUNCTUAL_HTTP_ALLOW is an error at start', async () => {
  await assert.rejects(
    startStockWorker({ ...options, url: 'http://127.0.0.1:1', shell: null, httpAllow: ['10.0.0.0/99'] }),
    /PUNCTUAL_HTTP_ALLOW/,
  );
});
