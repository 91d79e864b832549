// Crontabs: what cron would run becomes a job that does the same, and the rest is named with its line and reason.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseCrontab } from './crontab.ts';

const parse = (text: string, system = false) =>
  parseCrontab(text, { file: 'crontab', timezone: 'Europe/Berlin', system });
const reasons = (text: string, system = false) =>
  parse(text, system).refused.map(({ line, reason }) => `${line} ${reason}`);

test('a line becomes a job that the shell runs at the same times', () => {
  const { entries, refused } = parse('30 2 * * 1-5 /usr/local/bin/backup --all > /dev/null\n');
  assert.deepEqual(refused, []);
  assert.deepEqual(entries, [
    {
      ...{ file: 'crontab', line: 1, text: '30 2 * * 1-5 /usr/local/bin/backup --all > /dev/null', notes: [] },
      name: '/usr/local/bin/backup --all > /dev/null',
      source: { cron_expression: '30 2 * * 1-5', timezone: 'Europe/Berlin' },
      job: {
        ...{ name: '/usr/local/bin/backup --all > /dev/null', tags: ['imported', 'crontab'], max_retries: 0 },
        ...{ timeout_ms: 604_800_000, cron_expression: '30 2 * * 1-5', timezone: 'Europe/Berlin' },
        executor: { kind: 'shell', command: ['/bin/sh', '-c', '/usr/local/bin/backup --all > /dev/null'] },
        ...{ overlap: 'allow', catch_up: 'none' },
      },
    },
  ]);
});

test('tabs, spaces, CRLF, comments, empty lines, a BOM and a missing last newline change nothing', () => {
  const { entries, refused } = parse('# head\r\n\r\n \t0\t5  * * *\t a  b \r\n@Daily c # not a comment for cron');
  assert.deepEqual(refused, []);
  assert.deepEqual(
    entries.map(({ line, name, job }) => [line, name, job.cron_expression]),
    [
      [3, 'a  b', '0 5 * * *'],
      [4, 'c # not a comment for cron', '@daily'],
    ],
  );
});

test('variables hold for the lines below them', () => {
  const { entries } = parse(
    'A=1\n* * * * * one\nSHELL=/bin/bash\n  B = "two words" \nHOME=/srv\nMAILTO=ops\nA=2\n* * * * * two\nCRON_TZ=Asia/Tokyo\n* * * * * three',
  );
  assert.deepEqual(
    entries.map(({ job }) => job.executor),
    [
      { kind: 'shell', command: ['/bin/sh', '-c', 'one'], env: { A: '1' } },
      ...['two', 'three'].map((command) => ({
        ...{ kind: 'shell', command: ['/bin/bash', '-c', command], cwd: '/srv' },
        env: { A: '2', B: 'two words', HOME: '/srv' },
      })),
    ],
  );
  assert.deepEqual(
    entries.map(({ job }) => job.timezone),
    ['Europe/Berlin', 'Europe/Berlin', 'Asia/Tokyo'],
  );
  assert.deepEqual(entries[2]?.notes, ['cron mails its output to ops']);
});

test('TZ is for the command, not for the times', () => {
  const [entry] = parse('TZ=Asia/Tokyo\n0 9 * * * x').entries;
  assert.equal(entry?.job.timezone, 'Europe/Berlin');
  assert.match(entry?.notes.join() ?? '', /TZ=Asia\/Tokyo is given to the command/);
});

test('an escaped % is a percent sign, another one is refused', () => {
  const { entries } = parse('0 0 * * * date +\\%F');
  assert.deepEqual(entries[0]?.name, 'date +%F');
  assert.match(reasons('0 0 * * * mail root%hello').join(), /^1 has an unescaped %/);
  assert.match(reasons('0 0 * * * %').join(), /^1 has an unescaped %/);
});

test('a system crontab has a user before the command', () => {
  const { entries } = parse('17 *\t* * *\troot    cd / && run-parts /etc/cron.hourly\n@daily www x', true);
  assert.deepEqual(
    entries.map(({ name, notes }) => [name, notes]),
    [
      ['cd / && run-parts /etc/cron.hourly', ['cron runs it as root']],
      ['x', ['cron runs it as www']],
    ],
  );
  assert.match(reasons('0 0 * * * root', true).join(), /has a user but no command/);
});

test('what has no time or too few fields is named with its line', () => {
  assert.deepEqual(reasons('\n@reboot x\n5 4 * *\n@daily\nnonsense\n* * * * *'), [
    '2 @reboot has no time: a job would have to be created when the machine starts',
    ...[3, 4, 5, 6].map((line) => `${line} has too few fields: five of time and a command`),
  ]);
  assert.match(reasons('"a b"=1').join(), /^1 is not the name of a variable/);
  assert.match(reasons('RANDOM_DELAY=30').join(), /^1 spreads the times/);
});

test('strange lines neither fail nor take long', () => {
  assert.equal(parse('').entries.length, 0);
  assert.equal(parse(`0 0 * * * ${'x'.repeat(40_000)}`).refused.length, 1);
  assert.equal(parse(`${'* '.repeat(100_000)}\n`).entries.length + parse('=\n%\n@\n').refused.length, 3);
  assert.equal(parse('* * * * * x\n'.repeat(20_000)).entries.length, 20_000);
  const [entry] = parse('__proto__=1\n* * * * * echo \u202e\u0007x').entries;
  assert.equal(entry?.job.name, 'echo \u202e x');
});
