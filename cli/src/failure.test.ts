// Failures in words: meaning, detail, each wrong field, and how to mend it; and the right exit code.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorTable, PunctualError } from '@punctual/contract';
import { WaitTimeoutError } from '@punctual/sdk';
import { ConfigError } from '@punctual/server/config';
import { CliError, describeFailure, UsageError } from './failure.ts';

const context = { url: 'http://127.0.0.1:7600', verbose: false };

test('an answer of the server is told with its meaning, detail, fields and a way on', async () => {
  const error = new PunctualError('invalid_input', {
    detail: '2 fields are wrong',
    errors: [{ path: 'queue', message: 'must be a label' }],
  });
  const { lines, exitCode } = await describeFailure(error, context);
  assert.equal(exitCode, 1);
  assert.deepEqual(lines, [
    'punctual: A field, parameter or header does not fit its schema.',
    '  2 fields are wrong',
    '  queue: must be a label',
    '  Correct what is named above and try again; nothing was changed.',
  ]);
});

test('every code of the table has a first line', async () => {
  for (const code of Object.keys(errorTable) as (keyof typeof errorTable)[]) {
    const { lines } = await describeFailure(new PunctualError(code), context);
    assert.match(lines[0] ?? '', /^punctual: .{10}/, code);
  }
});

test('a server that is not there is told with its URL and how to start one', async () => {
  const detail =
    'No Punctual server answers at http://127.0.0.1:7600 (connection refused). Start one with `punctual start`.';
  const { lines } = await describeFailure(new PunctualError('unreachable', { detail }), context);
  assert.deepEqual(lines, [
    'punctual: no Punctual server answers at http://127.0.0.1:7600 (connection refused); start one with `punctual start` or set PUNCTUAL_URL.',
  ]);
});

test('an answer that was lost on the way is not taken for a server that is not there', async () => {
  const detail =
    'POST /jobs at http://x was not answered within 30000 ms. It is not known whether the server acted on it.';
  const { lines } = await describeFailure(new PunctualError('unreachable', { detail }), context);
  assert.ok(lines.some((line) => line.includes('It is not known whether the server acted on it')));
});

test('the request id of a fault of the server is printed', async () => {
  const { lines } = await describeFailure(new PunctualError('internal', { requestId: 'req-7' }), context);
  assert.ok(lines.includes('  request id: req-7'));
});

test('sentences of our own are printed as they are; wrong usage exits with 2', async () => {
  assert.deepEqual((await describeFailure(new CliError('no room.\nmake some'), context)).lines, [
    'punctual: no room.',
    '  make some',
  ]);
  assert.equal((await describeFailure(new CliError('x'), context)).exitCode, 1);
  assert.equal((await describeFailure(new UsageError('x'), context)).exitCode, 2);
  assert.equal((await describeFailure(new WaitTimeoutError('x'), context)).exitCode, 2);
  assert.deepEqual((await describeFailure(new ConfigError('PUNCTUAL_PORT is wrong.'), context)).lines, [
    'punctual: PUNCTUAL_PORT is wrong.',
  ]);
});

test('the unexpected is called a bug, and its stack is shown only with --verbose', async () => {
  const quiet = await describeFailure(new RangeError('oops'), context);
  assert.match(quiet.lines.join('\n'), /^punctual: oops\n {2}This is a bug/);
  assert.ok(!quiet.lines.join('\n').includes('failure.test'));
  const verbose = await describeFailure(new RangeError('oops'), { ...context, verbose: true });
  assert.ok(verbose.lines.join('\n').includes('failure.test'));
  assert.equal((await describeFailure('a string', context)).exitCode, 1);
});

test('what a server answered cannot steer the terminal', async () => {
  const { lines } = await describeFailure(new PunctualError('internal', { detail: 'a\u001b[2Jb' }), context);
  assert.ok(!lines.join('\n').includes('\u001b'));
});

test('a schedule that cannot be followed is told once, with the way on', async () => {
  const errors = [{ path: 'cron_expression', message: 'has 3 fields' }];
  const error = new PunctualError('invalid_schedule', { detail: 'cron_expression has 3 fields', errors });
  assert.deepEqual((await describeFailure(error, context)).lines, [
    'punctual: The schedule cannot be followed.',
    '  cron_expression: has 3 fields',
    '  Correct what is named above and try again; `punctual schedule preview` shows the times of a schedule.',
  ]);
  for (const code of ['calendar_not_found', 'calendar_in_use'] as const)
    assert.match((await describeFailure(new PunctualError(code), context)).lines.join(), /punctual calendars/);
});
