// The http executor against a server on loopback.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HttpExecutor } from '@punctual/contract';
import { retryAfterMs } from '@punctual/contract/outgoing';
import { FatalError, RetryError } from '@punctual/sdk';
import { openTarget, type Seen } from './http.test.support.ts';
import { httpExecutor } from './http.ts';
import type { HttpResult } from './http-answer.ts';
import { context, grant } from './run.test.support.ts';

const execute = httpExecutor({ allow: ['127.0.0.1'], version: '0.0.0' });

function run(executor: Omit<HttpExecutor, 'kind'>, payload: unknown = { a: 1 }) {
  const granted = grant({ executor: { kind: 'http', ...executor }, payload });
  return { granted, ctx: context(granted) };
}

async function call(executor: Omit<HttpExecutor, 'kind'>, payload?: unknown): Promise<HttpResult> {
  const { granted, ctx } = run(executor, payload);
  return (await execute(granted, ctx)) as HttpResult;
}

test('the payload is posted as JSON with headers that name the run and the attempt', async () => {
  await using target = await openTarget((response) =>
    response.writeHead(201, { 'content-type': 'text/plain' }).end('thanks'),
  );
  const result = await call({ url: target.url, headers: { 'X-Mine': 'yes' } }, { text: 'grüß' });
  assert.deepEqual(result, { status: 201, headers: { 'content-type': 'text/plain' }, body: 'thanks' });
  const seen = target.seen[0] as Seen;
  assert.equal(seen.method, 'POST');
  assert.deepEqual(JSON.parse(seen.body), { text: 'grüß' });
  assert.equal(seen.headers['x-mine'], 'yes');
  assert.equal(seen.headers['idempotency-key'], '01970000-0000-7000-8000-000000000001');
  assert.equal(seen.headers['punctual-run-id'], '01970000-0000-7000-8000-000000000001');
  assert.equal(seen.headers['punctual-attempt'], '2');
  assert.equal(seen.headers['punctual-fence'], String(grant({}).fence));
  assert.equal(seen.headers['user-agent'], 'Punctual/0.0.0');
});

test('a body of the executor goes before the payload, and GET has none', async () => {
  await using target = await openTarget((response) => response.end());
  await call({ url: target.url, body: { b: 2 } });
  await call({ url: target.url, method: 'GET' });
  await call({ url: target.url, body: 'plain words', headers: { 'Content-Type': 'text/plain' } });
  assert.deepEqual(
    target.seen.map(({ body }) => body),
    ['{"b":2}', '', 'plain words'],
  );
});

test('headers that belong to the connection or to Punctual are refused', async () => {
  for (const name of ['Host', 'Transfer-Encoding', 'content-length', 'Idempotency-Key']) {
    await assert.rejects(
      call({ url: 'http://127.0.0.1:1/', headers: { [name]: 'x' } }),
      new RegExp(`The header ${name} is set by Punctual`),
    );
  }
});

test('a long answer is cut and marked', async () => {
  await using target = await openTarget((response) => response.end('x'.repeat(10_000_000)));
  const result = await call({ url: target.url });
  assert.deepEqual([result.body.length, result.truncated], [64 * 1024, true]);
});

test('a redirect is not followed and is fatal', async () => {
  await using target = await openTarget((response) =>
    response.writeHead(302, { location: 'http://169.254.169.254/' }).end(),
  );
  await assert.rejects(
    call({ url: target.url }),
    (error) => error instanceof FatalError && /redirect \(302\) to http:\/\/169\.254\.169\.254\//.test(error.message),
  );
  assert.equal(target.seen.length, 1);
});

test('408, 425, 429 and 5xx are tried again, other refusals are fatal, and no message shows the query', async () => {
  let status = 0;
  await using target = await openTarget((response) => response.writeHead(status, { 'retry-after': '7' }).end('busy'));
  for (status of [408, 425, 429, 500, 503]) {
    await assert.rejects(
      call({ url: target.url }),
      (error) =>
        error instanceof RetryError && error.retryAfterMs === 7_000 && error.message.endsWith(`status ${status}: busy`),
    );
  }
  for (status of [400, 401, 404, 422]) {
    await assert.rejects(
      call({ url: target.url }),
      (error) => error instanceof FatalError && !error.message.includes('secret'),
    );
  }
});

test('Retry-After is read as seconds and as a date', () => {
  const now = Date.parse('2030-01-01T00:00:00Z');
  assert.equal(retryAfterMs('120', now), 120_000);
  assert.equal(retryAfterMs('Tue, 01 Jan 2030 00:01:00 GMT', now), 60_000);
  assert.equal(retryAfterMs('Mon, 31 Dec 2029 00:00:00 GMT', now), 0);
  assert.equal(retryAfterMs('soon', now), undefined);
  assert.equal(retryAfterMs(undefined, now), undefined);
});

test('a name that resolves to a private address is refused, and nothing is sent', async () => {
  await using target = await openTarget((response) => response.end());
  const strict = httpExecutor({
    allow: [],
    version: '0.0.0',
    lookup: async () => [{ address: '127.0.0.1', family: 4 }],
  });
  const { granted, ctx } = run({ url: `http://innocent.example:${target.port}/` });
  await assert.rejects(
    Promise.resolve(strict(granted, ctx)),
    (error) =>
      error instanceof FatalError &&
      /innocent\.example resolves to 127\.0\.0\.1, which is not a public address.*PUNCTUAL_HTTP_ALLOW/.test(
        error.message,
      ),
  );
  assert.equal(target.seen.length, 0);
});

test('the connection goes to the address that was checked, whatever the name resolves to later', async () => {
  await using target = await openTarget((response) => response.end('here'));
  let asked = 0;
  const rebinding = async () => {
    asked += 1;
    return [{ address: asked === 1 ? '127.0.0.1' : '169.254.169.254', family: 4 }];
  };
  const pinned = httpExecutor({ allow: ['127.0.0.0/8'], version: '0.0.0', lookup: rebinding });
  const { granted, ctx } = run({ url: `http://rebind.example:${target.port}/` });
  assert.equal(((await pinned(granted, ctx)) as HttpResult).body, 'here');
  assert.equal(asked, 1);
});

test('an allowed host may resolve to anything', async () => {
  await using target = await openTarget((response) => response.end('inside'));
  const allowing = httpExecutor({
    allow: ['hooks.internal'],
    version: '0.0.0',
    lookup: async () => [{ address: '127.0.0.1', family: 4 }],
  });
  const { granted, ctx } = run({ url: `http://hooks.internal:${target.port}/` });
  assert.equal(((await allowing(granted, ctx)) as HttpResult).body, 'inside');
});

test('an unknown name, a refused connection and a cut answer are tried again', async () => {
  const failing = httpExecutor({ allow: [], version: '0.0.0', lookup: () => Promise.reject(new Error('ENOTFOUND')) });
  const { granted, ctx } = run({ url: 'http://nowhere.example/' });
  await assert.rejects(
    Promise.resolve(failing(granted, ctx)),
    (error) => error instanceof RetryError && /nowhere\.example could not be resolved/.test(error.message),
  );
  const { port } = await openTarget(() => undefined).then(
    async (target) => (await target[Symbol.asyncDispose](), target),
  );
  await assert.rejects(
    call({ url: `http://127.0.0.1:${port}/` }),
    (error) => error instanceof RetryError && /failed: connect ECONNREFUSED/.test(error.message),
  );
  await using cutting = await openTarget((response) => {
    response.writeHead(200, { 'content-length': '100' });
    response.write('half');
    response.socket?.destroySoon();
  });
  await assert.rejects(call({ url: cutting.url }), RetryError);
});

test('the signal ends a call that waits for its answer', async () => {
  const arrived = new Promise<void>((resolve) => {
    setTarget = resolve;
  });
  await using target = await openTarget(() => setTarget());
  const { granted, ctx } = run({ url: target.url });
  const result = Promise.resolve(execute(granted, ctx));
  await arrived;
  ctx.controller.abort(new Error('stop now'));
  await assert.rejects(result, /stop now/);
});
let setTarget: () => void = () => undefined;
