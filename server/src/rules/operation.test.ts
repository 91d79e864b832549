// What an operation may ask for.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CreateOperation } from '@punctual/contract';
import { actsOn, prepareOperation } from './operation.ts';

const refusals = (asked: Partial<CreateOperation>): string[] => {
  const answer = prepareOperation({ action: 'cancel', filter: { type: 'mail' }, ...asked });
  return 'refused' in answer ? answer.refused.map(({ path }) => path) : [];
};

test('a filter without a condition is refused, unless everything is said to be meant', () => {
  assert.deepEqual(refusals({ filter: {} }), ['filter']);
  assert.deepEqual(refusals({ filter: { all: false } }), ['filter']);
  assert.deepEqual(refusals({ filter: { all: true } }), []);
  assert.deepEqual(refusals({ filter: { all: true, type: 'mail' } }), ['filter.all']);
  assert.deepEqual(refusals({ filter: { all: false, type: 'mail' } }), []);
});

test('the new priority and the new queue go with their action, and only with it', () => {
  assert.deepEqual(refusals({ action: 'reprioritise' }), ['priority']);
  assert.deepEqual(refusals({ action: 'reprioritise', priority: 0 }), []);
  assert.deepEqual(refusals({ action: 'reprioritise', priority: 0, queue: 'a' }), ['queue']);
  assert.deepEqual(refusals({ action: 'move_queue' }), ['queue']);
  assert.deepEqual(refusals({ action: 'move_queue', queue: 'a' }), []);
  assert.deepEqual(refusals({ priority: 1, queue: 'a' }), ['priority', 'queue']);
});

test('a status must be one that the action can do something to', () => {
  const fits = { cancel: 'SPQR', retry: 'QF', redrive: 'F', reprioritise: 'SP', move_queue: 'SP' } as const;
  for (const [action, letters] of Object.entries(fits) as [keyof typeof fits, string][])
    for (const status of ['SCHEDULED', 'PAUSED', 'QUEUED', 'RUNNING', 'FAILED'] as const) {
      const more = action === 'reprioritise' ? { priority: 1 } : action === 'move_queue' ? { queue: 'a' } : {};
      const wrong = refusals({ action, filter: { status }, ...more });
      assert.deepEqual(wrong, letters.includes(status[0] ?? '') ? [] : ['filter.status'], `${action} ${status}`);
    }
});

test('a reason says why runs failed, or why they wait', () => {
  assert.deepEqual(refusals({ action: 'redrive', filter: { reason: 'lost' } }), []);
  assert.deepEqual(refusals({ action: 'redrive', filter: { reason: 'retry' } }), ['filter.reason']);
  assert.deepEqual(refusals({ action: 'retry', filter: { reason: 'lost', status: 'QUEUED' } }), ['filter.reason']);
  assert.deepEqual(refusals({ filter: { reason: 'retry', status: 'QUEUED' } }), []);
  assert.deepEqual(refusals({ filter: { reason: 'lost', status: 'QUEUED' } }), ['filter.reason']);
  assert.deepEqual(refusals({ filter: { reason: 'retry' } }), ['filter.reason']);
});

test('a span of time must have a length', () => {
  const at = '2026-01-01T00:00:00Z';
  assert.deepEqual(refusals({ filter: { created_after: at, created_before: at } }), ['filter.created_after']);
});

test('a cancel by a status of runs leaves their jobs', () => {
  assert.equal(actsOn('cancel', { status: 'RUNNING' }), 'runs');
  assert.equal(actsOn('cancel', { status: 'PAUSED' }), 'jobs');
  assert.equal(actsOn('cancel', { type: 'mail' }), 'jobs');
  assert.equal(actsOn('redrive', { all: true }), 'runs');
  assert.equal(actsOn('reprioritise', { all: true }), 'jobs');
});
