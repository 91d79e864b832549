// What the forecast adds up: groups, busiest minutes, durations and slots.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { windowOf } from './forecast.ts';
import { adder, addSlots, type Durations, durationsOf, merge, newTally, report, type Tally } from './forecast_tally.ts';

const noon = Date.parse('2026-03-02T12:00:00Z');
const took = (ms: number): Durations => ({ mean_ms: ms, median_ms: ms, p95_ms: 2 * ms, sample: 1 });

/** Adds runs by minute. */
function tally(to: Tally, lane: { queue: string; type: string }, counts: ReadonlyMap<number, number>): void {
  const add = adder(to, lane);
  for (const [minute, runs] of counts) add(minute, runs);
}

function slotsOf(counts: number[], each_ms: number): number[] {
  const slots = new Float64Array(counts.length);
  addSlots(slots, counts, { each_ms, bucket_ms: 60_000 });
  return Array.from(slots);
}

test('slots are runs times duration, carried on into the buckets that follow', () => {
  assert.deepEqual(slotsOf([4, 0, 2], 30_000), [2, 0, 1]);
  assert.deepEqual(slotsOf([4, 0, 0], 60_000), [4, 0, 0]);
  assert.deepEqual(slotsOf([4, 1, 0, 0], 150_000), [4, 5, 3, 0.5]);
  assert.deepEqual(slotsOf([1, 0], 3_600_000), [1, 1]);
  assert.deepEqual(slotsOf([1, 0], 0), [0, 0]);
});

test('slots add up to all the time that runs take, however long these are', () => {
  for (const each_ms of [1, 20_000, 60_000, 60_001, 400_000]) {
    const slots = slotsOf([3, 0, 7, 1, ...Array.from({ length: 20 }, () => 0)], each_ms);
    const busy = slots.reduce((sum, one) => sum + one * 60_000, 0);
    assert.ok(Math.abs(busy - 11 * each_ms) < 1e-3, `${each_ms}: ${busy}`);
  }
});

test('durations are the mean, the median and the slowest twentieth', () => {
  assert.equal(durationsOf([]), null);
  assert.deepEqual(durationsOf([5]), { mean_ms: 5, median_ms: 5, p95_ms: 5, sample: 1 });
  const hundred = Array.from({ length: 100 }, (_, i) => 100 - i);
  assert.deepEqual(durationsOf(hundred), { mean_ms: 51, median_ms: 50, p95_ms: 95, sample: 100 });
});

test('the report has buckets, groups with their history, and the busiest minutes', () => {
  const counted = newTally(windowOf(noon, 24));
  tally(
    counted,
    { queue: 'default', type: 'mail' },
    new Map([
      [0, 2],
      [3, 5],
      [7, 1],
    ]),
  );
  tally(counted, { queue: 'default', type: 'mail' }, new Map([[3, 5]]));
  tally(counted, { queue: 'slow', type: 'report' }, new Map([[1439, 1]]));
  tally(counted, { queue: 'slow', type: 'nothing' }, new Map());
  const { buckets, groups, busiest_minutes, ...rest } = report(counted, new Map([['mail', took(60_000)]]));
  assert.deepEqual(rest, { runs: 14, runs_with_history: 13, other_groups: 0 });
  assert.equal(buckets.length, 288);
  assert.deepEqual(buckets[0], { at: '2026-03-02T12:00:00.000Z', runs: 12, slots: 2.4, slots_p95: 4.8 });
  assert.deepEqual(buckets[287], { at: '2026-03-03T11:55:00.000Z', runs: 1, slots: 0, slots_p95: 0 });
  assert.deepEqual(
    groups.map(({ queue, type, runs, median_ms, note }) => [queue, type, runs, median_ms, note]),
    [
      ['default', 'mail', 13, 60_000, null],
      ['slow', 'report', 1, null, 'No run of this type has ended lately.'],
    ],
  );
  assert.deepEqual(groups[0]?.counts.slice(0, 3), [12, 1, 0]);
  assert.deepEqual(busiest_minutes, [
    { at: '2026-03-02T12:03:00.000Z', runs: 10 },
    { at: '2026-03-02T12:00:00.000Z', runs: 2 },
    { at: '2026-03-02T12:07:00.000Z', runs: 1 },
    { at: '2026-03-03T11:59:00.000Z', runs: 1 },
  ]);
});

test('without any history there are no slots', () => {
  const counted = newTally(windowOf(noon, 1));
  tally(counted, { queue: 'default', type: 'mail' }, new Map([[0, 2]]));
  const { buckets, runs_with_history } = report(counted, new Map());
  assert.equal(runs_with_history, 0);
  assert.deepEqual(buckets[0], { at: '2026-03-02T12:00:00.000Z', runs: 2, slots: null, slots_p95: null });
});

test('thousands of groups are counted in the buckets, and the largest hundred shown', () => {
  const counted = newTally(windowOf(noon, 168));
  for (let i = 0; i < 3000; i++) tally(counted, { queue: 'q', type: `t${i}` }, new Map([[5, 1 + (i % 500)]]));
  const { groups, other_groups, runs } = report(counted, new Map());
  assert.equal(groups.length, 100);
  assert.equal(groups[0]?.runs, 500);
  assert.equal(other_groups, 2900);
  assert.equal(runs, 6 * ((500 * 501) / 2));
});

test('two tallies together are one of all that both counted', () => {
  const mail = { queue: 'default', type: 'mail' };
  const reports = { queue: 'slow', type: 'report' };
  const [one, other, both] = [newTally(windowOf(noon, 24)), newTally(windowOf(noon, 24)), newTally(windowOf(noon, 24))];
  for (const [part, lane, minute, runs] of [
    [one, mail, 3, 5],
    [other, mail, 3, 2],
    [other, mail, 1439, 1],
    [other, reports, 7, 4],
  ] as const) {
    tally(part, lane, new Map([[minute, runs]]));
    tally(both, lane, new Map([[minute, runs]]));
  }
  merge(one, other);
  assert.deepEqual(one, both);
});
