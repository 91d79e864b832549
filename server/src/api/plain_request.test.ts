// What is read the quick way, and that everything else is left to a real parser.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { type PlainRequest, readPlainRequest, unfinished } from './plain_request.ts';

const body = '{"type":"mail"}';
const usual = ['host: 127.0.0.1:7600', 'content-type: application/json', `content-length: ${body.length}`];

function request({ line = 'POST /jobs HTTP/1.1', headers = usual, text = body, end = '\r\n' } = {}): Buffer {
  return Buffer.from([line, ...headers, '', text].join(end));
}

function read(bytes: Buffer, from?: number): PlainRequest {
  const plain = readPlainRequest(bytes, from);
  assert.ok(plain !== null && plain !== unfinished);
  return plain;
}

/** The usual headers, of which one is another; or with one more. */
const but = (header: string): string[] => {
  const name = header.split(':', 1)[0]?.toLowerCase();
  return [...usual.filter((one) => !one.startsWith(`${name}:`)), header];
};

describe('a plain request', () => {
  test('is read with its path, its headers and its body', () => {
    const key = 'job:01930000-0000-7000-8000-000000000000';
    const headers = [...usual, 'Idempotency-Key:  ' + key, 'User-Agent: curl/8.0 (x; y)', 'connection: keep-alive'];
    const bytes = request({ headers });
    assert.deepEqual(readPlainRequest(bytes), {
      path: '/jobs',
      headers: {
        host: '127.0.0.1:7600',
        'content-type': 'application/json',
        'content-length': '15',
        'idempotency-key': key,
        'user-agent': 'curl/8.0 (x; y)',
        connection: 'keep-alive',
      },
      body,
      end: bytes.length,
    });
  });

  test('may have come through a proxy, and name its character set', () => {
    const headers = [
      ...but('content-type: application/json; charset=utf-8'),
      'x-forwarded-for: 1.2.3.4',
      'via: 1.1 proxy',
    ];
    assert.equal(read(request({ headers })).body, body);
  });

  test('may hold any text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 200 }), (text) => {
        const bytes = Buffer.byteLength(text);
        assert.equal(read(request({ headers: but(`content-length: ${bytes}`), text })).body, text);
      }),
    );
  });

  test('is whole: a beginning of it may become one, another piece of it is none', () => {
    const whole = request();
    for (let end = 0; end < whole.length; end++) assert.equal(readPlainRequest(whole.subarray(0, end)), unfinished);
    const head = whole.length - body.length;
    for (let from = 1; from <= head - 4; from++) assert.equal(readPlainRequest(whole.subarray(from)), null);
    assert.equal(readPlainRequest(Buffer.alloc(9_000, 'a')), null);
  });

  test('ends where its length says, whatever follows', () => {
    const [first, second] = [request(), request({ text: '{"type":"post"}' })];
    const odd = Buffer.from('P\xff\r\n\r\n', 'latin1');
    const bytes = Buffer.concat([first, second, odd]);
    const one = read(bytes);
    const two = read(bytes, one.end);
    assert.deepEqual([one.body, one.end], [body, first.length]);
    assert.deepEqual([two.body, two.end], ['{"type":"post"}', first.length + second.length]);
    assert.equal(readPlainRequest(bytes, two.end), null);
    for (let from = 1; from < first.length; from++) assert.equal(readPlainRequest(bytes, from), null);
  });
});

describe('left to a real parser is', () => {
  const others: Record<string, Buffer> = {
    'another method': request({ line: 'PUT /jobs HTTP/1.1' }),
    'a method in lower case': request({ line: 'post /jobs HTTP/1.1' }),
    'an older version': request({ line: 'POST /jobs HTTP/1.0' }),
    'a query': request({ line: 'POST /jobs?a=1 HTTP/1.1' }),
    'an escape in the path': request({ line: 'POST /%6aobs HTTP/1.1' }),
    'a whole address': request({ line: 'POST http://127.0.0.1/jobs HTTP/1.1' }),
    'two blanks': request({ line: 'POST  /jobs HTTP/1.1' }),
    'ends of lines that are none': Buffer.concat([request({ end: '\n' }), request()]),
    'a lone line feed in a header': request({ headers: but('user-agent: a\nexpect: 100-continue') }),
    'a lone carriage return in a header': request({ headers: but('user-agent: a\rb') }),
    'a header that goes on in the next line': request({ headers: [...usual, 'user-agent: a', ' b'] }),
    'a blank before the colon': request({ headers: but('user-agent : a') }),
    'a header without a name': request({ headers: but(': a') }),
    'a header without a value': request({ headers: but('user-agent:') }),
    'a NUL in a header': request({ headers: but('user-agent: a\0b') }),
    'a header that is not ASCII': request({ headers: but('user-agent: ä') }),
    'no host': request({ headers: usual.slice(1) }),
    'two hosts': request({ headers: [...usual, 'Host: elsewhere'] }),
    'a second length': request({ headers: [...usual, `Content-Length: ${body.length}`] }),
    'a length with a sign': request({ headers: but(`content-length: +${body.length}`) }),
    'a length with a zero before it': request({ headers: but(`content-length: 0${body.length}`) }),
    'a length in hex': request({ headers: but('content-length: 0xf') }),
    'two lengths in one': request({ headers: but(`content-length: ${body.length}, ${body.length}`) }),
    'no length': request({ headers: usual.slice(0, 2) }),
    'no body': request({ headers: but('content-length: 0'), text: '' }),
    'a transfer coding': request({ headers: but('transfer-encoding: chunked') }),
    'an expectation': request({ headers: but('expect: 100-continue') }),
    'an upgrade': request({ headers: but('upgrade: h2c') }),
    'a last request': request({ headers: but('connection: close') }),
    'a cookie': request({ headers: but('cookie: punctual_session=a') }),
    'a page that asks': request({ headers: but('origin: http://evil.example') }),
    'a connection of a proxy': request({ headers: but('proxy-connection: keep-alive') }),
    'another type': request({ headers: but('content-type: text/plain') }),
    'another character set': request({ headers: but('content-type: application/json; charset=latin1') }),
    'a type with other parameters': request({ headers: but('content-type: application/json; version=2') }),
    'a coding of the content': request({ headers: but('content-encoding: gzip') }),
    'a name from the prototype': request({ headers: but('constructor: a') }),
    'very many headers': request({ headers: [...usual, ...Array.from({ length: 20 }, () => 'accept: a')] }),
    'a very long header': request({ headers: but(`user-agent: ${'a'.repeat(9000)}`) }),
    'a body that is no UTF-8': Buffer.concat([request().subarray(0, -1), Buffer.from([0xff])]),
  };
  for (const [what, bytes] of Object.entries(others))
    test(what, () => {
      assert.equal(readPlainRequest(bytes), null);
    });
});
