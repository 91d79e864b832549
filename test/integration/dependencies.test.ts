// Jobs that wait for the end of others: released when every condition is met, dropped when one can no longer be, brought
// back when the parent is tried again.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CreateJob, JobCreated, Problem, Run } from '@punctual/contract';
import { FatalError } from '@punctual/sdk';
import { eventually } from '../support/eventually.ts';
import { gate } from '../support/gate.ts';
import { Hand, outcome } from '../support/hand.ts';
import { type House, openHouse } from '../support/house.ts';

/** Fails for good while its payload or the set says so. */
const failing = new Set<unknown>();
const handlers = {
  step: async (run: { payload: unknown }) => {
    if (failing.has(run.payload)) throw new FatalError('it was told to fail');
    return run.payload;
  },
};
const step = (name: string, more: Partial<CreateJob> = {}): CreateJob => ({
  name,
  type: 'step',
  payload: name,
  max_retries: 0,
  ...more,
});

async function statuses(house: House, jobs: readonly JobCreated[]): Promise<string[]> {
  return Promise.all(
    jobs.map(async ({ job_id }) => {
      const run = await house.ended(job_id);
      return run.reason === null ? run.status : `${run.status} ${run.reason}`;
    }),
  );
}

async function post(house: House, path: string, body: object): Promise<{ status: number; problem: Problem }> {
  const response = await fetch(`${house.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  return { status: response.status, problem: (await response.json()) as Problem };
}

test('a job starts when the one it depends on has succeeded, and says until then what it waits for', async () => {
  const open = gate();
  await using house = await openHouse({
    servers: 2,
    workers: 1,
    handlers: { held: (_run, { signal }) => open.enter('held', signal), ...handlers },
  });
  const { jobs } = house.client;
  const parent = await jobs.create({ type: 'held' });
  const child = await jobs.create(step('child', { depends_on: [{ job_id: parent.job_id }] }));
  const blocked = await house.client.runs.get(child.run_id ?? '');
  assert.equal(blocked.status, 'BLOCKED');
  assert.equal(blocked.reason, 'dependency');
  assert.deepEqual(blocked.waits_for, [{ run_id: parent.run_id, on: 'success' }]);
  assert.deepEqual(
    (await house.client.runs.list({ status: 'BLOCKED' })).runs.map((run) => run.run_id),
    [child.run_id],
  );
  await house.runWith(parent.job_id, 'RUNNING');
  assert.deepEqual((await jobs.get(child.job_id)).depends_on, [
    { run_id: parent.run_id, job_id: parent.job_id, on: 'success', state: 'pending', status: 'RUNNING' },
  ]);
  assert.equal((await jobs.get(child.job_id)).status, 'SCHEDULED');
  open.open('held');
  const run = await house.ended(child.job_id);
  assert.equal(run.status, 'SUCCESS');
  const parentRun = await house.ended(parent.job_id);
  assert.ok(Date.parse(run.start_time ?? '') >= Date.parse(parentRun.end_time ?? ''));
  assert.deepEqual((await jobs.get(child.job_id)).depends_on, [
    { run_id: parent.run_id, job_id: parent.job_id, on: 'success', state: 'met', status: 'SUCCESS' },
  ]);
  assert.equal((await house.client.runs.get(child.run_id ?? '')).waits_for, undefined);
});

test('one bulk fans out and in again, whatever the order of its items', async () => {
  await using house = await openHouse({ servers: 2, workers: 2, handlers, slots: 50 });
  const width = 60;
  // The last waits for all in the middle, which wait for the one that is named last.
  const items = [
    step('end', { depends_on: Array.from({ length: width }, (_, i) => ({ item: i + 1 })) }),
    ...Array.from({ length: width }, (_, i) => step(`middle ${i}`, { depends_on: [{ item: width + 1 }] })),
    step('begin'),
  ];
  const { jobs } = await house.client.jobs.createMany(items);
  const runs = await Promise.all(jobs.map(({ job_id }) => house.ended(job_id)));
  assert.ok(runs.every((run) => run.status === 'SUCCESS'));
  const [end, begin] = [runs[0] as Run, runs.at(-1) as Run];
  for (const middle of runs.slice(1, -1)) {
    assert.ok((middle.start_time ?? '') >= (begin.end_time ?? ''));
    assert.ok((end.start_time ?? '') >= (middle.end_time ?? ''));
  }
  // They are told first, and then forgotten.
  await eventually(async () => assert.equal(await house.count('dependents'), 0));
});

test('each condition lets its jobs go or drops them, after every kind of end', async () => {
  await using house = await openHouse({ servers: 2, workers: 1, handlers });
  failing.add('bad');
  const { jobs } = house.client;
  const children = async (parent: JobCreated): Promise<string[]> => {
    const made = await Promise.all(
      (['success', 'failure', 'any_end'] as const).map((on) =>
        jobs.create(step(on, { depends_on: [{ run_id: parent.run_id ?? '', on }] })),
      ),
    );
    return statuses(house, made);
  };
  const good = await jobs.create(step('good', { delay_ms: 200 }));
  assert.deepEqual(await children(good), ['SUCCESS', 'DROPPED upstream_failed', 'SUCCESS']);
  const bad = await jobs.create(step('bad', { delay_ms: 200 }));
  assert.deepEqual(await children(bad), ['DROPPED upstream_failed', 'SUCCESS', 'SUCCESS']);
  const cancelled = await jobs.create(step('cancelled', { delay_ms: 60_000 }));
  const later = children(cancelled);
  await eventually(async () => assert.equal(await house.count('waiting', `where reason = 'dependency'`), 3));
  await jobs.cancel(cancelled.job_id);
  assert.deepEqual(await later, ['DROPPED upstream_failed', 'DROPPED upstream_failed', 'SUCCESS']);
  // The same for parents that had ended before the children came.
  assert.deepEqual(await children(good), ['SUCCESS', 'DROPPED upstream_failed', 'SUCCESS']);
  assert.deepEqual(await children(bad), ['DROPPED upstream_failed', 'SUCCESS', 'SUCCESS']);
  assert.deepEqual(await children(cancelled), ['DROPPED upstream_failed', 'DROPPED upstream_failed', 'SUCCESS']);
  const [dropped] = (await house.client.runs.list({ status: 'DROPPED' })).runs;
  assert.match(
    dropped?.error_message ?? '',
    /^It depends on the run [0-9a-f-]{36}, which did not end as it should have/,
  );
});

test('a run is released only when every one of its conditions is met', async () => {
  await using house = await openHouse({ servers: 2 });
  const hand = new Hand(house.url);
  const { jobs } = house.client;
  const parents = await Promise.all([0, 1, 2].map(() => jobs.create({ type: 'echo', max_retries: 0 })));
  const [a, b, c] = parents.map((parent) => parent.run_id ?? '');
  const child = await jobs.create({
    type: 'echo',
    depends_on: [{ run_id: a ?? '' }, { run_id: b ?? '', on: 'failure' }, { run_id: c ?? '', on: 'any_end' }],
  });
  const grants = new Map<string, { run_id: string; lease_id: string }>();
  while (grants.size < 3) for (const run of await hand.take([...grants.keys()])) grants.set(run.run_id, run);
  const end = (id: string | undefined, status: 'SUCCESS' | 'FAILED') =>
    hand.call({
      running: [...grants.keys()].filter((other) => other !== id),
      outcomes: [outcome(grants.get(id ?? '') as never, { status })],
    });
  const states = async () => (await jobs.get(child.job_id)).depends_on?.map((need) => need.state);
  await end(a, 'SUCCESS');
  grants.delete(a ?? '');
  await eventually(async () => assert.deepEqual(await states(), ['met', 'pending', 'pending']));
  await end(b, 'FAILED');
  grants.delete(b ?? '');
  await eventually(async () => assert.deepEqual(await states(), ['met', 'met', 'pending']));
  assert.equal((await jobs.status(child.job_id)).latest_run?.status, 'BLOCKED');
  await end(c, 'FAILED');
  const [granted] = await hand.take();
  assert.equal(granted?.run_id, child.run_id);
  await hand.call({ outcomes: [outcome(granted as never)] });
});

test('a failed parent leaves nobody waiting: a chain of a thousand ends within seconds', async () => {
  await using house = await openHouse({ servers: 1, workers: 1, handlers });
  failing.add('root');
  const items = Array.from({ length: 1000 }, (_, i) =>
    i === 0 ? step('root') : step(`step ${i}`, { depends_on: [{ item: i - 1 }] }),
  );
  await house.client.jobs.createMany(items);
  await eventually(async () => assert.equal(await house.count('ended_runs', `where status = 'DROPPED'`), 999));
  assert.equal(await house.count('waiting'), 0);
});

test('a chain whose first step failed runs to its end after a retry of that step', async () => {
  await using house = await openHouse({ servers: 2, workers: 2, handlers });
  failing.add('first');
  const { jobs } = await house.client.jobs.createMany([
    step('first'),
    step('second', { depends_on: [{ item: 0 }] }),
    step('third', { depends_on: [{ item: 1 }] }),
    step('on failure', { depends_on: [{ item: 0, on: 'failure' }] }),
    step('after all', { depends_on: [{ item: 2, on: 'any_end' }] }),
    step('with another', { depends_on: [{ item: 2 }, { item: 3 }] }),
  ]);
  const dropped = 'DROPPED upstream_failed';
  assert.deepEqual(await statuses(house, jobs), ['FAILED failed', dropped, dropped, 'SUCCESS', 'SUCCESS', dropped]);
  failing.delete('first');
  const { retried_run_id } = await house.client.runs.retry(jobs[0]?.run_id ?? '');
  await eventually(async () =>
    assert.deepEqual(await statuses(house, jobs), ['SUCCESS', 'SUCCESS', 'SUCCESS', 'SUCCESS', 'SUCCESS', 'SUCCESS']),
  );
  const second = await house.ended(jobs[1]?.job_id ?? '');
  assert.equal(second.cause, 'redrive');
  assert.equal((await house.client.jobs.get(jobs[1]?.job_id ?? '')).depends_on?.[0]?.run_id, retried_run_id);
  const runsOf = async (i: number) => (await house.client.jobs.runs(jobs[i]?.job_id ?? '')).runs.length;
  assert.deepEqual(await Promise.all([0, 1, 2, 3, 4, 5].map(runsOf)), [2, 2, 2, 1, 1, 2], 'only those concerned');
});

test('a job with two failed parents comes back when both were tried again', async () => {
  await using house = await openHouse({ servers: 2, workers: 1, handlers });
  for (const name of ['left', 'right']) failing.add(name);
  const { jobs } = await house.client.jobs.createMany([
    step('left'),
    step('right'),
    step('both', { depends_on: [{ item: 0 }, { item: 1 }] }),
  ]);
  await statuses(house, jobs);
  failing.delete('left');
  failing.delete('right');
  const states = async () => (await house.client.jobs.get(jobs[2]?.job_id ?? '')).depends_on?.map((need) => need.state);
  await eventually(async () => assert.deepEqual(await states(), ['failed', 'failed']));
  await house.client.runs.retry(jobs[0]?.run_id ?? '');
  await eventually(async () => assert.deepEqual(await states(), ['met', 'failed']));
  assert.equal((await house.ended(jobs[2]?.job_id ?? '')).status, 'DROPPED');
  await house.client.deadLetters.redriveMany({});
  await eventually(async () => assert.equal((await house.ended(jobs[2]?.job_id ?? '')).status, 'SUCCESS'));
  assert.deepEqual(await states(), ['met', 'met']);
});

test('a parent that fails again after its retry drops its children again', async () => {
  await using house = await openHouse({ servers: 1, workers: 1, handlers });
  failing.add('again');
  const { jobs } = await house.client.jobs.createMany([
    step('again'),
    step('child', { depends_on: [{ item: 0 }] }),
    step('grandchild', { depends_on: [{ item: 1 }] }),
  ]);
  await statuses(house, jobs);
  const { retried_run_id } = await house.client.runs.retry(jobs[0]?.run_id ?? '');
  await eventually(async () => {
    assert.equal(await house.count('ended_runs'), 6);
    assert.equal(await house.count('waiting'), 0);
  });
  failing.delete('again');
  await house.client.runs.retry(retried_run_id ?? '');
  await eventually(async () => assert.equal(await house.count('ended_runs', `where status = 'SUCCESS'`), 3));
});

test('a job may depend on others and have a time of its own: both hold', async () => {
  await using house = await openHouse({ servers: 1, workers: 1, handlers });
  const { jobs } = house.client;
  const parent = await jobs.create(step('parent'));
  await house.ended(parent.job_id);
  const child = await jobs.create(step('child', { delay_ms: 6_000, depends_on: [{ job_id: parent.job_id }] }));
  const waiting = await eventually(async () => {
    const { latest_run } = await jobs.status(child.job_id);
    assert.equal(latest_run?.reason, 'due_later');
    return latest_run;
  });
  const run = await house.ended(child.job_id);
  assert.ok((run.start_time ?? '') >= (waiting?.due_at ?? '?'), `${run.start_time} ${waiting?.due_at}`);
});

test('the time of a whole run counts from when it was released', async () => {
  const open = gate();
  await using house = await openHouse({
    servers: 1,
    workers: 1,
    handlers: { held: (_run, { signal }) => open.enter('held', signal), ...handlers },
  });
  const parent = await house.client.jobs.create({ type: 'held' });
  const child = await house.client.jobs.create(
    step('child', { run_timeout_ms: 8_000, depends_on: [{ job_id: parent.job_id }] }),
  );
  await new Promise((resolve) => setTimeout(resolve, 8_100));
  open.open('held');
  assert.equal((await house.ended(child.job_id)).status, 'SUCCESS');
});

test('a blocked run can be cancelled, is not hurried, and stays blocked when its job is paused, changed and resumed', async () => {
  const open = gate();
  await using house = await openHouse({
    servers: 2,
    workers: 1,
    handlers: { held: (_run, { signal }) => open.enter('held', signal), ...handlers },
  });
  const { jobs, runs } = house.client;
  const parent = await jobs.create({ type: 'held' });
  const depends_on = [{ job_id: parent.job_id }];
  const [gone, kept] = await Promise.all([0, 1].map((i) => jobs.create(step(`child ${i}`, { depends_on }))));
  const next = await jobs.create(step('next', { depends_on: [{ job_id: gone?.job_id ?? '' }] }));
  await assert.rejects(runs.retry(gone?.run_id ?? ''), { code: 'run_blocked' });
  await assert.rejects(jobs.runNow(gone?.job_id ?? ''), { code: 'run_blocked' });
  await jobs.cancel(gone?.job_id ?? '');
  assert.equal((await house.ended(next.job_id)).reason, 'upstream_failed');
  await jobs.pause(kept?.job_id ?? '');
  await jobs.update(kept?.job_id ?? '', { priority: 9 });
  assert.equal((await runs.get(kept?.run_id ?? '')).status, 'BLOCKED');
  open.open('held');
  await house.ended(parent.job_id);
  await house.runWith(kept?.job_id ?? '', 'QUEUED');
  await eventually(async () => assert.equal((await runs.get(kept?.run_id ?? '')).reason, 'paused'));
  await jobs.resume(kept?.job_id ?? '');
  const run = await house.ended(kept?.job_id ?? '');
  assert.deepEqual([run.status, run.priority], ['SUCCESS', 9]);
  assert.equal((await house.ended(gone?.job_id ?? '')).status, 'CANCELLED');
});

test('a job id means the latest run of the job', async () => {
  await using house = await openHouse({ servers: 1, workers: 1, handlers });
  failing.add('parent');
  const { jobs } = house.client;
  const parent = await jobs.create(step('parent'));
  await house.ended(parent.job_id);
  failing.delete('parent');
  const { retried_run_id } = await house.client.runs.retry(parent.run_id ?? '');
  await house.runWith(parent.job_id, 'SUCCESS');
  const child = await jobs.create(step('child', { depends_on: [{ job_id: parent.job_id }] }));
  assert.equal((await house.ended(child.job_id)).status, 'SUCCESS');
  assert.equal((await jobs.get(child.job_id)).depends_on?.[0]?.run_id, retried_run_id);
});

test('what cannot be depended on is refused with its place, and nothing is created', async () => {
  await using house = await openHouse({ servers: 1 });
  const { job_id, run_id = '' } = await house.client.jobs.create(step('ann', { user_id: 'ann' }));
  const recurring = await house.client.jobs.create({ type: 'step', interval_ms: 3_600_000 });
  const before = await house.count('jobs');
  const nobody = '01890000-0000-7000-8000-000000000000';
  const refused = async (depends_on: unknown, more: object = {}) => {
    const { status, problem } = await post(house, '/jobs', { type: 'step', depends_on, ...more });
    return `${status} ${problem.code} ${problem.errors?.[0]?.path}`;
  };
  assert.equal(await refused([{ job_id: nobody }]), '422 invalid_dependency depends_on[0]');
  assert.equal(
    await refused([{ job_id }, { run_id: nobody.replace(/0000$/, '1000') }]),
    '422 invalid_dependency depends_on[1]',
  );
  assert.equal(await refused([{ job_id: run_id }]), '422 invalid_dependency depends_on[0]');
  assert.equal(await refused([{ run_id: job_id }]), '422 invalid_dependency depends_on[0]');
  assert.equal(await refused([{ job_id: nobody.replace(/000$/, 'fff') }]), '422 invalid_dependency depends_on[0]');
  assert.equal(await refused([{ job_id }], { user_id: 'bob' }), '422 invalid_dependency depends_on[0]');
  assert.equal(await refused([{ job_id: recurring.job_id }]), '422 invalid_dependency depends_on[0]');
  assert.equal(await refused([{ item: 0 }]), '422 invalid_dependency depends_on[0]');
  assert.equal(await refused([{ job_id }, { run_id }]), '422 invalid_dependency depends_on[1]');
  assert.equal(await refused([{}]), '422 invalid_dependency depends_on[0]');
  assert.equal(await refused([{ job_id }], { cron_expression: '0 9 * * *' }), '400 invalid_input depends_on');
  assert.equal(await refused([{ job_id, on: 'sometimes' }]), '400 invalid_input depends_on[0].on');
  assert.equal(await refused([{ job_id, when: 'success' }]), '400 invalid_input depends_on[0].when');
  assert.equal(await refused([job_id]), '400 invalid_input depends_on[0]');
  assert.equal(await refused('x'), '400 invalid_input depends_on');
  assert.equal(await refused([{ job_id: '../etc' }]), '400 invalid_input depends_on[0].job_id');
  assert.equal(await refused(Array.from({ length: 1001 }, () => ({ job_id }))), '400 invalid_input depends_on');
  const put = await fetch(`${house.url}/jobs/${job_id}`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ depends_on: [{ run_id }] }),
  });
  assert.equal(put.status, 400, 'it cannot be changed later');
  assert.equal(await house.count('jobs'), before);
});

test('a bulk whose items wait for each other in a circle, or have too many edges, is refused', async () => {
  await using house = await openHouse({ servers: 1 });
  const bulk = async (...parents: object[][]) => {
    const jobs = parents.map((depends_on) => ({ type: 'step', depends_on }));
    const { status, problem } = await post(house, '/jobs/bulk', { jobs });
    return { status, code: problem.code, detail: problem.detail, first: problem.errors?.[0]?.path };
  };
  const circle = await bulk([{ item: 2 }], [{ item: 0 }], [{ item: 1 }]);
  assert.deepEqual([circle.status, circle.code, circle.first], [422, 'bulk_refused', 'jobs[0].depends_on']);
  assert.match(circle.detail ?? '', /jobs\[0\] → jobs\[2\] → jobs\[1\] → jobs\[0\]/);
  assert.match((await bulk([{ item: 0 }])).detail ?? '', /jobs\[0\] → jobs\[0\]/);
  assert.match(
    (await bulk([], [{ item: 9 }])).detail ?? '',
    /^Nothing was created. jobs\[1\].depends_on\[0\] names item 9/,
  );
  const many = Array.from({ length: 11 }, (_, i) =>
    Array.from({ length: i < 10 ? 989 : 111 }, (_none, k) => ({ item: 11 + k })),
  );
  const over = await bulk(...many, ...Array.from({ length: 989 }, () => []));
  assert.deepEqual([over.status, over.code], [422, 'bulk_refused']);
  assert.match(over.detail ?? '', /10001 entries of depends_on together; 10000 are allowed/);
  assert.equal(await house.count('jobs'), 0);
  assert.equal(await house.count('needs'), 0);
});

test('a bulk with dependencies that is sent twice under one key is made once', async () => {
  await using house = await openHouse({ servers: 2, workers: 1, handlers });
  const items = [step('first'), step('second', { depends_on: [{ item: 0 }] })];
  const [one, two] = await Promise.all(
    house.servers.map(async ({ url }) => {
      const response = await fetch(`${url}/jobs/bulk`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'idempotency-key': 'graph-1' },
        body: JSON.stringify({ jobs: items }),
      });
      return (await response.json()) as { jobs: JobCreated[] };
    }),
  );
  assert.deepEqual(one, two);
  assert.deepEqual(await statuses(house, one?.jobs ?? []), ['SUCCESS', 'SUCCESS']);
  assert.equal(await house.count('needs'), 1);
});
