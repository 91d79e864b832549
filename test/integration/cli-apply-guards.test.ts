// `punctual apply` when something is in the way: people who edit meanwhile, kills, wrong files, keys that may not, secrets.
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import type { Job } from '@punctual/contract';
import { openHouse } from '../support/house.ts';
import { openLockedHouse } from '../support/keys.ts';
import { startMeddler } from '../support/meddler.ts';
import { runPunctual, startPunctual } from '../support/process.ts';
import { terminalOf } from '../support/terminal.ts';

const house = await openHouse();
const folder = await mkdtemp(path.join(tmpdir(), 'punctual-apply-'));
after(async () => {
  await house[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});
const { ask, succeeds } = terminalOf(house);

async function named(name: string): Promise<Job[]> {
  const found: Job[] = [];
  for await (const job of house.client.jobs.all({ name, status: 'pending' })) found.push(job);
  return found;
}

const hourly = (...names: string[]): string =>
  `jobs:\n${names.map((name) => `  - {name: ${name}, type: t, interval_ms: 3600000}\n`).join('')}`;

test('a job that somebody edits between plan and write is left alone and reported, the others are done', async () => {
  await succeeds(['apply', '-f', '-', '--yes'], hourly('c1', 'c2'));
  const [first] = await named('c1');
  await using meddler = await startMeddler(house.url);
  meddler.before = async (nth) => {
    if (nth === 1) await house.client.jobs.update(first?.job_id ?? '', { priority: 9 });
  };
  const text = hourly('c1', 'c2').replaceAll('3600000', '7200000');
  const { code, stdout, stderr } = await terminalOf(meddler).ask(['apply', '-f', '-', '--yes'], text);
  assert.equal(code, 1);
  assert.match(stderr, /job c1 was left alone: somebody has changed it since the plan was made; apply again/);
  assert.match(stdout, /1 of 2 done\n$/);
  const [c1] = await named('c1');
  assert.deepEqual([c1?.priority, c1?.schedule?.interval_ms], [9, 3_600_000]);
  assert.equal((await named('c2'))[0]?.schedule?.interval_ms, 7_200_000);
  assert.match((await ask(['diff', '-f', '-'], text)).stdout, /priority: 9 → 5/, 'the next plan shows the edit');
});

test('a setting that somebody changes between plan and write is left alone and reported', async () => {
  await house.client.limits.put('k', { max_concurrency: 1 });
  await using meddler = await startMeddler(house.url);
  meddler.before = async (nth) => {
    if (nth === 1) await house.client.limits.put('k', { max_concurrency: 7 });
  };
  const text = 'queues: [{name: first, ageing_ms: 5000}]\nlimits: [{key: k, max_concurrency: 2}]';
  const { code, stderr } = await terminalOf(meddler).ask(['apply', '-f', '-', '--yes'], text);
  assert.deepEqual([code, /limit of key k was left alone: somebody has changed it/.test(stderr)], [1, true], stderr);
  assert.equal((await house.client.limits.get('k')).max_concurrency, 7);
});

test('a calendar that is changed together with its jobs is no conflict', async () => {
  const text = (zone: string, retries: number) =>
    `calendars: [{name: both, timezone: ${zone}}]\njobs: [{name: both, type: t, cron_expression: "@daily", calendar: both, max_retries: ${retries}}]`;
  await succeeds(['apply', '-f', '-', '--yes'], text('UTC', 1));
  await succeeds(['apply', '-f', '-', '--yes'], text('Asia/Tokyo', 2));
  assert.equal((await named('both'))[0]?.max_retries, 2);
});

test('an apply that was killed with -9 in the middle goes on when it is run again', async () => {
  const names = Array.from({ length: 8 }, (_, i) => `i${i}`);
  const file = path.join(folder, 'killed.yaml');
  await writeFile(file, `queues: [{name: iq, ageing_ms: 5000}]\n${hourly(...names)}`);
  await using meddler = await startMeddler(house.url);
  await using killed = startPunctual(['apply', '-f', file, '--yes'], { PUNCTUAL_URL: meddler.url });
  meddler.before = async (nth) => {
    if (nth === 4) killed.child.kill('SIGKILL');
  };
  await killed.ended;
  // The request that was under way may or may not have been done, and may be done only now.
  assert.match(await succeeds(['apply', '-f', file, '--yes']), /^(6 to create; 3|5 to create; 4) unchanged$/m);
  for (const name of names) assert.equal((await named(name)).length, 1);
  assert.equal(await succeeds(['apply', '-f', file]), 'nothing to change; 9 unchanged\n');
});

test('an apply whose server goes away says how far it came', async () => {
  await using meddler = await startMeddler(house.url);
  meddler.before = async (nth) => (nth > 2 ? 'cut' : undefined);
  const { code, stderr } = await terminalOf(meddler).ask(['apply', '-f', '-', '--yes'], hourly('g1', 'g2', 'g3', 'g4'));
  assert.deepEqual([code, /2 of 4 were done; apply again once this is mended/.test(stderr)], [1, true], stderr);
});

test('two who apply the same at the same moment make each job once', async () => {
  const names = Array.from({ length: 10 }, (_, i) => `two ${i}`);
  const words = ['apply', '-f', '-', '--yes'];
  const both = await Promise.all([ask(words, hourly(...names)), ask(words, hourly(...names))]);
  for (const { code, stderr } of both) assert.ok(code === 0 || /its key is held by another job/.test(stderr), stderr);
  for (const name of names) assert.equal((await named(name)).length, 1, name);
  assert.equal((await ask(['diff', '-f', '-'], hourly(...names))).code, 0);
});

test('wrong files are refused whole, each mistake with file, line, column and how to mend it', async () => {
  const jobs = await house.count('jobs');
  const wrong: [string, RegExp][] = [
    [
      `${hourly('w')}  - {name: x, typ: t, interval_ms: 5000}\n`,
      /standard input:3:15: jobs\[1\]\.typ is not a known field; did you mean type\?/,
    ],
    ['jobs:\n\t- name: x\n', /standard input:2:1: a tab cannot indent: use spaces/],
    [`${hourly('w')}jobs: []\n`, /standard input:3:1: this name stands here twice/],
    ['jobs: [{name: x, type: t, cron_expression: "61 * * * *"}]', /standard input:1:\d+: jobs\[0\]\.cron_expression/],
    [
      'jobs: [{name: x, type: t, cron_expression: "@daily", calendar: nope}]',
      /names the calendar nope, which is neither in the files nor on the server/,
    ],
    ['alert_rules: [{name: r, kind: failure, channels: [nope]}]', /names the channel nope/],
    ['jobs: [{name: x, type: t}]', /needs cron_expression or interval_ms/],
    ['{"jobs": 1}', /jobs must be a list/],
    [
      `a: &a [x, x, x]\nb: &b [*a, *a, *a]\n${Array.from({ length: 99 }, () => '- *b').join('\n')}`,
      /standard input:\d+:\d+: /,
    ],
  ];
  for (const [text, message] of wrong) {
    const { code, stderr, stdout } = await ask(['apply', '-f', '-', '--yes'], text);
    assert.deepEqual([code, stdout], [1, ''], text);
    assert.match(stderr, message);
    assert.match(stderr, /nothing was changed/);
  }
  const asJson = await ask(['apply', '-f', '-', '--yes', '--json'], 'job: []');
  const { code, problems } = JSON.parse(asJson.stderr) as { code: string; problems: object[] };
  assert.deepEqual(
    [code, problems],
    [
      'invalid_files',
      [{ file: 'standard input', line: 1, column: 1, path: 'job', message: 'is not known; did you mean jobs?' }],
    ],
  );
  assert.equal(await house.count('jobs'), jobs);
});

test('files that cannot be read, are too large, not text or not there are refused', async () => {
  const at = (name: string): string => path.join(folder, name);
  await writeFile(at('large.yaml'), Buffer.alloc(33 * 1024 * 1024, '# x\n'));
  await writeFile(at('nul.yaml'), 'a: \0');
  await writeFile(at('latin.yaml'), Buffer.from([0x61, 0x3a, 0x20, 0xe9]));
  await mkdir(at('empty'));
  const wrong: [string, RegExp][] = [
    ['large.yaml', /is larger than 33554432 bytes/],
    ['nul.yaml', /holds NUL bytes/],
    ['latin.yaml', /is not UTF-8/],
    ['missing.yaml', /cannot read .*no such file/],
    ['empty', /holds no file that ends with \.yaml or \.yml/],
  ];
  for (const [name, message] of wrong) {
    const { code, stderr } = await ask(['diff', '-f', at(name)]);
    assert.deepEqual([code, message.test(stderr)], [1, true], stderr);
  }
  assert.equal((await ask(['apply', '--yes'])).code, 2);
});

test('a folder is read whole, and what two of its files hold is refused with both places', async () => {
  const inside = path.join(folder, 'many');
  await mkdir(path.join(inside, 'deep'), { recursive: true });
  await writeFile(path.join(inside, 'a.yaml'), hourly('f1'));
  await writeFile(path.join(inside, 'deep', 'b.yml'), hourly('f2'));
  await writeFile(path.join(inside, '.hidden.yaml'), 'wrong');
  await writeFile(path.join(inside, 'readme.md'), 'wrong');
  assert.match(await succeeds(['apply', '-f', inside, '--yes']), /2 of 2 done/);
  await writeFile(path.join(inside, 'c.yaml'), hourly('f1'));
  const { code, stderr } = await ask(['diff', '-f', inside]);
  assert.equal(code, 1);
  assert.match(stderr, /c\.yaml:2:5: jobs\[0\] is the same job as in .*a\.yaml:2: keep one of them/);
});

test('a key that may not do all of it is told what it lacks, and nothing is done', async () => {
  await using locked = await openLockedHouse();
  const run = (key: string, words: string[], input = '') =>
    runPunctual(words, { env: { PUNCTUAL_URL: locked.house.url, PUNCTUAL_API_KEY: key }, input });
  const text = `gates: [{queue: q, state: hold}]\n${hourly('roles')}`;
  const { secret: submitter } = await locked.makeKey('submitter');
  const refused = await run(submitter, ['apply', '-f', '-', '--yes'], text);
  assert.equal(refused.code, 1);
  assert.match(
    refused.stderr,
    /nothing was changed, because this key may not do it:\n {2}to change gates needs a key with the role operator or admin; yours is submitter/,
  );
  assert.equal(await locked.house.count('jobs'), 0);
  assert.equal((await run(submitter, ['diff', '-f', '-'], text)).code, 2, 'to look is allowed');
  const { secret: own } = await locked.makeKey('submitter', { user_id: 'ann' });
  assert.equal((await run(own, ['apply', '-f', '-', '--yes'], hourly('roles'))).code, 0);
  const [job] = (await locked.client.jobs.list({ name: 'roles' })).jobs;
  assert.equal(job?.user_id, 'ann');
  const others = await run(
    own,
    ['apply', '-f', '-', '--yes'],
    hourly('roles').replace('type: t', 'type: t, user_id: bob'),
  );
  assert.match(others.stderr, /user_id is "bob", and your key belongs to the user ann/);
  const exported = await run(own, ['export']);
  assert.match(exported.stderr, /left out: to see channels needs a key with the role operator/);
  assert.equal((await run(own, ['diff', '-f', '-'], exported.stdout)).code, 0);
  assert.equal((await run(own, ['export', '--only', 'channels'])).code, 1);
});

test('secrets of channels are never exported or printed, are kept, and are sent when that is asked for', async () => {
  await using own = await openHouse({ config: { http_allow: ['127.0.0.1'] } });
  const env = { PUNCTUAL_URL: own.url, MAIL: 'pa55word', HOOK: 'https://hooks.example.com/services/t0ken' };
  const run = (words: string[], input = '') => runPunctual(words, { env, input });
  const secretOf = async (name: string): Promise<unknown> =>
    (
      await own.db.query<{ secret: string }>({
        name: '',
        text: 'select secret from punctual.alert_channels where name = $1',
        values: [name],
      })
    )[0]?.secret;
  const text = `channels:
  - {name: mail, kind: email, smtp: {host: mail.example.com, port: 587, user: u, password: !env MAIL}, from: a@example.com, to: [b@example.com]}
  - {name: slack, kind: slack, url: !env HOOK}
  - {name: hook, kind: webhook, url: 'https://h.example.com/x?token=t0psecret'}
`;
  const made = await run(['apply', '-f', '-', '--yes'], text);
  assert.equal(made.code, 0, made.stderr);
  assert.ok(!/pa55word|t0ken|t0psecret/.test(made.stdout + made.stderr), made.stdout);
  assert.deepEqual([await secretOf('mail'), await secretOf('slack')], ['pa55word', env.HOOK]);
  const kept = await secretOf('hook');
  const exported = (await run(['export'])).stdout;
  assert.ok(!/pa55word|t0ken|t0psecret|whsec_/.test(exported), exported);
  assert.equal(exported.match(/!keep$/gm)?.length, 4, exported);
  assert.equal((await run(['diff', '-f', '-'], exported)).code, 0);
  const noted = exported.replaceAll(/^( +)kind: (.*)$/gm, '$1kind: $2\n$1note: changed');
  const changed = await run(['apply', '-f', '-', '--yes'], noted);
  assert.match(changed.stdout, /3 to change; 0 unchanged\n3 of 3 done/, changed.stderr);
  assert.deepEqual(
    [await secretOf('mail'), await secretOf('slack'), await secretOf('hook')],
    ['pa55word', env.HOOK, kept],
  );
  env.MAIL = 'n3w';
  const again = text.replaceAll('kind:', 'note: changed, kind:');
  assert.equal((await run(['diff', '-f', '-'], again)).code, 0, 'a secret cannot be compared');
  const sent = await run(['apply', '-f', '-', '--yes', '--send-secrets'], again);
  assert.match(sent.stdout, /smtp\.password: \(not shown\) → \(sent\)/);
  assert.equal(await secretOf('mail'), 'n3w');
});

test('the payload of an encrypted job is neither exported nor printed, and is compared all the same', async () => {
  await using own = await openHouse({ config: { encryption_keys: `a:${Buffer.alloc(32, 1).toString('base64')}` } });
  const at = terminalOf(own);
  const text = (word: string) =>
    `jobs: [{name: s, type: t, interval_ms: 3600000, encrypted: true, payload: {word: ${word}}}]`;
  await at.succeeds(['apply', '-f', '-', '--yes'], text('s3cret'));
  const exported = await at.succeeds(['export']);
  assert.match(exported, /payload: !keep$/m);
  assert.equal((await at.ask(['diff', '-f', '-'], exported)).code, 0);
  assert.equal((await at.ask(['diff', '-f', '-'], text('s3cret'))).code, 0);
  const other = await at.ask(['apply', '-f', '-', '--yes'], text('0ther'));
  assert.match(other.stdout, /payload: \(encrypted\) → \(encrypted\)/);
  assert.ok(!/s3cret|0ther/.test(other.stdout + other.stderr));
  const [job] = (await own.client.jobs.list({ name: 's' })).jobs;
  assert.deepEqual((await own.client.jobs.get(job?.job_id ?? '', { reveal: true })).payload, { word: '0ther' });
  await at.succeeds(['apply', '-f', '-', '--yes'], exported.replace('3600000', '7200000'));
  assert.deepEqual((await own.client.jobs.get(job?.job_id ?? '', { reveal: true })).payload, { word: '0ther' });
});
