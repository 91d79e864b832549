// The CLI's part of schedules against a real house: previews, recurring jobs and their ledger, calendars, and imports from
// other schedulers, shown and applied.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import type { Calendar, Job, JobCreated, JobPage, Occurrence, OccurrencePage, Preview } from '@punctual/contract';
import { eventually } from '../support/eventually.ts';
import { openHouse } from '../support/house.ts';
import { runPunctual } from '../support/process.ts';
import { terminalOf } from '../support/terminal.ts';

const house = await openHouse({ workers: 1 });
const folder = mkdtempSync(path.join(tmpdir(), 'punctual-import-'));
after(async () => {
  rmSync(folder, { recursive: true });
  await house[Symbol.asyncDispose]();
});

const { ask, succeeds, parsed } = terminalOf(house);

const shown = async (id: string) => (await parsed<{ job: Job }>(['jobs', 'show', id])).job;

function file(name: string, text: string): string {
  const place = path.join(folder, name);
  writeFileSync(place, text);
  return place;
}

interface Import {
  applied: boolean;
  jobs: { line: number; words: string; times: string[]; source_times: string[]; job_id?: string; outcome?: string }[];
  unsupported: { line: number; reason: string }[];
}

test('a preview shows words, local time, UTC and what the clocks do', async () => {
  const words = ['schedule', 'preview', '30 2 * * *', '--tz', 'Europe/Berlin', '--from', '2027-03-27T00:00:00Z'];
  const { code, stdout, stderr } = await ask([...words, '--count', '2']);
  assert.equal(code, 0);
  assert.match(stdout, /^At 02:30, Europe\/Berlin\n\nEurope\/Berlin +UTC +NOTE\n/);
  assert.match(stdout, /\n2027-03-27 02:30:00 +2027-03-27 01:30:00\n/);
  assert.match(stdout, /\n2027-03-28 02:30:00 +2027-03-28 01:00:00 +02:30 does not exist on 2027-03-28/);
  assert.match(stderr, /^\nwarning: 02:30 does not exist on 2027-03-28/);
  const { times } = await parsed<Preview>([...words, '--dst-gap', 'skip', '--count', '2']);
  assert.deepEqual(
    times.map(({ utc }) => utc),
    ['2027-03-27T01:30:00.000Z', '2027-03-29T00:30:00.000Z'],
  );
  assert.match(await succeeds(['schedule', 'preview', '--every', '5m', '--jitter', '30s']), /^Every 5 minutes/);
});

test('a wrong schedule is told with its field and the way on', async () => {
  const { code, stderr } = await ask(['schedule', 'preview', '0 9 * * FOO']);
  assert.equal(code, 1);
  assert.match(stderr, /^punctual: The schedule cannot be followed\.\n {2}cron_expression: day of week field "FOO"/);
  const calendar = await ask(['schedule', 'preview', '@daily', '--calendar', 'nowhere']);
  assert.match(calendar.stderr, /`punctual calendars list` shows the calendars there are/);
  const unquoted = await ask(['schedule', 'preview', '0', '9', '1', '1', '1']);
  assert.equal(unquoted.code, 2);
});

test('a job is created with a schedule, shown, changed, and paused with a note', async () => {
  const { job_id } = await parsed<JobCreated>([
    ...['jobs', 'create', '--type', 'echo', '--cron', '0 9 * * MON-FRI', '--cron', '0 12 * * SAT'],
    ...['--tz', 'Europe/Paris', '--overlap', 'skip', '--jitter', '30s', '--max-runs', '10'],
  ]);
  const { schedule } = await shown(job_id);
  assert.deepEqual(schedule?.cron_expression, ['0 9 * * MON-FRI', '0 12 * * SAT']);
  const text = await succeeds(['jobs', 'show', job_id]);
  assert.match(text, /schedule +At 09:00, Monday to Friday; At 12:00, Saturday, Europe\/Paris/);
  assert.match(text, /next +\S+ \S+ \+0[12]:00 Europe\/Paris, \S+ \S+ UTC \(in /);
  assert.match(text, /policies +jitter 30s, overlap skip\n/);
  assert.match(text, /runs made +0 of at most 10\n/);
  const updated = await parsed<Job>(['jobs', 'update', job_id, '--cron', '0 8 * * *', '--max-runs', 'none']);
  assert.equal(updated.schedule?.cron_expression, '0 8 * * *');
  assert.equal(updated.schedule?.max_runs, null);
  await succeeds(['jobs', 'pause', job_id, '--note', 'until the mail server is up']);
  assert.match(await succeeds(['jobs', 'show', job_id]), /pause note +until the mail server is up\n/);
  assert.match(await succeeds(['jobs', 'list']), new RegExp(`${job_id} +PAUSED`));
});

test('the ledger lists the times of a job with their runs', async () => {
  const { job_id } = await parsed<JobCreated>(['jobs', 'create', '--type', 'echo', '--every', '1s']);
  const words = ['jobs', 'occurrences', job_id];
  const [first] = await eventually(async () => {
    const { occurrences } = await parsed<OccurrencePage>([...words, '--with-run', '--from', '1h']);
    assert.ok(occurrences.length >= 2);
    return occurrences;
  });
  assert.match(await succeeds(words), /^TIME +TIMES +RUN OR REASON/);
  await succeeds(['jobs', 'pause', job_id]);
  const all = (await succeeds([...words, '--all', '--limit', '1', '--json'])).trim().split('\n');
  assert.ok(all.some((line) => (JSON.parse(line) as Occurrence).run_id === first?.run_id));
  const none = await ask([...words, '--reason', 'excluded']);
  assert.equal(none.stderr, 'no time of the schedule has come that fits\n');
});

test('calendars are put, listed, shown, used and deleted', async () => {
  const put = ['calendars', 'put', 'holidays', '--exclude-dates', '12-25,12-26', '--exclude-days', 'SAT-SUN'];
  const calendar = await parsed<Calendar>([...put, '--tz', 'Europe/Paris']);
  assert.deepEqual(calendar.exclude, [{ dates: ['12-25', '12-26'] }, { days: ['SAT-SUN'] }]);
  assert.match(await succeeds(['calendars', 'list']), /\nholidays +Europe\/Paris +12-25, 12-26; SAT-SUN/);
  const again = await parsed<Calendar>(['calendars', 'put', 'holidays', '--file', '-'], JSON.stringify(calendar));
  assert.deepEqual(again.exclude, calendar.exclude);
  const words = ['jobs', 'create', '--type', 'echo', '--cron', '@daily', '--calendar', 'holidays'];
  const { job_id } = await parsed<JobCreated>(words);
  const refused = await ask(['calendars', 'delete', 'holidays']);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /Schedules use this calendar.*\n.*--calendar none/);
  await succeeds(['jobs', 'update', job_id, '--calendar', 'none']);
  assert.equal(await succeeds(['calendars', 'delete', 'holidays']), 'calendar holidays is deleted\n');
  assert.equal((await ask(['calendars', 'show', 'holidays'])).code, 1);
});

const crontab = `MAILTO=ops
30 2 * * * backup --all
@reboot never
0 25 * * * wrong
CRON_TZ=Asia/Tokyo
0 9 * * MON-FRI report`;

test('an import shows what would be created and what cannot be, and creates nothing', async () => {
  const { code, stdout, stderr } = await ask(['import', 'crontab', '-', '--tz', 'Europe/Berlin'], crontab);
  assert.equal(code, 1);
  assert.match(
    stdout,
    /^LINE +NAME +SCHEDULE +NEXT IN CRON +NEXT IN PUNCTUAL\n2 +backup --all +At 02:30, Europe\/Berlin/,
  );
  assert.match(stdout, /\n6 +report +At 09:00, Monday to Friday, Asia\/Tokyo +(\S+ 09:00:00 \+09:00) +\1\n/);
  assert.match(stdout, /02:30 does not exist on .*, as in cron\n/);
  assert.match(
    stdout,
    /not supported\nLINE +TEXT +WHY NOT\n3 +@reboot never +@reboot has no time.*\n4 .*hour field "25"/,
  );
  assert.match(stderr, /nothing was created/);
  assert.equal((await parsed<JobPage>(['jobs', 'list', '--tag', 'crontab'])).jobs.length, 0);
});

test('an import that is applied twice creates its jobs once', async () => {
  const place = file('crontab', crontab);
  const words = ['import', 'crontab', place, '--tz', 'Europe/Berlin', '--queue', 'host1'];
  assert.equal((await ask([...words, '--apply'])).code, 1, 'refused as long as some lines are not supported');
  assert.equal((await parsed<JobPage>(['jobs', 'list', '--tag', 'crontab'])).jobs.length, 0);
  const first = await parsed<Import>([...words, '--apply', '--skip-unsupported']);
  assert.deepEqual(
    first.jobs.map(({ line, outcome }) => [line, outcome]),
    [
      [2, 'created'],
      [6, 'created'],
    ],
  );
  assert.deepEqual(
    first.unsupported.map(({ line }) => line),
    [3, 4],
  );
  file('crontab', `# one more comment\n${crontab}`);
  const second = await parsed<Import>([...words, '--apply', '--skip-unsupported']);
  assert.deepEqual(
    second.jobs.map(({ line, outcome, job_id }) => [line, outcome, job_id]),
    [
      [3, 'there', first.jobs[0]?.job_id],
      [7, 'there', first.jobs[1]?.job_id],
    ],
  );
  const job = await shown(first.jobs[1]?.job_id ?? '');
  assert.deepEqual(job.executor, { kind: 'shell', command: ['/bin/sh', '-c', 'report'] });
  assert.equal(job.queue, 'host1');
  assert.equal(job.schedule?.timezone, 'Asia/Tokyo');
  assert.equal(job.schedule?.overlap, 'allow');
  assert.equal((await parsed<JobPage>(['jobs', 'list', '--tag', 'crontab'])).jobs.length, 2);
});

test('timers of systemd are imported with the service beside them', async () => {
  const timer = file('backup.timer', '[Timer]\nOnCalendar=Mon..Fri 02:30 Europe/Berlin\nPersistent=true\n');
  file('backup.service', '[Service]\nExecStart=/usr/bin/backup --all\n');
  const { jobs } = await parsed<Import>(['import', 'systemd', timer, '--apply']);
  const { executor, schedule } = await shown(jobs[0]?.job_id ?? '');
  assert.deepEqual(executor, { kind: 'shell', command: ['/usr/bin/backup', '--all'] });
  assert.deepEqual([schedule?.catch_up, schedule?.overlap, schedule?.dst_gap], ['latest', 'skip', 'skip']);
  assert.deepEqual(jobs[0]?.times, jobs[0]?.source_times);
  const alone = await ask(['import', 'systemd', file('alone.timer', '[Timer]\nOnCalendar=daily')]);
  assert.match(alone.stdout, /there is no alone\.service beside it/);
  assert.equal((await ask(['import', 'systemd', path.join(folder, 'backup.service')])).code, 2);
});

test('a suspended CronJob of Kubernetes becomes a paused job', async () => {
  const yaml = `kind: CronJob
metadata: {name: report, namespace: shop}
spec:
  schedule: "30 2 * * *"
  timeZone: Europe/Berlin
  concurrencyPolicy: Replace
  suspend: true
  startingDeadlineSeconds: 300
  jobTemplate: {spec: {template: {spec: {containers: [{command: [report], args: [--all]}]}}}}
`;
  const { jobs } = await parsed<Import>(['import', 'kubernetes', '-', '--apply'], yaml);
  const job = await shown(jobs[0]?.job_id ?? '');
  assert.deepEqual([job.name, job.status, job.pause_note], ['shop/report', 'PAUSED', 'suspended in Kubernetes']);
  assert.deepEqual([job.schedule?.overlap, job.schedule?.max_catch_up_age_ms], ['cancel_other', 300_000]);
  assert.equal((await parsed<Import>(['import', 'kubernetes', '-', '--apply'], yaml)).jobs[0]?.outcome, 'there');
});

test('a backfill says what it would do, does it, and shows how far it is', async () => {
  const { job_id } = await parsed<JobCreated>(['jobs', 'create', '--type', 'echo', '--cron', '* * * * *']);
  const range = ['--from', '2026-01-01T00:00:00Z', '--to', '2026-01-01T00:09:00Z'];
  const dry = await ask(['backfills', 'create', job_id, ...range]);
  assert.match(
    dry.stdout,
    /^10 times, from 2026-01-01 00:00:00 UTC to .*; 0 have a run already; 10 runs would be made$/m,
  );
  assert.match(dry.stderr, /nothing was done; --apply does it/);
  assert.match(await succeeds(['backfills', 'list', job_id, '--json']), /"backfills": \[\]/);
  const watched = await succeeds([
    'backfills',
    'create',
    job_id,
    ...range,
    '--max-concurrency',
    '5',
    '--apply',
    '--watch',
  ]);
  assert.match(watched, /^DONE 10 of 10 done, 0 running, 0 to come$/m);
  const [, id = ''] = /backfill (\S+):/.exec(watched) ?? [];
  assert.match(await succeeds(['backfills', 'show', id]), /progress +10 of 10 done/);
  assert.match(await succeeds(['backfills', 'cancel', id]), /is DONE/);
  assert.match((await ask(['backfills', 'show', job_id])).stderr, /^punctual: /);
});

test('a forecast shows what starts when', async () => {
  await succeeds(['jobs', 'create', '--type', 'echo', '--queue', 'forecast', '--cron', '*/5 * * * *']);
  // What takes longer than a moment to count comes in part, and is complete when it is asked for again.
  await eventually(async () => {
    const shownForecast = await succeeds(['forecast', '--hours', '1', '--queue', 'forecast']);
    assert.match(shownForecast, /^12 runs start until .* UTC, 0 of them wait already$/m);
    assert.match(shownForecast, /^forecast +echo +12 /m);
  });
});

test('an import without a server says that it needs one', async () => {
  const env = { PUNCTUAL_URL: 'http://127.0.0.1:1' };
  const { code, stderr } = await runPunctual(['import', 'crontab', '-', '--apply'], { env, input: '@daily x' });
  assert.equal(code, 1);
  assert.match(stderr, /^An import asks a server .* nothing was created\.\npunctual: no Punctual server answers/);
  const large = await ask(['import', 'crontab', '-'], 'x'.repeat(1_100_000));
  assert.match(large.stderr, /^punctual: standard input is larger than/);
  assert.match((await ask(['import', 'crontab', '-'], 'a\0b')).stderr, /holds NUL bytes/);
});

test('help of the new commands says how they are used', async () => {
  for (const words of [
    ['schedule', 'preview'],
    ['jobs', 'occurrences'],
    ['calendars', 'put'],
    ['backfills', 'create'],
    ['forecast'],
    ['import', 'crontab'],
    ['import', 'systemd'],
    ['import', 'kubernetes'],
  ]) {
    const { code, stdout } = await runPunctual(['help', ...words]);
    assert.equal(code, 0);
    assert.match(stdout, new RegExp(`^Usage: punctual ${words.join(' ')}[\\s\\S]*Examples?:`));
  }
});
