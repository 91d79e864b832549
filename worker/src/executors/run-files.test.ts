// The files of a program's run, with real programs.
import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { test } from 'node:test';
import type { Grant } from '@punctual/contract';
import { FatalError, RunAbortedError, Snooze } from '@punctual/sdk';
import { context, grant, isolationForTests, type TestContext } from './run.test.support.ts';
import { shellExecutor } from './shell.ts';

const baseEnv = { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: '/tmp' };
const execute = shellExecutor({
  baseEnv,
  publishBytes: 1024 ** 2,
  stopGraceMs: 20_000,
  isolation: await isolationForTests(),
});

function begin(
  script: string,
  fields: Partial<Grant> = {},
  change: (ctx: TestContext) => Partial<TestContext> = () => ({}),
) {
  const run = grant({ ...fields, executor: { kind: 'shell', command: ['sh', '-c', script] } });
  const plain = context(run);
  const ctx: TestContext = { ...plain, ...change(plain) };
  return { ctx, result: Promise.resolve(execute(run, ctx)) };
}

async function eventually(condition: () => boolean): Promise<void> {
  const deadline = performance.now() + 60_000;
  while (!condition()) {
    assert.ok(performance.now() < deadline, 'it did not happen within a minute');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

test('a checkpoint is sent while the program runs and once more when it ends, and its folder is removed', async () => {
  const script = `
    echo "$PUNCTUAL_CHECKPOINT_FILE"; test ! -e "$PUNCTUAL_CHECKPOINT_FILE" || exit 9
    echo '{"page":1}' > "$PUNCTUAL_CHECKPOINT_FILE.new"; mv "$PUNCTUAL_CHECKPOINT_FILE.new" "$PUNCTUAL_CHECKPOINT_FILE"
    read payload
    until test -e "$PUNCTUAL_CHECKPOINT_FILE.go"; do sleep 0.05; done
    echo '{"page":2}' > "$PUNCTUAL_CHECKPOINT_FILE"; exit 3`;
  const { ctx, result } = begin(script);
  result.catch(() => undefined);
  await eventually(() => ctx.saved.length === 1);
  const [file = ''] = ctx.lines;
  writeFileSync(`${file}.go`, '');
  await assert.rejects(result, /exited with code 3/);
  assert.deepEqual(ctx.saved, [{ page: 1 }, { page: 2 }]);
  assert.equal(existsSync(dirname(file)), false);
});

test('a program finds what was saved before; unless it changes it, nothing is sent', async () => {
  const checkpoint = { version: 4, value: { page: 'ü' }, saved_at: '2030-01-31T09:00:00Z' };
  const { ctx, result } = begin('cat "$PUNCTUAL_CHECKPOINT_FILE"; sleep 1.2', { checkpoint });
  assert.deepEqual(await result, { exit_code: 0, stdout_tail: '{"page":"ü"}' });
  assert.deepEqual(ctx.saved, []);
});

test('the last line of the progress file is reported, however long the file is', async () => {
  // Each line stands there until it was seen, however seldom a busy machine looks.
  const script = `
    file=$PUNCTUAL_PROGRESS_FILE; echo "$file"
    i=0; while [ $i -lt 2000 ]; do echo "$i no line of progress"; i=$((i+1)); done > "$file.new"
    echo "42.5% half way, about" >> "$file.new"; mv "$file.new" "$file"
    until test -e "$file.go"; do sleep 0.05; done
    echo 77 >> "$file"
    until test -e "$file.end"; do sleep 0.05; done`;
  const { ctx, result } = begin(script);
  await eventually(() => ctx.reported.length === 1);
  const [file = ''] = ctx.lines;
  writeFileSync(`${file}.go`, '');
  await eventually(() => ctx.reported.length === 2);
  writeFileSync(`${file}.end`, '');
  await result;
  assert.deepEqual(ctx.reported, [
    [42.5, 'half way, about'],
    [77, undefined],
  ]);
  assert.deepEqual(ctx.lines, [file]);
});

test('what the program writes as its result is the result, also null', async () => {
  assert.deepEqual(await begin(`echo '{"rows":3}' > "$PUNCTUAL_RESULT_FILE"`).result, { rows: 3 });
  assert.equal(await begin(`echo null > "$PUNCTUAL_RESULT_FILE"`).result, null);
  await assert.rejects(begin(`echo 1 > "$PUNCTUAL_RESULT_FILE"; exit 4`).result, /exited with code 4/);
});

test('a program that writes a time and succeeds snoozes; one that fails has failed', async () => {
  await assert.rejects(
    begin(`echo 1500 > "$PUNCTUAL_SNOOZE_FILE"`).result,
    (error) => error instanceof Snooze && error.ms === 1_500,
  );
  await assert.rejects(
    begin(`echo 1500 > "$PUNCTUAL_SNOOZE_FILE"; exit 75`).result,
    (error) => !(error instanceof Snooze) && /exited with code 75/.test((error as Error).message),
  );
  for (const text of ['soon', '-5', '1.5', '', '9999999999999']) {
    await assert.rejects(
      begin(`printf '%s' '${text}' > "$PUNCTUAL_SNOOZE_FILE"`).result,
      (error) =>
        !(error instanceof FatalError) && /into PUNCTUAL_SNOOZE_FILE; it takes whole/.test((error as Error).message),
    );
  }
});

test('what is no JSON, too large, a link, a pipe or a folder is said in the log, once, and breaks nothing', async () => {
  const cases: [string, RegExp][] = [
    [`printf '{"half":' > "$PUNCTUAL_CHECKPOINT_FILE"`, /CHECKPOINT_FILE is not JSON/],
    [`head -c 2000000 /dev/zero > "$PUNCTUAL_CHECKPOINT_FILE"`, /CHECKPOINT_FILE has more than 1048576 bytes/],
    [`ln -s /etc/passwd "$PUNCTUAL_CHECKPOINT_FILE"`, /CHECKPOINT_FILE cannot be read/],
    [`mkfifo "$PUNCTUAL_CHECKPOINT_FILE"`, /CHECKPOINT_FILE cannot be read.*no plain file/],
    [`mkdir "$PUNCTUAL_RESULT_FILE"`, /RESULT_FILE cannot be read/],
    [`mkfifo "$PUNCTUAL_RESULT_FILE"`, /RESULT_FILE cannot be read.*no plain file/],
    [`printf 'nonsense' > "$PUNCTUAL_RESULT_FILE"`, /RESULT_FILE is not JSON/],
    [`head -c 2000000 /dev/zero > "$PUNCTUAL_RESULT_FILE"`, /RESULT_FILE has more than 1048576 bytes/],
  ];
  await Promise.all(
    cases.map(async ([script, pattern]) => {
      const { ctx, result } = begin(`${script}; sleep 1.3`);
      assert.deepEqual(await result, { exit_code: 0, stdout_tail: '' }, script);
      assert.equal(ctx.lines.length, 1, `${script}: ${ctx.lines.join('\n')}`);
      assert.match(ctx.lines[0] ?? '', pattern);
      assert.deepEqual(ctx.saved, []);
    }),
  );
  const { ctx, result } = begin(`mkfifo "$PUNCTUAL_PROGRESS_FILE"; sleep 0.7`);
  await result;
  assert.deepEqual(ctx.reported, []);
  const bad = begin(`echo "101 too much" > "$PUNCTUAL_PROGRESS_FILE"; sleep 3`);
  await bad.result;
  assert.match(bad.ctx.lines[0] ?? '', /not like `42 words`/);
});

test('a program that is stopped may save where it is; after the loss of the lease nothing is sent', async () => {
  const script = `
    trap 'echo 7 > "$PUNCTUAL_CHECKPOINT_FILE"; exit 0' TERM
    echo ready; while :; do sleep 0.05; done`;
  const stopped = begin(script);
  stopped.result.catch(() => undefined);
  await eventually(() => stopped.ctx.lines.includes('ready'));
  stopped.ctx.controller.abort(new RunAbortedError('shutdown'));
  await assert.rejects(stopped.result, RunAbortedError);
  assert.deepEqual(stopped.ctx.saved, [7]);
  const lost = begin(`echo 7 > "$PUNCTUAL_CHECKPOINT_FILE"; echo ready; while :; do sleep 0.05; done`);
  lost.result.catch(() => undefined);
  await eventually(() => lost.ctx.lines.includes('ready'));
  lost.ctx.lose();
  await assert.rejects(lost.result, RunAbortedError);
  assert.deepEqual(lost.ctx.saved, []);
});

test('a checkpoint that is refused is said in the log, and the run goes on', async () => {
  const { ctx, result } = begin(`echo 1 > "$PUNCTUAL_CHECKPOINT_FILE"`, {}, () => ({
    checkpoint: () => Promise.reject(new FatalError('no')),
  }));
  assert.deepEqual(await result, { exit_code: 0, stdout_tail: '' });
  assert.deepEqual(ctx.lines, ['The checkpoint was not saved: no']);
});
