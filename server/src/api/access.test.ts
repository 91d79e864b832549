// The parts of the guard that need no server: settings of rates, attempts with unknown keys, what the audit log leaves out.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '@punctual/contract';
import fc from 'fast-check';
import { Attempts } from '../access/attempts.ts';
import { sliceOf } from '../access/budgets.ts';
import { readRates } from '../access/rates.ts';
import { toText } from './audited.ts';

test('rates of roles are read, and what is none is refused with an example', () => {
  const rates = readRates(['viewer=50', 'submitter=200/300']);
  assert.deepEqual(rates.of('viewer'), { perSecond: 50, burst: 100 });
  assert.deepEqual(rates.of('submitter'), { perSecond: 200, burst: 300 });
  assert.equal(rates.of('admin'), null);
  for (const wrong of ['king=3', 'viewer', 'viewer=0', 'viewer=-1', 'viewer=3/0', 'viewer=9999999'])
    assert.throws(() => readRates([wrong]), /such as submitter=200\/400/);
});

test('a slice is at least one request, and never more than a quarter of the burst unless that is less than one', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 1e6 }), fc.integer({ min: 1, max: 1e6 }), (perSecond, burst) => {
      const slice = sliceOf({ perSecond, burst });
      assert.ok(Number.isInteger(slice) && slice >= 1);
      assert.ok(slice === 1 || (slice <= burst / 4 && slice <= perSecond / 10 + 1));
    }),
  );
});

test('an address that tries many keys has to wait, others do not', () => {
  const attempts = new Attempts();
  for (let i = 0; i < 60; i++) attempts.failed('a');
  assert.ok(attempts.waitOf('a') >= 1);
  assert.equal(attempts.waitOf('b'), 0);
});

test('the audit log keeps no payload, secret or header, however deep, and nothing that is large', () => {
  const told = toText({
    secret: 'pk_x',
    payload: { a: 1 },
    executor: { kind: 'http', url: 'https://a.example', headers: { authorization: 'pk_y' }, body: 'pk_z' },
    steps: [{ token: 'pk_t' }],
  });
  assert.doesNotMatch(told ?? '', /pk_|"a":1/);
  assert.match(told ?? '', /https:\/\/a\.example/);
  assert.match(toText({ note: 'x'.repeat(limits.max_audit_bytes) }) ?? '', /^\{"too_large":true,"bytes":\d+\}$/);
  assert.equal(toText(null), null);
});
