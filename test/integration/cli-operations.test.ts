// `punctual operations` as a program: it counts first, wants a yes, shows progress, and Ctrl-C leaves the operation going.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Operation, OperationPlan } from '@punctual/contract';
import { eventually } from '../support/eventually.ts';
import { type House, openHouse } from '../support/house.ts';
import { runPunctual, startPunctual } from '../support/process.ts';

let house: House;
before(async () => {
  house = await openHouse();
});
after(() => house[Symbol.asyncDispose]());

const ask = (words: string[], input = '') => runPunctual(words, { env: { PUNCTUAL_URL: house.url }, input });
const create = (type: string, count: number): Promise<unknown> =>
  house.client.jobs.createMany(Array.from({ length: count }, () => ({ type, delay_ms: 3_600_000 })));

test('it counts, and does nothing without a yes', async () => {
  await create('mail', 12);
  const cancel = ['operations', 'start', '--action', 'cancel', '--type', 'mail'];
  const dry = await ask([...cancel, '--dry-run']);
  assert.equal(dry.code, 0);
  assert.match(dry.stdout, /^cancel: 12 jobs fit\n( {2}[0-9a-f-]{36}\n){10} {2}…\n$/);
  const plan = JSON.parse((await ask([...cancel, '--dry-run', '--json'])).stdout) as OperationPlan;
  assert.deepEqual([plan.operation_id, plan.count, plan.exact], [null, 12, true]);
  const unasked = await ask(cancel);
  assert.equal(unasked.code, 2);
  assert.match(unasked.stderr, /this changes every job or run that fits; --yes says that you mean it/);
  assert.equal(await house.count('operations'), 0);
  assert.equal(await house.count('jobs', 'where cancelled_at is not null'), 0);
});

test('with --yes it is done and shown, and stands in the record', async () => {
  await create('report', 5);
  const words = ['--type', 'report', '--to-queue', 'slow', '--by', 'ann', '--note', 'too slow', '--yes'];
  const done = await ask(['operations', 'start', '--action', 'move_queue', ...words]);
  assert.equal(done.code, 0, done.stderr);
  assert.match(done.stdout, /^move_queue: 5 jobs fit\n[^]*DONE 5 of 5 jobs done; \d+ looked at\n$/);
  assert.equal(await house.count('jobs', "where queue = 'slow'"), 5);
  const json = await ask(['operations', 'start', '--action', 'cancel', '--queue', 'slow', '--json']);
  const operation = JSON.parse(json.stdout) as Operation;
  assert.deepEqual([operation.state, operation.done], ['DONE', 5]);
  const listed = await ask(['operations', 'list']);
  assert.match(listed.stdout, /cancel +queue=slow/);
  assert.match(listed.stdout, /move_queue slow +type=report +ann +DONE +5 of 5 jobs done/);
  const all = (await ask(['operations', 'list', '--all', '--json'])).stdout.trim().split('\n');
  assert.deepEqual(JSON.parse(all[0] ?? ''), operation);
  const shown = await ask(['operations', 'show', (JSON.parse(all[1] ?? '') as Operation).operation_id]);
  assert.match(shown.stdout, /by +ann\n +note +too slow\n/);
  const cancelled = await ask(['operations', 'cancel', operation.operation_id]);
  assert.match(cancelled.stdout, /is DONE: 5 of 5 jobs done/);
  const none = await ask(['operations', 'start', '--action', 'cancel', '--queue', 'slow', '--yes']);
  assert.deepEqual([none.code, none.stdout], [0, 'cancel: 0 jobs fit\n']);
});

test('Ctrl-C leaves the operation going and says how to look', async () => {
  await create('held', 3);
  await house.db.transaction(async (tx) => {
    // Somebody holds one of the jobs, so that the operation cannot end.
    const text = `select from punctual.jobs where type = 'held' limit 1 for update`;
    await tx.query({ name: '', text, values: [] });
    const words = ['operations', 'start', '--action', 'cancel', '--type', 'held', '--yes'];
    await using watcher = startPunctual(words, { PUNCTUAL_URL: house.url });
    await watcher.said(/RUNNING 2 of 3 jobs done/);
    await watcher.kill('SIGINT');
    assert.equal((await watcher.ended).code, 0);
    await watcher.said(/operation [0-9a-f-]+ goes on; `punctual operations show/);
  });
  await eventually(async () =>
    assert.equal(await house.count('jobs', "where type = 'held' and cancelled_at is null"), 0),
  );
});

test('what is wrong is said by the program or the server', async () => {
  const missing = await ask(['operations', 'start', '--type', 'mail', '--yes']);
  assert.equal(missing.code, 2);
  assert.match(missing.stderr, /--action/);
  const unknown = await ask(['operations', 'start', '--action', 'delete', '--type', 'mail', '--yes']);
  assert.match(unknown.stderr, /It must be one of cancel, retry, redrive, reprioritise, move_queue/);
  const empty = await ask(['operations', 'start', '--action', 'cancel', '--yes']);
  assert.match(empty.stderr, /holds no condition/);
  const target = await ask(['operations', 'start', '--action', 'reprioritise', '--type', 'mail', '--yes']);
  assert.match(target.stderr, /priority: is missing: reprioritise needs the new one/);
  assert.match((await ask(['operations', 'show', 'x'])).stderr, /^punctual: /);
});
