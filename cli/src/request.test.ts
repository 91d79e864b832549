// From flags to requests: what is sent is what was asked for, and contradictions are refused before anything is sent.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { Command } from 'commander';
import { readJson } from './read_json.ts';
import {
  addCreateOptions,
  addUpdateOptions,
  createRequest,
  givenJobFlags,
  readJobs,
  updateRequest,
} from './request.ts';

function parseCreate(...words: string[]) {
  const command = addCreateOptions(new Command())
    .argument('[program...]')
    .exitOverride()
    .configureOutput({ writeErr: () => {} });
  command.parse(words, { from: 'user' });
  return { program: command.args, given: command.opts() };
}

async function created(...words: string[]) {
  const { program, given } = parseCreate(...words);
  return await createRequest(program, given);
}

test('a job for a handler carries its fields and nothing else', async () => {
  const job = await created(
    ...[
      '--type',
      'send-report',
      '--name',
      'Q3',
      '--queue',
      'mail',
      '--priority',
      '9',
      '--max-retries',
      '0',
      '--timeout',
      '10m',
      '--run-timeout',
      '2h',
    ],
    ...[
      '--tag',
      'a',
      '--tag',
      'b',
      '--user',
      'u003',
      '--payload',
      '{"to":"x"}',
      '--in',
      '5m',
      '--backoff-base',
      '2s',
      '--backoff-jitter',
      '0',
    ],
  );
  assert.deepEqual(job, {
    ...{
      type: 'send-report',
      name: 'Q3',
      queue: 'mail',
      priority: 9,
      max_retries: 0,
      timeout_ms: 600_000,
      run_timeout_ms: 7_200_000,
      tags: ['a', 'b'],
    },
    ...{ user_id: 'u003', payload: { to: 'x' }, delay_ms: 300_000, backoff: { base_ms: 2_000, jitter: 0 } },
  });
});

test('--http makes an http executor', async () => {
  assert.deepEqual(
    await created('--http', 'https://example.com/x', '--method', 'put', '--header', 'X-A: b: c', '--header', 'y:z'),
    {
      executor: { kind: 'http', url: 'https://example.com/x', method: 'PUT', headers: { 'X-A': 'b: c', y: 'z' } },
    },
  );
  assert.deepEqual(await created('--http', 'https://example.com/x'), {
    executor: { kind: 'http', url: 'https://example.com/x' },
  });
});

test('what stands after -- is a program with its arguments, unchanged', async () => {
  assert.deepEqual(await created('--env', 'A=b=c', '--cwd', '/tmp', '--', 'backup', '--all', '--type', 'x y', ''), {
    executor: { kind: 'shell', command: ['backup', '--all', '--type', 'x y', ''], env: { A: 'b=c' }, cwd: '/tmp' },
  });
});

test('what a call sends and expects, and what a program may use, is carried as given', async () => {
  const call = ['--http', 'https://x', '--body', '{"to":"{{payload.to}}"}', '--expect', '200', '--expect', '204'];
  assert.deepEqual((await created(...call)).executor, {
    ...{ kind: 'http', url: 'https://x', body: { to: '{{payload.to}}' }, expect: [200, 204] },
  });
  const program = ['--fatal-exit-code', '2', '--sandbox', 'no_network', '--limit-memory-mb', '64', '--', 'ls'];
  assert.deepEqual((await created('--fatal-exit-code', '3', ...program)).executor, {
    ...{ kind: 'shell', command: ['ls'], fatal_exit_codes: [3, 2], sandbox: 'no_network', limits: { memory_mb: 64 } },
  });
  assert.throws(() => parseCreate('--expect', '99'), /whole number from 200 to 599/);
  assert.throws(() => parseCreate('--limit-memory-mb', '0'), /1/);
  assert.throws(() => parseCreate('--sandbox', 'chroot'), /one of none, no_network/);
  await assert.rejects(created('--http', 'https://x', '--sandbox', 'none'), /--sandbox needs a program/);
});

test('what makes a job one of a kind is carried as given', async () => {
  const words = ['--unique-key', 'a:1', '--unique-scope', 'period', '--unique-period', '2h', '--on-conflict', 'reject'];
  assert.deepEqual(await created('--type', 'x', ...words), {
    ...{ type: 'x', unique_key: 'a:1', unique_scope: 'period', unique_period_ms: 7_200_000, on_conflict: 'reject' },
  });
  assert.throws(() => parseCreate('--on-conflict', 'replace'), /one of reject, return_existing/);
});

test('contradictions and omissions are refused with the way out', async () => {
  await assert.rejects(created('--name', 'x'), /say what to run: --type .* --http .* --/);
  await assert.rejects(created('--http', 'https://x', '--', 'ls'), /not both/);
  await assert.rejects(created('--type', 'x', '--method', 'get'), /--method needs --http/);
  await assert.rejects(created('--type', 'x', '--env', 'A=1'), /--env needs a program/);
  await assert.rejects(created('--type', 'x', '--at', '2030-01-01', '--in', '5m'), /--at or --in, not both/);
  assert.throws(() => parseCreate('--http', 'https://x', '--header', 'nocolon'), /It must look like name: value/);
});

test('an update carries only what was given', async () => {
  const command = addUpdateOptions(new Command()).exitOverride();
  command.parse(['--priority', '1', '--payload', 'null', '--run-timeout', 'none'], { from: 'user' });
  assert.deepEqual(await updateRequest(command.opts()), { priority: 1, payload: null, run_timeout_ms: null });
});

test('a payload is JSON, a file, or standard input', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'punctual-cli-'));
  try {
    const file = path.join(folder, 'p.json');
    writeFileSync(file, '{"from":"file"}');
    assert.deepEqual(await readJson(`@${file}`, '--payload'), { from: 'file' });
    assert.deepEqual(await readJson('-', '--payload', Readable.from(['{"from":', '"stdin"}'])), { from: 'stdin' });
    assert.equal(await readJson('5', '--payload'), 5);
    await assert.rejects(readJson('hello', '--payload'), /this is not JSON.*--payload '"hello"'/s);
    await assert.rejects(readJson(`@${file}.not`, '--payload'), /cannot read .*p\.json\.not/);
    writeFileSync(file, '{');
    await assert.rejects(readJson(`@${file}`, '--payload'), /p\.json is not JSON/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('a file of jobs is an array, or an object with one', async () => {
  assert.deepEqual(await readJobs('-', Readable.from(['[{"type":"echo"}]'])), [{ type: 'echo' }]);
  assert.deepEqual(await readJobs('-', Readable.from(['{"jobs":[{"type":"echo"}]}'])), [{ type: 'echo' }]);
  for (const wrong of ['[]', '{}', 'null', '5', '{"jobs":[]}']) {
    await assert.rejects(readJobs('-', Readable.from([wrong])), /must hold an array of jobs/, wrong);
  }
});

test('the flags of a job are known by name, for the sentence about --file', () => {
  assert.deepEqual(givenJobFlags(parseCreate('--type', 'x', '--payload', '1').given), ['--type', '--payload']);
  assert.deepEqual(givenJobFlags(parseCreate().given), []);
});

test('--depends-on tells jobs and runs apart, takes a condition, and refuses anything else', async () => {
  const job = '01890000-0000-7000-8000-000000000003';
  const run = '01890000-0000-7000-8000-000000001003';
  const made = await created('--type', 'a', '--depends-on', job, '--depends-on', `${run}:any_end`);
  assert.deepEqual(made.depends_on, [
    { job_id: job, on: 'success' },
    { run_id: run, on: 'any_end' },
  ]);
  assert.throws(() => parseCreate('--type', 'a', '--depends-on', 'x'), /id of a job or a run/);
  assert.throws(() => parseCreate('--type', 'a', '--depends-on', `${job}:never`), /one of success, failure, any_end/);
});
