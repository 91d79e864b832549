// Flags made from schemas: names, values and refusals follow the contract.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CreateJob, DeadLetterQuery, JobQuery, limits, OccurrenceQuery, RunQuery } from '@punctual/contract';
import { Command, CommanderError, type Option } from 'commander';
import { flagName, flagsFrom, valuesOf } from './flags.ts';

function parse(properties: object, pick: readonly string[], words: string[]): Record<string, unknown> {
  const flags = flagsFrom(properties, pick);
  const command = new Command().exitOverride().configureOutput({ writeErr: () => {} });
  for (const { option } of flags) command.addOption(option);
  command.parse(words, { from: 'user' });
  return valuesOf(flags, command.opts());
}

const refused = (message: RegExp) => (error: unknown) => error instanceof CommanderError && message.test(error.message);

test('names of flags leave out units and _id', () => {
  assert.equal(flagName('timeout_ms'), 'timeout');
  assert.equal(flagName('user_id'), 'user');
  assert.equal(flagName('created_after'), 'created-after');
  assert.equal(flagName('schedule_time'), 'at');
  assert.equal(flagName('delay_ms'), 'in');
});

test('every filter of the API is a flag, and its value arrives under the name of the contract', () => {
  const words = {
    ...{
      limit: '7',
      cursor: 'c',
      status: 'paused',
      user: 'u',
      type: 't',
      queue: 'q',
      name: 'n',
      tag: 'g',
      search: 's',
      'unique-key': 'k',
    },
    ...{ 'created-after': '2030-01-01T00:00:00Z', 'created-before': '2030-01-02T00:00:00Z' },
  };
  const given = parse(JobQuery.properties, Object.keys(JobQuery.properties), [
    ...Object.entries(words).flatMap(([name, value]) => [`--${name}`, value]),
    '--recurring',
  ]);
  assert.deepEqual(given, {
    ...{
      limit: 7,
      cursor: 'c',
      status: 'PAUSED',
      recurring: true,
      user_id: 'u',
      type: 't',
      queue: 'q',
      name: 'n',
      tag: 'g',
      q: 's',
      unique_key: 'k',
    },
    ...{ created_after: '2030-01-01T00:00:00.000Z', created_before: '2030-01-02T00:00:00.000Z' },
  });
  assert.deepEqual(Object.keys(given).sort(), Object.keys(JobQuery.properties).sort());
});

test('flags that were not given are not sent, so that the defaults are the server’s', () => {
  assert.deepEqual(parse(CreateJob.properties, ['priority', 'queue', 'tags', 'timeout_ms'], []), {});
});

test('durations are sent in milliseconds and times in UTC', () => {
  const given = parse(
    CreateJob.properties,
    ['timeout_ms', 'delay_ms', 'schedule_time'],
    ['--timeout', '30s', '--in', '5m', '--at', '2030-01-31T09:00:00+01:00'],
  );
  assert.deepEqual(given, { timeout_ms: 30_000, delay_ms: 300_000, schedule_time: '2030-01-31T08:00:00.000Z' });
});

test('a repeated flag becomes a list', () => {
  assert.deepEqual(parse(CreateJob.properties, ['tags'], ['--tag', 'a', '--tag', 'b']), { tags: ['a', 'b'] });
});

test('numbers and durations beyond the limits of the contract are refused with these limits', () => {
  assert.throws(
    () => parse(CreateJob.properties, ['priority'], ['--priority', '10']),
    refused(new RegExp(`from 0 to ${limits.max_priority}`)),
  );
  assert.throws(() => parse(CreateJob.properties, ['priority'], ['--priority', '1.5']), refused(/whole number/));
  assert.throws(() => parse(CreateJob.properties, ['priority'], ['--priority', '']), refused(/whole number/));
  assert.throws(() => parse(CreateJob.properties, ['timeout_ms'], ['--timeout', '8d']), refused(/from 1ms to 7d/));
  assert.throws(() => parse(CreateJob.properties, ['timeout_ms'], ['--timeout', '30']), refused(/is not a duration/));
});

test('a choice may be written in any case and must be one of the contract’s', () => {
  assert.deepEqual(parse(RunQuery.properties, ['status'], ['--status', 'running']), { status: 'RUNNING' });
  assert.throws(
    () => parse(RunQuery.properties, ['status'], ['--status', 'done']),
    refused(/one of BLOCKED, QUEUED, RUNNING/),
  );
});

test('a yes-or-no needs no value, and what may be null can be none', () => {
  assert.deepEqual(parse(DeadLetterQuery.properties, ['redriven', 'type'], ['--redriven', '--type', 'x']), {
    redriven: true,
    type: 'x',
  });
  assert.deepEqual(parse(DeadLetterQuery.properties, ['redriven'], []), {});
  const runTimeout = (text: string) => parse(CreateJob.properties, ['run_timeout_ms'], ['--run-timeout', text]);
  assert.deepEqual(runTimeout('10m'), { run_timeout_ms: 600_000 });
  assert.deepEqual(runTimeout('none'), { run_timeout_ms: null });
  assert.throws(() => runTimeout('0s'), refused(/from 1ms to 3650d/));
  assert.throws(() => parse(CreateJob.properties, ['timeout_ms'], ['--timeout', 'none']), refused(/not a duration/));
});

test('a default the command does not follow is not told', () => {
  const words = (defaults: boolean) =>
    flagsFrom(DeadLetterQuery.properties, ['limit'], { defaults })[0]?.option.description;
  assert.match(words(true) ?? '', /50 unless given/);
  assert.doesNotMatch(words(false) ?? 'unless given', /unless given/);
});

test('a property the contract does not have is a fault found at once', () => {
  assert.throws(() => flagsFrom(CreateJob.properties, ['colour']), /no property colour/);
});

test('what may be one or a list is a list, and its words are those of the contract', () => {
  const cron = ['--cron', '@daily', '--cron', '0 9 * * *'];
  assert.deepEqual(parse(CreateJob.properties, ['cron_expression'], cron), {
    cron_expression: ['@daily', '0 9 * * *'],
  });
  const [flag] = flagsFrom(CreateJob.properties, ['cron_expression']);
  assert.match(flag?.option.description ?? '', /five fields.*\(may be repeated\)$/i);
  assert.equal(flag?.option.flags, '--cron <expression>');
});

test('a time in the past may be a duration where the command says so', () => {
  const flags = flagsFrom(OccurrenceQuery.properties, ['from'], { past: ['from'] });
  const command = new Command().addOption(flags[0]?.option as Option);
  command.parse(['--from', '2d'], { from: 'user' });
  const age = Date.now() - Date.parse(String(valuesOf(flags, command.opts())['from']));
  assert.ok(Math.abs(age - 2 * 86_400_000) < 60_000);
  assert.throws(() => parse(OccurrenceQuery.properties, ['from'], ['--from', '2d']), refused(/is not a time/));
});
