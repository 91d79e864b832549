// Up to which number claims need not look.
import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { LowWater } from './low_water.ts';

test('a mark counts a while after it was reached, and sinks at once to where a run was put back', () => {
  mock.timers.enable({ apis: ['Date'] });
  let now = 1_000;
  const clock = mock.method(performance, 'now', () => now);
  const marks = new LowWater();
  const later = (): number => {
    now += 150;
    return marks.of(3, 7);
  };
  marks.taken(3, 7, 100);
  assert.equal(marks.of(3, 7), 0);
  later();
  assert.equal(later(), 100);
  marks.taken(3, 7, 200);
  marks.putBack(3, 7, 90);
  assert.equal(marks.of(3, 7), 89);
  later();
  assert.equal(later(), 89, 'what was reached before is not reached any more');
  marks.taken(3, 7, 90);
  later();
  assert.equal(later(), 90);
  assert.equal(marks.of(2, 7), 0);
  clock.mock.restore();
  mock.timers.reset();
});
