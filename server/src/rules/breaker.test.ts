// When a circuit breaker trips, and what its probe says.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type BreakerFacts, judgeBreaker } from './breaker.ts';

const facts = (more: Partial<BreakerFacts> = {}): BreakerFacts => ({
  ...{ state: 'closed', error_rate: 0.5, min_attempts: 10, window_ms: 60_000, cool_down_ms: 30_000 },
  ...{ since_ms: 0, succeeded: 0, failed: 0, probe: null },
  ...more,
});

test('a breaker trips at its rate and not with fewer attempts than asked', () => {
  assert.equal(judgeBreaker(facts({ failed: 9 })), null);
  assert.equal(judgeBreaker(facts({ failed: 5, succeeded: 6 })), null);
  assert.deepEqual(judgeBreaker(facts({ failed: 6, succeeded: 6 })), {
    to: 'open',
    note: 'circuit breaker: 50 % of 12 attempts failed within 60 s',
  });
});

test('after the cool-down one run is let through, and its outcome decides', () => {
  assert.equal(judgeBreaker(facts({ state: 'open', since_ms: 29_999, failed: 99 })), null);
  assert.deepEqual(judgeBreaker(facts({ state: 'open', since_ms: 30_000 })), { to: 'probing' });
  assert.equal(judgeBreaker(facts({ state: 'probing', since_ms: 90_000, probe: 'live' })), null);
  assert.equal(judgeBreaker(facts({ state: 'probing', probe: 'succeeded' }))?.to, 'closed');
  assert.equal(judgeBreaker(facts({ state: 'probing', probe: 'failed' }))?.to, 'open');
  assert.equal(judgeBreaker(facts({ state: 'probing', probe: 'gone' }))?.to, 'probing');
});

test('a server that dies before it lets the probe through is replaced after a cool-down', () => {
  assert.equal(judgeBreaker(facts({ state: 'probing', since_ms: 100 })), null);
  assert.deepEqual(judgeBreaker(facts({ state: 'probing', since_ms: 30_000 })), { to: 'probing' });
});
