// @ts-check
// A test of an application that uses Punctual, without a server: a month of a schedule, with retries, passes in milliseconds.
//
//   node --test examples/testing.mjs
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Snooze } from '@punctual/sdk';
import { TestScheduler } from '@punctual/testing';

test('the report is sent every weekday at nine in New York, over the change of the clocks', async () => {
  const scheduler = new TestScheduler({ start: '2030-03-01T00:00:00Z' });
  /** @type {string[]} */
  const sent = [];
  scheduler.handle('report', (run) => {
    if (run.attempt_number === 1) throw new Error('the mail server is down');
    sent.push(run.scheduled_for);
  });
  await scheduler.client.jobs.create({
    type: 'report',
    cron_expression: '0 9 * * MON-FRI',
    timezone: 'America/New_York',
  });
  await scheduler.advance('31d');
  assert.equal(sent.length, 21);
  assert.equal(sent[0], '2030-03-01T14:00:00.000Z');
  assert.equal(sent.at(-1), '2030-03-29T13:00:00.000Z');
  assert.ok(scheduler.runs().every((run) => run.attempt_number === 2));
});

test('an order that is not paid is asked about every hour, and given up after a day', async () => {
  const scheduler = new TestScheduler();
  scheduler.handle('await-payment', () => {
    throw new Snooze(3_600_000);
  });
  const { job_id } = await scheduler.client.jobs.create({ type: 'await-payment', run_timeout_ms: 24 * 3_600_000 });
  await scheduler.advance('12h');
  assert.equal((await scheduler.client.jobs.status(job_id)).latest_run?.snoozes, 13);
  await scheduler.advance('12h');
  const { latest_run } = await scheduler.client.jobs.status(job_id);
  assert.deepEqual([latest_run?.status, latest_run?.reason], ['FAILED', 'run_timed_out']);
});
