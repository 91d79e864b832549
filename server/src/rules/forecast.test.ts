// The window of a forecast, and the minutes in which a schedule starts runs.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ForecastSchedule, minuteCounts, windowOf } from './forecast.ts';
import { compileCalendar } from './schedule/calendar.ts';
import type { ScheduleRule } from './schedule/rule.ts';
import { cronRule, intervalRule } from './schedule/rules.test.support.ts';

const at = (text: string): number => Date.parse(`${text}Z`);
const noon = at('2026-03-02T12:00:00');

function scheduled(rule: ScheduleRule, changes: Partial<ForecastSchedule> = {}): ForecastSchedule {
  return { rule, fixed_delay: false, next_ms: noon, runs_left: null, ...changes };
}

function countsOf(schedule: ForecastSchedule, fromMs: number, hours: number, nowMs = fromMs - 1): [number, number][] {
  const steps = minuteCounts(schedule, { window: windowOf(fromMs, hours), nowMs });
  for (let step = steps.next(); ; step = steps.next()) if (step.done === true) return [...step.value];
}

const total = (counts: readonly [number, number][]): number => counts.reduce((sum, [, runs]) => sum + runs, 0);

test('buckets are minutes, then five, then fifteen, and never more than 673', () => {
  assert.deepEqual(windowOf(noon + 90_500, 3), {
    from_ms: noon + 90_500,
    to_ms: noon + 90_500 + 3 * 3_600_000,
    bucket_ms: 60_000,
    base_ms: noon + 60_000,
    buckets: 181,
  });
  assert.equal(windowOf(noon, 24).buckets, 288);
  assert.equal(windowOf(noon, 24).bucket_ms, 300_000);
  assert.equal(windowOf(noon + 1, 168).buckets, 673);
  assert.equal(windowOf(noon, 25).bucket_ms, 900_000);
});

test('a run counts in the minute it starts in: from the first instant, up to before the last', () => {
  assert.deepEqual(countsOf(scheduled(cronRule('0 * * * *')), noon, 2), [
    [0, 1],
    [60, 1],
  ]);
  assert.deepEqual(countsOf(scheduled(cronRule('0 * * * *')), noon + 1, 2), [
    [60, 1],
    [120, 1],
  ]);
  assert.deepEqual(countsOf(scheduled(cronRule('*/20 * * * * *')), noon, 1).slice(0, 2), [
    [0, 3],
    [1, 3],
  ]);
});

test('the spread decides the minute, also of times before the window that have no run yet', () => {
  const rule = cronRule('0 * * * *', { jitter_ms: 3_000_000, jitter_key: 'somebody' });
  const counts = countsOf(scheduled(rule), noon, 3, noon - 60_000);
  assert.equal(counts.length, 3);
  const [first] = counts;
  assert.ok(first !== undefined && first[0] > 0 && first[0] <= 50, `minute ${first?.[0]}`);
  const begun = countsOf(scheduled(rule), noon + 1000, 3, noon - 60_000);
  assert.equal(begun[0]?.[0], first[0]);
  // Once planned, its run waits in the book and is counted there.
  assert.equal(countsOf(scheduled(rule), noon + 1000, 3, noon + 500)[0]?.[0], first[0] + 60);
});

test('excluded times are left out', () => {
  const compiled = compileCalendar({ exclude: [{ days: ['TUE'] }] });
  assert.ok('calendar' in compiled);
  const rule = cronRule('0 0 * * *', { calendar: compiled.calendar });
  assert.equal(total(countsOf(scheduled(rule), noon, 72)), 2);
});

test('a schedule with a number of runs left stops there; a fixed delay has one time', () => {
  assert.equal(total(countsOf(scheduled(cronRule('* * * * *'), { runs_left: 7 }), noon, 2)), 7);
  assert.equal(total(countsOf(scheduled(intervalRule(1000, 0), { runs_left: 7 }), noon, 2)), 7);
  const rule = intervalRule(60_000, 0);
  assert.deepEqual(countsOf(scheduled(rule, { fixed_delay: true, next_ms: noon + 65_000 }), noon, 2), [[1, 1]]);
  assert.deepEqual(countsOf(scheduled(rule, { fixed_delay: true, next_ms: noon - 1 }), noon, 2), []);
});
