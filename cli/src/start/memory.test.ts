// When a server looks for garbage: how much its heap may grow, and when it is collected.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GarbageRule } from './memory.ts';

test('the heap may grow to twice what is alive, and is collected when the load that let it grow further is over', () => {
  const growth: number[] = [];
  let collections = 0;
  const rule = new GarbageRule({ collect: () => collections++, setGrowth: (percent) => growth.push(percent) });
  assert.equal(growth.at(-1), 100);
  rule.look(0.9, 1_000);
  assert.deepEqual([growth.at(-1), collections], [0, 0], 'not while there is much to do');
  rule.look(0.1, 2_000);
  assert.deepEqual([growth.at(-1), collections], [100, 1]);
  rule.look(0.1, 20_000);
  assert.equal(collections, 1, 'once is enough');
});

test('a load that comes and goes is followed by a collection once in ten seconds', () => {
  let collections = 0;
  const rule = new GarbageRule({ collect: () => collections++, setGrowth: () => {} });
  for (let second = 1; second <= 30; second++) rule.look(second % 2, second * 1_000);
  assert.equal(collections, 3);
});
