// What the end of a program means, by its exit code and by what it says itself, with real programs.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ShellExecutor } from '@punctual/contract';
import { FatalError, RetryError } from '@punctual/sdk';
import { failureOf, type ProgramEnd, readOutcome } from './outcome.ts';
import { context, grant, isolationForTests, noLimits } from './run.test.support.ts';
import { shellExecutor } from './shell.ts';

const baseEnv = { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: '/tmp' };
const execute = shellExecutor({
  baseEnv,
  publishBytes: 1024 ** 2,
  stopGraceMs: 200,
  isolation: await isolationForTests(),
});

async function failure(script: string, more: Partial<ShellExecutor> = {}): Promise<Error> {
  const run = grant({ executor: { kind: 'shell', command: ['sh', '-c', script], ...more } });
  return Promise.resolve(execute(run, context(run))).then(
    (result) => assert.fail(`it succeeded: ${JSON.stringify(result)}`),
    (error: Error) => error,
  );
}

async function success(script: string): Promise<unknown> {
  const run = grant({ executor: { kind: 'shell', command: ['sh', '-c', script] } });
  return execute(run, context(run));
}

const says = (json: string, code: number) => `echo '${json}' > "$PUNCTUAL_OUTCOME_FILE"; exit ${code}`;

test('exit code 64 and those the job names are fatal, others are tried again', async () => {
  assert.ok((await failure('exit 64')) instanceof FatalError);
  assert.ok(!((await failure('exit 64', { fatal_exit_codes: [] })) instanceof FatalError));
  assert.ok((await failure('exit 3', { fatal_exit_codes: [2, 3] })) instanceof FatalError);
  assert.ok(!((await failure('exit 4', { fatal_exit_codes: [2, 3] })) instanceof FatalError));
});

test('a program says itself that it failed for good, or when to try again, whatever its exit code', async () => {
  const fatal = await failure(says('{"status":"fatal","message":"no such customer"}', 0));
  assert.ok(fatal instanceof FatalError);
  assert.equal(fatal.message, 'no such customer');
  const busy = await failure(says('{"status":"retryable","message":"busy","retry_after_ms":7000}', 64));
  assert.ok(busy instanceof RetryError);
  assert.deepEqual([busy.message, busy.retryAfterMs], ['busy', 7000]);
});

test('a program says that it succeeded although its exit code is not 0', async () => {
  assert.deepEqual(await success(`echo done; ${says('{"status":"success"}', 1)}`), {
    exit_code: 1,
    stdout_tail: 'done\n',
  });
});

test('what a killed program said of itself does not count', async () => {
  const script = `echo '{"status":"success"}' > "$PUNCTUAL_OUTCOME_FILE"; kill -9 $$`;
  assert.match((await failure(script)).message, /was killed by SIGKILL/);
});

test('an outcome that cannot be understood is a failure that says how it must look', async () => {
  for (const [json, what] of [
    ['nonsense', 'is not JSON'],
    ['null', 'has the status undefined'],
    ['{"status":"perhaps"}', 'has the status "perhaps"'],
    ['{"status":"fatal","message":7}', 'has a message that is no text'],
    ['{"status":"retryable","retry_after_ms":-1}', 'has a retry_after_ms that is not'],
    ['{"status":"retryable","retry_after_ms":1e300}', 'has a retry_after_ms that is not'],
  ] as const) {
    const { message } = await failure(says(json, 0));
    assert.ok(message.includes(`PUNCTUAL_OUTCOME_FILE ${what}`) && message.includes('"status": "success"'), message);
  }
  assert.deepEqual(readOutcome('{"status":"fatal","__proto__":{"message":"x"}}'), { status: 'fatal' });
});

test('a program that its user may not run, or of no known kind, could not be started, and that is fatal', async () => {
  const run = grant({ executor: { kind: 'shell', command: ['/bin/sh', '-c', 'exit 0'], cwd: '/' } });
  assert.deepEqual(await execute(run, context(run)), { exit_code: 0, stdout_tail: '' });
  const end: ProgramEnd = {
    ...{ name: 'x', code: 126, signal: null, limits: noLimits, wroteTooMuch: false, fatalCodes: undefined },
    said: 'prlimit: failed to execute /opt/x: Permission denied\n',
    refused: { memory: false, processes: false, machine: false },
  };
  const denied = failureOf(end, null);
  assert.ok(denied instanceof FatalError);
  assert.match(denied.message, /^The program x could not be started: Permission denied\./);
});

test('the reason names what the kernel did', () => {
  const limits = { ...noLimits, memory_mb: 64, processes: 9 };
  const refused = { memory: false, processes: false, machine: false };
  const end: ProgramEnd = {
    ...{ name: 'x', code: null, signal: 'SIGKILL', said: '', limits, wroteTooMuch: false, refused, fatalCodes: [] },
  };
  const words = (more: Partial<ProgramEnd>) => failureOf({ ...end, ...more }, null)?.message;
  assert.equal(words({}), 'The program x was killed by SIGKILL.');
  assert.match(words({ refused: { ...refused, machine: true } }) ?? '', /because the machine ran out of memory\.$/);
  assert.equal(
    words({ refused: { ...refused, memory: true } }),
    'The program x ran out of memory: its limit is 64 MB.',
  );
  assert.match(
    words({ code: 2, refused: { ...refused, processes: true } }) ?? '',
    /exited with code 2, after it had reached its limit of 9 processes\.$/,
  );
  assert.equal(words({ code: 0, refused: { ...refused, memory: true } }), undefined);
});
