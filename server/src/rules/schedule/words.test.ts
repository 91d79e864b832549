// Rules, warnings and clock changes in words.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileCalendar } from './calendar.ts';
import { describe } from './describe.ts';
import { explainOccurrence } from './explain.ts';
import { occurrencesAfter } from './occurrences.ts';
import type { CronRule } from './rule.ts';
import { cronRule, intervalRule } from './rules.test.support.ts';
import { warningsOf } from './warnings.ts';

const now = Date.parse('2026-01-15T10:00Z');

test('a schedule is described in plain words', () => {
  const told: [string, string][] = [
    ['0 9 * * MON-FRI', 'At 09:00, Monday to Friday'],
    ['0 9,17 * * *', 'At 09:00 and 17:00'],
    ['30 2 1,15 * *', 'At 02:30, on days 1 and 15 of the month'],
    ['*/15 * * * *', 'Every 15 minutes'],
    ['* * * * *', 'Every minute'],
    ['5/20 * * * *', 'Every 20 minutes from minute 5'],
    ['*/7 * * * *', 'At minutes 0, 7, 14 and so on to 56'],
    ['*/15 9-17 * * 1-5', 'Every 15 minutes, in the hours 09 to 17, Monday to Friday'],
    ['0 * * * *', 'Every hour'],
    ['20 * * * *', 'At minute 20 of every hour'],
    ['0 */2 * * *', 'At minute 0, in the hours 00, 02, 04 and so on to 22'],
    ['* * * * * *', 'Every second'],
    ['*/10 * * * * *', 'Every 10 seconds'],
    ['15 30 6 * * *', 'At 06:30:15'],
    ['15 */10 * * * *', 'At second 15, every 10 minutes'],
    ['0 0 L * *', 'At 00:00, on the last day of the month'],
    ['0 0 LW * *', 'At 00:00, on the last weekday (Monday to Friday) of the month'],
    ['0 0 15W * *', 'At 00:00, on the weekday (Monday to Friday) nearest day 15 of the month'],
    ['0 0 * * FRIL', 'At 00:00, on the last Friday of the month'],
    ['0 0 * * FRI#2', 'At 00:00, on the second Friday of the month'],
    ['0 0 13 * FRI', 'At 00:00, on day 13 of the month or on Friday'],
    ['0 0 */2 * MON', 'At 00:00, on days 1, 3, 5 and so on to 31 of the month, only if it is Monday'],
    ['0 0 1 1 *', 'At 00:00, on day 1 of the month, in January'],
    ['0 0 * 3-5,12 SAT-SUN', 'At 00:00, Saturday and Sunday, in March to May and December'],
    ['0 12 * * 5-7', 'At 12:00, Friday to Sunday'],
    ['@daily', 'At 00:00'],
    ['0 9 * * *\n30 17 * * FRI', 'At 09:00; At 17:30, Friday'],
  ];
  for (const [text, words] of told) {
    assert.equal(describe(cronRule(text, { timezone: 'Europe/Paris' })), `${words}, Europe/Paris`);
  }
});

test('intervals, bounds, calendars and jitter are told too', () => {
  const anchor = Date.parse('2026-01-01T00:00Z');
  assert.equal(
    describe(intervalRule(5_400_000, anchor)),
    'Every 1 hour 30 minutes, counted from 2026-01-01 00:00:00 UTC',
  );
  assert.equal(describe(intervalRule(60_000, anchor)), 'Every minute, counted from 2026-01-01 00:00:00 UTC');
  const weekend = compileCalendar({ exclude: [{ days: ['SAT-SUN'] }] });
  assert.ok('calendar' in weekend);
  const rule = cronRule('0 9 * * *', {
    calendar: weekend.calendar,
    on_excluded: 'next',
    jitter_ms: 300_000,
    start_at: anchor,
    end_at: Date.parse('2026-12-31T00:00Z'),
  });
  assert.equal(
    describe(rule),
    'At 09:00, UTC, from 2026-01-01 00:00:00 UTC, until 2026-12-31 00:00:00 UTC, moved to the next time its calendar allows, spread over 5 minutes',
  );
});

function codes(expression: string, changes: Partial<CronRule> = {}): string[] {
  return warningsOf(cronRule(expression, changes), now).map((warning) => warning.code);
}

test('surprises are told before they happen', () => {
  assert.deepEqual(codes('* * * * * *'), ['every_second']);
  assert.deepEqual(codes('*/2 * * * * *'), []);
  assert.deepEqual(codes('* 30 9 * * *'), []);
  assert.deepEqual(
    warningsOf(intervalRule(1000, 0), now).map(({ code }) => code),
    ['every_second'],
  );
  assert.deepEqual(codes('30 9 29 2 *'), ['leap_years_only']);
  assert.deepEqual(codes('30 9 30 * *'), ['months_left_out']);
  assert.deepEqual(codes('30 9 28,31 * *'), []);
  assert.deepEqual(codes('30 9 31 1,3 *'), []);
  assert.deepEqual(codes('30 9 13 * FRI'), ['either_day']);
  assert.deepEqual(codes('30 9 ? * FRI'), []);
  assert.deepEqual(codes('0 0 * * *'), ['herd']);
  assert.deepEqual(codes('0 * * * *'), ['herd']);
  assert.deepEqual(codes('0 0 * * *', { jitter_ms: 1000 }), []);
  assert.deepEqual(codes('H 0 * * *'), []);
  const [left] = warningsOf(cronRule('30 9 29 * *'), now);
  assert.match(left?.message ?? '', /never runs in February \(but in leap years\), which has no such day; write L/);
});

test('clock changes of the coming year are told with their dates', () => {
  const berlin = { timezone: 'Europe/Berlin' };
  const messages = (changes: Partial<CronRule>): string[] =>
    warningsOf(cronRule('30 2 * * *', { ...berlin, ...changes }), now).map(({ code, message }) => `${code} ${message}`);
  const gap = '02:30 does not exist on 2026-03-29 in Europe/Berlin: clocks go from 02:00 to 03:00';
  const overlap = '02:30 comes twice on 2026-10-25 in Europe/Berlin: clocks go back from 03:00 to 02:00';
  assert.deepEqual(messages({}), [
    `dst_gap_moved ${gap}; runs at 03:00`,
    `dst_overlap ${overlap}; runs only at the first`,
  ]);
  assert.deepEqual(messages({ dst_gap: 'skip', dst_overlap: 'both' }), [
    `dst_gap_skipped ${gap}; does not run then`,
    `dst_overlap ${overlap}; runs at both`,
  ]);
  assert.deepEqual(messages({ end_at: Date.parse('2026-03-01T00:00Z') }), []);
  assert.deepEqual(codes('30 * * * *', berlin), [], 'what follows the time that passes is not surprised');
  assert.deepEqual(codes('30 4 * * *', berlin), []);
});

test('an occurrence explains itself', () => {
  const explain = (rule: CronRule, after: string): string | null => {
    const [item] = occurrencesAfter(rule, Date.parse(`${after}Z`)).items;
    assert.ok(item !== undefined);
    return explainOccurrence(rule, item);
  };
  const berlin = cronRule('30 2 * * *', { timezone: 'Europe/Berlin', dst_overlap: 'both' });
  assert.equal(explain(berlin, '2026-03-27T12:00'), null);
  assert.equal(
    explain(berlin, '2026-03-28T12:00'),
    '02:30 does not exist on 2026-03-29 in Europe/Berlin: clocks go from 02:00 to 03:00; runs at 03:00',
  );
  const twice = '02:30 comes twice on 2026-10-25 in Europe/Berlin: clocks go back from 03:00 to 02:00';
  assert.equal(explain(berlin, '2026-10-24T12:00'), `${twice}; runs at the first of the two`);
  assert.equal(explain(berlin, '2026-10-25T00:30'), `${twice}; runs at the second of the two`);
  assert.equal(
    explain(cronRule('0 9 * * *', { timezone: 'Pacific/Apia' }), '2011-12-29T22:00'),
    '09:00 does not exist on 2011-12-30 in Pacific/Apia: clocks go from 2011-12-30 00:00 to 2011-12-31 00:00; runs at 00:00',
  );
  const weekend = compileCalendar({ exclude: [{ days: ['SAT-SUN'] }] });
  assert.ok('calendar' in weekend);
  const { calendar } = weekend;
  assert.equal(
    explain(cronRule('0 9 * * *', { calendar }), '2026-01-02T12:00'),
    'excluded by the calendar: makes no run',
  );
  assert.equal(
    explain(cronRule('0 9 * * *', { calendar, on_excluded: 'next' }), '2026-01-02T12:00'),
    '2026-01-03 09:00 is excluded by the calendar; moved to 2026-01-05 00:00',
  );
});
