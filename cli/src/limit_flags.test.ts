// Limits as they are written and read on the command line.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fairOptions, limitRequest, limitRow, parseRate, rateWords, useFields } from './limit_flags.ts';

test('a rate is units and a time', () => {
  assert.deepEqual(parseRate('100/1m'), { units: 100, per_ms: 60_000 });
  assert.deepEqual(parseRate('5/s'), { units: 5, per_ms: 1000 });
  for (const wrong of ['', '5', '/1s', 'x/1s', '5/', '5/1x', '0/1s', '1.5/1s', '5/1s/2', '5/40d', '-1/1s'])
    assert.throws(() => parseRate(wrong), { name: 'InvalidArgumentError' } as object, wrong);
});

test('a limit is made of what is given', () => {
  assert.deepEqual(limitRequest({ maxConcurrency: 3, note: 'why' }), { max_concurrency: 3, note: 'why' });
  assert.deepEqual(limitRequest({ rate: { units: 1, per_ms: 10 }, burst: 4 }), {
    rate: { units: 1, per_ms: 10, burst: 4 },
  });
});

test('weights are users and numbers', () => {
  const weight = fairOptions.find((option) => option.long === '--weight');
  const parse = weight?.parseArg as (text: string, before?: object) => object;
  assert.deepEqual(parse('b=0.5', parse('a=2')), { a: 2, b: 0.5 });
  for (const wrong of ['a', '=2', 'a=', 'a=x']) assert.throws(() => parse(wrong), /Write it as a user and a number/);
});

const limit = { max_concurrency: null, rate: { units: 5, per_ms: 1000, burst: 9 }, note: null, blocked_until: null };

test('a limit is shown in words', () => {
  assert.equal(rateWords(null), 'any');
  assert.equal(rateWords({ units: 5, per_ms: 1000, burst: 5 }), '5/1s');
  assert.deepEqual(limitRow({ key: 'k', ...limit, updated_at: null }), ['k', 'any', '5/1s, burst 9', '']);
  const use = { key: 'k', source: 'own' as const, ...limit, updated_at: null };
  const fields = useFields({ ...use, in_use: 1, holders: ['r'], tokens: 2.5, waiting: 10_000 }, 0);
  assert.deepEqual(Object.fromEntries(fields), {
    key: 'k',
    limit: 'its own',
    'at once': 'any',
    rate: '5/1s, burst 9; 2.5 units are there now',
    'in use': '1',
    by: 'r',
    waiting: '10000 or more',
  });
});
