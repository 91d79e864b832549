// Rate limits of keys: one budget for all servers.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sliceOf } from '@punctual/server/internal/access/budgets';
import { eventually } from '../support/eventually.ts';
import { ask, openLockedHouse } from '../support/keys.ts';
import { keepsWithin } from '../support/within.ts';

test('over three servers a key is let through no more often than its rate, its burst and a slice for each server', async () => {
  await using open = await openLockedHouse({ servers: 3 });
  const rate = { perSecond: 20, burst: 20 };
  // What a key may is used: the burst and two seconds' worth pass within four.
  await keepsWithin(4_000, async () => {
    const { secret } = await open.makeKey('viewer', { rate_per_second: 20, rate_burst: 20 });
    const began = performance.now();
    let passed = 0;
    let refused = 0;
    let tookMs = Number.POSITIVE_INFINITY;
    const flood = async (url: string) => {
      while (performance.now() - began < 2_000 || (performance.now() - began < 30_000 && tookMs > 30_000)) {
        const { status } = await ask(`${url}/session`, { key: secret });
        if (status === 200) passed++;
        else if (status === 429) refused++;
        else assert.fail(`answered ${status}`);
        if (passed >= rate.burst + 2 * rate.perSecond) tookMs = Math.min(tookMs, performance.now() - began);
      }
    };
    await Promise.all(open.house.servers.flatMap(({ url }) => [flood(url), flood(url)]));
    const seconds = (performance.now() - began) / 1000;
    const most = rate.burst + rate.perSecond * seconds + 3 * sliceOf(rate);
    assert.ok(passed <= most, `${passed} passed, more than ${most}`);
    assert.ok(refused > 0, 'none was refused');
    return tookMs;
  });
});

test('a refusal says when to come again and what the policy is, and others are not held up', async () => {
  await using open = await openLockedHouse({ config: { rate_limits: ['viewer=2/4'] } });
  const url = `${open.house.url}/session`;
  const { secret } = await open.makeKey('viewer');
  const first = await ask(url, { key: secret });
  assert.equal(first.headers.get('ratelimit-policy'), '"key";q=4;w=2');
  assert.match(first.headers.get('ratelimit') ?? '', /^"key";r=3;t=\d+$/);
  const refused = await eventually(
    async () => {
      const answer = await ask(url, { key: secret });
      assert.equal(answer.status, 429);
      return answer;
    },
    { everyMs: 0 },
  );
  assert.equal(refused.code, 'rate_limited');
  assert.equal(refused.headers.get('retry-after'), '1');
  assert.match(refused.headers.get('ratelimit') ?? '', /^"key";r=0;t=1$/);
  assert.equal(
    (await ask(url, { key: open.admin })).headers.get('ratelimit-policy'),
    null,
    'admins have no limit here',
  );
  const other = await open.makeKey('viewer');
  assert.equal((await ask(url, { key: other.secret })).status, 200);
  await eventually(async () => assert.equal((await ask(url, { key: secret })).status, 200));
});
