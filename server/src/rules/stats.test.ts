// The minutes of the stats: what counters grow by belongs to one minute, and an hour is kept.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Minutes, minuteMs } from './stats.ts';

const noon = Date.UTC(2030, 0, 1, 12);
const empty = { started: 0, ended: 0, failed: 0, late_p50_ms: null, late_p99_ms: null };

test('what counters grow by belongs to the minute in which it was seen', () => {
  const minutes = new Minutes();
  minutes.grown(noon, { ended: 1000, failed: 10 });
  minutes.grown(noon + 10_000, { ended: 1040, failed: 11 });
  minutes.grown(noon + 70_000, { ended: 1050, failed: 11 });
  assert.deepEqual(minutes.list(noon + 70_000), [
    { at: '2030-01-01T12:00:00.000Z', ...empty, ended: 40, failed: 1 },
    { at: '2030-01-01T12:01:00.000Z', ...empty, ended: 10 },
  ]);
});

test('a counter that begins anew, as after a crash of the database, takes nothing away', () => {
  const minutes = new Minutes();
  minutes.grown(noon, { ended: 1000, failed: 10 });
  minutes.grown(noon + 1000, { ended: 5, failed: 0 });
  minutes.grown(noon + 2000, { ended: 8, failed: 0 });
  assert.deepEqual(minutes.list(noon + 2000), [{ at: '2030-01-01T12:00:00.000Z', ...empty, ended: 3 }]);
});

test('an hour is kept, and not more', () => {
  const minutes = new Minutes();
  for (let i = 0; i < 100; i++) minutes.started(noon + i * minuteMs, i + 1);
  const kept = minutes.list(noon + 99 * minuteMs);
  assert.equal(kept.length, 60);
  assert.equal(kept[0]?.started, 41);
  assert.equal(kept.at(-1)?.started, 100);
});

test('a count that comes again for the same minute replaces the smaller one', () => {
  const minutes = new Minutes();
  minutes.started(noon, 5);
  minutes.started(noon, 9);
  minutes.started(noon, 7);
  assert.equal(minutes.list(noon)[0]?.started, 9);
});

test('the last minute is what this one has so far and its share of the one before', () => {
  const minutes = new Minutes();
  minutes.grown(noon, { ended: 0, failed: 0 });
  minutes.grown(noon + 1, { ended: 600, failed: 0 });
  minutes.grown(noon + minuteMs + 1, { ended: 630, failed: 0 });
  assert.equal(minutes.endedLately(noon + minuteMs + 15_000), 30 + 450);
});
