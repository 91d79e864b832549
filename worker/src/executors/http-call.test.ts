// What the http executor sends and expects: templates, signatures, traces, statuses, against a server on loopback.
import assert from 'node:assert/strict';
import { createHmac, timingSafeEqual } from 'node:crypto';
import { test } from 'node:test';
import type { HttpExecutor } from '@punctual/contract';
import { signer } from '@punctual/contract/outgoing';
import { FatalError, type Grant, RetryError } from '@punctual/sdk';
import { openTarget, type Seen } from './http.test.support.ts';
import { httpExecutor } from './http.ts';
import type { HttpResult } from './http-answer.ts';
import { context, grant } from './run.test.support.ts';
import { fillTemplate } from './template.ts';

const secrets = ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', `whsec_${Buffer.alloc(32, 7).toString('base64')}`] as const;

async function call(
  executor: Omit<HttpExecutor, 'kind'>,
  fields: Partial<Grant> = {},
  webhookSecret: string | null = null,
): Promise<HttpResult> {
  const run = grant({ executor: { kind: 'http', ...executor }, ...fields });
  const execute = httpExecutor({ allow: ['127.0.0.1'], version: '0.0.0', webhookSecret });
  return (await execute(run, context(run))) as HttpResult;
}

/** Standard Webhooks, the way a receiver does it, from the text of its specification. */
function verify({ headers, body }: Seen, secret: string): void {
  const [id, timestamp, given] = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => headers[name]);
  assert.ok(typeof id === 'string' && typeof timestamp === 'string' && typeof given === 'string');
  assert.ok(Math.abs(Date.now() / 1000 - Number(timestamp)) < 300, 'the time is too far off');
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  const expected = createHmac('sha256', key)
    .update(Buffer.from(`${id}.${timestamp}.${body}`, 'utf8'))
    .digest();
  const fits = given
    .split(' ')
    .map((versioned) => versioned.split(','))
    .filter(([version]) => version === 'v1')
    .map(([, signature = '']) => Buffer.from(signature, 'base64'))
    .some((signature) => signature.length === expected.length && timingSafeEqual(signature, expected));
  assert.ok(fits, 'no signature fits');
}

test('only the statuses a job expects are success, and a failure says which they are', async () => {
  let status = 0;
  await using target = await openTarget((response) => response.writeHead(status).end('so'));
  for (status of [200, 304, 404])
    assert.equal((await call({ url: target.url, expect: [200, 304, 404] })).status, status);
  status = 200;
  await assert.rejects(
    call({ url: target.url, expect: [201, 204] }),
    (error) => error instanceof FatalError && error.message.endsWith('status 200 instead of 201 or 204: so'),
  );
  status = 503;
  await assert.rejects(call({ url: target.url, expect: [200] }), RetryError);
  assert.equal((await call({ url: target.url, expect: [503] })).status, 503);
});

test('parts of the payload stand in the body, with their types, and are not looked into again', async () => {
  await using target = await openTarget((response) => response.end());
  const payload = { to: { name: 'Ada "A"', tags: ['x', 'y'] }, n: 7, tricky: '{{payload.n}}', none: null };
  const body = {
    text: 'Dear {{payload.to.name}}, {{ payload.n }} of {{payload.to.tags}}',
    number: '{{payload.n}}',
    second: '{{payload.to.tags.1}}',
    all: '{{payload}}',
    tricky: '{{payload.tricky}}',
    nothing: '{{payload.none}}',
    others: '{{name}} {payload.n} {{payloads.n}} {{{payload.n}}}',
    '{{payload.n}}': [1, true, null],
  };
  await call({ url: target.url, body }, { payload });
  assert.deepEqual(JSON.parse(target.seen[0]?.body ?? ''), {
    text: 'Dear Ada "A", 7 of ["x","y"]',
    number: 7,
    second: 'y',
    all: payload,
    tricky: '{{payload.n}}',
    nothing: null,
    others: '{{name}} {payload.n} {{payloads.n}} {7}',
    '{{payload.n}}': [1, true, null],
  });
  await call({ url: target.url, body: 'n={{payload.n}}', headers: { 'Content-Type': 'text/plain' } }, { payload });
  assert.equal(target.seen[1]?.body, 'n=7');
});

test('a template reaches nothing but what the payload has of its own', () => {
  const payload = { a: [1], text: 'x' };
  for (const path of [
    ...['b', 'a.1', 'a.length', 'a.b', 'text.length', 'text.0', 'constructor', '__proto__', 'a.__proto__', 'toString'],
    ...['a.constructor.constructor', 'hasOwnProperty'],
  ]) {
    assert.throws(
      () => fillTemplate(`{{payload.${path}}}`, payload),
      (error) =>
        error instanceof FatalError && error.message.includes(`names payload.${path}, which the payload does not have`),
      path,
    );
  }
  assert.equal(fillTemplate('{{payload.a()}}', payload), '{{payload.a()}}');
  assert.equal(fillTemplate('{{payload.__proto__}}', JSON.parse('{"__proto__": 1}')), 1);
});

test('a template that makes a huge body is refused before it is made', () => {
  const payload = { big: 'x'.repeat(200_000) };
  const from = process.memoryUsage().rss;
  for (const body of ['{{payload.big}}'.repeat(10_000), Array(10_000).fill('{{payload.big}}')]) {
    assert.throws(() => fillTemplate(body, payload), /longer than 1048576 bytes/);
  }
  assert.ok(process.memoryUsage().rss - from < 200_000_000);
});

test('calls are signed as Standard Webhooks has it, with every secret there is', async () => {
  await using target = await openTarget((response) => response.end());
  const payload = { text: 'grüß' };
  await call({ url: target.url }, { payload }, secrets.join(' '));
  await call({ url: target.url, method: 'GET' }, { payload }, secrets[0]);
  await call({ url: target.url }, { payload });
  const [both, bodyless, unsigned] = target.seen as [Seen, Seen, Seen];
  for (const secret of secrets) verify(both, secret);
  verify(bodyless, secrets[0]);
  assert.equal(both.headers['webhook-id'], grant({}).run_id);
  assert.throws(() => verify({ ...both, body: `${both.body} ` }, secrets[0]), /no signature fits/);
  assert.throws(() => verify(bodyless, secrets[1]), /no signature fits/);
  assert.equal(unsigned.headers['webhook-signature'], undefined);
  await assert.rejects(call({ url: target.url, headers: { 'Webhook-Id': 'x' } }), /is set by Punctual/);
});

test('the example of the specification has the signature it says', () => {
  const headers = signer(secrets[0])('msg_p5jXN8AQM9LWM0D4loKWxJek', '{"test": 2432232314}', 1_614_265_330_000);
  assert.deepEqual(headers, {
    'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  });
});

test('a secret that is none is an error that does not show it', () => {
  for (const secret of [
    'MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
    'whsec_==',
    'whsec_c2hvcnQ=',
    'whsec_!!!!',
    `whsec_${'A'.repeat(200)}`,
  ]) {
    assert.throws(
      () => signer(secret),
      (error) =>
        error instanceof TypeError && /PUNCTUAL_WEBHOOK_SECRET/.test(error.message) && !error.message.includes(secret),
    );
  }
});

test('a trace of the job is passed on, and one is made of the run where there is none', async () => {
  await using target = await openTarget((response) => response.end());
  const [one, two] = ['a', 'b'].map((digit) => `00-${digit.repeat(32)}-${digit.repeat(16)}-01`) as [string, string];
  const trace = grant({}).run_id.replaceAll('-', '');
  await call({ url: target.url, headers: { Traceparent: one } }, { payload: { traceparent: two } });
  await call({ url: target.url }, { payload: { traceparent: two } });
  await call({ url: target.url }, { payload: { traceparent: `00-${'0'.repeat(32)}-${'b'.repeat(16)}-01` } });
  await call({ url: target.url }, { payload: null, lease_id: '01970000-0000-7000-8000-000000000009' });
  const seen = target.seen.map(({ headers }) => String(headers['traceparent']));
  assert.deepEqual(seen.slice(0, 2), [one, two]);
  for (const made of seen.slice(2)) assert.match(made, new RegExp(`^00-${trace}-[0-9a-f]{16}-01$`));
  assert.notEqual(seen[2], seen[3], 'each attempt is a span of its own');
});

test('user and password of a URL do not change which host is called, and are not shown', async () => {
  await using target = await openTarget((response) => response.writeHead(400).end());
  await assert.rejects(
    call({ url: `http://1.1.1.1:80@127.0.0.1:${target.port}/` }),
    (error) => error instanceof FatalError && !error.message.includes('1.1.1.1'),
  );
  assert.equal(target.seen.length, 1);
});

test('of the addresses a name has only those that may be called are', async () => {
  await using target = await openTarget((response) => response.end('here'));
  const lookup = async () => [
    { address: '10.0.0.1', family: 4 },
    { address: '::1%lo', family: 6 },
    { address: '127.0.0.1', family: 4 },
  ];
  const execute = httpExecutor({ allow: ['127.0.0.1'], version: '0.0.0', lookup });
  const run = grant({ executor: { kind: 'http', url: `http://mixed.example:${target.port}/` } });
  assert.equal(((await execute(run, context(run))) as HttpResult).body, 'here');
});
