// Questions: only a clear yes is one, and nobody is asked who cannot answer.
import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { confirmed, refuseUnasked } from './confirm.ts';
import { createOutput } from './output.ts';

async function answered(text: string): Promise<{ answer: boolean; asked: string }> {
  const [stdout, stderr, input] = [new PassThrough(), new PassThrough(), new PassThrough()];
  input.end(text);
  const answer = await confirmed(createOutput({ json: false, stdout, stderr }), 'Sure?', input);
  assert.equal(stdout.read(), null, 'a question is not the answer of the command');
  return { answer, asked: String(stderr.read()) };
}

test('y and yes are a yes; everything else, and the end of the input, is a no', async () => {
  for (const text of ['y\n', 'yes\n', ' YES \n', 'y'])
    assert.deepEqual(await answered(text), { answer: true, asked: 'Sure? [y/N]\n' }, text);
  for (const text of ['\n', 'n\n', 'no\n', 'yesterday\n', 'n\ny\n', ''])
    assert.equal((await answered(text)).answer, false, text);
});

test('whoever is not at a terminal is told to say --yes', () => {
  const terminal = Object.assign(new PassThrough(), { isTTY: true });
  refuseUnasked('this is wide', terminal);
  assert.throws(() => refuseUnasked('this is wide', new PassThrough()), {
    name: 'UsageError',
    message: 'this is wide; --yes says that you mean it.',
  });
});
