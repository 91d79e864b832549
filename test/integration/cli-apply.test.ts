// `punctual export`, `apply` and `diff` against real houses: what is exported can be applied anywhere and again, and a plan
// says what would change and nothing else.
import assert from 'node:assert/strict';
import path from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type CreateJob, type Job, PunctualError } from '@punctual/contract';
import type { Client } from '@punctual/sdk';
import fc from 'fast-check';
import { eventually } from '../support/eventually.ts';
import { openHouse } from '../support/house.ts';
import { terminalOf } from '../support/terminal.ts';

const house = await openHouse();
after(() => house[Symbol.asyncDispose]());
const { ask, succeeds, parsed } = terminalOf(house);

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../..');
const example = path.join(root, 'examples/punctual.yaml');
const apply = (text: string, ...flags: string[]): Promise<string> =>
  succeeds(['apply', '-f', '-', '--yes', ...flags], text);
const diff = (text: string, ...flags: string[]) => ask(['diff', '-f', '-', ...flags], text);

async function jobsOf(client: Client, name: string): Promise<Job[]> {
  const found: Job[] = [];
  for await (const job of client.jobs.all({ name, status: 'pending' })) found.push(job);
  return found;
}

async function jobOf(client: Client, name: string): Promise<Job> {
  const jobs = await jobsOf(client, name);
  assert.equal(jobs.length, 1, `${jobs.length} jobs are called ${name}`);
  return jobs[0] as Job;
}

test('the example is applied, the second time there is nothing to change, and its export says the same', async () => {
  const first = await succeeds(['apply', '-f', example, '--yes']);
  assert.match(first, /^\+ job nightly backup\n {4}type: backup\n {4}cron_expression: 30 2 \* \* \*$/m);
  assert.match(first, /15 to create; 0 unchanged\n.*whsec_.*\n15 of 15 done\n$/);
  assert.equal(await succeeds(['apply', '-f', example]), 'nothing to change; 15 unchanged\n');
  const job = await jobOf(house.client, 'morning report');
  assert.deepEqual([job.priority, job.schedule?.calendar, job.tags], [7, 'holidays', ['finance', 'reports']]);
  assert.equal((await jobOf(house.client, 'poll supplier')).status, 'PAUSED');
  const text = await succeeds(['export']);
  assert.ok(!text.includes('whsec_') && !text.includes('job_id') && !text.includes('apply:'), text);
  assert.equal((await diff(text)).code, 0);
  assert.equal(await succeeds(['export']), text, 'an export is always the same');
});

test('an export of one house makes another like it', async () => {
  await using other = await openHouse();
  const there = terminalOf(other);
  await succeeds(['apply', '-f', example, '--yes']);
  const text = await succeeds(['export']);
  const refused = await there.ask(['apply', '-f', '-', '--yes'], text);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /channels\[0\]\.secret is !keep, and there is no such channel to keep it of/);
  assert.equal(await other.count('jobs'), 0, 'nothing was done');
  const without = text.replace(/^ +secret: !keep\n/m, '');
  await there.succeeds(['apply', '-f', '-', '--yes'], without);
  assert.equal(await there.succeeds(['export']), text);
});

test('jobs of all shapes that a server takes are exported, and applied again are unchanged', async () => {
  // The jobs of the unit tests: a program brings no types for its tests.
  const file = new URL('../../../cli/dist/apply/any_job.test.support.js', import.meta.url).href;
  const { anyJob } = (await import(file)) as { anyJob: fc.Arbitrary<CreateJob> };
  await using real = await openHouse();
  await using copy = await openHouse();
  let taken = 0;
  for (const [i, one] of fc.sample(anyJob, 120).entries()) {
    // No time comes while the test runs, so that no schedule ends.
    const job = {
      ...one,
      name: `${(one.name ?? '').slice(0, 100)} ${i}`,
      start_at: '2031-01-01T00:00:00Z',
      end_at: null,
    };
    try {
      await real.client.jobs.create({ ...job, ...(job.unique_key === undefined ? {} : { unique_key: `k${i}` }) });
      taken += 1;
    } catch (error) {
      assert.ok(error instanceof PunctualError && error.code.startsWith('invalid_'), String(error));
    }
  }
  assert.ok(taken > 60, `${taken} were taken`);
  const text = await terminalOf(real).succeeds(['export']);
  const same = await terminalOf(real).ask(['diff', '-f', '-'], text);
  assert.deepEqual([same.code, same.stdout], [0, `nothing to change; ${taken} unchanged\n`], same.stderr);
  await terminalOf(copy).succeeds(['apply', '-f', '-', '--yes'], text);
  assert.equal(await terminalOf(copy).succeeds(['export']), text);
});

test('a diff names each field that differs, ends with 2, and changes nothing', async () => {
  await apply('jobs: [{name: d, type: t, interval_ms: 60000, payload: {a: 1, b: [1]}}]\ncalendars: [{name: dc}]');
  const text =
    'jobs: [{name: d, type: t, interval_ms: 90000, payload: {a: 2, b: [1]}, max_retries: 0}]\ncalendars: [{name: dc, timezone: Asia/Tokyo}]';
  const { code, stdout } = await diff(text);
  assert.equal(code, 2);
  assert.equal(
    stdout,
    '~ calendar dc\n    timezone: UTC → Asia/Tokyo\n~ job d\n    interval_ms: 60000 → 90000\n    payload.a: 1 → 2\n    max_retries: 3 → 0\n2 to change; 0 unchanged\n',
  );
  const asJson = JSON.parse((await diff(text, '--json')).stdout) as { steps: { kind: string; changes: object[] }[] };
  assert.deepEqual(asJson.steps[1]?.changes[0], { path: 'interval_ms', before: 60_000, after: 90_000 });
  assert.equal((await ask(['apply', '-f', '-', '--dry-run'], text)).code, 0);
  const unasked = await ask(['apply', '-f', '-'], text);
  assert.deepEqual(
    [unasked.code, /this would change 2 objects; --yes says that you mean it/.test(unasked.stderr)],
    [2, true],
  );
  assert.equal((await jobOf(house.client, 'd')).schedule?.interval_ms, 60_000);
  const done = await parsed<{ applied: boolean; steps: { state: string }[] }>(['apply', '-f', '-', '--yes'], text);
  assert.deepEqual([done.applied, done.steps.map(({ state }) => state)], [true, ['done', 'done']]);
  const job = await jobOf(house.client, 'd');
  assert.deepEqual([job.schedule?.interval_ms, job.payload, job.max_retries], [90_000, { a: 2, b: [1] }, 0]);
  assert.equal((await diff(text)).code, 0);
});

test('what a file leaves out goes back to its default, and a pause by hand stays', async () => {
  await apply(
    'jobs: [{name: e, type: t, cron_expression: "@daily", timezone: Asia/Tokyo, tags: [x], overlap: skip, run_timeout_ms: 5000}]',
  );
  const { job_id } = await jobOf(house.client, 'e');
  await house.client.jobs.pause(job_id, { note: 'by hand' });
  const text = 'jobs: [{name: e, type: t, cron_expression: "@daily"}]';
  await apply(text);
  const job = await jobOf(house.client, 'e');
  assert.equal(job.job_id, job_id);
  assert.deepEqual([job.schedule?.timezone, job.tags, job.schedule?.overlap], ['UTC', [], 'queue_one']);
  assert.deepEqual([job.run_timeout_ms, job.status, job.pause_note], [null, 'PAUSED', 'by hand']);
  await apply(text.replace('"@daily"', '"@daily", paused: false'));
  assert.equal((await jobOf(house.client, 'e')).status, 'SCHEDULED');
});

test('a set removes the jobs it marked and no others, and only when it is asked to', async () => {
  const { client } = house;
  await client.jobs.create({ name: 'by hand', type: 't', interval_ms: 3_600_000 });
  await client.jobs.create({ name: 'once', type: 't', delay_ms: 3_600_000, tags: ['managed-by:team'] });
  const both =
    'jobs: [{name: p1, type: t, interval_ms: 3600000, tags: [own]}, {name: p2, type: t, interval_ms: 3600000}]';
  await apply(both, '--set', 'team');
  assert.deepEqual((await jobOf(client, 'p1')).tags, ['own', 'managed-by:team']);
  const [one] = both.split(', {name: p2');
  const less = `${one}]`;
  assert.equal((await diff(less, '--set', 'team')).code, 0);
  const unsaid = await ask(['apply', '-f', '-', '--prune', '--yes'], less);
  assert.deepEqual([unsaid.code, /say which one by --set NAME/.test(unsaid.stderr)], [2, true]);
  const other = await ask(['apply', '-f', '-', '--set', 'others', '--prune', '--yes'], less);
  assert.match(other.stderr, /is managed by the set team/);
  const empty = await ask(['apply', '-f', '-', '--set', 'team', '--prune', '--yes'], 'jobs: []');
  assert.deepEqual([empty.code, /the files hold no job/.test(empty.stderr)], [1, true]);
  assert.match(await apply(less, '--set', 'team', '--prune'), /^- job p2\n1 to remove; 1 unchanged\n1 of 1 done\n$/);
  assert.deepEqual((await jobsOf(client, 'p2')).length, 0);
  for (const name of ['p1', 'by hand', 'once']) await jobOf(client, name);
  assert.equal(
    await succeeds(['export', '--set', 'team']),
    'punctual: 1\njobs:\n  - name: p1\n    type: t\n    interval_ms: 3600000\n    tags:\n      - own\n',
  );
});

test('of kinds that are named, what the files do not hold is removed, and jobs cannot be named', async () => {
  await using own = await openHouse();
  const at = terminalOf(own);
  await at.succeeds(['apply', '-f', example, '--yes']);
  await own.client.calendars.put('old', {});
  await own.client.gates.set('queue', 'q', { state: 'hold' });
  const words = ['apply', '-f', example, '--yes', '--prune-kinds'];
  assert.match(
    await at.succeeds([...words, 'calendars,gates']),
    /^- gate of queue q\n- calendar old\n2 to remove; 15 unchanged\n/,
  );
  assert.deepEqual(
    (await own.client.calendars.list()).calendars.map(({ name }) => name),
    ['holidays'],
  );
  assert.equal((await own.client.gates.list()).gates.find(({ name }) => name === 'q')?.state, 'open');
  for (const kind of ['jobs', 'gate']) assert.equal((await at.ask([...words, kind])).code, 2);
  const used = await at.ask(['apply', '-f', '-', '--yes', '--prune-kinds', 'calendars'], 'queues: []');
  assert.deepEqual([used.code, /0 of 1 were done/.test(used.stderr)], [1, true], 'a calendar that is used stays');
});

test('what cannot be changed of a job is done by a new one, after what runs of the old one has ended', async () => {
  await using own = await openHouse({
    workers: 1,
    handlers: {
      slow: (_run, { signal }) => new Promise((_, no) => signal.addEventListener('abort', () => no(new Error('told')))),
    },
  });
  const at = terminalOf(own);
  const text = 'jobs: [{name: r, type: slow, interval_ms: 1000, max_runs: 5}]';
  await at.succeeds(['apply', '-f', '-', '--yes'], text);
  const before = await jobOf(own.client, 'r');
  // The latest run is not the one that must end: a second time has come, whose run waits for it.
  await eventually(async () => {
    const { runs } = await own.client.jobs.runs(before.job_id);
    assert.deepEqual([runs.length > 1, runs.at(-1)?.status], [true, 'RUNNING']);
  });
  const changed = text.replace('type: slow', 'type: slow, requires: [gpu]');
  const shown = await at.ask(['diff', '-f', '-'], changed);
  assert.match(
    shown.stdout,
    /^± job r is cancelled, with what runs of it, and made anew\n {4}requires: \[\] → \["gpu"\]\n/,
  );
  await at.succeeds(['apply', '-f', '-', '--yes'], changed);
  const now = await jobOf(own.client, 'r');
  assert.notEqual(now.job_id, before.job_id);
  assert.deepEqual([now.requires, (await own.client.jobs.get(before.job_id)).status], [['gpu'], 'CANCELLED']);
  assert.equal((await at.ask(['diff', '-f', '-'], changed)).code, 0);
});

test('jobs that were made by hand are taken over by their name, and two of one name are told apart by their ids', async () => {
  const { client } = house;
  const made = { name: 'twin', type: 't', interval_ms: 3_600_000 };
  const { job_id } = await client.jobs.create(made);
  const text = 'jobs: [{name: twin, type: t, interval_ms: 7200000}]';
  await apply(text);
  assert.equal((await client.jobs.get(job_id)).schedule?.interval_ms, 7_200_000);
  await client.jobs.create(made);
  const unclear = await diff(text);
  assert.deepEqual(
    [unclear.code, /jobs\[0\]\.name is the name of 2 jobs: say which one by job_id/.test(unclear.stderr)],
    [1, true],
  );
  const exported = await succeeds(['export', '--name', 'twin']);
  assert.equal(exported.match(/job_id/g)?.length, 2);
  assert.equal((await diff(exported)).code, 0);
});

test('a job that was removed by hand is made again, and one that was renamed gets its name back', async () => {
  const text = 'jobs: [{name: back, type: t, interval_ms: 3600000}]';
  await apply(text);
  const { job_id } = await jobOf(house.client, 'back');
  await house.client.jobs.update(job_id, { name: 'other name' });
  assert.match((await diff(text)).stdout, /^~ job back\n {4}name: other name → back\n/);
  await apply(text);
  await house.client.jobs.cancel(job_id);
  await apply(text);
  assert.notEqual((await jobOf(house.client, 'back')).job_id, job_id);
});

test('the gate that a breaker holds is neither exported nor opened', async () => {
  await using own = await openHouse({ workers: 1, handlers: { bad: () => Promise.reject(new Error('no')) } });
  const at = terminalOf(own);
  const text =
    'breakers: [{type: bad, error_rate: 0.1, min_attempts: 1, cool_down_ms: 3600000}]\ngates: [{type: bad, state: open}]';
  await at.succeeds(['apply', '-f', '-', '--yes'], text);
  await own.client.jobs.create({ type: 'bad', max_retries: 0 });
  await eventually(async () => assert.equal((await own.client.gates.list()).gates[0]?.state, 'hold'));
  assert.equal((await at.ask(['diff', '-f', '-'], text)).code, 0);
  assert.ok(!(await at.succeeds(['export'])).includes('gates'));
});

test('an export of many jobs comes page by page, sorted, and is applied in several documents', async () => {
  await using own = await openHouse();
  const jobs = Array.from({ length: 1100 }, (_, i) => ({
    name: `job ${i % 7} ${i}`,
    type: 't',
    interval_ms: 3_600_000,
  }));
  for (const from of [0, 500, 1000]) await own.client.jobs.createMany(jobs.slice(from, from + 500));
  const text = await terminalOf(own).succeeds(['export']);
  const names = [...text.matchAll(/name: (.*)$/gm)].map(([, name]) => name);
  assert.equal(names.length, 1100);
  assert.deepEqual(names, names.toSorted());
  assert.equal(text.match(/^---$/gm)?.length, 1, 'a thousand jobs a document');
  const same = await terminalOf(own).ask(['diff', '-f', '-'], text);
  assert.deepEqual([same.code, same.stdout], [0, 'nothing to change; 1100 unchanged\n']);
});
