// Schedules from flags: what is sent is what was asked for, and what excludes each other is refused.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Command } from 'commander';
import { occurrenceQuery } from './commands/occurrences.ts';
import { previewRequest } from './commands/schedule.ts';
import { addCreateOptions, addUpdateOptions, createRequest, updateRequest } from './request.ts';
import { cronOf, previewFlags } from './schedule_flags.ts';

const quiet = (command: Command) => command.exitOverride().configureOutput({ writeErr: () => {} });

async function created(...words: string[]) {
  const command = quiet(addCreateOptions(new Command()));
  command.parse(['--type', 'echo', ...words], { from: 'user' });
  const { type: _, ...job } = await createRequest([], command.opts());
  return job;
}

async function updated(...words: string[]) {
  const command = quiet(addUpdateOptions(new Command()));
  command.parse(words, { from: 'user' });
  return await updateRequest(command.opts());
}

function preview(expressions: string[], ...words: string[]) {
  const command = quiet(new Command());
  for (const { option } of previewFlags) command.addOption(option);
  command.parse(words, { from: 'user' });
  return previewRequest(expressions, command.opts());
}

test('every field of a schedule has its flag', async () => {
  const words =
    '--tz Europe/Paris --start 2030-01-01T00:00:00Z --end none --max-runs 5 --catch-up all --max-catch-up-age 2h ' +
    '--max-catch-up-count 7 --overlap SKIP --jitter 30s --calendar holidays --on-excluded next --dst-gap skip ' +
    '--dst-overlap both --pause-after-failures 3';
  assert.deepEqual(await created('--cron', '0 9 * * MON-FRI', ...words.split(' ')), {
    ...{ cron_expression: '0 9 * * MON-FRI', timezone: 'Europe/Paris', start_at: '2030-01-01T00:00:00.000Z' },
    ...{ end_at: null, max_runs: 5, catch_up: 'all', max_catch_up_age_ms: 7_200_000, max_catch_up_count: 7 },
    ...{ overlap: 'skip', jitter_ms: 30_000, calendar: 'holidays', on_excluded: 'next', dst_gap: 'skip' },
    ...{ dst_overlap: 'both', pause_after_failures: 3 },
  });
});

test('several expressions are a list, one is itself', async () => {
  assert.deepEqual(await created('--cron', '@daily', '--cron', '0 12 * * SAT'), {
    cron_expression: ['@daily', '0 12 * * SAT'],
  });
  assert.deepEqual(cronOf([]), {});
  assert.throws(() => cronOf(Array.from({ length: 11 }, () => '@daily')), /at most 10 cron expressions/);
});

test('an interval counts from the start, or from the end of the previous run', async () => {
  assert.deepEqual(await created('--every', '5m'), { interval_ms: 300_000 });
  assert.deepEqual(await created('--every', '5m', '--fixed-delay'), {
    ...{ interval_ms: 300_000, interval_mode: 'fixed_delay' },
  });
  assert.deepEqual(await updated('--fixed-rate'), { interval_mode: 'fixed_rate' });
  await assert.rejects(updated('--fixed-rate', '--fixed-delay'), /not both/);
});

test('a job has one kind of schedule', async () => {
  await assert.rejects(created('--cron', '@daily', '--every', '5m'), /give --cron or --every, not both/);
  await assert.rejects(created('--cron', '@daily', '--in', '5m'), /give --in or --cron, not both/);
  await assert.rejects(
    created('--cron', '@daily', '--in', '5m', '--at', '2030-01-01'),
    /give --at, --in or --cron, not several/,
  );
});

test('an update takes a schedule too, and none takes a bound away', async () => {
  assert.deepEqual(await updated('--cron', '0 8 * * *', '--calendar', 'none', '--max-runs', 'none'), {
    ...{ cron_expression: '0 8 * * *', calendar: null, max_runs: null },
  });
});

test('wrong values are refused before anything is sent', async () => {
  await assert.rejects(created('--overlap', 'maybe'), /one of queue_one, skip, cancel_other, allow/);
  await assert.rejects(created('--every', '5'), /not a duration/);
  await assert.rejects(created('--jitter', '25h'), /from 0ms to 1d/);
  await assert.rejects(created('--max-runs', '0'), /from 1 to/);
});

test('a preview is of expressions or of an interval', () => {
  assert.deepEqual(preview(['0 9 * * *'], '--tz', 'Asia/Tokyo', '--count', '3', '--from', '2030-01-01T00:00:00Z'), {
    ...{ cron_expression: '0 9 * * *', timezone: 'Asia/Tokyo', count: 3, from: '2030-01-01T00:00:00.000Z' },
  });
  assert.deepEqual(preview([], '--every', '90s'), { interval_ms: 90_000 });
  assert.throws(() => preview([]), /give a cron expression such as/);
  assert.throws(() => preview(['@daily'], '--every', '5m'), /not both/);
  assert.throws(() => preview(['0', '9', '*', '*', '*']), /in quotes/);
});

test('the ledger is asked for times with a run, without one, or all', () => {
  assert.deepEqual(occurrenceQuery({}), {});
  assert.deepEqual(occurrenceQuery({ withRun: true, limit: 5 }), { with_run: true, limit: 5 });
  assert.deepEqual(occurrenceQuery({ withoutRun: true }), { with_run: false });
  assert.throws(() => occurrenceQuery({ withRun: true, withoutRun: true }), /not both/);
});
