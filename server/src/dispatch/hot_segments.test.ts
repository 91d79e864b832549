// Which segment is claimed from next, and up to which rank.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { HotSegments } from './hot_segments.ts';

test('the segment with the best rank is next, and takes no more than another may have as well', () => {
  const hot = new HotSegments([]);
  hot.wake(1, 3);
  hot.wake(2, 1);
  assert.deepEqual(hot.next(), { segment: 2, upTo: 3 });
  assert.equal(hot.next(), null, 'segment 1 is worse than what may be left in 2');
  hot.ended(2, null);
  assert.deepEqual(hot.next(), { segment: 1, upTo: Number.POSITIVE_INFINITY });
});

test('segments of the same rank are claimed side by side, up to that rank', () => {
  const hot = new HotSegments([4, 5]);
  assert.deepEqual(hot.next(), { segment: 4, upTo: 0 });
  assert.deepEqual(hot.next(), { segment: 5, upTo: 0 });
  assert.equal(hot.next(), null);
});

test('a wake during the claim is kept', () => {
  const hot = new HotSegments([]);
  hot.wake(7, 2);
  assert.deepEqual(hot.next(), { segment: 7, upTo: Number.POSITIVE_INFINITY });
  hot.wake(7, 1);
  assert.equal(hot.next(), null, 'one claim a segment');
  hot.ended(7, null);
  assert.deepEqual(hot.next(), { segment: 7, upTo: Number.POSITIVE_INFINITY });
});

test('whatever arrives, runs of random segments start in the order of their ranks', () => {
  const run = fc.record({ segment: fc.nat(3), rank: fc.nat(4) });
  fc.assert(
    fc.property(fc.array(run, { maxLength: 40 }), fc.integer({ min: 1, max: 4 }), (runs, slots) => {
      const hot = new HotSegments([0, 1, 2, 3]);
      const ready = [...runs];
      const started: number[] = [];
      for (let turn = hot.next(), turns = 0; turn !== null; turn = hot.next()) {
        assert.ok(++turns < 200, 'it comes to an end');
        const { segment, upTo } = turn;
        const found = ready.filter((one) => one.segment === segment && one.rank <= upTo);
        const taken = found.sort((a, b) => a.rank - b.rank).slice(0, slots);
        for (const one of taken) ready.splice(ready.indexOf(one), 1);
        started.push(...taken.map((one) => one.rank));
        const full = taken.length === slots;
        hot.ended(segment, full ? (taken.at(-1)?.rank ?? 0) : upTo >= 4 ? null : upTo + 1);
      }
      assert.equal(ready.length, 0, 'everything starts');
      assert.deepEqual(
        started,
        [...started].sort((a, b) => a - b),
      );
    }),
  );
});
