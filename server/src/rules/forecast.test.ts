// The window of a forecast, and the minutes in which a schedule starts runs.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bareRule, type ForecastSchedule, isShared, minuteCounts, windowOf } from './forecast.ts';
import { compileCalendar } from './schedule/calendar.ts';
import { countBetween } from './schedule/occurrences.ts';
import type { ScheduleRule } from './schedule/rule.ts';
import { cronRule, intervalRule } from './schedule/rules.test.support.ts';

const at = (text: string): number => Date.parse(`${text}Z`);
const noon = at('2026-03-02T12:00:00');

function scheduled(rule: ScheduleRule, changes: Partial<ForecastSchedule> = {}): ForecastSchedule {
  return { rule, fixed_delay: false, next_ms: noon, planned_until_ms: noon - 1, runs_left: null, ...changes };
}

function countsOf(schedule: ForecastSchedule, fromMs: number, hours: number): [number, number][] {
  const steps = minuteCounts(schedule, windowOf(fromMs, hours));
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

test('the spread decides the minute, also of times before the window that are not planned yet', () => {
  const rule = cronRule('0 * * * *', { jitter_ms: 3_000_000, jitter_key: 'somebody' });
  const counts = countsOf(scheduled(rule, { planned_until_ms: noon - 60_000 }), noon, 3);
  assert.equal(counts.length, 3);
  const [first] = counts;
  assert.ok(first !== undefined && first[0] > 0 && first[0] <= 50, `minute ${first?.[0]}`);
  const begun = countsOf(scheduled(rule, { planned_until_ms: noon - 60_000 }), noon + 1000, 3);
  assert.equal(begun[0]?.[0], first[0]);
  // Once planned, its run waits in the book and is counted there.
  assert.equal(countsOf(scheduled(rule, { planned_until_ms: noon + 500 }), noon + 1000, 3)[0]?.[0], first[0] + 60);
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

test('intervals under a minute are counted as one by one, whatever their distance, bounds and spread', () => {
  for (const every of [1000, 1700, 7001, 59_999]) {
    for (const changes of [{}, { jitter_ms: 90_000 }, { end_at: noon + 1_234_567 }, { start_at: noon + 777_777 }]) {
      const rule = intervalRule(every, noon - 12_345, changes);
      const from = noon + 1234;
      const quick = countsOf(scheduled(rule, { planned_until_ms: noon }), from, 1);
      const slow = countsOf(scheduled(rule, { planned_until_ms: noon, runs_left: 1e9 }), from, 1);
      assert.deepEqual(quick, slow, `every ${every} ${JSON.stringify(changes)}`);
    }
  }
  const count = countBetween(intervalRule(1000, 0), noon - 1, noon + 168 * 3_600_000 - 1, 1e9).count;
  assert.equal(total(countsOf(scheduled(intervalRule(1000, 0)), noon, 168)), count);
});

test('only schedules that start in the same minutes share them', () => {
  const bare = (expression: string, jitter_key: string): string =>
    bareRule(JSON.stringify(cronRule(expression, { jitter_key })));
  assert.equal(bare('0 9 * * THU', 'one'), bare('0 9 * * THU', 'another'));
  assert.notEqual(bare('0 9 * * THU', 'one'), bare('0 9 * * FRI', 'one'));
  const thursdays = cronRule('0 9 * * THU');
  assert.equal(isShared(scheduled(thursdays)), true);
  assert.equal(isShared(scheduled(intervalRule(1000, 0))), true);
  assert.equal(isShared(scheduled(cronRule('H 9 * * *'))), false);
  assert.equal(isShared(scheduled(cronRule('H/15 9 * * *'))), false);
  assert.equal(isShared(scheduled(cronRule('0 9 * * *', { jitter_ms: 1 }))), false);
  assert.equal(isShared(scheduled(thursdays, { runs_left: 3 })), false);
  assert.equal(isShared(scheduled(thursdays, { fixed_delay: true })), false);
});
