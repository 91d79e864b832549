// Answers are read whole, however their bytes are cut.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AnswerReader, headerOf, type RawAnswer } from './answer.ts';

const plain = 'HTTP/1.1 201 Created\r\nContent-Length: 7\r\nretry-after: 3\r\n\r\n{"a":1}';
const chunked =
  'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\n{"a\r\n4\r\n":1}\r\n0\r\nx-trailer: 1\r\n\r\n';
const informed = `HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n${plain}`;
const empty = 'HTTP/1.1 204 No Content\r\n\r\n';

function read(pieces: string[], end = false): RawAnswer[] {
  const reader = new AnswerReader();
  const answers: RawAnswer[] = [];
  for (const piece of pieces) reader.read(Buffer.from(piece), (answer) => answers.push(answer));
  if (end) reader.end((answer) => answers.push(answer));
  return answers;
}

for (const [name, text, status, body] of [
  ['with a length', plain, 201, '{"a":1}'],
  ['in chunks', chunked, 200, '{"a":1}'],
  ['after an interim answer', informed, 201, '{"a":1}'],
  ['without a body', empty, 204, ''],
] as const) {
  test(`an answer ${name} is read wherever it is cut in two, and byte by byte`, () => {
    const bytes = text.split('');
    const cuts = bytes.map((_, i) => [text.slice(0, i), text.slice(i)]);
    for (const pieces of [...cuts, bytes]) {
      const answers = read(pieces.filter((piece) => piece !== ''));
      assert.equal(answers.length, 1);
      assert.deepEqual([answers[0]?.status, answers[0]?.body.toString(), answers[0]?.keepAlive], [status, body, true]);
    }
  });
}

test('several answers in one piece are told apart', () => {
  const answers = read([plain + empty + chunked + plain]);
  assert.deepEqual(
    answers.map(({ status }) => status),
    [201, 204, 200, 201],
  );
});

test('an answer without a length ends with the connection, which carries no further request', () => {
  const text = 'HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\nsome words';
  assert.deepEqual(read([text]), []);
  const [answer] = read([text], true);
  assert.deepEqual([answer?.body.toString(), answer?.keepAlive], ['some words', false]);
});

test('a connection the server will close is not used again', () => {
  const [answer] = read([plain.replace('retry-after: 3', 'Connection: close')]);
  assert.equal(answer?.keepAlive, false);
});

test('headers are found whatever their case', () => {
  const [answer] = read([plain.replace('retry-after', 'Retry-After')]);
  assert.equal(headerOf(answer?.head ?? '', 'retry-after'), '3');
  assert.equal(headerOf(answer?.head ?? '', 'connection'), undefined);
});

test('what is not HTTP, an endless head, a wrong chunk and an endless body are given up', () => {
  assert.throws(() => read(['SSH-2.0-OpenSSH\r\n\r\n']), /not HTTP/);
  assert.throws(() => read([`HTTP/1.1 200 OK\r\nx: ${'y'.repeat(70_000)}`]), /head of the answer is longer/);
  assert.throws(() => read(['HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n']), /does not say its size/);
  assert.throws(() => read(['HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n']), /transfer coding/);
  const reader = new AnswerReader();
  const flood = Buffer.alloc(1024 * 1024);
  reader.read(Buffer.from('HTTP/1.1 200 OK\r\n\r\n'), () => undefined);
  assert.throws(() => {
    for (let i = 0; i < 65; i += 1) reader.read(flood, () => undefined);
  }, /longer than 67108864 bytes/);
});
