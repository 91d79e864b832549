// What schedules do when clocks change, zone by zone, with the instants written out.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { localText } from './local.ts';
import { occurrencesAfter } from './occurrences.ts';
import type { CronRule } from './rule.ts';
import { cronRule } from './rules.test.support.ts';
import { piecesOf, zoneOf } from './zone.ts';

interface Case {
  zone: string;
  cron: string;
  policy?: Partial<CronRule>;
  after: string;
  /** instant, local time (when it is another than the day's usual), note */
  expect: [string, string, string | null][];
}

function check({ zone, cron, policy = {}, after, expect }: Case): void {
  const rule = cronRule(cron, { timezone: zone, ...policy });
  const { items } = occurrencesAfter(rule, Date.parse(`${after}:00Z`), { limit: expect.length });
  assert.deepEqual(
    items.map((item) => [
      new Date(item.nominal_ms).toISOString().slice(0, 16),
      localText(item.local_ms).slice(0, 16),
      item.note,
    ]),
    expect,
    `${cron} in ${zone} ${JSON.stringify(policy)}`,
  );
}

test('New York: 02:30 runs at 03:00 in spring, or not at all', () => {
  const zone = 'America/New_York';
  const cron = '30 2 * * *';
  const after = '2026-03-07T12:00';
  check({
    zone,
    cron,
    after,
    expect: [
      ['2026-03-08T07:00', '2026-03-08T02:30', 'gap_moved'],
      ['2026-03-09T06:30', '2026-03-09T02:30', null],
    ],
  });
  check({ zone, cron, after, policy: { dst_gap: 'skip' }, expect: [['2026-03-09T06:30', '2026-03-09T02:30', null]] });
});

test('London: 01:30 runs once in autumn, or twice', () => {
  const zone = 'Europe/London';
  const cron = '30 1 * * *';
  const after = '2026-10-24T12:00';
  check({
    zone,
    cron,
    after,
    expect: [
      ['2026-10-25T00:30', '2026-10-25T01:30', 'overlap_first'],
      ['2026-10-26T01:30', '2026-10-26T01:30', null],
    ],
  });
  check({
    zone,
    cron,
    after,
    policy: { dst_overlap: 'both' },
    expect: [
      ['2026-10-25T00:30', '2026-10-25T01:30', 'overlap_first'],
      ['2026-10-25T01:30', '2026-10-25T01:30', 'overlap_second'],
      ['2026-10-26T01:30', '2026-10-26T01:30', null],
    ],
  });
});

test('Berlin: several fixed times in one gap make one occurrence, together with one right after it', () => {
  check({
    zone: 'Europe/Berlin',
    cron: '0,10,20,50 2,3 * * *',
    after: '2026-03-29T00:30',
    expect: [
      ['2026-03-29T01:00', '2026-03-29T02:00', 'gap_moved'],
      ['2026-03-29T01:10', '2026-03-29T03:10', null],
      ['2026-03-29T01:20', '2026-03-29T03:20', null],
    ],
  });
});

test('Berlin: of two expressions on the instant after a gap, the one that was moved is told', () => {
  for (const cron of ['0 3 * * *\n30 2 * * *', '30 2 * * *\n*/30 3 * * *']) {
    check({
      zone: 'Europe/Berlin',
      cron,
      after: '2026-03-28T12:00',
      expect: [['2026-03-29T01:00', '2026-03-29T02:30', 'gap_moved']],
    });
  }
});

test('Berlin: steps and stars follow the time that passes', () => {
  check({
    zone: 'Europe/Berlin',
    cron: '*/30 * * * *',
    after: '2026-03-29T00:00',
    expect: [
      ['2026-03-29T00:30', '2026-03-29T01:30', null],
      ['2026-03-29T01:00', '2026-03-29T03:00', null],
      ['2026-03-29T01:30', '2026-03-29T03:30', null],
    ],
  });
  check({
    zone: 'Europe/Berlin',
    cron: '30 */2 * * *',
    after: '2026-03-28T22:00',
    expect: [
      ['2026-03-28T23:30', '2026-03-29T00:30', null],
      ['2026-03-29T02:30', '2026-03-29T04:30', null],
    ],
  });
  check({
    zone: 'Europe/Berlin',
    cron: '30 * * * *',
    after: '2026-10-24T23:59',
    expect: [
      ['2026-10-25T00:30', '2026-10-25T02:30', 'overlap_first'],
      ['2026-10-25T01:30', '2026-10-25T02:30', 'overlap_second'],
      ['2026-10-25T02:30', '2026-10-25T03:30', null],
    ],
  });
});

test('Berlin: a yearly fixed time in an overlap runs twice when asked, though the next is a year away', () => {
  check({
    zone: 'Europe/Berlin',
    cron: '30 2 25 10 *',
    policy: { dst_overlap: 'both' },
    after: '2026-10-25T00:30',
    expect: [
      ['2026-10-25T01:30', '2026-10-25T02:30', 'overlap_second'],
      ['2027-10-25T00:30', '2027-10-25T02:30', null],
    ],
  });
});

test('Dublin: winter is the change and summer the standard, the clocks move as elsewhere', () => {
  check({
    zone: 'Europe/Dublin',
    cron: '30 1 * * *',
    after: '2026-03-28T12:00',
    expect: [['2026-03-29T01:00', '2026-03-29T01:30', 'gap_moved']],
  });
  check({
    zone: 'Europe/Dublin',
    cron: '30 1 * * *',
    after: '2026-10-24T12:00',
    expect: [
      ['2026-10-25T00:30', '2026-10-25T01:30', 'overlap_first'],
      ['2026-10-26T01:30', '2026-10-26T01:30', null],
    ],
  });
});

test('Lord Howe: clocks move by half an hour', () => {
  const zone = 'Australia/Lord_Howe';
  check({
    zone,
    cron: '15,45 2 * * *',
    after: '2026-10-03T12:00',
    expect: [
      ['2026-10-03T15:30', '2026-10-04T02:15', 'gap_moved'],
      ['2026-10-03T15:45', '2026-10-04T02:45', null],
      ['2026-10-04T15:15', '2026-10-05T02:15', null],
    ],
  });
  check({
    zone,
    cron: '15,45 1 * * *',
    policy: { dst_overlap: 'both' },
    after: '2026-04-04T12:00',
    expect: [
      ['2026-04-04T14:15', '2026-04-05T01:15', null],
      ['2026-04-04T14:45', '2026-04-05T01:45', 'overlap_first'],
      ['2026-04-04T15:15', '2026-04-05T01:45', 'overlap_second'],
    ],
  });
});

test('Troll: clocks move by two hours', () => {
  const zone = 'Antarctica/Troll';
  check({
    zone,
    cron: '30 1,2 * * *',
    after: '2026-03-28T12:00',
    expect: [
      ['2026-03-29T01:00', '2026-03-29T01:30', 'gap_moved'],
      ['2026-03-29T23:30', '2026-03-30T01:30', null],
    ],
  });
  check({
    zone,
    cron: '30 1,2 * * *',
    policy: { dst_overlap: 'both' },
    after: '2026-10-24T20:00',
    expect: [
      ['2026-10-24T23:30', '2026-10-25T01:30', 'overlap_first'],
      ['2026-10-25T00:30', '2026-10-25T02:30', 'overlap_first'],
      ['2026-10-25T01:30', '2026-10-25T01:30', 'overlap_second'],
      ['2026-10-25T02:30', '2026-10-25T02:30', 'overlap_second'],
    ],
  });
});

test('Casablanca: clocks go back for Ramadan and forth after it', () => {
  const zone = 'Africa/Casablanca';
  check({
    zone,
    cron: '30 2 * * *',
    after: '2026-02-14T12:00',
    expect: [
      ['2026-02-15T01:30', '2026-02-15T02:30', 'overlap_first'],
      ['2026-02-16T02:30', '2026-02-16T02:30', null],
    ],
  });
  check({
    zone,
    cron: '30 2 * * *',
    after: '2026-03-21T12:00',
    expect: [
      ['2026-03-22T02:00', '2026-03-22T02:30', 'gap_moved'],
      ['2026-03-23T01:30', '2026-03-23T02:30', null],
    ],
  });
});

test('Cairo and Beirut: midnight itself is left out, and the day is not lost', () => {
  check({
    zone: 'Africa/Cairo',
    cron: '0 0 * * *',
    after: '2026-04-23T12:00',
    expect: [
      ['2026-04-23T22:00', '2026-04-24T00:00', 'gap_moved'],
      ['2026-04-24T21:00', '2026-04-25T00:00', null],
    ],
  });
  check({
    zone: 'Asia/Beirut',
    cron: '30 0 * * SUN',
    after: '2026-03-28T12:00',
    expect: [
      ['2026-03-28T22:00', '2026-03-29T00:30', 'gap_moved'],
      ['2026-04-04T21:30', '2026-04-05T00:30', null],
    ],
  });
  check({
    zone: 'Asia/Beirut',
    cron: '30 23 * * *',
    after: '2026-10-24T12:00',
    expect: [
      ['2026-10-24T20:30', '2026-10-24T23:30', 'overlap_first'],
      ['2026-10-25T21:30', '2026-10-25T23:30', null],
    ],
  });
});

test('Santiago and São Paulo: midnight is left out in their spring', () => {
  check({
    zone: 'America/Santiago',
    cron: '0 0 * * *',
    after: '2026-09-05T12:00',
    expect: [
      ['2026-09-06T04:00', '2026-09-06T00:00', 'gap_moved'],
      ['2026-09-07T03:00', '2026-09-07T00:00', null],
    ],
  });
  check({
    zone: 'America/Sao_Paulo',
    cron: '0 0 * * *',
    after: '2018-11-03T12:00',
    expect: [
      ['2018-11-04T03:00', '2018-11-04T00:00', 'gap_moved'],
      ['2018-11-05T02:00', '2018-11-05T00:00', null],
    ],
  });
  check({
    zone: 'America/Sao_Paulo',
    cron: '30 23 * * *',
    after: '2018-02-17T12:00',
    expect: [
      ['2018-02-18T01:30', '2018-02-17T23:30', 'overlap_first'],
      ['2018-02-19T02:30', '2018-02-18T23:30', null],
    ],
  });
});

test('Apia: the day that 2011 did not have runs once, at the begin of the next', () => {
  const zone = 'Pacific/Apia';
  check({
    zone,
    cron: '0 9,12 * * *',
    after: '2011-12-29T21:00',
    expect: [
      ['2011-12-29T22:00', '2011-12-29T12:00', null],
      ['2011-12-30T10:00', '2011-12-30T09:00', 'gap_moved'],
      ['2011-12-30T19:00', '2011-12-31T09:00', null],
    ],
  });
  check({
    zone,
    cron: '0 9 30 12 *',
    policy: { dst_gap: 'skip' },
    after: '2011-12-01T00:00',
    expect: [['2012-12-29T19:00', '2012-12-30T09:00', null]],
  });
});

test('Kathmandu: an offset of a quarter of an hour, and no changes', () => {
  check({
    zone: 'Asia/Kathmandu',
    cron: '0 9 * * *',
    after: '2026-03-28T00:00',
    expect: [
      ['2026-03-28T03:15', '2026-03-28T09:00', null],
      ['2026-03-29T03:15', '2026-03-29T09:00', null],
    ],
  });
});

test('changes a week or two apart are all found', () => {
  const changesOf = (zone: string, year: number): string[] =>
    piecesOf(zoneOf(zone), year)
      .slice(1)
      .map((piece) => `${new Date(piece.from).toISOString().slice(0, 16)} ${piece.offset / 3_600_000}`);
  const inOctober = ['2000-10-08T04:00 -3', '2000-10-15T03:00 -4'];
  assert.deepEqual(changesOf('America/Boa_Vista', 2000).slice(-2), inOctober);
  assert.deepEqual(changesOf('America/Recife', 2000).slice(-2), ['2000-10-08T03:00 -2', '2000-10-15T02:00 -3']);
  assert.deepEqual(changesOf('America/Argentina/Tucuman', 2004), ['2004-06-01T03:00 -4', '2004-06-13T04:00 -3']);
  assert.equal(changesOf('Africa/Cairo', 2010).length, 4);
});

test('changes at the turn of the year are seen from both sides', () => {
  check({
    zone: 'Africa/Casablanca',
    cron: '30 23 31 12 *',
    policy: { dst_overlap: 'both' },
    after: '1985-12-31T12:00',
    expect: [
      ['1985-12-31T22:30', '1985-12-31T23:30', 'overlap_first'],
      ['1985-12-31T23:30', '1985-12-31T23:30', 'overlap_second'],
      ['1986-12-31T23:30', '1986-12-31T23:30', null],
    ],
  });
  check({
    zone: 'Asia/Singapore',
    cron: '45 23 * * *',
    after: '1981-12-31T00:00',
    expect: [
      ['1981-12-31T16:00', '1981-12-31T23:45', 'gap_moved'],
      ['1982-01-01T15:45', '1982-01-01T23:45', null],
    ],
  });
});
