// Calendars: what they allow, what they refuse to mean, and how they move occurrences.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isAllowed } from './allowed.ts';
import { type Calendar, compileCalendar } from './calendar.ts';
import { localText } from './local.ts';
import { occurrencesAfter } from './occurrences.ts';
import { type Dice, diceOf, expectedIn, type Tick, walk, wallAt } from './oracle.test.support.ts';
import type { CompiledCalendar, CronRule } from './rule.ts';
import { cronRule, intervalRule } from './rules.test.support.ts';

function calendarOf(input: Calendar): CompiledCalendar {
  const compiled = compileCalendar(input);
  assert.ok('calendar' in compiled, JSON.stringify(compiled));
  return compiled.calendar;
}

function allows(calendar: CompiledCalendar, ...instants: string[]): boolean[] {
  return instants.map((time) => isAllowed(calendar, Date.parse(`${time}Z`)));
}

function times(rule: CronRule, after: string, limit: number): [string, string, string | null, boolean][] {
  return occurrencesAfter(rule, Date.parse(`${after}Z`), { limit }).items.map((item) => [
    new Date(item.nominal_ms).toISOString().slice(0, 19),
    localText(item.local_ms),
    item.note,
    item.excluded,
  ]);
}

test('dates are single, yearly, or from one to another', () => {
  const calendar = calendarOf({
    exclude: [{ dates: ['2026-05-01', '12-25', '2026-12-28/2026-12-31', '12-30/01-02'] }],
  });
  assert.deepEqual(
    allows(calendar, '2026-04-30T23:59:59', '2026-05-01T00:00', '2026-05-01T23:59:59', '2027-05-01T00:00'),
    [true, false, false, true],
  );
  assert.deepEqual(allows(calendar, '2026-12-25T12:00', '2031-12-25T12:00', '2031-12-26T12:00'), [false, false, true]);
  assert.deepEqual(allows(calendar, '2026-12-27T23:00', '2026-12-28T00:00', '2027-12-29T12:00'), [true, false, true]);
  assert.deepEqual(allows(calendar, '2031-12-30T00:00', '2032-01-02T23:59', '2032-01-03T00:00'), [false, false, true]);
});

test('a time is allowed in some include window and in no exclude window; all parts of a window must match', () => {
  const calendar = calendarOf({
    timezone: 'Europe/Paris',
    include: [{ days: ['MON-FRI'], hours: ['09:00-12:00', '14:00-17:00'] }, { dates: ['2026-07-04'] }],
    exclude: [{ dates: ['07-14'] }],
  });
  // Paris is two hours ahead of UTC in July.
  assert.deepEqual(
    allows(
      calendar,
      '2026-07-13T06:59:59',
      '2026-07-13T07:00',
      '2026-07-13T09:59:59',
      '2026-07-13T10:00',
      '2026-07-13T12:00',
    ),
    [false, true, true, false, true],
  );
  assert.deepEqual(allows(calendar, '2026-07-14T08:00', '2026-07-11T08:00', '2026-07-04T20:00'), [false, false, true]);
});

test('hours over midnight belong to the day on which they begin', () => {
  const calendar = calendarOf({ exclude: [{ days: ['FRI'], hours: ['22:00-06:00'] }] });
  assert.deepEqual(
    allows(
      calendar,
      '2026-01-02T05:00',
      '2026-01-02T22:00',
      '2026-01-03T05:59:59',
      '2026-01-03T06:00',
      '2026-01-03T22:30',
    ),
    [true, false, false, true, true],
  );
});

test('SAT-SUN and FRI-SUN end with Sunday', () => {
  const calendar = calendarOf({ exclude: [{ days: ['sat-sun'] }] });
  assert.deepEqual(allows(calendar, '2026-01-02T12:00', '2026-01-03T12:00', '2026-01-04T12:00', '2026-01-05T12:00'), [
    true,
    false,
    false,
    true,
  ]);
});

test('a bad calendar is refused with the place and the mending', () => {
  const bad: [unknown, string, RegExp][] = [
    [null, '', /object/],
    [{ timezone: 'Mars/Phobos' }, 'timezone', /not a known time zone/],
    [{ exlude: [] }, 'exlude', /did you mean exclude/],
    [{ exclude: [{}] }, 'exclude[0]', /empty/],
    [{ exclude: 'SAT' }, 'exclude', /list/],
    [{ exclude: ['SAT'] }, 'exclude[0]', /empty/],
    [{ exclude: [{ day: ['SAT'] }] }, 'exclude[0].day', /did you mean days/],
    [{ exclude: [{ dates: ['2026-02-30'] }] }, 'exclude[0].dates[0]', /does not exist/],
    [{ exclude: [{ dates: ['02-30'] }] }, 'exclude[0].dates[0]', /does not exist/],
    [{ exclude: [{ dates: ['2026-1-1'] }] }, 'exclude[0].dates[0]', /not a date/],
    [{ exclude: [{ dates: ['2026-12-31/2026-12-01'] }] }, 'exclude[0].dates[0]', /earlier date first/],
    [{ exclude: [{ dates: ['2026-12-31/01-02'] }] }, 'exclude[0].dates[0]', /not a date/],
    [{ exclude: [{ dates: ['12345-01-01'] }] }, 'exclude[0].dates[0]', /not a date/],
    [{ exclude: [{ dates: ['1969-01-01'] }] }, 'exclude[0].dates[0]', /1970 to 9999/],
    [{ exclude: [{ dates: [20260101] }] }, 'exclude[0].dates', /texts/],
    [{ include: [{ days: ['MOON'] }] }, 'include[0].days[0]', /MON/],
    [{ include: [{ days: ['FRI#2'] }] }, 'include[0].days[0]', /not a day/],
    [{ include: [{ days: ['FRIL'] }] }, 'include[0].days[0]', /not a day/],
    [{ include: [{ hours: ['9-17'] }] }, 'include[0].hours[0]', /09:00-17:00/],
    [{ include: [{ hours: ['09:00-09:00'] }] }, 'include[0].hours[0]', /leave hours out/],
    [{ include: [{ hours: ['25:00-26:00'] }] }, 'include[0].hours[0]', /range of hours/],
    [{ exclude: Array.from({ length: 1000 }, () => ({ days: ['SAT'] })) }, 'exclude', /20 at most/],
    [{ exclude: [{ dates: Array.from({ length: 10_000 }, () => '12-25') }] }, 'exclude[0].dates', /400 at most/],
  ];
  for (const [input, path, message] of bad) {
    const compiled = compileCalendar(input as Calendar);
    assert.ok('refused' in compiled, JSON.stringify(input));
    const place = compiled.refused.find((refusal) => refusal.path === path);
    assert.match(place?.message ?? `not refused at ${path}: ${JSON.stringify(compiled.refused)}`, message);
  }
});

test('an excluded time is skipped, moved on to the next allowed time, or back to the last allowed minute', () => {
  const calendar = calendarOf({ exclude: [{ days: ['SAT', 'SUN'] }] });
  const base = { calendar };
  assert.deepEqual(times(cronRule('0 9 * * *', { ...base, on_excluded: 'skip' }), '2026-01-02T08:00', 4), [
    ['2026-01-02T09:00:00', '2026-01-02T09:00:00', null, false],
    ['2026-01-03T09:00:00', '2026-01-03T09:00:00', null, true],
    ['2026-01-04T09:00:00', '2026-01-04T09:00:00', null, true],
    ['2026-01-05T09:00:00', '2026-01-05T09:00:00', null, false],
  ]);
  const next = cronRule('0 9 * * *', { ...base, on_excluded: 'next' });
  const monday: [string, string, string, boolean] = [
    '2026-01-05T00:00:00',
    '2026-01-03T09:00:00',
    'moved_by_calendar',
    false,
  ];
  assert.deepEqual(times(next, '2026-01-02T08:00', 3), [
    ['2026-01-02T09:00:00', '2026-01-02T09:00:00', null, false],
    monday,
    ['2026-01-05T09:00:00', '2026-01-05T09:00:00', null, false],
  ]);
  assert.deepEqual(times(next, '2026-01-04T12:00', 1), [monday], 'asked in the middle of the weekend');
  assert.deepEqual(times(next, '2026-01-04T23:59:59.999', 1), [monday], 'asked right before');
  assert.deepEqual(times(next, '2026-01-05T00:00', 1)[0]?.[0], '2026-01-05T09:00:00', 'strictly after');
  const previous = cronRule('0 9 * * *', { ...base, on_excluded: 'previous' });
  assert.deepEqual(times(previous, '2026-01-02T08:00', 3), [
    ['2026-01-02T09:00:00', '2026-01-02T09:00:00', null, false],
    ['2026-01-02T23:59:00', '2026-01-03T09:00:00', 'moved_by_calendar', false],
    ['2026-01-05T09:00:00', '2026-01-05T09:00:00', null, false],
  ]);
  assert.equal(times(previous, '2026-01-02T23:59', 1)[0]?.[0], '2026-01-05T09:00:00');
});

test('a time that is moved back stands before those of the last minute', () => {
  const calendar = calendarOf({ include: [{ hours: ['09:00-17:00'] }] });
  const rule = cronRule('20,40 * * * * *', { calendar, on_excluded: 'previous' });
  const found = times(rule, '2026-01-02T16:58:30', 5).map(([ms, local, note]) => [ms, local.slice(11), note]);
  assert.deepEqual(found, [
    ['2026-01-02T16:58:40', '16:58:40', null],
    ['2026-01-02T16:59:00', '17:00:20', 'moved_by_calendar'],
    ['2026-01-02T16:59:20', '16:59:20', null],
    ['2026-01-02T16:59:40', '16:59:40', null],
    ['2026-01-03T09:00:20', '09:00:20', null],
  ]);
});

test('a time is not moved out of the bounds of its rule, nor further than 400 days', () => {
  const weekend = calendarOf({ exclude: [{ days: ['SAT', 'SUN'] }] });
  const rule = cronRule('0 9 * * SAT', {
    calendar: weekend,
    on_excluded: 'next',
    end_at: Date.parse('2026-01-04T00:00Z'),
  });
  assert.deepEqual(times(rule, '2026-01-02T08:00', 5), [['2026-01-03T09:00:00', '2026-01-03T09:00:00', null, true]]);
  const back = cronRule('0 9 * * SAT', {
    calendar: weekend,
    on_excluded: 'previous',
    start_at: Date.parse('2026-01-03T00:00Z'),
    end_at: Date.parse('2026-01-04T00:00Z'),
  });
  assert.deepEqual(times(back, '2026-01-01T08:00', 5), [['2026-01-03T09:00:00', '2026-01-03T09:00:00', null, true]]);
  const evening = cronRule('0 20 * * *', {
    calendar: calendarOf({ include: [{ hours: ['09:00-17:00'] }] }),
    on_excluded: 'previous',
    start_at: Date.parse('2026-01-03T18:00Z'),
  });
  assert.deepEqual(times(evening, '2026-01-01T08:00', 2), [
    ['2026-01-03T20:00:00', '2026-01-03T20:00:00', null, true],
    ['2026-01-04T16:59:00', '2026-01-04T20:00:00', 'moved_by_calendar', false],
  ]);
  const long = calendarOf({ exclude: [{ dates: ['2026-01-01/2027-06-30'] }] });
  for (const on_excluded of ['next', 'previous'] as const) {
    const found = times(cronRule('0 0 1 1,4 *', { calendar: long, on_excluded }), '2025-06-01T00:00', 5);
    const moved = on_excluded === 'next' ? '2027-07-01T00:00:00' : '2025-12-31T23:59:00';
    const local = on_excluded === 'next' ? '2027-01-01T00:00:00' : '2026-01-01T00:00:00';
    assert.deepEqual(
      found.find((item) => item[2] !== null),
      [moved, local, 'moved_by_calendar', false],
    );
    assert.ok(
      found.some((item) => item[3]),
      `${on_excluded}: some are too far`,
    );
  }
});

test('a rule of an interval obeys its calendar', () => {
  const calendar = calendarOf({ include: [{ hours: ['09:00-10:00'] }] });
  const rule = intervalRule(7_000, 0, { calendar, on_excluded: 'next' });
  const { items } = occurrencesAfter(rule, Date.UTC(2026, 0, 1, 9, 59, 50), { limit: 3 });
  assert.deepEqual(
    items.map((item) => [new Date(item.nominal_ms).toISOString(), item.note]),
    [
      ['2026-01-01T09:59:54.000Z', null],
      ['2026-01-02T09:00:00.000Z', 'moved_by_calendar'],
      ['2026-01-02T09:00:04.000Z', null],
    ],
  );
});

// The oracle of calendars: judges every minute of a walk by its own reading of the windows.
interface Judge {
  input: Calendar;
  allows: (ms: number) => boolean;
}

function rollCalendar(dice: Dice, zone: string, walls: ReadonlyMap<number, number>): Judge {
  const hours = dice.pick([
    ['09:00-17:00'],
    ['22:00-06:00'],
    ['00:00-24:00'],
    ['02:30-03:30', '12:00-13:00'],
    ['01:00-02:15'],
  ]);
  const days = dice.pick([['MON-FRI'], ['SUN'], ['SAT', 'SUN'], ['TUE-THU', 'SUN'], ['SUN-SAT']]);
  const set: Record<string, string> = {
    'MON-FRI': '12345',
    SUN: '0',
    SAT: '6',
    'TUE-THU': '234',
    'SUN-SAT': '0123456',
  };
  const weekdays = days.map((day) => set[day]).join('');
  const isInside = (ms: number): boolean => {
    const wall = walls.get(ms) ?? Number.NaN;
    const clock = new Date(wall).toISOString().slice(11, 16);
    return hours.some((range) => {
      const [from = '', to = ''] = range.split('-');
      const today = from < to ? clock >= from && clock < to : clock >= from;
      const isDay = (at: number): boolean => weekdays.includes(`${new Date(at).getUTCDay()}`);
      return (today && isDay(wall)) || (from > to && clock < to && isDay(wall - 86_400_000));
    });
  };
  const window = { days, hours };
  return dice.roll(2) === 0
    ? { input: { timezone: zone, exclude: [window] }, allows: (ms) => !isInside(ms) }
    : { input: { timezone: zone, include: [window] }, allows: isInside };
}

interface Moved {
  nominal_ms: number;
  excluded: boolean;
}

function moveNaively(nominals: number[], ticks: readonly Tick[], judge: Judge, how: CronRule['on_excluded']): Moved[] {
  const allowed = ticks.map(({ ms }) => judge.allows(ms));
  const moved = new Map<number, boolean>();
  for (const ms of nominals) {
    let at = (ms - (ticks[0]?.ms ?? 0)) / 60_000;
    const excluded = !allowed[at];
    if (excluded && how !== 'skip') while (allowed[at] === false) at += how === 'next' ? 1 : -1;
    const landed = ticks[at]?.ms;
    if (landed !== undefined) moved.set(landed, excluded && how === 'skip');
  }
  return [...moved]
    .map(([nominal_ms, excluded]) => ({ nominal_ms, excluded }))
    .sort((a, b) => a.nominal_ms - b.nominal_ms);
}

test('random calendars move random schedules as an oracle does that judges every minute', () => {
  const dice = diceOf(77);
  const [from, to] = [Date.parse('2026-03-19T00:00Z'), Date.parse('2026-04-09T00:00Z')];
  const ticks = walk('Europe/Berlin', from, to, 60_000);
  const zones = ['Europe/Berlin', 'America/New_York', 'Asia/Kathmandu'];
  const walls = new Map(zones.map((zone) => [zone, new Map(ticks.map(({ ms }) => [ms, wallAt(zone, ms)]))]));
  const policy = { dst_gap: 'run_after', dst_overlap: 'first' } as const;
  for (let i = 0; i < 9; i++) {
    const text = dice.pick([
      '0 9 * * *',
      '30 2 * * *',
      '*/20 * * * *',
      '15 */5 * * *',
      '59 16 * * *',
      '0 0 * * SUN',
      '* 2 * * *',
    ]);
    const zone = dice.pick(zones);
    const judge = rollCalendar(dice, zone, walls.get(zone) ?? new Map());
    const on_excluded = dice.pick(['skip', 'next', 'previous'] as const);
    const rule = cronRule(text, { timezone: 'Europe/Berlin', calendar: calendarOf(judge.input), on_excluded });
    const nominals = expectedIn(ticks, 60_000, text, policy).map(({ nominal_ms }) => nominal_ms);
    const [after, until] = [from + 8 * 86_400_000 + dice.roll(2880) * 60_000, to - 8 * 86_400_000];
    const wanted = moveNaively(nominals, ticks, judge, on_excluded).filter(
      (item) => item.nominal_ms > after && item.nominal_ms <= until,
    );
    const found: Moved[] = [];
    for (let at = after; ; ) {
      const { items, exhausted, lookedUntilMs } = occurrencesAfter(rule, at, {
        limit: 1 + dice.roll(50),
        untilMs: until,
      });
      found.push(...items.map(({ nominal_ms, excluded }) => ({ nominal_ms, excluded })));
      if (exhausted) break;
      at = lookedUntilMs;
    }
    assert.deepEqual(found, wanted, `${text} ${on_excluded} ${JSON.stringify(judge.input)}`);
  }
});
