// What becomes of a run that snoozes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '@punctual/contract';
import { afterSnooze } from './snooze.ts';

test('a run that snoozes waits as long as it asked', () => {
  assert.deepEqual(afterSnooze({ snooze_ms: 5, snoozes: 0, left_ms: null }), { again: true, delay_ms: 5 });
  assert.deepEqual(afterSnooze({ snooze_ms: 5, snoozes: 0, left_ms: 6 }), { again: true, delay_ms: 5 });
});

test('a run whose whole time is over before it would wake ends at once', () => {
  for (const left_ms of [5, 4, -1]) {
    const after = afterSnooze({ snooze_ms: 5, snoozes: 0, left_ms });
    assert.equal(!after.again && after.reason, 'run_timed_out');
  }
});

test('a run may snooze as often as the limit says, and not once more', () => {
  assert.equal(afterSnooze({ snooze_ms: 0, snoozes: limits.max_snoozes - 1, left_ms: null }).again, true);
  const after = afterSnooze({ snooze_ms: 0, snoozes: limits.max_snoozes, left_ms: null });
  assert.ok(!after.again && after.reason === 'snoozed_too_often' && /10000 times/.test(after.error));
});
