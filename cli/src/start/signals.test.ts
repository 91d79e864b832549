// The first signal asks, the second insists; the same key press delivered twice is one.
import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { test } from 'node:test';
import { watchSignals } from './signals.ts';

function press() {
  const source = new EventEmitter();
  let time = 0;
  const stopping = watchSignals(source, () => time);
  let insisted = false;
  const seen = stopping.insisted.then(() => {
    insisted = true;
  });
  return {
    stopping,
    seen,
    isInsisted: () => insisted,
    at: (ms: number, signal: string) => ((time = ms), source.emit(signal)),
  };
}

test('the first signal asks to stop and says which it was', async () => {
  const { stopping, at } = press();
  assert.equal(stopping.isAsked, false);
  at(0, 'SIGTERM');
  assert.equal(await stopping.asked, 'SIGTERM');
  assert.equal(stopping.isAsked, true);
});

test('a later signal of any kind insists', async () => {
  const { stopping, seen, at, isInsisted } = press();
  at(0, 'SIGINT');
  await stopping.asked;
  assert.equal(isInsisted(), false);
  at(2_000, 'SIGTERM');
  await seen;
  assert.equal(isInsisted(), true);
});

test('one key press that arrives twice does not insist', async () => {
  const { stopping, at, isInsisted } = press();
  at(0, 'SIGINT');
  at(30, 'SIGINT');
  await stopping.asked;
  await new Promise(setImmediate);
  assert.equal(isInsisted(), false);
});
