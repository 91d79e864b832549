// The shell executor with real processes.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { ShellExecutor } from '@punctual/contract';
import { FatalError, RunAbortedError } from '@punctual/sdk';
import { sweepLeftovers } from '../isolation/sweep.ts';
import { context, grant, isolationForTests, type TestContext } from './run.test.support.ts';
import { shellExecutor } from './shell.ts';

const baseEnv = { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: '/tmp' };
const isolation = await isolationForTests();
const execute = shellExecutor({ baseEnv, publishBytes: 1024 ** 2, stopGraceMs: 200, isolation });

function begin(
  command: string[],
  more: Omit<ShellExecutor, 'kind' | 'command'> & { payload?: unknown } = {},
  onLine?: (line: string) => void,
) {
  const { payload, ...rest } = more;
  const run = grant({ executor: { kind: 'shell', command, ...rest }, payload });
  const ctx: TestContext = context(run, onLine);
  return { ctx, result: Promise.resolve(execute(run, ctx)) };
}

/** Whether a process is there and not merely waiting to be buried. */
function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

async function eventually(condition: () => boolean): Promise<void> {
  const deadline = performance.now() + 60_000;
  while (!condition()) {
    assert.ok(performance.now() < deadline, 'it did not happen within a minute');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

test('a program gets the payload on its input, its arguments unchanged, and only the environment meant for it', async () => {
  const { ctx, result } = begin(
    ['sh', '-c', 'cat; echo; echo "$1"; env | cut -d= -f1 | sort | tr "\\n" " "', 'sh', 'a b;$(c)'],
    {
      payload: { hello: 'wörld' },
      env: { MINE: '1' },
    },
  );
  const { exit_code, stdout_tail } = (await result) as { exit_code: number; stdout_tail: string };
  assert.equal(exit_code, 0);
  const [payload, argument, names] = stdout_tail.split('\n');
  assert.equal(payload, '{"hello":"wörld"}');
  assert.equal(argument, 'a b;$(c)');
  assert.equal(
    names?.trim(),
    `HOME ${isolation.user === null ? '' : 'LOGNAME '}MINE PATH PUNCTUAL_ATTEMPT PUNCTUAL_CHECKPOINT_FILE ` +
      'PUNCTUAL_FENCE PUNCTUAL_JOB_ID PUNCTUAL_OUTCOME_FILE PUNCTUAL_OUTPUT_DIR PUNCTUAL_PROGRESS_FILE PUNCTUAL_RESULT_FILE ' +
      `PUNCTUAL_RUN_ID PUNCTUAL_SCHEDULED_FOR PUNCTUAL_SNOOZE_FILE PWD TMPDIR${isolation.user === null ? '' : ' USER'}`,
  );
  assert.deepEqual(ctx.lines.slice(0, 2), ['{"hello":"wörld"}', 'a b;$(c)']);
});

test('an exit code other than 0 is a failure to try again with what was said on standard error', async () => {
  const { result } = begin(['sh', '-c', 'echo out; echo "disk is full" >&2; exit 3']);
  await assert.rejects(
    result,
    (error) =>
      !(error instanceof FatalError) &&
      /^The program sh exited with code 3: disk is full$/.test((error as Error).message),
  );
});

test('a program killed by a signal is a failure that names it', async () => {
  await assert.rejects(begin(['sh', '-c', 'kill -SEGV $$']).result, /The program sh was killed by SIGSEGV/);
});

test('a missing program, a file that is no program and a missing folder are fatal and say where was looked', async () => {
  for (const [command, cwd, pattern] of [
    ['no-such-program', undefined, /no program no-such-program on this worker: .* in PATH \(\/usr\/local\/bin/],
    ['/etc/passwd', undefined, /no program \/etc\/passwd .* at \/etc\/passwd/],
    ['true', '/no/such/folder', /The folder \/no\/such\/folder does not exist/],
  ] as const) {
    await assert.rejects(
      begin([command], cwd === undefined ? {} : { cwd }).result,
      (error) => error instanceof FatalError && pattern.test(error.message),
    );
  }
});

test('a program that does not read its input succeeds all the same', async () => {
  const { result } = begin(['true'], { payload: 'x'.repeat(200_000) });
  assert.deepEqual(await result, { exit_code: 0, stdout_tail: '' });
});

test('huge output is neither kept nor stalls the program, and its last part is the result', async () => {
  const before = process.memoryUsage().rss;
  let lines = 0;
  const run = grant({
    executor: { kind: 'shell', command: ['sh', '-c', 'head -c 300000000 /dev/zero | tr "\\0" x; echo; echo the end'] },
  });
  const log = { debug() {}, info() {}, warn() {}, error() {}, output: () => void (lines += 1) };
  const ctx = { ...context(run), log };
  const { stdout_tail } = (await execute(run, ctx)) as { stdout_tail: string };
  assert.ok(stdout_tail.endsWith('x\nthe end\n'));
  assert.equal(stdout_tail.length, 16 * 1024);
  assert.ok(lines > 30_000, `${lines} lines`);
  const grown = process.memoryUsage().rss - before;
  assert.ok(grown < 150_000_000, `memory grew by ${grown} bytes`);
});

test('lines say which stream they came from', async () => {
  const run = grant({ executor: { kind: 'shell', command: ['sh', '-c', 'echo out; echo err >&2'] } });
  const said: string[] = [];
  const log = { ...context(run).log, output: (stream: string, line: string) => void said.push(`${stream} ${line}`) };
  await execute(run, { ...context(run), log });
  assert.deepEqual(said.sort(), ['stderr err', 'stdout out']);
});

test('what a program gets under the name of a secret stays out of its log, result and error, also in pieces', async () => {
  const script =
    'printf "it is hunt"; sleep 0.1; printf "er2-long and on\\n"; printf "hunter2" >&2; sleep 0.1; echo "-long" >&2; exit $CODE';
  for (const CODE of ['0', '3']) {
    const { ctx, result } = begin(['sh', '-c', script], { env: { API_TOKEN: 'hunter2-long', CODE } });
    const said = await result.then(JSON.stringify, String);
    assert.deepEqual([...ctx.lines].sort(), ['[redacted]', 'it is [redacted] and on']);
    assert.match(said, /\[redacted\]/);
    assert.doesNotMatch(said, /hunter2/);
  }
});

test('the signal stops the whole group, also a grandchild deaf to SIGTERM', async () => {
  const pids: number[] = [];
  const script = 'sh -c \'trap "" TERM; echo $$; while :; do sleep 1; done\' & echo $$; wait';
  const { ctx, result } = begin(['sh', '-c', script], {}, (line) => pids.push(Number(line)));
  await eventually(() => pids.length === 2);
  const from = performance.now();
  ctx.controller.abort(new RunAbortedError('cancelled'));
  await assert.rejects(result, /The run was cancelled/);
  assert.ok(performance.now() - from < 20_000);
  await eventually(() => !pids.some(isAlive));
});

test('a program deaf to SIGTERM is killed after the grace, and not before', async () => {
  const pids: number[] = [];
  const script = 'trap "" TERM; echo $$; while :; do sleep 1; done';
  const { ctx, result } = begin(['sh', '-c', script], {}, (line) => pids.push(Number(line)));
  await eventually(() => pids.length === 1);
  const from = performance.now();
  ctx.controller.abort(new RunAbortedError('timed_out'));
  await assert.rejects(result, RunAbortedError);
  const took = performance.now() - from;
  assert.ok(took >= 190 && took < 20_000, `${took} ms`);
  await eventually(() => !pids.some(isAlive));
});

for (const reason of [null, 'cancelled', 'timed_out', 'shutdown'] as const) {
  describe(reason === null ? 'a run that goes on' : `a run that is stopping, ${reason}`, () => {
    test('a lost lease kills the group at once', async () => {
      const lines: string[] = [];
      const patient = shellExecutor({ baseEnv, publishBytes: 1024 ** 2, stopGraceMs: 600_000, isolation });
      // One that notices SIGTERM and goes on, with a child that does not.
      const script = `(trap '' TERM; sleep 1000) & echo $!; trap 'echo heard' TERM; echo $$; while :; do sleep 0.02; done`;
      const run = grant({ executor: { kind: 'shell', command: ['sh', '-c', script] } });
      const ctx = context(run, (line) => lines.push(line));
      const result = Promise.resolve(patient(run, ctx));
      await eventually(() => lines.length === 2);
      if (reason !== null) {
        ctx.controller.abort(new RunAbortedError(reason));
        await eventually(() => lines.includes('heard'));
      }
      ctx.lose();
      await assert.rejects(result, RunAbortedError);
      await eventually(() => !lines.map(Number).some((pid) => pid > 0 && isAlive(pid)));
    });
  });
}

test('what a program leaves running in its group is killed when it ends, and does not keep the run', async () => {
  const pids: number[] = [];
  const { result } = begin(['sh', '-c', 'sleep 1000 & echo $!; exit 0'], {}, (line) => pids.push(Number(line)));
  assert.equal(((await result) as { exit_code: number }).exit_code, 0);
  await eventually(() => !pids.some(isAlive));
});

test('a program dies with its worker, even when that is killed', {
  skip: isolation.deathSignal.length === 0 && 'setpriv is not here',
}, async () => {
  const file = fileURLToPath(new URL('./shell-process.test.support.js', import.meta.url));
  const child = spawn(process.execPath, [file], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [chunk] = (await once(child.stdout, 'data')) as [Buffer];
  const pid = Number(chunk.toString());
  assert.ok(isAlive(pid));
  child.kill('SIGKILL');
  await once(child, 'exit');
  await eventually(() => !isAlive(pid));
  await sweepLeftovers(isolation);
});
