// OnCalendar of systemd in the words of cron, and what cron cannot say.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { translateOnCalendar } from './on_calendar.ts';

test('what cron can say becomes cron', () => {
  const cases: [string, string, string | null][] = [
    ['daily', '0 0 * * *', null],
    ['Hourly', '0 * * * *', null],
    ['weekly', '0 0 * * MON', null],
    ['quarterly UTC', '0 0 1 1,4,7,10 *', 'UTC'],
    ['*-*-* 02:30:00', '30 2 * * *', null],
    ['02:30', '30 2 * * *', null],
    ['*:0/15', '0/15 * * * *', null],
    ['*-*-* *:00,30:10', '10 0,30 * * * *', null],
    ['Mon..Fri *-*-* 09:00:00 Europe/Berlin', '0 9 * * MON-FRI', 'Europe/Berlin'],
    ['Mon,Wed,Fri 18:00', '0 18 * * MON,WED,FRI', null],
    ['Sat-Sun', '0 0 * * SAT-SUN', null],
    ['monday *-12-* 17:00', '0 17 * 12 MON', null],
    ['Wed, 17:48', '48 17 * * WED', null],
    ['10-15', '0 0 15 10 *', null],
    ['*-*-1,15 08..17/2:00 uTc', '0 8-17/2 1,15 * *', 'UTC'],
    ['*-*~01', '0 0 L * *', null],
    ['Mon *-*-1..7 06:00', '0 6 * * MON#1', null],
    ['Sun *-*-22..28', '0 0 * * SUN#4', null],
    ['Fri *-*~07/1 06:00', '0 6 * * FRIL', null],
    ['Fri *-*~01..07', '0 0 * * FRIL', null],
  ];
  for (const [text, cron, timezone] of cases) assert.deepEqual(translateOnCalendar(text), { cron, timezone }, text);
});

test('what cron cannot say is refused with the reason', () => {
  const cases: [string, RegExp][] = [
    ['2030-01-31 09:00', /names a year/],
    ['Mon *-*-13', /weekday and a day of the month at once/],
    ['*-*~03', /from the end of the month/],
    ['Mon,Tue *-*~07/1', /from the end of the month/],
    ['*-*-* 00:00:00.5', /not a form/],
    ['*:*/5', /not a form/],
    ['', /not a form/],
    ['   ', /not a form/],
    ['7', /not a form/],
    ['test', /not a form/],
    ['@1395716396', /not a form/],
    ['1:2:3:4', /not a form/],
    ['*-*-* 00:00 00:00', /not a form/],
    ['Mon Tue 00:00', /not a form/],
    ['1-2-3-4', /not a form/],
  ];
  for (const [text, reason] of cases) {
    const answer = translateOnCalendar(text);
    assert.match('reason' in answer ? answer.reason : JSON.stringify(answer), reason, text);
  }
});

test('a long text is refused quickly', () => {
  for (const text of ['1,'.repeat(50_000), '-'.repeat(100_000), 'Mon,'.repeat(50_000), ':'.repeat(100_000)])
    assert.ok(typeof translateOnCalendar(text) === 'object');
});
