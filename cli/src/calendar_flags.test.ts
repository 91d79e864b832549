// Calendars from flags and from files: excludes stand alone, includes must all match.
import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { Command } from 'commander';
import { calendarRequest, windowOptions } from './calendar_flags.ts';

async function put(words: string[], input = '') {
  const command = new Command().exitOverride().option('--file <file>').option('--tz <zone>');
  for (const option of windowOptions) command.addOption(option);
  command.parse(words, { from: 'user' });
  return await calendarRequest(command.opts(), Readable.from([input]));
}

test('each excluding flag is a window of its own, the including ones are one window', async () => {
  assert.deepEqual(
    await put(['--exclude-dates', '12-25, 01-01', '--exclude-dates', '05-01', '--exclude-days', 'SAT-SUN']),
    {
      exclude: [{ dates: ['12-25', '01-01', '05-01'] }, { days: ['SAT-SUN'] }],
    },
  );
  assert.deepEqual(await put(['--include-days', 'MON-FRI', '--include-hours', '09:00-17:00', '--tz', 'Asia/Tokyo']), {
    ...{ timezone: 'Asia/Tokyo', include: [{ days: ['MON-FRI'], hours: ['09:00-17:00'] }] },
  });
});

test('a file holds the whole calendar, also one that was printed', async () => {
  assert.deepEqual(await put(['--file', '-'], '{"exclude":[{"days":["SAT"]}]}'), { exclude: [{ days: ['SAT'] }] });
  const printed = '{"name":"x","jobs":3,"version":2,"updated_at":"y","timezone":"UTC","exclude":[],"include":[]}';
  assert.deepEqual(await put(['--file', '-'], printed), { timezone: 'UTC', exclude: [], include: [] });
  for (const wrong of ['[]', 'null', '5']) await assert.rejects(put(['--file', '-'], wrong), /must hold a calendar/);
  await assert.rejects(put(['--file', '-'], '{'), /is not JSON/);
});

test('nothing, or a file and flags, are refused', async () => {
  await assert.rejects(put([]), /say what it excludes or includes/);
  await assert.rejects(put(['--exclude-days', ' , ']), /say what it excludes or includes/);
  await assert.rejects(put(['--file', '-', '--exclude-days', 'SAT'], '{}'), /cannot be combined/);
  await assert.rejects(put(['--file', '-', '--tz', 'UTC'], '{}'), /cannot be combined/);
});
