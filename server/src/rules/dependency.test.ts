// When needs are met, and which names and cycles are refused.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { NeedCondition, RunStatus } from '@punctual/contract';
import fc from 'fast-check';
import { findCycle, needAfter, needsOf } from './dependency.ts';

const outcomes = ['SUCCESS', 'FAILED', 'CANCELLED', 'DROPPED'] as const satisfies RunStatus[];

test('success is met by SUCCESS, failure by FAILED, any_end by every end, and nothing else is', () => {
  const met = (on: NeedCondition): string[] => outcomes.filter((outcome) => needAfter(on, outcome) === 'met');
  assert.deepEqual(met('success'), ['SUCCESS']);
  assert.deepEqual(met('failure'), ['FAILED']);
  assert.deepEqual(met('any_end'), outcomes);
});

/** By definition: can `to` be reached from `from`? */
function reaches(parents: readonly (readonly number[])[], from: number, to: number): boolean {
  const seen = new Set<number>();
  const open = [from];
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    for (const next of parents[at] ?? []) {
      if (next === to) return true;
      if (!seen.has(next)) open.push(next);
      seen.add(next);
    }
  }
  return false;
}

test('a cycle is found exactly when there is one, and the path given is one', () => {
  const graph = fc
    .integer({ min: 1, max: 8 })
    .chain((n) => fc.array(fc.uniqueArray(fc.nat(n - 1), { maxLength: 3 }), { minLength: n, maxLength: n }));
  fc.assert(
    fc.property(graph, (parents) => {
      const cycle = findCycle(parents);
      if (cycle === null) {
        assert.ok(parents.every((_, item) => !reaches(parents, item, item)));
        return;
      }
      assert.equal(new Set(cycle).size, cycle.length);
      cycle.forEach((item, i) => {
        assert.ok(parents[item]?.includes(cycle[(i + 1) % cycle.length] as number));
      });
    }),
    { numRuns: 500 },
  );
});

test('a long chain of items is no cycle, and closing it is one', () => {
  const chain = Array.from({ length: 1000 }, (_, i) => (i === 0 ? [] : [i - 1]));
  assert.equal(findCycle(chain), null);
  chain[0] = [999];
  assert.equal(findCycle(chain)?.length, 1000);
});

const refusals = (...args: Parameters<typeof needsOf>): string[] => {
  const answer = needsOf(...args);
  return 'refused' in answer ? answer.refused.map(({ job, path, message }) => `${job} ${path} ${message}`) : [];
};

test('names that mean nothing are refused, each with its place', () => {
  const child = { recurring: false };
  const found = new Map([
    ['a', { run_id: 'a1', user_id: 'ann', recurring: false }],
    ['r', { run_id: 'r1', user_id: null, recurring: true }],
  ]);
  const one = (depends_on: object[], more: object = {}): string[] =>
    refusals([{ ...child, ...more, depends_on }], found, false);
  assert.deepEqual(one([{ job_id: 'a' }]), []);
  assert.deepEqual(one([{ job_id: 'a' }], { user_id: 'ann' }), []);
  assert.match(one([{ job_id: 'a' }], { user_id: 'bob' })[0] ?? '', /^0 depends_on\[0\] names a run of another user/);
  assert.match(one([{ job_id: 'a' }, {}])[0] ?? '', /^0 depends_on\[1\] must name one run/);
  assert.match(one([{ job_id: 'a', run_id: 'a' }])[0] ?? '', /must name one run/);
  assert.match(one([{ job_id: 'b' }])[0] ?? '', /no job has the id b/);
  assert.match(one([{ run_id: 'b' }])[0] ?? '', /no run has the id b/);
  assert.match(one([{ item: 0 }])[0] ?? '', /only a bulk has/);
  assert.match(one([{ job_id: 'r' }])[0] ?? '', /recurring job/);
  assert.deepEqual(one([{ run_id: 'r' }]), []);
  assert.match(
    one([{ job_id: 'a' }, { run_id: 'a' }])[0] ?? '',
    /^0 depends_on\[1\] names the same run as depends_on\[0\]/,
  );
});

test('items of a bulk are named by their index, earlier or later, and never in a circle', () => {
  const items = (...parents: number[][]) =>
    parents.map((list) => ({ recurring: false, depends_on: list.map((item) => ({ item })) }));
  const none = new Map();
  assert.deepEqual(needsOf(items([1], []), none, true), {
    needs: [[{ parent: { item: 1 }, on: 'success' }], []],
  });
  assert.deepEqual(refusals(items([1], [2], [0]), none, true), [
    '0 depends_on makes a cycle of waiting: jobs[0] → jobs[1] → jobs[2] → jobs[0]',
  ]);
  assert.deepEqual(refusals(items([], [1]), none, true), ['1 depends_on makes a cycle of waiting: jobs[1] → jobs[1]']);
  assert.match(refusals(items([7], []), none, true)[0] ?? '', /names item 7, which the bulk does not have/);
  const theirs = [
    { recurring: false, user_id: 'ann' },
    { recurring: false, user_id: 'bob', depends_on: [{ item: 0 }] },
  ];
  assert.match(refusals(theirs, none, true)[0] ?? '', /^1 depends_on\[0\] names a run of another user/);
  const recurring = [{ recurring: true }, { recurring: false, depends_on: [{ item: 0 }] }];
  assert.match(refusals(recurring, none, true)[0] ?? '', /recurring job/);
});
