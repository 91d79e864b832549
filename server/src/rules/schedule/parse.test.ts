// What parseSchedule accepts and refuses: every refusal says where, what and how to mend it, and none takes long.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileCalendar } from './calendar.ts';
import { describe } from './describe.ts';
import { localText } from './local.ts';
import { occurrencesAfter } from './occurrences.ts';
import { diceOf, rollExpression } from './oracle.test.support.ts';
import { parseSchedule, type ScheduleInput } from './parse.ts';
import type { FieldRefusal } from './rule.ts';
import { cronRule } from './rules.test.support.ts';
import { warningsOf } from './warnings.ts';

const now = Date.parse('2026-01-15T10:00Z');

function refusalsOf(input: unknown): FieldRefusal[] {
  const parsed = parseSchedule(input as ScheduleInput, now);
  return 'refused' in parsed ? parsed.refused : [];
}

function refusesCron(expression: unknown, message: RegExp, path = 'expressions[0]'): void {
  const refused = refusalsOf({ type: 'CRON', expressions: [expression], jitter_key: 'a' });
  const shown = String(expression).slice(0, 80);
  assert.ok(refused.length > 0, `"${shown}" is accepted`);
  assert.ok(
    refused.some((refusal) => refusal.path === path && message.test(refusal.message)),
    `"${shown}": ${JSON.stringify(refused)}`,
  );
}

/** The first local times after New Year 2026, a Thursday. */
function localTimes(expression: string, limit: number, changes = {}): string[] {
  const rule = cronRule(expression, changes);
  return occurrencesAfter(rule, Date.UTC(2026, 0, 1) - 1, { limit }).items.map((item) =>
    localText(item.local_ms).replace(/:00$/, ''),
  );
}

test('fields out of range, backwards, empty or unknown are refused by name, with a way to mend them', () => {
  refusesCron('*/0 * * * *', /minute field.*step of 0.*write 1 to 60/);
  refusesCron('61 * * * *', /minute field.*61 is outside 0 to 59/);
  refusesCron('0 24 * * *', /hour field.*24 is outside 0 to 23/);
  refusesCron('0 0 0 * *', /day of month field.*0 is outside 1 to 31/);
  refusesCron('0 0 32 * *', /day of month field.*32 is outside 1 to 31/);
  refusesCron('0 0 * 13 *', /month field.*13 is outside 1 to 12/);
  refusesCron('0 0 * * 8', /day of week field.*8 is outside 0 to 7/);
  refusesCron('60 0 0 * * *', /second field.*60 is outside/);
  refusesCron('5-1 * * * *', /minute field.*"5-1" runs backwards; write 5-59,0-1/);
  refusesCron('0 22-2 * * *', /hour field.*write 22-23,0-2/);
  refusesCron('0 0 * * FRI-MON', /day of week field.*write FRI-SAT,SUN-MON/);
  refusesCron('0 0 * * 6-0', /day of week field.*write 6,0/);
  refusesCron('0 0 * NOV-FEB *', /month field.*write NOV-DEC,JAN-FEB/);
  refusesCron('*/90 * * * *', /minute field.*step of 90 is longer.*INTERVAL/);
  refusesCron('*/x * * * *', /step "X" is not a number/);
  refusesCron('1/2/3 * * * *', /more than one step/);
  refusesCron('1-2-3 * * * *', /not a value or a range/);
  refusesCron('-5 * * * *', /not a value or a range/);
  refusesCron('5- * * * *', /not a value or a range/);
  refusesCron('1,,2 * * * *', /empty place.*comma/);
  refusesCron('1, * * * *', /empty place/);
  refusesCron('0 0 * * MOON', /did you mean MON/);
  refusesCron('0 0 * JANU *', /did you mean JAN/);
  refusesCron('0 0 * * constructor', /not known/);
  refusesCron('x * * * *', /minute field.*"X" is not known/);
  refusesCron('1.5 * * * *', /minute field/);
  refusesCron('0x10 * * * *', /minute field/);
  refusesCron('99999999999999999999 * * * *', /minute field/);
  refusesCron('? * * * *', /minute field.*write \*/);
  refusesCron('0 0 ?/2 * *', /day of month field.*write \*\/2/);
});

test('what only some day fields know is refused elsewhere', () => {
  refusesCron('0 L * * *', /hour field/);
  refusesCron('0 0 W * *', /day of month field.*15W/);
  refusesCron('0 0 L-3 * *', /day of month field.*L \(last day\)/);
  refusesCron('0 0 1-5W * *', /day of month field/);
  refusesCron('0 0 32W * *', /32 is outside/);
  refusesCron('0 0 * * L', /write the day before it/);
  refusesCron('0 0 * * 5#6', /from 1 to 5/);
  refusesCron('0 0 * * 5#', /from 1 to 5/);
  refusesCron('0 0 * * 1-5#2', /one day before #/);
  refusesCron('0 0 5#2 * *', /day of month field/);
  refusesCron('0 0 * * 8L', /8 is outside/);
  refusesCron('H(30-10) * * * *', /backwards/);
  refusesCron('H(0-9)/20 * * * *', /longer than the range/);
  refusesCron('H/0 * * * *', /step of 0/);
  refusesCron('HH * * * *', /H\(0-29\)/);
});

test('expressions of a wrong shape are refused', () => {
  refusesCron('', /is empty/);
  refusesCron('   ', /is empty/);
  refusesCron('* * * *', /4 fields instead of 5 or 6/);
  refusesCron('0 0 0 1 1 * 2026', /7 fields.*start_at and end_at/);
  refusesCron('@daly', /did you mean @daily/);
  refusesCron('@every 5m', /not known/);
  refusesCron('@reboot', /has no time/);
  refusesCron('@__proto__', /not known/);
  refusesCron('* * * * *\u0000', /U\+0000/);
  refusesCron('* * *\n* *', /U\+000A/);
  refusesCron('＊ * * * *', /U\+FF0A/);
  refusesCron('1–5 * * * *', /U\+2013/);
  refusesCron(`${'0,'.repeat(5000)}0 * * * *`, /longer than 200 characters/);
  refusesCron('*'.repeat(10_000), /longer than 200 characters/);
  refusesCron(7, /not text/);
  refusesCron(null, /not text/);
});

test('schedules that could never run are refused with the reason', () => {
  refusesCron('0 0 30 2 *', /never run: day of month "30" does not exist in February/);
  refusesCron('0 0 31 4,6 *', /"31" does not exist in April or June/);
  refusesCron('0 0 30,31 FEB *', /"30,31" does not exist in February/);
  refusesCron('0 0 31W 2 *', /"31W" does not exist/);
  const inGap = { type: 'CRON', expressions: ['30 2 * 3 SUNL'], timezone: 'Europe/Berlin', jitter_key: 'a' };
  assert.deepEqual(refusalsOf(inGap), []);
  assert.match(refusalsOf({ ...inGap, dst_gap: 'skip' })[0]?.message ?? '', /clocks leave out.*run_after/);
  const march = { type: 'CRON', expressions: ['0 0 1 3 *'], jitter_key: 'a', end_at: Date.parse('2026-02-01T00:00Z') };
  assert.deepEqual(refusalsOf(march), [{ path: 'end_at', message: 'lies before the first time; give a later one' }]);
});

test('a calendar that excludes every time is refused, however fast or slow the schedule', () => {
  const everything = compileCalendar({ exclude: [{ days: ['SUN-SAT'] }] });
  const nine = compileCalendar({ exclude: [{ hours: ['08:00-10:00'] }] });
  assert.ok('calendar' in everything && 'calendar' in nine);
  for (const on_excluded of ['skip', 'next', 'previous'] as const) {
    for (const expression of ['* * * * * *', '0 9 * * *', '0 0 29 2 *']) {
      const input = {
        type: 'CRON',
        expressions: [expression],
        jitter_key: 'a',
        calendar: everything.calendar,
        on_excluded,
      };
      assert.match(refusalsOf(input)[0]?.path ?? '', /^calendar$/, `${expression} ${on_excluded}`);
    }
  }
  const daily = { type: 'CRON', expressions: ['0 9 * * *'], jitter_key: 'a', calendar: nine.calendar };
  assert.match(refusalsOf(daily)[0]?.message ?? '', /excludes every time.*up to 20\d\d-/);
  assert.deepEqual(refusalsOf({ ...daily, on_excluded: 'next' }), []);
  assert.deepEqual(refusalsOf({ ...daily, expressions: ['0 9 * * *', '0 11 * * *'] }), []);
});

test('time zones that do not exist, offsets and abbreviations are refused', () => {
  const bad: [unknown, RegExp][] = [
    ['', /empty/],
    ['Europe/Berlim', /did you mean Europe\/Berlin/],
    ['../etc', /not a time zone/],
    ['Etc/GMT+99', /not a known time zone/],
    ['+01:00', /is an offset.*Etc\/GMT-1/],
    ['UTC+2', /is an offset/],
    ['GMT-3', /is an offset/],
    ['BST', /abbreviation/],
    ['Europe/Berlin\u0000', /not a time zone/],
    ['Europe/../Berlin', /not a time zone/],
    ['SystemV/PST8', /not a known/],
    ['A'.repeat(10_000), /too long/],
    ["'; drop table jobs; --", /not a time zone/],
    [{}, /not text/],
    [5, /not text/],
  ];
  for (const [timezone, message] of bad) {
    const refused = refusalsOf({ type: 'CRON', expressions: ['* * * * *'], jitter_key: 'a', timezone });
    assert.deepEqual(refused.length, 1, `${JSON.stringify(timezone)} ${JSON.stringify(refused)}`);
    assert.equal(refused[0]?.path, 'timezone');
    assert.match(refused[0]?.message ?? '', message);
  }
  for (const timezone of ['UTC', 'GMT', 'CET', 'Europe/Berlin', 'America/Argentina/Buenos_Aires', 'Etc/GMT-14']) {
    assert.deepEqual(refusalsOf({ type: 'CRON', expressions: ['* * * * *'], jitter_key: 'a', timezone }), []);
  }
});

test('bounds, intervals and policies that make no sense are refused', () => {
  const cron = { type: 'CRON', expressions: ['0 9 * * *'], jitter_key: 'a' };
  const every = { type: 'INTERVAL', every_ms: 60_000, jitter_key: 'a' };
  const bad: [unknown, string, RegExp][] = [
    [null, '', /object/],
    [[], '', /object/],
    ['0 9 * * *', '', /object/],
    [{}, 'type', /missing; write CRON or INTERVAL/],
    [{ type: 'DAILY' }, 'type', /CRON or INTERVAL/],
    [{ ...cron, expressions: [] }, 'expressions', /missing/],
    [{ ...cron, expressions: '0 9 * * *' }, 'expressions', /list/],
    [{ ...cron, expressions: Array.from({ length: 11 }, () => '0 9 * * *') }, 'expressions', /10 at most/],
    [{ ...cron, expresions: [] }, 'expresions', /did you mean expressions/],
    [{ ...cron, every_ms: 1000 }, 'every_ms', /not known/],
    [{ ...cron, start_at: now + 5, end_at: now + 5 }, 'end_at', /after start_at/],
    [{ ...cron, start_at: now + 9, end_at: now + 5 }, 'end_at', /after start_at/],
    [{ ...cron, end_at: now - 1 }, 'end_at', /in the past/],
    [{ ...cron, end_at: Date.UTC(10_000, 0, 1) }, 'end_at', /1970 to 9999/],
    [{ ...cron, start_at: -1 }, 'start_at', /1970 to 9999/],
    [{ ...cron, start_at: 1.5 }, 'start_at', /whole/],
    [{ ...cron, start_at: '2026-01-01' }, 'start_at', /milliseconds/],
    [{ ...cron, start_at: Number.NaN }, 'start_at', /milliseconds/],
    [{ ...cron, dst_gap: 'later' }, 'dst_gap', /run_after or skip/],
    [{ ...cron, dst_overlap: 'second' }, 'dst_overlap', /first or both/],
    [{ ...cron, on_excluded: 'drop' }, 'on_excluded', /skip or next or previous/],
    [{ ...cron, jitter_ms: -1 }, 'jitter_ms', /0 to 86400000/],
    [{ ...cron, jitter_ms: 86_400_001 }, 'jitter_ms', /0 to 86400000/],
    [{ ...cron, jitter_key: 5 }, 'jitter_key', /text/],
    [{ ...every, every_ms: 999 }, 'every_ms', /1000 to/],
    [{ ...every, every_ms: 0 }, 'every_ms', /1000 to/],
    [{ ...every, every_ms: 11 * 365 * 86_400_000 }, 'every_ms', /to 315360000000/],
    [{ ...every, every_ms: Number.POSITIVE_INFINITY }, 'every_ms', /whole/],
    [{ ...every, every_ms: undefined }, 'every_ms', /missing/],
    [{ ...every, anchor_ms: -5 }, 'anchor_ms', /from 0/],
    [{ ...every, expressions: ['* * * * *'] }, 'expressions', /not known/],
  ];
  for (const [input, path, message] of bad) {
    const refused = refusalsOf(input);
    const place = refused.find((refusal) => refusal.path === path);
    assert.match(
      place?.message ?? `not refused at ${path}: ${JSON.stringify(refused)}`,
      message,
      JSON.stringify(input),
    );
  }
});

test('no input takes longer than 50 ms', () => {
  const hours = Array.from(
    { length: 12 },
    (_, i) => `${String(2 * i).padStart(2, '0')}:00-${String(2 * i).padStart(2, '0')}:59`,
  );
  const dates = Array.from(
    { length: 400 },
    (_, i) => `${2000 + (i % 100)}-01-${10 + (i % 20)}/${2000 + (i % 100)}-11-11`,
  );
  const windows = Array.from({ length: 19 }, () => ({ dates, hours }));
  const slow = compileCalendar({ exclude: [...windows, { days: ['SUN-SAT'] }], include: windows });
  assert.ok('calendar' in slow);
  const { calendar } = slow;
  const cron = { type: 'CRON', jitter_key: 'a' };
  const inputs: object[] = [
    { ...cron, expressions: Array.from({ length: 10 }, () => '0 0 30 2 *') },
    { ...cron, expressions: Array.from({ length: 10 }, () => '30 2 * 3 SUNL'), dst_gap: 'skip' },
    { ...cron, expressions: Array.from({ length: 10 }, () => '0 0 ? 2 FRI#5') },
    { ...cron, expressions: ['* * * * * *'], calendar },
    { ...cron, expressions: ['30 9 * * *'], calendar, on_excluded: 'next' },
    { ...cron, expressions: ['30 9 * * *'], calendar, on_excluded: 'previous' },
    { ...cron, expressions: ['*'.repeat(1_000_000)] },
    { ...cron, expressions: [`${'H(0-59)/7,'.repeat(19)}H * * * *`] },
    { ...cron, ...Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [`k${i}`, i])) },
  ];
  for (const input of inputs) {
    // Processor time, the best of some: a busy machine is not the fault of the input. Each zone is new, and has no
    // 02:30 on the last Sunday of March.
    let best = Infinity;
    for (const city of ['Paris', 'Rome', 'Vienna', 'Madrid', 'Prague', 'Warsaw', 'Brussels', 'Budapest', 'Zurich']) {
      if (best < 50) break;
      const inZone = { ...input, timezone: `Europe/${city}` } as ScheduleInput;
      const from = process.cpuUsage();
      parseSchedule(inZone, now);
      const { user, system } = process.cpuUsage(from);
      best = Math.min(best, (user + system) / 1000);
    }
    assert.ok(best < 50, `${best} ms for ${JSON.stringify(input).slice(0, 100)}`);
  }
});

test('defaults are filled in', () => {
  const parsed = parseSchedule({ type: 'INTERVAL', every_ms: 60_000, jitter_key: 'a', start_at: now + 7 }, now);
  assert.deepEqual(parsed, {
    rule: {
      type: 'INTERVAL',
      every_ms: 60_000,
      anchor_ms: now + 7,
      start_at: now + 7,
      end_at: null,
      dst_gap: 'run_after',
      dst_overlap: 'first',
      jitter_ms: 0,
      jitter_key: 'a',
      calendar: null,
      on_excluded: 'skip',
    },
  });
});

test('names, steps, lists and macros mean what they mean everywhere', () => {
  assert.deepEqual(localTimes('30 6 * JAN Mon', 2), ['2026-01-05T06:30', '2026-01-12T06:30']);
  assert.deepEqual(localTimes('0 0 * * sat-SUN', 3), ['2026-01-03T00:00', '2026-01-04T00:00', '2026-01-10T00:00']);
  assert.deepEqual(localTimes('0 0 * * 7', 1), ['2026-01-04T00:00']);
  assert.deepEqual(localTimes('0 0 * * 0', 1), ['2026-01-04T00:00']);
  assert.deepEqual(localTimes('0 0 * * 5-7/2', 2), ['2026-01-02T00:00', '2026-01-04T00:00']);
  assert.deepEqual(
    localTimes('10-20/5,58 1 * * *', 4).map((time) => time.slice(11)),
    ['01:10', '01:15', '01:20', '01:58'],
  );
  assert.deepEqual(
    localTimes('50/5 0 * * *', 3).map((time) => time.slice(11)),
    ['00:50', '00:55', '00:50'],
  );
  assert.deepEqual(localTimes('15 0 0 1 1 ?', 1), ['2026-01-01T00:00:15']);
  assert.deepEqual(localTimes('@yearly', 2), ['2026-01-01T00:00', '2027-01-01T00:00']);
  assert.deepEqual(localTimes('@annually', 1), ['2026-01-01T00:00']);
  assert.deepEqual(localTimes('@MONTHLY', 2), ['2026-01-01T00:00', '2026-02-01T00:00']);
  assert.deepEqual(localTimes('@weekly', 1), ['2026-01-04T00:00']);
  assert.deepEqual(localTimes('@daily', 2), ['2026-01-01T00:00', '2026-01-02T00:00']);
  assert.deepEqual(localTimes('@midnight', 1), ['2026-01-01T00:00']);
  assert.deepEqual(localTimes('@hourly', 2), ['2026-01-01T00:00', '2026-01-01T01:00']);
  assert.deepEqual(localTimes('\t0  9\t* * *  ', 1), ['2026-01-01T09:00']);
});

test('L, LW, W and # find their days', () => {
  const days = (expression: string): string[] => localTimes(expression, 4).map((time) => time.slice(5, 10));
  assert.deepEqual(days('0 0 L * *'), ['01-31', '02-28', '03-31', '04-30']);
  assert.deepEqual(days('0 0 LW * *'), ['01-30', '02-27', '03-31', '04-30']);
  assert.deepEqual(days('0 0 1W * *'), ['01-01', '02-02', '03-02', '04-01']);
  assert.deepEqual(days('0 0 1W 8 *'), ['08-03', '08-02', '08-01', '08-01'], 'the first of August 2026 is a Saturday');
  assert.deepEqual(days('0 0 15W * *'), ['01-15', '02-16', '03-16', '04-15']);
  assert.deepEqual(days('0 0 31W * *'), ['01-30', '03-31', '05-29', '07-31']);
  assert.deepEqual(days('0 0 * * 5L'), ['01-30', '02-27', '03-27', '04-24']);
  assert.deepEqual(days('0 0 * * FRI#2'), ['01-09', '02-13', '03-13', '04-10']);
  assert.deepEqual(days('0 0 * * 7#5'), ['03-29', '05-31', '08-30', '11-29']);
  assert.deepEqual(days('0 0 1,L * *'), ['01-01', '01-31', '02-01', '02-28']);
});

test('with both day fields restricted either matches; a field that begins with * narrows the other', () => {
  const days = (expression: string): string[] => localTimes(expression, 4).map((time) => time.slice(5, 10));
  assert.deepEqual(days('0 0 13 * FRI'), ['01-02', '01-09', '01-13', '01-16']);
  assert.deepEqual(days('0 0 13 * *'), ['01-13', '02-13', '03-13', '04-13']);
  assert.deepEqual(days('0 0 ? * FRI'), ['01-02', '01-09', '01-16', '01-23']);
  assert.deepEqual(days('0 0 */2 * MON'), ['01-05', '01-19', '02-09', '02-23']);
});

test('H is the same for the same job, differs between jobs, and stays in its range', () => {
  const minute = (expression: string, jitter_key: string): number =>
    Number(localTimes(expression, 1, { jitter_key })[0]?.slice(14, 16));
  const keys = Array.from({ length: 300 }, (_, i) => `job-${i}`);
  const all = keys.map((key) => minute('H * * * *', key));
  assert.deepEqual(
    all,
    keys.map((key) => minute('H * * * *', key)),
  );
  assert.ok(new Set(all).size > 55, 'nearly every minute is used');
  for (const part of keys.map((key) => minute('H(10-29) * * * *', key))) assert.ok(part >= 10 && part <= 29);
  const quarters = localTimes('H/15 * * * *', 5, { jitter_key: 'job-3' }).map((time) => Number(time.slice(14, 16)));
  const [first = 99] = quarters;
  assert.ok(first < 15);
  assert.deepEqual(quarters, [first, first + 15, first + 30, first + 45, first]);
  const tens = localTimes('H(0-29)/10 * * * *', 4, { jitter_key: 'job-3' }).map((time) => Number(time.slice(14, 16)));
  const [ten = 99] = tens;
  assert.ok(ten < 10);
  assert.deepEqual(tens, [ten, ten + 10, ten + 20, ten]);
  const days = keys.map((key) => Number(localTimes('H H H * *', 1, { jitter_key: key })[0]?.slice(8, 10)));
  assert.ok(Math.max(...days) <= 28, 'a day that every month has');
  const pairs = new Set(keys.map((key) => localTimes('H H * * *', 1, { jitter_key: key })[0]));
  assert.ok(pairs.size > 200, `hours and minutes are independent: ${pairs.size}`);
});

test('expressions with random mistakes are accepted or refused, and never break anything', () => {
  const dice = diceOf(11);
  const letters = '*?LWH#-/, ()@0579MONjan'.split('');
  const counts = { accepted: 0, refused: 0 };
  for (let i = 0; i < 3000; i++) {
    const text = rollExpression(dice, now + dice.roll(1e9), dice.roll(2) === 0).split('');
    for (let edits = dice.roll(4); edits > 0; edits--) {
      text.splice(dice.roll(text.length), dice.roll(2), ...(dice.roll(3) === 0 ? [] : [dice.pick(letters)]));
    }
    const expression = text.join('');
    const parsed = parseSchedule({ type: 'CRON', expressions: [expression], jitter_key: 'a' }, now);
    if ('refused' in parsed) {
      assert.ok(parsed.refused.every(({ path, message }) => path === 'expressions[0]' && message.length > 5));
      counts.refused += 1;
      continue;
    }
    counts.accepted += 1;
    assert.equal(occurrencesAfter(parsed.rule, now).items.length, 1, expression);
    assert.ok(describe(parsed.rule).length > 5, expression);
    warningsOf(parsed.rule, now);
  }
  assert.ok(counts.accepted > 500 && counts.refused > 500, JSON.stringify(counts));
});
