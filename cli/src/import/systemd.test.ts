// Timers of systemd with their services: one job each, or the reason why not.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseTimer } from './systemd.ts';

const service = '[Service]\nExecStart=/usr/bin/backup --all';
const parse = (timer: string, unit: string | null = service) =>
  parseTimer(`[Timer]\n${timer}`, unit, {
    file: 'backup.timer',
    name: 'backup',
    timezone: 'Europe/Berlin',
    queue: 'q',
  });
const reasons = (timer: string, unit: string | null = service) =>
  parse(timer, unit).refused.map(({ line, text, reason }) => `${line} ${text}: ${reason}`);

test('a calendar timer becomes cron, with the policies of systemd', () => {
  const { entries, refused } = parse(
    'OnCalendar=Mon..Fri 02:30\nOnCalendar=Sat 06:00\nPersistent=true\nRandomizedDelaySec=10min',
  );
  assert.deepEqual(refused, []);
  const times = {
    ...{ cron_expression: ['30 2 * * MON-FRI', '0 6 * * SAT'], timezone: 'Europe/Berlin', dst_gap: 'skip' },
  };
  assert.deepEqual(entries[0]?.source, times);
  assert.deepEqual(entries[0]?.job, {
    ...{ name: 'backup', tags: ['imported', 'systemd'], queue: 'q', max_retries: 0, timeout_ms: 604_800_000, ...times },
    executor: { kind: 'shell', command: ['/usr/bin/backup', '--all'] },
    ...{ catch_up: 'latest', jitter_ms: 600_000, overlap: 'skip' },
  });
  assert.equal(parse('OnCalendar=daily').entries[0]?.job.catch_up, 'none');
});

test('a timer that counts from its own runs becomes an interval', () => {
  const [rate] = parse('OnBootSec=1min\nOnUnitActiveSec=15min').entries;
  assert.deepEqual([rate?.job.interval_ms, rate?.job.interval_mode], [900_000, 'fixed_rate']);
  assert.equal(rate?.source, null);
  assert.equal(rate?.sourceWords, '15min after it was started');
  assert.match(rate?.notes.join() ?? '', /OnBootSec=1min is left out/);
  const [delay] = parse('OnUnitInactiveSec=1h').entries;
  assert.deepEqual([delay?.job.interval_ms, delay?.job.interval_mode], [3_600_000, 'fixed_delay']);
});

test('what cannot be translated is named with its line', () => {
  assert.match(reasons('OnBootSec=5min').join(), /^2 OnBootSec=5min: counts from a start of the machine/);
  assert.match(reasons('').join(), /^1 backup: has no schedule/);
  assert.match(reasons('OnCalendar=2030-01-01').join(), /^2 OnCalendar=2030-01-01: .*year/);
  assert.match(reasons('OnUnitActiveSec=soon').join(), /^2 OnUnitActiveSec=soon: is not a length of time/);
  assert.match(reasons('OnUnitActiveSec=100ms').join(), /not a length of time from one second/);
  assert.match(reasons('OnCalendar=daily\nRandomizedDelaySec=2d').join(), /^3 RandomizedDelaySec=2d: /);
  assert.match(reasons('OnCalendar=daily\nwhat').join(), /^3 what: is no line of a unit file/);
});

test('beside a calendar other kinds of times are refused, and so are other zones', () => {
  const mixed = parse('OnCalendar=daily\nOnBootSec=5min\nOnUnitActiveSec=1h\nOnCalendar=06:00 Asia/Tokyo');
  assert.deepEqual(mixed.entries[0]?.job.cron_expression, '0 0 * * *');
  assert.deepEqual(
    mixed.refused.map(({ line }) => line),
    [3, 4, 5],
  );
  assert.match(reasons('OnUnitActiveSec=1h\nOnUnitInactiveSec=2h').join(), /^3 .*OnUnitActiveSec=1h is taken/);
});

test('the service says what to run, with what, and as whom', () => {
  const unit =
    '[Service]\r\nType=oneshot\r\nUser=www\r\nEnvironment="A=1 2" B=3\r\nEnvironmentFile=/etc/x\r\nWorkingDirectory=-/srv\r\nExecStart=/bin/x ${A}';
  const [entry] = parse('OnCalendar=daily', unit).entries;
  assert.deepEqual(entry?.job.executor, {
    ...{ kind: 'shell', command: ['/bin/x', '1 2'], env: { A: '1 2', B: '3' }, cwd: '/srv' },
  });
  assert.deepEqual(entry?.notes, ['systemd runs it as www', 'the variables of /etc/x are not carried over']);
});

test('without a service, or with one that runs nothing, there is no job', () => {
  assert.match(reasons('OnCalendar=daily', null).join(), /^2 backup: there is no backup\.service beside it/);
  assert.match(reasons('Unit=other.service\nOnCalendar=daily', null).join(), /there is no other\.service/);
  assert.match(reasons('OnCalendar=daily', '[Service]').join(), /its backup\.service has no ExecStart=/);
  assert.match(reasons('OnCalendar=daily', '[Service]\nExecStartPre=/bin/x').join(), /has no ExecStart=/);
});
