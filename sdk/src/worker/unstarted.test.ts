// Runs that a worker holds before they start.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Grant } from '@punctual/contract';
import { sharedNow } from './shared-clock.ts';
import { max_turn_ms, Unstarted } from './unstarted.ts';

const grant = (run_id: string) => ({ run_id }) as Grant;

test('a run starts at its time and not before; one that is taken does not start', async () => {
  const at = sharedNow() + 30.4;
  const started: string[] = [];
  await new Promise<void>((resolve) => {
    const unstarted = new Unstarted((key, { run_id }) => {
      assert.ok(sharedNow() >= at, `${at - sharedNow()} ms early`);
      started.push(`${key} ${run_id}`);
      if (started.length === 2) resolve();
    });
    unstarted.holdUntil(at, 1, grant('a'));
    unstarted.holdUntil(at, 2, grant('b'));
    unstarted.holdUntil(at, 3, grant('c'));
    assert.equal(unstarted.take(2)?.run_id, 'b');
    assert.equal(unstarted.take(2), undefined);
    assert.equal(unstarted.shift(), null, 'what waits for its time does not take a free slot');
  });
  assert.deepEqual(started, ['1 a', '3 c']);
});

test('those without a slot get one in their order, and all are given back at once', () => {
  const unstarted = new Unstarted(() => assert.fail('nothing is to start'));
  for (const key of [1, 2, 3]) unstarted.queue(key, grant(`r${key}`));
  unstarted.holdUntil(sharedNow() + 60_000, 4, grant('r4'));
  assert.equal(unstarted.take(2)?.run_id, 'r2');
  assert.deepEqual(unstarted.shift(), { key: 1, run: grant('r1') });
  assert.deepEqual(
    unstarted.takeAll().map(({ key }) => key),
    [4, 3],
  );
  assert.deepEqual([unstarted.shift(), unstarted.takeAll()], [null, []]);
});

test('after one that blocks others start in a later turn, in their order, unless they are taken meanwhile', async () => {
  const started: number[] = [];
  await new Promise<void>((resolve) => {
    const unstarted = new Unstarted((key) => {
      started.push(key);
      if (key === 4) resolve();
      if (key !== 1) return;
      // What was told while it blocks.
      setImmediate(() => unstarted.take(2));
      const until = performance.now() + max_turn_ms + 1;
      while (performance.now() < until);
    });
    const at = sharedNow();
    for (const key of [1, 2, 3, 4]) unstarted.holdUntil(at, key, grant(`r${key}`));
    assert.ok(unstarted.isLate);
  });
  assert.deepEqual(started, [1, 3, 4]);
});
