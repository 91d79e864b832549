// Client against a server on loopback that answers as each test wants.
import assert from 'node:assert/strict';
import * as http from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { type ErrorCode, type FieldError, PunctualError, routes, toProblem } from '@punctual/contract';
import { Client, type ClientOptions } from './client.ts';
import { defineJob } from './define-job.ts';
import type { StandardSchema } from './schema.ts';
import { RunFailedError, WaitTimeoutError } from './wait.ts';

interface Seen {
  method: string;
  url: string;
  headers: http.IncomingHttpHeaders;
  body: unknown;
}

type Answerer = (seen: Seen, response: http.ServerResponse, count: number) => void;

async function open(answer: Answerer, options: ClientOptions = {}) {
  const seen: Seen[] = [];
  const server = http.createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += String(chunk);
    const one = {
      method: request.method ?? '',
      url: request.url ?? '',
      headers: request.headers,
      body: text === '' ? undefined : JSON.parse(text),
    };
    seen.push(one);
    answer(one, response, seen.length);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const client = new Client({ url: `http://127.0.0.1:${port}`, ...options });
  const stop = async (): Promise<void> => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  const close = async (): Promise<void> => {
    client.close();
    await stop();
  };
  return { client, seen, port, server, stop, [Symbol.asyncDispose]: close };
}

function json(response: http.ServerResponse, value: unknown, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
}

function problem(
  response: http.ServerResponse,
  code: ErrorCode,
  more: { errors?: FieldError[]; retryAfter?: string } = {},
): void {
  const error = new PunctualError(code, { errors: more.errors });
  const headers = {
    'content-type': 'application/problem+json',
    ...(more.retryAfter === undefined ? {} : { 'retry-after': more.retryAfter }),
  };
  response.writeHead(error.status, headers).end(JSON.stringify(toProblem(error, 'r-1')));
}

const id = '01970000-0000-7000-8000-000000000001';
const isCode =
  (code: ErrorCode, pattern = /(?:)/) =>
  (error: unknown) =>
    error instanceof PunctualError && error.code === code && pattern.test(error.message);

test('a job is created with a key, and its answer is returned', async () => {
  await using house = await open((_, response) => json(response, { job_id: id }, 201));
  assert.deepEqual(await house.client.jobs.create({ type: 'echo', payload: { text: 'grüß 🙂' } }), { job_id: id });
  await house.client.jobs.create({ type: 'echo' }, { idempotencyKey: 'order-7' });
  const [first, second] = house.seen as [Seen, Seen];
  assert.deepEqual(
    [first.method, first.url, first.body],
    ['POST', '/jobs', { type: 'echo', payload: { text: 'grüß 🙂' } }],
  );
  assert.match(String(first.headers['idempotency-key']), /^[0-9a-f-]{36}$/);
  assert.equal(second.headers['idempotency-key'], 'order-7');
});

test('a submit whose connection was cut, or that found the server busy, is sent again with the same key', async () => {
  await using house = await open((_, response, count) => {
    if (count === 1) response.socket?.destroy();
    else if (count === 2) problem(response, 'unavailable', { retryAfter: '0' });
    else if (count === 3) problem(response, 'overloaded', { retryAfter: '0' });
    else json(response, { job_id: id }, 201);
  });
  assert.deepEqual(await house.client.jobs.create({ type: 'echo' }), { job_id: id });
  assert.equal(new Set(house.seen.map(({ headers }) => headers['idempotency-key'])).size, 1);
  assert.equal(house.seen.length, 4);
});

test('retries are bounded, and the last error is thrown', async () => {
  await using house = await open((_, response) => problem(response, 'unavailable', { retryAfter: '0' }), {
    retries: 2,
  });
  await assert.rejects(house.client.jobs.get(id), isCode('unavailable'));
  assert.equal(house.seen.length, 3);
});

test('Retry-After is waited for, and one that is too long is passed on at once', async () => {
  await using house = await open((_, response, count) =>
    count === 1 ? problem(response, 'overloaded', { retryAfter: '1' }) : json(response, {}),
  );
  const from = performance.now();
  await house.client.jobs.get(id);
  assert.ok(performance.now() - from >= 990);
  await using slow = await open((_, response) => problem(response, 'unavailable', { retryAfter: '3600' }));
  await assert.rejects(
    slow.client.jobs.get(id),
    (error) => error instanceof PunctualError && error.retryAfterSeconds === 3600,
  );
  assert.equal(slow.seen.length, 1);
});

test('what is not safe to repeat is sent once, whatever happens', async () => {
  await using house = await open((_, response, count) =>
    count % 2 === 0 ? response.socket?.destroy() : problem(response, 'unavailable', { retryAfter: '0' }),
  );
  await assert.rejects(house.client.jobs.runNow(id), isCode('unavailable'));
  await assert.rejects(
    house.client.jobs.cancel(id),
    isCode('unreachable', /It is not known whether the server acted on it/),
  );
  await assert.rejects(house.client.jobs.update(id, { priority: 1 }), isCode('unavailable'));
  assert.deepEqual(
    house.seen.map(({ method }) => method),
    ['POST', 'DELETE', 'PUT'],
  );
});

test('where no server is, the error names the URL and what to do', async () => {
  const { port } = await open(() => undefined).then(async (house) => (await house[Symbol.asyncDispose](), house));
  const client = new Client({ url: `http://127.0.0.1:${port}`, retries: 1 });
  await assert.rejects(
    client.jobs.runNow(id),
    isCode(
      'unreachable',
      new RegExp(
        `No Punctual server answers at http://127\\.0\\.0\\.1:${port} \\(connection refused\\)\\. Start one with \`punctual start\``,
      ),
    ),
  );
});

test('a refused connection is tried again even for what is not safe to repeat, since nothing was sent', async () => {
  const first = await open(() => undefined);
  const { port, server } = first;
  await first.stop();
  const client = new Client({ url: `http://127.0.0.1:${port}`, retries: 20 });
  const answer = client.jobs.runNow(id);
  server
    .removeAllListeners('request')
    .on('request', (_request, response: http.ServerResponse) =>
      json(response, { job_id: id, status: 'SCHEDULED' }, 202),
    );
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  assert.equal((await answer).job_id, id);
  client.close();
  await first.stop();
});

test('a problem becomes an error with its code, its wrong fields and its request id', async () => {
  const errors = [{ path: 'priority', message: 'must be from 0 to 9' }];
  await using house = await open((_, response) => problem(response, 'invalid_input', { errors }));
  await assert.rejects(house.client.jobs.create({ type: 'echo' }), (error) => {
    assert.ok(error instanceof PunctualError);
    assert.deepEqual([error.code, error.status, error.errors, error.requestId], ['invalid_input', 400, errors, 'r-1']);
    return true;
  });
  assert.equal(house.seen.length, 1);
});

test('an answer that is not from Punctual says so', async () => {
  await using house = await open((seen, response) =>
    response.writeHead(seen.url === '/readyz' ? 200 : 404, { 'content-type': 'text/html' }).end('<html>'),
  );
  await assert.rejects(
    house.client.jobs.get(id),
    isCode('internal', /status 404 and no Punctual problem document. Is a Punctual server there/),
  );
  await assert.rejects(house.client.ready(), isCode('internal', /no Punctual problem document|not JSON/));
});

test('a request that takes too long is given up and not sent again', async () => {
  await using house = await open(() => undefined, { timeoutMs: 1_500 });
  await assert.rejects(house.client.jobs.get(id), isCode('unreachable', /was not answered within 1500 ms/));
  assert.equal(house.seen.length, 1);
});

test('the signal ends a request, also between two attempts', async () => {
  const controller = new AbortController();
  await using house = await open((_, response) => {
    problem(response, 'unavailable', { retryAfter: '20' });
    setImmediate(() => controller.abort(new Error('enough')));
  });
  await assert.rejects(house.client.call(routes.getJob, { params: { job_id: id }, signal: controller.signal }));
  await using silent = await open(() => another.abort(new Error('enough')));
  const another = new AbortController();
  await assert.rejects(silent.client.call(routes.getJob, { params: { job_id: id }, signal: another.signal }), /enough/);
});

test('the iterator follows the cursor over all pages, also empty ones', async () => {
  const pages = [
    { jobs: [{ job_id: 'a' }, { job_id: 'b' }], next_cursor: 'c 1' },
    { jobs: [], next_cursor: 'c&2' },
    { jobs: [{ job_id: 'c' }], next_cursor: null },
  ];
  await using house = await open((_, response, count) => json(response, pages[count - 1]));
  const found: string[] = [];
  for await (const job of house.client.jobs.all({ status: 'pending', limit: 2 })) found.push(job.job_id);
  assert.deepEqual(found, ['a', 'b', 'c']);
  assert.deepEqual(
    house.seen.map(({ url }) => url),
    [
      '/jobs?status=pending&limit=2',
      '/jobs?status=pending&limit=2&cursor=c%201',
      '/jobs?status=pending&limit=2&cursor=c%262',
    ],
  );
});

test('waitFor asks until the latest run has ended', async () => {
  const at = (status: string) => ({
    job_id: id,
    status: 'SCHEDULED',
    latest_run: { run_id: id, status, reason: null },
  });
  await using house = await open((_, response, count) =>
    json(
      response,
      count === 1 ? { ...at(''), latest_run: null } : at(['QUEUED', 'RUNNING', 'SUCCESS'][count - 2] ?? 'SUCCESS'),
    ),
  );
  assert.equal((await house.client.jobs.waitFor(id)).status, 'SUCCESS');
  assert.equal(house.seen.length, 4);
  await using stuck = await open((_, response) => json(response, at('QUEUED')));
  await assert.rejects(
    stuck.client.jobs.waitFor(id, { timeoutMs: 1_000 }),
    (error) =>
      error instanceof WaitTimeoutError && /did not finish within 1000 ms: run .* is QUEUED/.test(error.message),
  );
  await using cancelled = await open((_, response) =>
    json(response, { job_id: id, status: 'CANCELLED', latest_run: null }),
  );
  await assert.rejects(cancelled.client.jobs.waitFor(id), /is CANCELLED and has no run to wait for/);
});

const runAt = (status: string, more: object = {}) => ({
  run_id: id,
  job_id: id,
  type: 'echo',
  status,
  reason: null,
  error_message: null,
  ...more,
});

test('waiting for a run goes on while no server answers, and while servers are busy', async () => {
  await using house = await open((_, response, count) => {
    if (count <= 6) response.socket?.destroy();
    else if (count <= 10) problem(response, 'unavailable');
    else json(response, runAt(count === 11 ? 'RUNNING' : 'SUCCESS', { result: 7 }));
  });
  const run = await house.client.runs.waitFor(id);
  assert.deepEqual([run.status, run.result, house.seen.length], ['SUCCESS', 7, 12]);
});

test('waiting for a run ends by its time, its signal, a closed client, and a run that is not there', async () => {
  await using house = await open((seen, response) =>
    seen.url.endsWith('missing') ? problem(response, 'run_not_found') : json(response, runAt('RUNNING')),
  );
  const isTimeout = (error: unknown): boolean =>
    error instanceof WaitTimeoutError &&
    error.code === 'wait_timed_out' &&
    /did not end within 1000 ms: run/.test(error.message);
  await assert.rejects(house.client.runs.waitFor(id, { timeoutMs: 1_000 }), isTimeout);
  await assert.rejects(house.client.runs.waitFor('missing'), isCode('run_not_found'));
  const controller = new AbortController();
  const waiting = house.client.runs.waitFor(id, { signal: controller.signal });
  controller.abort(new Error('enough'));
  await assert.rejects(waiting);
  const closing = house.client.runs.waitFor(id);
  house.client.close();
  await assert.rejects(closing, isCode('unreachable', /was closed/));
});

test('a run that failed is returned, or thrown when asked for', async () => {
  await using house = await open((_, response) =>
    json(response, runAt('FAILED', { reason: 'failed', error_message: 'no luck' })),
  );
  assert.equal((await house.client.runs.waitFor(id)).status, 'FAILED');
  await assert.rejects(
    house.client.runs.waitFor(id, { throwOnFailure: true }),
    (error) => error instanceof RunFailedError && error.code === 'run_failed' && error.run.error_message === 'no luck',
  );
});

test('the answer to a submit is waited for, also when there is no run yet, and gives a typed result', async () => {
  await using house = await open((seen, response, count) => {
    if (seen.method === 'POST') json(response, seen.url === '/jobs' ? { job_id: id } : {}, 201);
    else if (count < 4) json(response, { job_id: id, status: 'SCHEDULED', latest_run: null });
    else json(response, { job_id: id, status: 'COMPLETED', latest_run: runAt('SUCCESS', { result: '2030-01-01' }) });
  });
  const date: StandardSchema<string, Date> = {
    '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value: new Date(value as string) }) },
  };
  const when = defineJob({ type: 'when', payload: { type: 'object' }, result: date });
  const submitted = await when.submit(house.client, {});
  assert.equal(JSON.stringify(submitted), JSON.stringify({ job_id: id }));
  const { result } = await house.client.runs.waitFor(submitted);
  assert.equal(result?.getUTCFullYear(), 2030);
});

test('a thousand waits share ten requests at a time, and leave room for other calls', async () => {
  let now = 0;
  let most = 0;
  let ready = false;
  await using house = await open((seen, response) => {
    if (seen.url === '/readyz') return json(response, { server_id: 's' });
    now += 1;
    most = Math.max(most, now);
    setTimeout(() => {
      now -= 1;
      json(response, runAt(ready ? 'SUCCESS' : 'RUNNING'));
    }, 1);
  });
  const waits = Array.from({ length: 1000 }, () => house.client.runs.waitFor(id));
  await house.client.ready();
  setTimeout(() => {
    ready = true;
  }, 300);
  const runs = await Promise.all(waits);
  assert.ok(runs.every(({ status }) => status === 'SUCCESS'));
  assert.ok(most <= 10, `${most} requests at a time`);
});

test('a wait in a queue of waits ends by its own time and signal though the server hangs', async () => {
  await using house = await open(() => undefined);
  const controller = new AbortController();
  const before = Array.from({ length: 10 }, () => house.client.runs.waitFor(id).catch(() => undefined));
  const late = house.client.runs.waitFor(id, { timeoutMs: 50 });
  const aborted = house.client.runs.waitFor(id, { signal: controller.signal });
  controller.abort(new Error('enough'));
  await Promise.all([assert.rejects(late, WaitTimeoutError), assert.rejects(aborted, /enough/)]);
  house.client.close();
  await Promise.all(before);
});

test('retries can be tuned, and switched off for a client and for a call', async () => {
  await using house = await open((_, response) => problem(response, 'unavailable'), {
    retry: { retries: 4, firstPauseMs: 1, maxPauseMs: 2 },
  });
  const took: number[] = [];
  while (took.length < 5 && !took.some((ms) => ms < 1000)) {
    house.seen.length = 0;
    const from = performance.now();
    await assert.rejects(house.client.jobs.create({ type: 'echo' }), isCode('unavailable'));
    took.push(performance.now() - from);
    assert.equal(house.seen.length, 5);
  }
  assert.ok(Math.min(...took) < 1000, `the pauses took ${took.join(', ')} ms`);
  await assert.rejects(house.client.with({ retry: false }).jobs.create({ type: 'echo' }), isCode('unavailable'));
  assert.equal(house.seen.length, 6);
  const once = new Client({ url: house.client.url, retry: false });
  await assert.rejects(once.jobs.get(id), isCode('unavailable'));
  once.close();
  assert.equal(house.seen.length, 7);
});

test('each call can have its own timeout and signal', async () => {
  await using house = await open(() => undefined);
  await assert.rejects(
    house.client.jobs.create({ type: 'echo' }, { timeoutMs: 40 }),
    isCode('unreachable', /within 40 ms/),
  );
  await assert.rejects(house.client.with({ timeoutMs: 40 }).stats(), isCode('unreachable', /within 40 ms/));
  for (const which of [0, 1]) {
    const [inner, outer] = [new AbortController(), new AbortController()];
    const call = house.client.with({ signal: outer.signal }).jobs.create({ type: 'echo' }, { signal: inner.signal });
    (which === 0 ? inner : outer).abort(new Error(`enough ${which}`));
    await assert.rejects(call, new RegExp(`enough ${which}`));
  }
});

test('everything that makes something carries a key of its own', async () => {
  await using house = await open((_, response) => json(response, { jobs: [] }, 201));
  const { jobs, workflows, backfills, operations } = house.client;
  const steps = { one: { type: 'echo' } };
  await jobs.create({ type: 'echo' });
  await jobs.createMany([{ type: 'echo' }]);
  await workflows.create({ steps });
  await workflows.schedule({ steps, delay_ms: 1 });
  await backfills.create(id, { from: '2030-01-01T00:00:00Z', to: '2030-01-02T00:00:00Z' });
  await operations.create({ action: 'cancel', filter: { type: 'echo' } });
  const keys = house.seen.map(({ headers }) => String(headers['idempotency-key']));
  assert.equal(new Set(keys).size, 6);
  for (const key of keys) assert.match(key, /^(job:)?[0-9a-f-]{36}$/);
});

test('a version read is sent as the tag the update must match', async () => {
  await using house = await open((_, response) => json(response, {}));
  await house.client.jobs.update(id, { priority: 9 }, { ifMatch: 3 });
  await house.client.jobs.update(id, { priority: 9 }, { ifMatch: '"4"' });
  await house.client.jobs.update(id, { priority: 9 });
  assert.deepEqual(
    house.seen.map(({ headers }) => headers['if-match']),
    ['"3"', '"4"', undefined],
  );
});

test('connections are kept and bounded: a thousand requests at once use four', async () => {
  await using house = await open((_, response) => json(response, { job_id: id }), { maxSockets: 4 });
  let connections = 0;
  house.server.on('connection', () => {
    connections += 1;
  });
  await Promise.all(Array.from({ length: 1000 }, () => house.client.jobs.get(id)));
  assert.equal(connections, 4);
});

test('a key with a line break cannot smuggle in a header', async () => {
  await using house = await open((_, response) => json(response, {}));
  await assert.rejects(
    house.client.jobs.create({ type: 'echo' }, { idempotencyKey: 'a\r\nx: y' }),
    /idempotency-key may hold printable ASCII only/,
  );
  await house.client.jobs.get('../../etc?x#y').catch(() => undefined);
  assert.equal(house.seen[0]?.url, '/jobs/..%2F..%2Fetc%3Fx%23y');
});

test('a path in the URL is kept, and a wrong URL is an error at once', async () => {
  await using house = await open((_, response) => json(response, {}));
  const client = new Client({ url: `http://u:p@127.0.0.1:${house.port}/punctual/` });
  await client.jobs.get(id);
  client.close();
  assert.equal(house.seen[0]?.url, `/punctual/jobs/${id}`);
  assert.equal(house.seen[0]?.headers.authorization, `Basic ${Buffer.from('u:p').toString('base64')}`);
  assert.equal(client.url, `http://127.0.0.1:${house.port}/punctual`);
  assert.throws(() => new Client({ url: 'localhost:7600' }), /is not the URL of a Punctual server/);
});

test('a closed client fails what is in flight and what comes later', async () => {
  await using house = await open(() => house.client.close());
  await assert.rejects(house.client.jobs.get(id), isCode('unreachable', /was closed/));
  await assert.rejects(house.client.jobs.get(id), isCode('unreachable', /was closed/));
});
