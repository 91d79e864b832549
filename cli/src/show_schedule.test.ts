// Schedules, previews, ledgers and calendars as people read them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Calendar, Job, Occurrence, Preview } from '@punctual/contract';
import {
  calendarFields,
  calendarHead,
  calendarRow,
  dueOf,
  occurrenceHead,
  occurrenceRow,
  policiesOf,
  previewTable,
  scheduleFields,
} from './show_schedule.ts';

const now = Date.UTC(2030, 0, 1, 12);
const plain = (_: string, text: string) => text;

const schedule: NonNullable<Job['schedule']> = {
  ...{ cron_expression: '0 9 * * *', timezone: 'Europe/Paris', start_at: null, end_at: null, dst_gap: 'run_after' },
  ...{ dst_overlap: 'first', jitter_ms: 0, calendar: null, on_excluded: 'skip', max_runs: null, catch_up: 'latest' },
  ...{ max_catch_up_age_ms: null, max_catch_up_count: 100, overlap: 'queue_one', pause_after_failures: null },
  ...{ next_time: '2030-01-02T08:00:00.000Z', runs_made: 3, ended: false, words: 'At 09:00, Europe/Paris' },
};
const job = { schedule_type: 'CRON', schedule_time: null, status: 'SCHEDULED', schedule } as Job;
const fieldsOf = (one: Job) => Object.fromEntries(scheduleFields(one, now));
const changed = (changes: Partial<typeof schedule>, status: Job['status'] = 'SCHEDULED') =>
  fieldsOf({ ...job, status, schedule: { ...schedule, ...changes } });

test('a schedule is shown in words, with its next time in its zone and in UTC', () => {
  assert.deepEqual(fieldsOf(job), {
    schedule: 'At 09:00, Europe/Paris',
    cron: '0 9 * * *',
    next: '2030-01-02 09:00:00 +01:00 Europe/Paris, 2030-01-02 08:00:00 UTC (in 20 h)',
    'runs made': '3',
  });
  assert.equal(changed({ timezone: 'UTC' })['next'], '2030-01-02 08:00:00 UTC (in 20 h)');
});

test('policies are shown only where they are not the usual ones, in the words of the flags', () => {
  assert.deepEqual(policiesOf(schedule), []);
  const fields = changed({ overlap: 'skip', jitter_ms: 30_000, calendar: 'holidays', max_catch_up_age_ms: 3_600_000 });
  assert.equal(fields['policies'], 'jitter 30s, calendar holidays, max-catch-up-age 1h, overlap skip');
  assert.equal(changed({ interval_mode: 'fixed_delay' })['policies'], 'fixed-delay');
  assert.equal(changed({ max_runs: 10 })['runs made'], '3 of at most 10');
});

test('without a next time the reason is told', () => {
  assert.equal(changed({ next_time: null, ended: true })['next'], 'none: the schedule has ended');
  assert.equal(changed({}, 'PAUSED')['next'], 'none while it is paused');
  assert.equal(changed({ next_time: null, interval_mode: 'fixed_delay' })['next'], 'when the running run has ended');
  assert.equal(changed({ next_time: null }, 'CANCELLED')['next'], 'none');
});

test('a job that runs once is shown as before', () => {
  const once = { schedule_type: 'FUTURE', schedule_time: '2030-01-01T12:01:00.000Z' } as Job;
  assert.match(fieldsOf(once)['schedule'] ?? '', /\(in 60 s\)$/);
  assert.equal(fieldsOf({ schedule_type: 'IMMEDIATE', schedule_time: null } as Job)['schedule'], 'at once');
  assert.equal(dueOf(once, now), 'in 60 s');
  assert.equal(dueOf(job, now), 'in 20 h');
  assert.equal(dueOf({ schedule_type: 'CRON', schedule_time: null } as Job, now), 'cron');
});

test('an entry of the ledger shows its run or its reason, and a span as a span', () => {
  const made: Occurrence = {
    ...{ scheduled_for: '2030-01-01T09:00:00.000Z', through: '2030-01-01T09:00:00.000Z', times: 1, run_id: 'r1' },
    ...{ effective_at: '2030-01-01T09:00:12.000Z', reason: null, note: 'gap_moved', planned_at: '' },
  };
  assert.equal(occurrenceRow(made, plain).length, occurrenceHead.length);
  assert.deepEqual(occurrenceRow(made, plain).slice(1), ['1', 'r1', 'gap_moved, spread by 12 s']);
  const span: Occurrence = { ...made, times: 60, through: '2030-01-01T10:00:00.000Z', run_id: null, reason: 'paused' };
  const [time, times, outcome] = occurrenceRow({ ...span, effective_at: null, note: null }, plain);
  assert.match(time ?? '', / to /);
  assert.deepEqual([times, outcome], ['60', 'paused']);
});

test('a preview shows local time and UTC, and when runs start only if that is later', () => {
  const one = { utc: '2030-01-01T08:00:00.000Z', local: '2030-01-01T09:00:00', excluded: false, note: 'x\u001b[2J' };
  const preview: Preview = { words: '', warnings: [], times: [{ ...one, effective_at: one.utc }] };
  assert.deepEqual(previewTable(preview, 'Europe/Paris'), {
    head: ['Europe/Paris', 'UTC', 'NOTE'],
    rows: [['2030-01-01 09:00:00', '2030-01-01 08:00:00', 'x␛[2J']],
  });
  const spread = { ...preview, times: [{ ...one, effective_at: '2030-01-01T08:00:07.500Z' }] };
  assert.equal(previewTable(spread, 'Europe/Paris').rows[0]?.[2], '2030-01-01 08:00:07.500');
  assert.equal(previewTable(preview, null).head[0], 'LOCAL');
  assert.deepEqual(previewTable(preview, 'UTC').head, ['UTC', 'NOTE']);
});

test('a calendar shows its windows', () => {
  const calendar: Calendar = {
    ...{ name: 'office', timezone: 'Europe/Paris', jobs: 1, version: 2, updated_at: new Date(now).toISOString() },
    ...{ exclude: [{ dates: ['12-25', '01-01'] }], include: [{ days: ['MON-FRI'], hours: ['09:00-17:00'] }] },
  };
  assert.equal(calendarRow(calendar, plain, now).length, calendarHead.length);
  const fields = Object.fromEntries(calendarFields(calendar, now));
  assert.equal(fields['excludes'], '12-25, 01-01');
  assert.equal(fields['includes'], 'MON-FRI at 09:00-17:00');
  assert.equal(fields['used by'], '1 job');
});
