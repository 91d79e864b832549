// What alert rules may say, and how they read.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PutAlertRule } from '@punctual/contract';
import { inWords, type PreparedAlertRule, prepareAlertRule, wordingOf } from './alert.ts';

const refused = (rule: PutAlertRule): string[] => {
  const prepared = prepareAlertRule(rule);
  return 'refused' in prepared ? prepared.refused.map(({ path }) => path) : [];
};
const worded = (rule: PutAlertRule): string => wordingOf(prepareAlertRule(rule) as PreparedAlertRule);

test('a rule without what its kind needs, or with what means nothing for it, is refused by field', () => {
  assert.deepEqual(refused({ kind: 'failure_rate' }), ['rate', 'window_ms']);
  assert.deepEqual(refused({ kind: 'missed', period_ms: 1000, over_ms: 5 }), ['over_ms']);
  assert.deepEqual(refused({ kind: 'running_long' }), ['over_ms']);
  assert.deepEqual(refused({ kind: 'running_long', p95_factor: 3 }), []);
  assert.deepEqual(refused({ kind: 'backlog_age', over_ms: 5, tag: 'x', group_by: 'job' }), ['tag', 'group_by']);
  assert.deepEqual(refused({ kind: 'dead_letters', threshold: 1, resolve_after_ms: 5 }), ['resolve_after_ms']);
  assert.deepEqual(refused({ kind: 'failure', resolve_after_ms: 5 }), []);
});

test('a rule reads as a sentence', () => {
  assert.equal(worded({ kind: 'failure', queue: 'mail' }), 'a run in queue mail failed for good, for each job');
  assert.equal(
    worded({ kind: 'failure_rate', rate: 0.05, window_ms: 300_000 }),
    'at least 5 % of the runs that ended within 5 min failed (of 20 or more), for each type',
  );
  assert.equal(
    worded({ kind: 'missed', type: 'backup', period_ms: 90_000_000 }),
    'no run of type backup succeeded for 25 h',
  );
  assert.equal(
    worded({ kind: 'running_long', over_ms: 60_000, p95_factor: 3, group_by: 'rule' }),
    'a run takes longer than 1 min or 3 times the p95 of its type',
  );
  assert.equal(worded({ kind: 'breaker_open' }), 'the circuit breaker of a type is open');
});

test('durations are short', () => {
  assert.deepEqual([250, 1000, 1500, 90_000, 5_400_000, 172_800_000].map(inWords), [
    '250 ms',
    '1 s',
    '1500 ms',
    '90 s',
    '90 min',
    '2 d',
  ]);
});
