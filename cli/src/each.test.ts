// Several ids in one command: each is tried, and the exit code tells whether all went well.
import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { PunctualError } from '@punctual/contract';
import { eachId } from './each.ts';
import { createOutput } from './output.ts';

function stage(json = false) {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const session = { output: createOutput({ json, stdout, stderr }), url: 'http://127.0.0.1:7600', verbose: false };
  return { session, said: () => String(stdout.read() ?? ''), remarked: () => String(stderr.read() ?? '') };
}

const each = {
  noun: 'run',
  act: async (id: string) => {
    if (id === 'bad') throw new PunctualError('run_ended');
    return { run_id: id };
  },
  tell: (answer: { run_id: string }) => `run ${answer.run_id} is done`,
};

test('one that fails does not keep the others from it, and is named above its failure', async () => {
  const { session, said, remarked } = stage();
  assert.equal(await eachId(session, ['a', 'bad', 'b'], each), 1);
  assert.equal(said(), 'run a is done\nrun b is done\n');
  assert.match(remarked(), /^run bad\npunctual: The run has ended already/);
});

test('all that went well is exit code 0, with --json one answer a line', async () => {
  const { session, said } = stage(true);
  assert.equal(await eachId(session, ['a', 'b'], each), 0);
  assert.equal(said(), '{"run_id":"a"}\n{"run_id":"b"}\n');
});

test('the failure of a single id is that of the command', async () => {
  await assert.rejects(eachId(stage().session, ['bad'], each), { code: 'run_ended' });
});
