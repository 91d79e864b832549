// The CLI against a real house: what people read, what machines parse, exit codes, and sentences for what goes wrong.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import type {
  BulkCreated,
  DeadLetter,
  DeadLetterPage,
  Job,
  JobCreated,
  JobPage,
  Run,
  RunAccepted,
  RunPage,
  WorkerList,
} from '@punctual/contract';
import { FatalError, type Handler } from '@punctual/sdk';
import { eventually } from '../support/eventually.ts';
import { openHouse } from '../support/house.ts';
import { cleanEnvironment, program, runPunctual, startPunctual } from '../support/process.ts';
import { terminalOf } from '../support/terminal.ts';

const handlers: Record<string, Handler> = {
  echo: (run, { log }) => {
    log.info('echoing \u001b[2J');
    return run.payload;
  },
  // Ends only when it is told to.
  sleep: (_, { signal }) =>
    new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
};
/** Jobs that fail for good until their name is here. */
const mended = new Set<string>();
handlers['fatal'] = (run) => {
  if (!mended.has(run.name)) throw new FatalError(`no such account \u001b[2J ${run.name}`);
  return 'mended';
};
const house = await openHouse({ workers: 1, handlers });
after(() => house[Symbol.asyncDispose]());

const { ask, succeeds, parsed } = terminalOf(house);

/** A job that does not start by itself while the tests run. */
const later = (...words: string[]) => parsed<JobCreated>(['jobs', 'create', '--type', 'echo', '--in', '1h', ...words]);

/** For long commands none of whose words has a space in it. */
const typed = (line: string): string[] => line.split(' ');

const uuid = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/;

test('a job that is created and waited for prints its outcome and exits with 0', async () => {
  const stdout = await succeeds(['jobs', 'create', '--type', 'echo', '--payload', '{"greeting":"hello"}', '--wait']);
  assert.match(stdout, /status +SUCCESS/);
  assert.match(stdout, /result +\{"greeting":"hello"\}/);
  const run = await parsed<Run>(['jobs', 'create', '--type', 'echo', '--payload', '-', '--wait'], '[1,2]');
  assert.equal(run.status, 'SUCCESS');
  assert.deepEqual(run.result, [1, 2]);
});

test('a job that fails while it is waited for exits with 2 and says why', async () => {
  const words = typed('jobs create --type sleep --payload {"ms":60000} --timeout 100ms --max-retries 0 --wait');
  const { code, stdout } = await ask(words);
  assert.equal(code, 2);
  assert.match(stdout, /status +FAILED \(timed_out\)/);
});

test('waiting longer than asked for exits with 2 and leaves the job alone', async () => {
  const { code, stderr } = await ask(['jobs', 'create', '--type', 'echo', '--in', '1h', '--wait', '2s']);
  assert.equal(code, 2);
  assert.match(stderr, /did not finish within 2000 ms/);
  const id = uuid.exec(stderr)?.[0] ?? '';
  assert.equal((await parsed<{ job: Job }>(['jobs', 'show', id])).job.status, 'SCHEDULED');
});

test('without --wait the ids are printed and the way to look is a remark', async () => {
  const { stdout, stderr } = await ask(['jobs', 'create', '--type', 'echo']);
  const id = uuid.exec(stdout)?.[0] ?? '';
  assert.match(stdout, new RegExp(`^job ${id}(, run ${uuid.source})?\\n$`));
  assert.equal(stderr, `punctual jobs show ${id} shows how it goes\n`);
});

test('flags arrive at the server as they were given', async () => {
  const { job_id } = await later(
    ...['--name', 'Report für Jürgen', '--payload', '{"deep":{"a":[1]}}'],
    ...typed('--queue mail --priority 8 --tag a --tag b --user u003'),
    ...typed('--max-retries 7 --timeout 90s --run-timeout 10m --backoff-base 3s'),
  );
  const { job } = await parsed<{ job: Job }>(['jobs', 'show', job_id]);
  const wanted = {
    ...{ name: 'Report für Jürgen', queue: 'mail', priority: 8, tags: ['a', 'b'], user_id: 'u003', max_retries: 7 },
    ...{ timeout_ms: 90_000, run_timeout_ms: 600_000, payload: { deep: { a: [1] } }, schedule_type: 'FUTURE' },
    backoff: { ...job.backoff, base_ms: 3_000 },
  };
  assert.deepEqual({ ...job, ...wanted }, job);
  assert.equal((await parsed<Job>(['jobs', 'update', job_id, '--run-timeout', 'none'])).run_timeout_ms, null);
});

test('--http and -- make executors', async () => {
  const http = await parsed<JobCreated>([
    ...typed('jobs create --http https://example.com/x --method put --in 1h --header'),
    'x-a: b',
  ]);
  assert.deepEqual((await parsed<{ job: Job }>(['jobs', 'show', http.job_id])).job.executor, {
    ...{ kind: 'http', url: 'https://example.com/x', method: 'PUT', headers: { 'x-a': 'b' } },
  });
  const words = ['jobs', 'create', '--json', '--in', '1h', '--env', 'A=1', '--', 'backup', '--all', '--json'];
  const shell = JSON.parse(await succeeds(words)) as JobCreated;
  assert.deepEqual((await parsed<{ job: Job }>(['jobs', 'show', shell.job_id])).job.executor, {
    ...{ kind: 'shell', command: ['backup', '--all', '--json'], env: { A: '1' } },
  });
});

test('the same idempotency key and job is one job; another job under that key is refused', async () => {
  const key = randomUUID();
  const first = await later('--idempotency-key', key, '--payload', '1');
  const second = await later('--idempotency-key', key, '--payload', '1');
  assert.equal(second.job_id, first.job_id);
  const { code, stderr } = await ask(typed(`jobs create --type echo --in 1h --payload 2 --idempotency-key ${key}`));
  assert.equal(code, 1);
  assert.match(stderr, /^punctual: This Idempotency-Key was used before with a different body/);
});

test('a job with a unique key is one job, and what happened to it is said', async () => {
  const unique = ['--unique-key', `cli:${randomUUID()}`];
  const { job_id } = await later(...unique, '--payload', '1');
  const words = ['jobs', 'create', '--type', 'echo', ...unique, '--payload', '2'];
  const { code, stderr } = await ask(words);
  assert.equal(code, 1);
  assert.match(stderr, /^punctual: Another job of this user holds the unique_key/);
  assert.match(stderr, new RegExp(`^  unique_key: is held by job ${job_id}, whose run has not started yet$`, 'm'));
  const moved = await ask([...words, '--in', '2h', '--on-conflict', 'reschedule']);
  assert.equal(moved.code, 0);
  assert.match(moved.stdout, new RegExp(`^job ${job_id}`));
  assert.match(moved.stderr, /no job was created: this one .* has the new payload and due time/);
  const shown = await succeeds(['jobs', 'show', job_id]);
  assert.match(shown, new RegExp(`unique key +${unique[1]}, held until it has ended`));
  const { jobs } = await parsed<JobPage>(['jobs', 'list', ...unique]);
  assert.deepEqual(
    jobs.map((job) => [job.job_id, job.payload]),
    [[job_id, 2]],
  );
});

test('a file of jobs is created whole or not at all', async () => {
  const tag = `bulk-${randomUUID()}`;
  const jobs = (types: string[]) => JSON.stringify(types.map((type) => ({ type, tags: [tag], delay_ms: 3_600_000 })));
  const refused = await ask(['jobs', 'create', '--file', '-'], jobs(['echo', '!wrong!']));
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /jobs\[1\]\.type/);
  assert.match(refused.stderr, /nothing was created/);
  assert.deepEqual((await parsed<JobPage>(['jobs', 'list', '--tag', tag])).jobs, []);
  const created = await parsed<BulkCreated>(['jobs', 'create', '--file', '-'], jobs(['echo', 'echo', 'echo']));
  assert.equal(created.jobs.length, 3);
  const listed = (await parsed<JobPage>(['jobs', 'list', '--tag', tag])).jobs.map(({ job_id }) => job_id);
  assert.deepEqual(listed.sort(), created.jobs.map(({ job_id }) => job_id).sort());
});

test('a list is filtered, paged, and prints ids whole', async () => {
  const user = `u-${randomUUID()}`;
  const ids: string[] = [];
  for (const name of ['one', 'two', 'three']) ids.push((await later('--user', user, '--name', name)).job_id);
  const table = await succeeds(['jobs', 'list', '--user', user]);
  for (const id of ids) assert.ok(table.includes(id));
  assert.match(table, /^JOB +STATUS +NAME/);
  assert.ok(!table.includes('\u001b'));
  const found = await parsed<JobPage>(
    typed(`jobs list --user ${user} --name two --status pending --created-after 10m`),
  );
  assert.deepEqual(
    found.jobs.map(({ name }) => name),
    ['two'],
  );
  const page = await ask(['jobs', 'list', '--user', user, '--limit', '1']);
  const cursor = /--cursor (\S+)/.exec(page.stderr)?.[1] ?? '';
  assert.notEqual(cursor, '');
  const next = await parsed<JobPage>(['jobs', 'list', '--user', user, '--limit', '1', '--cursor', cursor]);
  assert.deepEqual(
    next.jobs.map(({ name }) => name),
    ['two'],
  );
  const all = (await succeeds(['jobs', 'list', '--user', user, '--limit', '1', '--all', '--json'])).trim().split('\n');
  assert.deepEqual(
    all.map((line) => (JSON.parse(line) as Job).name),
    ['three', 'two', 'one'],
  );
  assert.equal((await ask(['jobs', 'list', '--user', `${user}x`])).stderr, 'no job fits\n');
});

test('a list whose reader leaves early ends quietly', async () => {
  const script = `"$0" "$1" jobs list --all --json | head -n 1; echo "$\{PIPESTATUS[0]}"`;
  const { stdout, stderr } = await new Promise<{ stdout: string; stderr: string }>((resolve) => {
    const options = { env: cleanEnvironment({ PUNCTUAL_URL: house.url }) };
    execFile('bash', ['-c', script, process.execPath, program], options, (_, out, err) =>
      resolve({ stdout: out, stderr: err }),
    );
  });
  assert.equal(stderr, '');
  assert.match(stdout, /^\{.*\}\n0\n$/);
});

test('a job is shown with its latest run and what to do next', async () => {
  const { job_id } = await later();
  const waiting = await ask(['jobs', 'show', job_id]);
  assert.match(waiting.stdout, /status +SCHEDULED/);
  assert.match(waiting.stderr, /starts in 60 min; `punctual jobs run-now/);
  const unserved = await parsed<JobCreated>(['jobs', 'create', '--type', 'nobody-serves-this']);
  assert.match((await ask(['jobs', 'show', unserved.job_id])).stderr, /no live worker serves type nobody-serves-this/);
});

test('update, pause, resume, run-now and cancel do what they say', async () => {
  // Nobody serves it: that it runs now must not be over before it is told.
  const { job_id } = await parsed<JobCreated>(['jobs', 'create', '--type', 'unserved', '--in', '1h']);
  const updated = await parsed<Job>(['jobs', 'update', job_id, '--priority', '9', '--if-match', '1']);
  assert.equal(updated.priority, 9);
  const stale = await ask(['jobs', 'update', job_id, '--priority', '1', '--if-match', '1']);
  assert.equal(stale.code, 1);
  assert.match(stale.stderr, /was changed since you read it/);
  assert.match(await succeeds(['jobs', 'pause', job_id]), /is PAUSED/);
  assert.match((await ask(['jobs', 'show', job_id])).stderr, /punctual jobs resume/);
  assert.match(await succeeds(['jobs', 'resume', job_id]), /is SCHEDULED/);
  assert.match(
    await succeeds(['jobs', 'run-now', job_id]),
    new RegExp(`job ${job_id} is SCHEDULED; run ${uuid.source}`),
  );
});

test('cancelling several jobs cancels each that can be, and says which cannot', async () => {
  const [first, second] = [await later(), await later()];
  const missing = randomUUID();
  const { code, stdout, stderr } = await ask(['jobs', 'cancel', first.job_id, missing, second.job_id]);
  assert.equal(code, 1);
  assert.equal(stdout, `job ${first.job_id} is CANCELLED\njob ${second.job_id} is CANCELLED\n`);
  assert.ok(stderr.startsWith(`job ${missing}\npunctual: `));
});

test('runs are listed, shown and their logs printed', async () => {
  const run = await parsed<Run>(['jobs', 'create', '--type', 'echo', '--wait']);
  const listed = await parsed<RunPage>(['runs', 'list', '--job', run.job_id]);
  assert.deepEqual(
    listed.runs.map(({ run_id }) => run_id),
    [run.run_id],
  );
  assert.ok((await succeeds(['runs', 'list', '--status', 'success'])).includes(run.run_id));
  const shown = await succeeds(['runs', 'show', run.run_id]);
  assert.match(shown, /status +SUCCESS/);
  assert.match(shown, /info +echoing ␛\[2J/);
  assert.match(await succeeds(['runs', 'logs', run.run_id]), /^\S+ \S+ #1 info +echoing ␛\[2J\n$/);
  const [line = ''] = (await succeeds(['runs', 'logs', run.run_id, '--json'])).split('\n');
  assert.equal((JSON.parse(line) as { message: string }).message, 'echoing \u001b[2J');
});

test('a run that needed several attempts shows each of them', async () => {
  const words = typed(
    'jobs create --type sleep --payload {"ms":60000} --timeout 100ms --max-retries 1 --backoff-base 0s --wait --json',
  );
  const { code, stdout } = await ask(words);
  assert.equal(code, 2);
  const shown = await succeeds(['runs', 'show', (JSON.parse(stdout) as Run).run_id]);
  assert.match(shown, /\n1 +timed_out/);
  assert.match(shown, /\n2 +timed_out/);
});

/** A run that has failed for good. */
async function fails(name: string): Promise<Run> {
  const { code, stdout } = await ask(['jobs', 'create', '--type', 'fatal', '--name', name, '--wait', '--json']);
  assert.equal(code, 2);
  return JSON.parse(stdout) as Run;
}

test('a run is cancelled before it starts and while it runs; one that has ended is told', async () => {
  const { run_id: waiting = '' } = await later();
  const { job_id, run_id: running = '' } = await parsed<JobCreated>(['jobs', 'create', '--type', 'sleep']);
  await house.runWith(job_id, 'RUNNING');
  const { code, stdout } = await ask(['runs', 'cancel', waiting, running]);
  assert.equal(code, 0);
  assert.equal(stdout, `run ${waiting} is CANCELLED\nrun ${running} is RUNNING; its worker was told to stop\n`);
  assert.equal((await house.ended(job_id)).status, 'CANCELLED');
  const again = await ask(['runs', 'cancel', running]);
  assert.equal(again.code, 1);
  assert.match(again.stderr, /^punctual: The run has ended already/);
});

test('a run that failed for good is shown with the way to retry it, and retrying twice makes one run', async () => {
  const name = `retry-${randomUUID()}`;
  const { run_id, job_id } = await fails(name);
  assert.match((await ask(['runs', 'show', run_id])).stderr, new RegExp(`punctual runs retry ${run_id}`));
  mended.add(name);
  const { retried_run_id = '' } = await parsed<RunAccepted>(['runs', 'retry', run_id]);
  assert.equal(await succeeds(['runs', 'retry', run_id]), `run ${run_id} is redriven by run ${retried_run_id}\n`);
  assert.equal((await house.ended(job_id)).run_id, retried_run_id);
});

test('a run that waits for its next attempt is due now once it is retried', async () => {
  const words = ['--type', 'sleep', '--timeout', '50ms', '--max-retries', '1', '--backoff-base', '1h'];
  const { job_id, run_id = '' } = await parsed<JobCreated>(['jobs', 'create', ...words, '--backoff-max', '1h']);
  await eventually(async () => assert.equal((await house.client.runs.get(run_id)).reason, 'retry'));
  assert.match((await ask(['runs', 'show', run_id])).stderr, /Attempt 2 starts in .*; `punctual runs retry/);
  assert.equal(await succeeds(['runs', 'retry', run_id]), `run ${run_id} is QUEUED and due now\n`);
  assert.equal((await house.ended(job_id)).attempt_number, 2);
});

test('dead letters are listed by filter, shown, redriven and discarded', async () => {
  const name = `one-${randomUUID()}`;
  const { run_id } = await fails(name);
  const found = await parsed<DeadLetterPage>(['dead-letters', 'list', '--type', 'fatal', '--search', name]);
  assert.deepEqual(
    found.dead_letters.map((letter) => [letter.run_id, letter.reason]),
    [[run_id, 'failed']],
  );
  const table = await succeeds(['dead-letters', 'list', '--search', name, '--all']);
  assert.match(table, new RegExp(`^RUN +REASON[^\n]*\n${run_id} +failed .*no such account ␛\\[2J`));
  assert.equal(
    (await ask(['dead-letters', 'list', '--search', name, '--reason', 'lost'])).stderr,
    'no dead letter fits\n',
  );
  const shown = await ask(['dead-letters', 'show', run_id]);
  assert.match(shown.stdout, /error +no such account/);
  assert.match(shown.stderr, new RegExp(`punctual dead-letters redrive ${run_id}`));
  const missing = randomUUID();
  const { code, stdout, stderr } = await ask(['dead-letters', 'redrive', run_id, missing]);
  assert.equal(code, 1);
  assert.match(stdout, new RegExp(`^run ${run_id} is redriven by run ${uuid.source}\n$`));
  assert.ok(stderr.startsWith(`run ${missing}\npunctual: No dead letter has this run id`), stderr);
  assert.match(stderr, /punctual dead-letters list/);
  const letter = await parsed<DeadLetter>(['dead-letters', 'show', run_id]);
  assert.ok(stdout.includes(letter.redriven_run_id ?? 'none'));
  const all = await parsed<DeadLetterPage>(['dead-letters', 'list', '--search', name, '--redriven']);
  assert.ok(all.dead_letters.some((one) => one.run_id === run_id));
  assert.match(await succeeds(['dead-letters', 'discard', run_id]), /is discarded/);
  assert.equal((await ask(['dead-letters', 'show', run_id])).code, 1);
});

test('all dead letters that fit are redriven; without a filter only after a yes', async () => {
  const user = `u-${randomUUID()}`;
  const { jobs } = await house.client.jobs.createMany(
    Array.from({ length: 12 }, () => ({ type: 'fatal', name: user, user_id: user })),
  );
  for (const { job_id } of jobs) await house.ended(job_id);
  const others = await house.count('dead_letters', 'where redriven_at is null');
  const refused = await ask(['dead-letters', 'redrive', '--all']);
  assert.equal(refused.code, 2);
  assert.match(refused.stderr, /dead letters of all jobs; --yes says that you mean it/);
  assert.equal(await house.count('dead_letters', 'where redriven_at is null'), others, 'nothing was redriven');
  mended.add(user);
  const some = await parsed<object>(['dead-letters', 'redrive', '--all', '--user', user, '--limit', '2']);
  assert.deepEqual(some, { redriven: 2, done: false });
  const rest = await ask(['dead-letters', 'redrive', '--all', '--user', user, '--reason', 'failed']);
  assert.deepEqual(rest, { code: 0, stdout: '10 dead letters redriven\n', stderr: '' });
  for (const { job_id } of jobs) assert.equal((await house.ended(job_id)).result, 'mended');
  const { stderr } = await ask(['dead-letters', 'redrive', '--all', '--user', user]);
  assert.equal(stderr, 'no dead letter fits\n');
  assert.match(
    await succeeds(['dead-letters', 'redrive', '--all', '--yes', '--limit', '1']),
    /^1 dead letter redriven/,
  );
});

test('workers are listed', async () => {
  const { workers } = await parsed<WorkerList>(['workers', 'list']);
  assert.equal(workers.filter(({ status }) => status === 'ALIVE').length, 1);
  const table = await succeeds(['workers', 'list']);
  assert.ok(table.includes(workers[0]?.worker_id ?? 'none'));
});

test('a wrong id, a missing job and a wrong field are told in words', async () => {
  const missing = await ask(['jobs', 'show', randomUUID()]);
  assert.equal(missing.code, 1);
  assert.match(missing.stderr, /^punctual: No job has this id/);
  const wrong = await ask(['jobs', 'show', '1234']);
  assert.equal(wrong.code, 1);
  assert.match(wrong.stderr, /^punctual: The id is not one of ours/);
  const field = await ask(['jobs', 'create', '--type', 'echo', '--queue', 'no spaces']);
  assert.equal(field.code, 1);
  assert.match(field.stderr, /\n {2}queue: /);
  const problem = await ask(['jobs', 'show', randomUUID(), '--json']);
  assert.equal((JSON.parse(problem.stderr) as { code: string }).code, 'job_not_found');
});

test('wrong usage exits with 2 and a suggestion', async () => {
  const cases: [string[], RegExp][] = [
    [['jbos'], /unknown command 'jbos'\n\(Did you mean jobs\?\)/],
    [['jobs', 'craete'], /Did you mean create\?/],
    [['jobs', 'list', '--statsu', 'x'], /Did you mean --status\?/],
    [['jobs', 'list', '--status', 'asleep'], /It must be one of pending, SCHEDULED/],
    [['jobs', 'show'], /missing required argument 'id'/],
    [['jobs', 'create'], /say what to run/],
    [['jobs', 'create', 'ls'], /comes after --/],
    [['jobs', 'create', '--type', 'x', '--payload', 'hello'], /is not JSON/],
    [['jobs', 'create', '--type', 'x', '--timeout', '5'], /is not a duration/],
    [['jobs', 'update', randomUUID()], /say what to change/],
    [['jobs', 'create', '--file', '-', '--type', 'x'], /cannot be combined with --type/],
    [['dead-letters', 'redrive'], /say which: the ids of runs/],
    [['dead-letters', 'redrive', '--all', randomUUID()], /ids of runs or --all, not both/],
    [['dead-letters', 'redrive', randomUUID(), '--type', 'x'], /--type can only be used with --all/],
    [['dead-letters', 'list', '--reason', 'x'], /It must be one of failed, timed_out, run_timed_out, lost/],
  ];
  for (const [words, sentence] of cases) {
    const { code, stderr } = await ask(words);
    assert.equal(code, 2, words.join(' '));
    assert.match(stderr, sentence);
  }
});

test('a server that is not there is told in one sentence', async () => {
  const { code, stderr } = await runPunctual(['jobs', 'list'], { env: { PUNCTUAL_URL: 'http://127.0.0.1:1' } });
  assert.equal(code, 1);
  assert.equal(
    stderr,
    'punctual: no Punctual server answers at http://127.0.0.1:1 (connection refused); start one with `punctual start` or set PUNCTUAL_URL.\n',
  );
  assert.match(
    (await ask(['jobs', 'list', '--url', 'nonsense'])).stderr,
    /"nonsense" is not the URL of a Punctual server/,
  );
});

test('--url wins over PUNCTUAL_URL, before and after the command', async () => {
  const env = { PUNCTUAL_URL: 'http://127.0.0.1:1' };
  assert.equal((await runPunctual(['workers', 'list', '--url', house.url], { env })).code, 0);
  assert.equal((await runPunctual(['--url', house.url, 'workers', 'list'], { env })).code, 0);
});

test('a mistyped setting is an error of every command, with a suggestion', async () => {
  const { code, stderr } = await runPunctual(['jobs', 'list'], { env: { PUNCTUAL_URI: house.url } });
  assert.equal(code, 1);
  assert.match(stderr, /^punctual: PUNCTUAL_URI is not a configuration key; did you mean PUNCTUAL_URL\?/);
});

test('config prints every setting and hides the password', async () => {
  const env = { DATABASE_URL: 'postgres://me:hunter2@db/x' };
  const { stdout } = await runPunctual(['config'], { env });
  assert.match(stdout, /DATABASE_URL = postgres:\/\/me:\*\*\*@db\/x {2}\(set\)/);
  const json = await runPunctual(['config', '--json'], { env });
  assert.ok(!`${stdout}${json.stdout}`.includes('hunter2'));
  assert.ok((JSON.parse(json.stdout) as { env: string }[]).some((setting) => setting.env === 'PUNCTUAL_PORT'));
});

test('help says how each command is used, and the version is printed', async () => {
  assert.match((await runPunctual(['--version'])).stdout, /^\d+\.\d+\.\d+\n$/);
  for (const words of [['help'], [], ['--help']])
    assert.match((await runPunctual(words)).stdout, /Run Punctual:[\s\S]*Use it:[\s\S]*Look after it:/);
  for (const words of [
    ['help', 'jobs', 'create'],
    ['jobs', 'create', '--help'],
    ['jobs', 'help', 'create'],
  ]) {
    const { code, stdout } = await runPunctual(words);
    assert.equal(code, 0);
    assert.match(stdout, /Usage: punctual jobs create[\s\S]*--priority[\s\S]*Examples:/);
  }
});

test('doctor finds a server that answers, and says what is missing without a database', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'punctual-doctor-'));
  try {
    const env = { PUNCTUAL_URL: house.url, PUNCTUAL_DATA_DIR: folder };
    const { code, stdout } = await runPunctual(['doctor'], { env });
    assert.equal(code, 1);
    assert.match(stdout, /✓ node: version/);
    assert.match(stdout, /✓ disk: .* free/);
    assert.match(stdout, /✓ server: .* is ready/);
    assert.match(stdout, /✗ database: DATABASE_URL is not set/);
    const { ok } = JSON.parse((await runPunctual(['doctor', '--json'], { env })).stdout) as { ok: boolean };
    assert.equal(ok, false);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('server and migrate without a database say how to give them one', async () => {
  for (const words of [['server'], ['migrate']]) {
    const { code, stderr } = await runPunctual(words);
    assert.equal(code, 1);
    assert.match(stderr, /needs a PostgreSQL: set DATABASE_URL/);
  }
});

test('a worker that is drained from afar ends its process in order', async () => {
  const words = ['worker', '--url', house.url, '--id', 'w-far', '--json'];
  await using worker = startPunctual(words, {});
  await worker.said(/"worker_id":"w-far"/);
  await eventually(async () => {
    const { workers } = await house.client.workers.list();
    assert.ok(workers.some(({ worker_id, status }) => worker_id === 'w-far' && status === 'ALIVE'));
  });
  const drained = await runPunctual(['workers', 'drain', 'w-far', '--url', house.url]);
  assert.deepEqual([drained.code, drained.stdout], [0, 'worker w-far takes nothing new; it ends after what it runs\n']);
  assert.equal((await worker.ended).code, 0);
  const again = await runPunctual(['workers', 'drain', 'w-far', '--url', house.url]);
  assert.equal(again.code, 1);
  assert.match(again.stderr, /No worker with the id w-far is alive/);
});
