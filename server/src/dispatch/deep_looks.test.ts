// When a segment is looked through from its start again.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { monotonicMs } from '../base/clock.ts';
import { DeepLooks } from './deep_looks.ts';

/** A look that began so many ms ago; is another one wanted when it is asked for? */
function look(looks: DeepLooks, tookMs: number, runs: number): boolean {
  looks.looked(7, monotonicMs() - tookMs, runs);
  looks.want(7);
  return looks.isWanted(7);
}

test('each segment is looked through first, and then when it is wanted', () => {
  const looks = new DeepLooks([7, 8]);
  assert.deepEqual([looks.isWanted(7), looks.isWanted(8)], [true, true]);
  looks.looked(7, monotonicMs(), 0);
  assert.deepEqual([looks.isWanted(7), looks.isWanted(8)], [false, true]);
  looks.want(7);
  assert.equal(looks.isWanted(7), true);
});

test('two long looks that brought next to nothing are followed by a rest', () => {
  const looks = new DeepLooks([7]);
  assert.equal(look(looks, 500, 0), true, 'one alone had to wait for something');
  assert.equal(look(looks, 500, 50), false);
});

test('looks that took long because of what they brought are followed by no rest', () => {
  const looks = new DeepLooks([7]);
  for (let i = 0; i < 5; i++) assert.equal(look(looks, 500, 500), true);
  assert.equal(look(looks, 500, 0), true);
});
