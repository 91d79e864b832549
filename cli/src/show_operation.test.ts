// Operations in words.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Operation } from '@punctual/contract';
import { askWords, countWords, filterWords, planWords, progressWords } from './show_operation.ts';

const plan = { operation_id: null, acts_on: 'jobs', count: 2, exact: true, sample: ['a', 'b'] } as const;

test('a count says whether it is exact, and of what', () => {
  assert.equal(countWords({ ...plan, sample: [] }), '2 jobs');
  assert.equal(countWords({ ...plan, sample: [], count: 1 }), '1 job');
  assert.equal(countWords({ ...plan, sample: [], count: 1, acts_on: 'runs', exact: false }), 'at least 1 runs');
});

test('a plan shows some of the ids, and that there are more', () => {
  assert.equal(planWords('cancel', { ...plan, sample: ['a', 'b'] }), 'cancel: 2 jobs fit\n  a\n  b');
  assert.equal(planWords('cancel', { ...plan, sample: ['a', 'b'], count: 3 }), 'cancel: 3 jobs fit\n  a\n  b\n  …');
  assert.equal(planWords('retry', { ...plan, sample: ['a'], count: 1, acts_on: 'runs' }), 'retry: 1 run fits\n  a');
});

test('a question says what will be done', () => {
  const filter = { type: 'mail' };
  assert.equal(askWords({ action: 'cancel', filter }), 'Cancel');
  assert.equal(askWords({ action: 'reprioritise', filter, priority: 0 }), 'Give priority 0 to');
  assert.equal(askWords({ action: 'move_queue', filter, queue: 'slow' }), 'Move to queue slow:');
});

test('progress names each reason for which something was skipped', () => {
  const skipped_reasons = [
    { reason: 'job_running', count: 2 },
    { reason: 'unchanged', count: 1 },
  ];
  const operation = { acts_on: 'runs', matched: 9, done: 6, looked_at: 20, skipped_reasons } as unknown as Operation;
  assert.equal(
    progressWords(operation),
    '6 of 9 runs done, 2 skipped (job_running), 1 skipped (unchanged); 20 looked at',
  );
});

test('a filter is written as it was given', () => {
  assert.equal(filterWords({ type: 'mail', q: 'no route' }), 'type=mail q=no route');
  assert.equal(filterWords({ all: true }), 'all');
});
