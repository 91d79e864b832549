// A deadline comes, whatever becomes of the memory meanwhile; precautions that take long are taken rarely.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { deadline, pause, restAfter } from './clock.ts';

test('a deadline comes although the memory was tidied up, and does not after its end', async () => {
  setFlagsFromString('--expose_gc');
  const tidyUp = runInNewContext('gc') as () => void;
  const stop = new AbortController();
  const waitFor = (): Promise<unknown> => {
    const { signal } = deadline(60, stop.signal);
    return once(signal, 'abort').then(() => (signal.reason as Error).name);
  };
  const came = waitFor();
  const ended = deadline(60, stop.signal);
  ended.end();
  await pause(10, stop.signal);
  tidyUp();
  assert.equal(await Promise.race([came, pause(30_000, stop.signal)]), 'TimeoutError');
  assert.equal(ended.signal.aborted, false);
  stop.abort();
  assert.equal(ended.signal.aborted, true);
});

test('what is a precaution and takes long takes a two-hundredth of the time at most, and comes at least every ten minutes', () => {
  assert.equal(restAfter(50), 0);
  assert.equal(restAfter(1_000), 200_000);
  assert.equal(restAfter(60_000), 600_000);
});
