// `punctual limits` against a real house.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { KeyLimit, KeyLimitPage, KeyUse } from '@punctual/contract';
import { openHouse } from '../support/house.ts';
import { terminalOf } from '../support/terminal.ts';

const house = await openHouse();
after(() => house[Symbol.asyncDispose]());

const { ask, succeeds, parsed } = terminalOf(house);

test('limits are set, listed, shown and deleted', async () => {
  const set = ['limits', 'set', 'supplier', '--max-concurrency', '3', '--rate', '100/1m', '--burst', '10'];
  const limit = await parsed<KeyLimit>([...set, '--note', 'what they allow']);
  assert.deepEqual([limit.max_concurrency, limit.rate], [3, { units: 100, per_ms: 60_000, burst: 10 }]);
  await succeeds(['limits', 'set', '*', '--max-concurrency', '1']);
  assert.match(await succeeds(['limits', 'list']), /\nsupplier +3 +100\/1m, burst 10 +what they allow/);
  assert.equal((await parsed<KeyLimitPage>(['limits', 'list'])).limits.length, 2);
  assert.match(await succeeds(['limits', 'show', 'supplier']), /100\/1m, burst 10; 10 units are there now/);
  assert.equal((await parsed<KeyUse>(['limits', 'show', 'other'])).source, 'default');
  assert.equal(await succeeds(['limits', 'delete', 'supplier']), 'the limit of supplier is removed\n');
  const again = await ask(['limits', 'delete', 'supplier']);
  assert.deepEqual([again.code, /No limit is set for the key supplier/.test(again.stderr)], [1, true]);
});

test('queues are shared fairly, listed, and shared no longer', async () => {
  assert.match(await succeeds(['limits', 'fair', 'mail', '--share', '5', '--weight', 'big=2']), /\nmail +5 +big=2/);
  assert.match((await ask(['limits', 'fair', 'mail', '--off'])).stderr, /no queue is shared fairly/);
});

test('what cannot be is refused before it is sent', async () => {
  for (const words of [
    ['set', 'k', '--rate', '5'],
    ['set', 'k', '--burst', '5'],
    ['set', 'k', '--max-concurrency', '-1'],
    ['fair', 'q', '--weight', 'x'],
    ['set'],
  ]) {
    const { code } = await ask(['limits', ...words]);
    assert.notEqual(code, 0, words.join(' '));
  }
});
