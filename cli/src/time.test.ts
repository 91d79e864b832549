// Durations and times: what people write is understood or refused, and what is printed can be read.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  machineZone,
  parseDuration,
  parsePastTime,
  parseTime,
  showAbsolute,
  showDuration,
  showInZone,
  showRelative,
  showTime,
  writeDuration,
} from './time.ts';

test('durations are written with a unit', () => {
  const cases: [string, number][] = [
    ['500ms', 500],
    ['30s', 30_000],
    ['5m', 300_000],
    ['2h', 7_200_000],
    ['1d', 86_400_000],
    ['1.5h', 5_400_000],
    ['1h30m', 5_400_000],
    [' 10S ', 10_000],
    ['0s', 0],
  ];
  for (const [text, ms] of cases) assert.equal(parseDuration(text), ms, text);
});

test('what is no duration is refused with an example', () => {
  for (const text of ['', '5', 'm', '-5m', '5 m', '5min', '1h,30m', '1e3s', 'five', '5mm', 'NaNs']) {
    assert.throws(() => parseDuration(text), /is not a duration; write it as 500ms, 30s, 5m, 2h or 1d/, text);
  }
});

test('writing a duration and parsing it gives the same', () => {
  for (const ms of [0, 1, 999, 1_000, 90_000, 60_000, 3_600_000, 5_400_000, 86_400_000, 86_400_001]) {
    assert.equal(parseDuration(writeDuration(ms)), ms);
  }
  assert.equal(writeDuration(3_600_000), '1h');
  assert.equal(writeDuration(90_000), '90s');
});

test('lengths of time are short and keep their unit at every border', () => {
  const cases: [number, string][] = [
    [0, '0 ms'],
    [999, '999 ms'],
    [1_000, '1.0 s'],
    [9_949, '9.9 s'],
    [9_950, '10 s'],
    [99_499, '99 s'],
    [99_500, '2 min'],
    [5_400_000, '90 min'],
    [99.5 * 60_000, '2 h'],
    [47 * 3_600_000, '47 h'],
    [48 * 3_600_000, '2 d'],
  ];
  for (const [ms, text] of cases) assert.equal(showDuration(ms), text);
});

test('relative times say whether they are past or to come', () => {
  assert.equal(showRelative(10_000, 4_000), 'in 6.0 s');
  assert.equal(showRelative(4_000, 10_000), '6.0 s ago');
  assert.equal(showRelative(4_000, 4_500), 'just now');
});

test('a time with an offset is that instant, one without is of this machine', () => {
  assert.equal(parseTime('2030-01-31T09:00:00Z'), '2030-01-31T09:00:00.000Z');
  assert.equal(parseTime('2030-01-31T09:00:00+02:00'), '2030-01-31T07:00:00.000Z');
  assert.equal(parseTime('2030-01-31 09:00 +0200'), '2030-01-31T07:00:00.000Z');
  assert.equal(parseTime('2030-01-31T09:00:00.123456z'), '2030-01-31T09:00:00.123Z');
  assert.equal(parseTime('2030-01-31 09:00'), new Date(2030, 0, 31, 9, 0).toISOString());
  assert.equal(parseTime('2030-01-31'), new Date(2030, 0, 31).toISOString());
});

test('days that do not exist and other words are refused', () => {
  for (const text of [
    '2030-02-31',
    '2030-13-01T00:00Z',
    '2030-01-01T25:00Z',
    'tomorrow',
    '',
    '1700000000',
    '09:00',
    '2030-1-1',
  ]) {
    assert.throws(() => parseTime(text), /is not a time; write it as 2030-01-31T09:00:00Z/, text);
  }
});

test('a past time may be written as a duration back from now', () => {
  const from = Date.UTC(2030, 0, 1, 12);
  assert.equal(parsePastTime('2h', from), '2030-01-01T10:00:00.000Z');
  assert.equal(parsePastTime('2h ago', from), '2030-01-01T10:00:00.000Z');
  assert.equal(parsePastTime('2029-12-31T00:00:00Z', from), '2029-12-31T00:00:00.000Z');
  assert.throws(() => parsePastTime('lately', from), /neither a time .* nor a duration/);
});

test('a timestamp is shown absolute and relative, none as a dash', () => {
  const at = Date.UTC(2030, 0, 31, 9);
  assert.equal(showTime('2030-01-31T09:00:00Z', at + 5_000), `${showAbsolute(at)} (5.0 s ago)`);
  assert.equal(showTime(null, at), '–');
  assert.match(showAbsolute(at), /^20\d\d-\d\d-\d\d \d\d:\d\d:\d\d (UTC|[+-]\d\d:\d\d)$/);
  assert.equal(Date.parse(parseTime(showAbsolute(at).replace(/ UTC$/, 'Z'))), at);
});

test('a time is shown in any zone, with its offset', () => {
  const winter = Date.UTC(2030, 0, 31, 8);
  assert.equal(showInZone(winter, 'Europe/Paris'), '2030-01-31 09:00:00 +01:00');
  assert.equal(showInZone(Date.UTC(2030, 6, 31, 8), 'Europe/Paris'), '2030-07-31 10:00:00 +02:00');
  assert.equal(showInZone(winter, 'Asia/Kolkata'), '2030-01-31 13:30:00 +05:30');
  assert.equal(showInZone(winter, 'America/St_Johns'), '2030-01-31 04:30:00 -03:30');
  assert.equal(showInZone(winter, 'UTC'), '2030-01-31 08:00:00 UTC');
  assert.equal(showInZone(winter, 'No/Such_Zone'), '2030-01-31 08:00:00 UTC');
  assert.equal(showInZone(winter, machineZone()), showAbsolute(winter));
});
