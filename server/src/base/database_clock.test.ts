// The database's time between two questions.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { monotonicMs } from './clock.ts';
import { DatabaseClock } from './database_clock.ts';

test('a time has surely come when it has even if the answer was on its way for no time', () => {
  const clock = new DatabaseClock();
  assert.equal(clock.surelyIn(0), null, 'before the first answer nothing is sure');
  // Asked 400 ms ago; when the database said it, within that time, is not known.
  const heardAt = monotonicMs();
  clock.heard(1_000_000, heardAt - 400);
  const inMs = clock.surelyIn(1_000_500) ?? 0;
  const passed = monotonicMs() - heardAt;
  assert.ok(inMs <= 500.001 && inMs >= 500 - passed - 1, `${inMs}`);
  const middle = (clock.now() ?? 0) - 1_000_000;
  assert.ok(middle >= 199, `${middle}: by then half of the way was over, as likely as not`);
});

test('of two answers the one with less delay is believed', () => {
  const clock = new DatabaseClock();
  clock.heard(1_000_000, monotonicMs() - 2);
  clock.heard(5_000_000, monotonicMs() - 400);
  assert.ok((clock.now() ?? 0) < 1_100_000);
  clock.heard(2_000_000, monotonicMs() - 1);
  assert.ok((clock.now() ?? 0) >= 2_000_000);
});
