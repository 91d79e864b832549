// Output: tables keep ids whole, colours are only for terminals, and nothing a job wrote can steer one.
import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { refusesColor, workerEnvironment } from './environment.ts';
import { createOutput, harmless, oneLine, showJson, showStatus } from './output.ts';

function capture(options: { json?: boolean; color?: boolean; isTTY?: boolean } = {}) {
  const stdout = Object.assign(new PassThrough(), { isTTY: options.isTTY ?? false });
  const stderr = new PassThrough();
  const { json = false, color } = options;
  const output = createOutput({ json, stdout, stderr, ...(color === undefined ? {} : { color }) });
  return { output, said: () => String(stdout.read() ?? ''), remarked: () => String(stderr.read() ?? '') };
}

const id = '0190a1b2-0000-7000-8000-000000000001';
const escape = '\u001b';

test('a table has a head and aligned columns and never cuts an id', () => {
  const { output, said } = capture();
  output.table(
    ['JOB', 'NAME'],
    [
      [id, 'a'],
      ['x', 'a much longer name that is printed whole'],
    ],
  );
  const [head = '', first = '', second = ''] = said().split('\n');
  assert.match(head, /^JOB {35}NAME$/);
  assert.equal(first, `${id}  a`);
  assert.equal(second.indexOf('a much longer name that is printed whole'), id.length + 2);
});

test('without a terminal there is no escape sequence, in no kind of output', () => {
  const { output, said } = capture();
  output.table(['JOB'], [[showStatus('FAILED', output.paint)]]);
  output.fields([['status', showStatus('SUCCESS', output.paint)]]);
  assert.ok(!said().includes(escape));
});

test('with colours a table stays aligned', () => {
  const { output, said } = capture({ color: true });
  output.table(
    ['S', 'N'],
    [
      [showStatus('FAILED', output.paint), 'a'],
      ['x', 'b'],
    ],
  );
  const text = said();
  assert.ok(text.includes(`${escape}[31mFAILED`));
  const bare = text.replaceAll(new RegExp(`${escape}\\[\\d+m`, 'g'), '').split('\n');
  assert.deepEqual(bare.slice(0, 3), ['S       N', 'FAILED  a', 'x       b']);
});

test('--json is never coloured, not even on a terminal', () => {
  const { output, said } = capture({ json: true, color: true });
  output.json({ status: showStatus('FAILED', output.paint) });
  assert.deepEqual(JSON.parse(said()), { status: 'FAILED' });
});

test('NO_COLOR and dumb terminals refuse colours; an empty NO_COLOR does not', () => {
  assert.equal(refusesColor({ NO_COLOR: '1', TERM: 'xterm' }), true);
  assert.equal(refusesColor({ NO_COLOR: '', TERM: 'xterm' }), false);
  assert.equal(refusesColor({ TERM: 'dumb' }), true);
});

test('a worker does not inherit the address of the database', () => {
  assert.deepEqual(workerEnvironment({ DATABASE_URL: 'postgres://u:p@h/d', PATH: '/bin' }), { PATH: '/bin' });
});

test('each stream is coloured only if it is a terminal itself', () => {
  const { output, said, remarked } = capture({ isTTY: true });
  output.line(output.paint('red', 'x'));
  output.remark('y', 'red');
  assert.equal(said(), refusesColor() ? 'x\n' : `${escape}[31mx${escape}[0m\n`);
  assert.equal(remarked(), 'y\n');
});

test('values over several lines stay in their column', () => {
  const { output, said } = capture();
  output.fields([
    ['error', 'one\ntwo'],
    ['id', '1'],
  ]);
  assert.equal(said(), '  error  one\n         two\n  id     1\n');
});

test('remarks go to standard error, so that a pipe gets only the answer', () => {
  const { output, said, remarked } = capture();
  output.remark('by the way');
  assert.equal(said(), '');
  assert.equal(remarked(), 'by the way\n');
});

test('control characters of jobs become visible; line ends and tabs stay', () => {
  assert.equal(harmless('a\u001b[2J\u0007\r\nb\tc\u009b1m\u202e'), 'a␛[2J␇␍\nb\tc\\u009b1m\\u202e');
});

test('one line is one line, cut by characters and not within them', () => {
  assert.equal(oneLine('a\n  b\tc', 10), 'a b c');
  assert.equal(oneLine('😀😀😀😀', 3), '😀😀…');
});

test('short JSON stays on one line, long JSON is laid out', () => {
  assert.equal(showJson({ a: 1 }), '{"a":1}');
  assert.equal(showJson(undefined), '–');
  assert.ok(showJson({ text: 'x'.repeat(100) }).includes('\n'));
});
