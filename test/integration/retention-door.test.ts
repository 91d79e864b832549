// Rules of retention by API, SDK and CLI; `punctual prune`; what is answered about things that are gone; and a house in which
// days are dropped while it works.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { firstRunId, newId } from '@punctual/server/internal/base/ids';
import { prepareJob } from '@punctual/server/internal/rules/job';
import { createJobs } from '@punctual/server/internal/store/jobs';
import { Lanes } from '@punctual/server/internal/store/lanes';
import { prune } from '@punctual/server/internal/upkeep/prune';
import { eventually } from '../support/eventually.ts';
import { openHouse } from '../support/house.ts';
import { oldId, Past } from '../support/past.ts';
import { runPunctual } from '../support/process.ts';

// A minute after their start servers prune by themselves: these keep what the tests are about, and leave it to them.
const house = await openHouse({ servers: 2, workers: 1, config: { retain_runs_days: 365, retain_logs_days: 200 } });
after(() => house[Symbol.asyncDispose]());
const lanes = new Lanes(house.db);
const past = new Past({ lanes, query: (text, values = []) => house.db.query({ name: '', text, values }) });
const policy = { runs_days: 30, logs_days: 14, submissions_days: 7, operations_days: 90, artifacts_days: 7 };

const ask = (words: string[]) =>
  runPunctual(words, { env: { PUNCTUAL_URL: house.url, DATABASE_URL: house.databaseUrl, TZ: 'UTC' } });

async function succeeds(words: string[]): Promise<string> {
  const { code, stdout, stderr } = await ask(words);
  assert.equal(code, 0, `punctual ${words.join(' ')}\n${stdout}${stderr}`);
  return stdout;
}

const send = async (method: string, path: string, body?: unknown) => {
  const response = await fetch(`${house.url}${path}`, {
    method,
    ...(body === undefined ? {} : { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
  });
  return { status: response.status, body: (await response.json()) as { code?: string; title?: string } };
};

test('rules are set, listed and deleted by any server', async () => {
  const { retention } = house.client;
  const rule = await retention.set('queue', 'audit', { runs_days: 365, note: 'auditors' });
  assert.deepEqual([rule.runs_days, rule.logs_days, rule.note], [365, null, 'auditors']);
  await retention.set('queue', 'audit', { logs_days: 0 });
  await retention.set('type', 'echo', { runs_days: 7, logs_days: 2 });
  const { installation, rules } = await retention.list();
  assert.deepEqual(installation, { ...policy, runs_days: 365, logs_days: 200 });
  assert.deepEqual(
    rules.map(({ kind, name, runs_days, logs_days, note }) => ({ kind, name, runs_days, logs_days, note })),
    [
      { kind: 'queue', name: 'audit', runs_days: null, logs_days: 0, note: null },
      { kind: 'type', name: 'echo', runs_days: 7, logs_days: 2, note: null },
    ],
  );
  await retention.delete('queue', 'audit');
  await retention.delete('type', 'echo');
  await assert.rejects(retention.delete('type', 'echo'), { code: 'retention_not_found' });
});

test('rules that cannot be are refused with the field that is wrong', async () => {
  for (const body of [
    {},
    { note: 'x' },
    { runs_days: -1 },
    { runs_days: 1.5 },
    { logs_days: '3' },
    { runs_days: 40_000 },
    { days: 3 },
    [],
    null,
  ]) {
    const { status, body: answer } = await send('PUT', '/retention/queue/q', body);
    assert.deepEqual([status, answer.code], [400, 'invalid_input'], JSON.stringify(body));
  }
  assert.equal((await send('PUT', '/retention/user/q', { runs_days: 1 })).status, 400);
  assert.equal((await send('PUT', `/retention/queue/${'x'.repeat(200)}`, { runs_days: 1 })).status, 400);
  assert.deepEqual((await house.client.retention.list()).rules, []);
});

test('`punctual retention` sets, lists and deletes rules', async () => {
  assert.match(
    await succeeds(['retention', 'set', '--queue', 'audit', '--runs-days', '0', '--note', 'for the auditors']),
    /\nqueue +audit +for ever +– .*for the auditors/,
  );
  assert.match(await succeeds(['retention', 'list']), /^runs 365 days, log lines 200 days, .*\n[^]*audit/);
  assert.equal(
    await succeeds(['retention', 'delete', '--queue', 'audit']),
    'queue audit has no rule of its own any more\n',
  );
  for (const words of [['set', '--queue', 'a'], ['set', '--runs-days', '3'], ['delete'], ['delete', '--type', 'none']])
    assert.notEqual((await ask(['retention', ...words])).code, 0, words.join(' '));
});

test('`punctual prune` says what would go, then removes it; what is gone is answered 404 with the reason', async () => {
  const day = await past.day(40);
  const job = await past.done(40);
  await past.attempt(job.run_id, 40);
  await past.log(job.run_id, 40);
  const tables = [
    { table: 'log_chunks', rows: 1, exact: true },
    { table: 'ended_runs', rows: 1, exact: true },
    { table: 'attempts', rows: 1, exact: true },
    { table: 'jobs', rows: 1, exact: true },
  ];
  const dry = JSON.parse(await succeeds(['prune', '--dry-run', '--json'])) as { tables: unknown; dropped: string[] };
  assert.deepEqual([dry.tables, dry.dropped], [tables, []]);
  assert.match(await succeeds(['prune', '--dry-run']), /ended_runs +1\n/);
  assert.equal((await house.client.runs.get(job.run_id)).status, 'SUCCESS');
  const done = JSON.parse(await succeeds(['prune', '--json'])) as { tables: unknown; dropped: string[] };
  assert.deepEqual(
    [done.tables, done.dropped],
    [tables, [`log_chunks_${day}`, `ended_runs_${day}`, `attempts_${day}`]],
  );
  assert.equal(await succeeds(['prune']), 'nothing is old enough to go\n');
  for (const path of [
    `/runs/${job.run_id}`,
    `/runs/${job.run_id}/logs`,
    `/runs/${job.run_id}/attempts`,
    `/jobs/${job.job_id}`,
    `/jobs/${job.job_id}/runs`,
  ]) {
    const { status, body } = await send('GET', path);
    assert.equal(status, 404, path);
    assert.match(body.title ?? '', /or retention has removed it/);
  }
  for (const path of [`/runs/${job.run_id}/cancel`, `/runs/${job.run_id}/retry`, `/jobs/${job.job_id}/runNow`])
    assert.equal((await send('POST', path)).status, 404, path);
});

test('a job cannot be made to depend on what is gone, and one that meets the removal is dropped, not stuck', async () => {
  await past.day(40);
  const parent = await past.done(40);
  for await (const step of prune({ db: house.db, segments: [0, 1, 2, 3], policy, dryRun: false })) void step;
  for (const depends_on of [[{ run_id: parent.run_id }], [{ job_id: parent.job_id }]])
    assert.equal((await send('POST', '/jobs', { type: 'echo', depends_on })).body.code, 'invalid_dependency');
  // As a submit writes it that had seen the parent a moment before.
  const write = async (on: 'success' | 'any_end'): Promise<string> => {
    const prepared = prepareJob({ type: 'echo' }, Date.now());
    assert.ok(!('refused' in prepared));
    const job_id = newId('job', 1);
    const [lane] = await lanes.ensure([
      { queue: 'default', type: 'echo', executor: 'handler', priority: 5, requires: '', stage: 'plain' },
    ]);
    const needs = [{ job_id, parent_run_id: parent.run_id, on, place: 0 }];
    await createJobs(
      house.db,
      [
        {
          job: prepared,
          segment: 1,
          job_id,
          run_id: firstRunId(job_id),
          lane_id: lane?.lane_id ?? 0,
          submission: null,
          needs,
        },
      ],
      [],
    );
    return job_id;
  };
  const [strict, easy] = [await write('success'), await write('any_end')];
  assert.equal((await house.ended(strict)).status, 'DROPPED');
  assert.equal((await house.ended(easy)).status, 'SUCCESS');
});

test('days are dropped while a house works, and nobody notices', async () => {
  for (let ago = 60; ago > 50; ago--) {
    await past.day(ago);
    for (let i = 0; i < 5; i++) await past.done(ago, { segment: i % 4 });
    await past.failed(ago);
    const live = await past.job(ago, { segment: 2 });
    await past.waiting({ ...live, run_id: oldId('run', 2, ago) }, ago);
  }
  const letters = await house.count('dead_letters');
  let pruning = true;
  let removed = 0;
  const both = Promise.all(
    [0, 1].map(async () => {
      for (let round = 0; round < 20; round++)
        for await (const { rows } of prune({ db: house.db, segments: [0, 1, 2, 3], policy, dryRun: false }))
          removed += rows;
    }),
  ).finally(() => {
    pruning = false;
  });
  const jobs: string[] = [];
  const waits: number[] = [];
  while (pruning) {
    const began = performance.now();
    const { job_id } = await house.client.jobs.create({ type: 'echo' });
    await house.ended(job_id);
    waits.push(performance.now() - began);
    jobs.push(job_id);
  }
  await both;
  assert.ok(jobs.length > 3);
  // The machine itself may stand still now and then.
  const longest = waits.sort((a, b) => b - a)[2] ?? 0;
  assert.ok(longest < 2_000, `some took ${longest} ms`);
  assert.equal(await house.count('dead_letters'), letters);
  assert.equal(await house.count('ended_runs', `where ended_at < now() - interval '40 days'`), letters);
  assert.ok(removed >= 100, `${removed} rows`);
  const [letter] = (await house.client.deadLetters.list()).dead_letters;
  const { redriven_run_id } = await house.client.deadLetters.redrive(letter?.run_id ?? '');
  await eventually(async () => assert.equal((await house.client.runs.get(redriven_run_id ?? '')).status, 'SUCCESS'));
});
