// Answers in one part and in two, as each thread reads them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Grant } from '@punctual/contract';
import { FakeServer } from './fake-server.test.support.ts';
import { readGrants, readLeases, type SyncBody } from './sync-answer.ts';
import { Worker } from './worker.ts';

const alike = { lease_id: 'l', name: 'ü', type: 'echo', timeout_ms: 5, user_id: 'anna' };
const runs = [
  { run_id: 'r1', ...alike, job_id: 'j1', fence: 1, payload: 'ü\n' },
  { run_id: 'r2', ...alike, user_id: null, job_id: 'j2', fence: 2, payload: null },
  { run_id: 'r3', ...alike, timeout_ms: 7, awaited: true, job_id: 'j3', fence: 3, payload: [1] },
] as unknown as Grant[];

const body = (text: string, parts: 1 | 2): SyncBody => {
  // As it is cut out of what a connection has read.
  const around = Buffer.from(`before${text}after`);
  return { bytes: around.subarray(6, around.length - 5), parts };
};

const inOne = body(JSON.stringify({ server_id: 's', runs }), 1);
const inTwo = body(
  `${JSON.stringify({
    server_id: 's',
    batches: [
      { run_ids: ['r1', 'r2'], alike },
      { run_ids: ['r3'], alike: { ...alike, timeout_ms: 7, awaited: true } },
    ],
  })}\n[{"job_id":"j1","fence":1,"payload":"ü\\n"},{"job_id":"j2","fence":2,\n"user_id":null,"payload":null},{"job_id":"j3","fence":3,"payload":[1]}]`,
  2,
);

test('both forms give the same grants, each with its own before what is shared', () => {
  assert.deepEqual(readGrants(inOne), runs);
  assert.deepEqual(readGrants(inTwo), runs);
});

test('both forms give the same leases, in the order of the grants', () => {
  for (const given of [inOne, inTwo]) {
    const heard = readLeases(given);
    assert.deepEqual(heard.answer, { server_id: 's' });
    assert.equal(heard.runs, 3);
    assert.deepEqual(
      heard.leased.flatMap(({ run_ids, lease }) =>
        run_ids.map((id) => [id, lease.lease_id, lease.timeout_ms, lease.awaited ?? false]),
      ),
      [
        ['r1', 'l', 5, false],
        ['r2', 'l', 5, false],
        ['r3', 'l', 7, true],
      ],
    );
  }
});

test('what cannot be read throws, so that the call counts as failed', () => {
  assert.throws(() => readLeases(body('{"server_id":"s","batches":[]}', 2)), /one part only/);
  assert.throws(() => readLeases(body('{"server_id":', 1)));
});

test('runs whose grants cannot be read fail and say why, and the worker goes on', async () => {
  await using server = await FakeServer.open();
  const worker = new Worker({ url: server.url, slots: 2, handlers: { echo: (run) => run.payload } });
  await using _ = { [Symbol.asyncDispose]: () => worker.stop({ graceMs: 0 }) };
  await worker.start();
  for (const [garble, pattern] of [
    [(own: string) => own.slice(0, -10), /The server sent what cannot be read: .*JSON/],
    [() => '[]', /The server sent what cannot be read: the answer names 1 runs and describes 0/],
  ] as const) {
    server.garble = garble;
    const outcome = await server.outcomeOf(server.submit());
    assert.deepEqual([outcome.status, outcome.retryable], ['FAILED', true]);
    assert.match(outcome.error_message ?? '', pattern);
  }
  server.garble = (own) => own;
  assert.equal((await server.outcomeOf(server.submit({ payload: 5 }))).result, 5);
});
