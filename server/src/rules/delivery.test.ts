// The pauses between the attempts of a delivery.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { nextAttemptMs } from './delivery.ts';

const policy = { backoff_ms: 5_000, max_attempts: 20 };

test('pauses double up to an hour, are spread by half, and end with the last attempt', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 40 }), fc.double({ min: 0, max: 1, noNaN: true }), (attempts, random) => {
      const pause = nextAttemptMs(policy, { attempts, final: false, retry_after_ms: null, random });
      if (attempts >= 20) return assert.equal(pause, null);
      const whole = Math.min(3_600_000, 5_000 * 2 ** (attempts - 1));
      assert.ok(pause !== null && pause >= whole / 2 && pause <= whole + 1, `${pause} of ${whole}`);
    }),
  );
});

test('all attempts together go on for hours', () => {
  let total = 0;
  for (let attempts = 1; attempts < 20; attempts++)
    total += nextAttemptMs(policy, { attempts, final: false, retry_after_ms: null, random: 0 }) ?? 0;
  assert.ok(total > 4 * 3_600_000, `${total} ms`);
});

test('a receiver may ask for a longer pause, up to a day, and a final failure is given up at once', () => {
  const asked = (retry_after_ms: number, final = false) =>
    nextAttemptMs(policy, { attempts: 1, final, retry_after_ms, random: 1 });
  assert.equal(asked(60_000), 60_000);
  assert.equal(asked(1), 5_000);
  assert.equal(asked(10 * 24 * 3_600_000), 24 * 3_600_000);
  assert.equal(asked(60_000, true), null);
});
