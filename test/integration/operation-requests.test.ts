// Asking for operations: keys, the record and its pages, limits, and every way to get it wrong.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CreateOperation, Operation } from '@punctual/contract';
import { openApplication } from '../support/application.ts';
import { openHouse } from '../support/house.ts';
import { copyTheJob } from '../support/many_jobs.ts';
import { ended } from '../support/operate.ts';

const hour = 3_600_000;

test('fifty requests with one key begin one operation; another body under it is refused', async () => {
  await using house = await openHouse({ servers: 3 });
  const post = (i: number, body: CreateOperation) =>
    fetch(`${house.servers[i % 3]?.url}/operations`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': 'once' },
      body: JSON.stringify(body),
    });
  const asked: CreateOperation = { action: 'cancel', filter: { type: 'mail' } };
  const answers = await Promise.all(Array.from({ length: 50 }, (_, i) => post(i, asked)));
  assert.deepEqual(new Set(answers.map((answer) => answer.status)), new Set([202]));
  const ids = await Promise.all(answers.map(async (answer) => ((await answer.json()) as Operation).operation_id));
  assert.equal(new Set(ids).size, 1);
  assert.equal(answers.filter((answer) => answer.headers.get('idempotency-replayed') === null).length, 1);
  assert.equal(await house.count('operations'), 1);
  const other = await post(0, { ...asked, filter: { type: 'report' } });
  assert.equal(other.status, 422);
  assert.equal(((await other.json()) as { code: string }).code, 'idempotency_key_reused');
});

test('the record of operations has pages and is chosen by state', async () => {
  await using house = await openHouse();
  const { client } = house;
  const ids: string[] = [];
  for (let i = 0; i < 5; i++)
    ids.unshift((await client.operations.create({ action: 'redrive', filter: { all: true } })).operation_id ?? '');
  for (const id of ids) await ended(house, id);
  const first = await client.operations.list({ limit: 3 });
  const second = await client.operations.list({ limit: 3, cursor: first.next_cursor ?? '' });
  assert.equal(second.next_cursor, null);
  assert.deepEqual(
    [...first.operations, ...second.operations].map((one) => one.operation_id),
    ids,
  );
  assert.equal((await client.operations.list({ state: 'RUNNING' })).operations.length, 0);
  assert.equal((await client.operations.list({ state: 'DONE' })).operations.length, 5);
});

test('what cannot be done is refused, and says why', async () => {
  await using house = await openHouse();
  const { client } = house;
  const { job_id } = await client.jobs.create({ type: 'mail', delay_ms: hour });
  const refused = async (body: object, path: string, words: RegExp): Promise<void> => {
    for (const dry_run of [true, false])
      await assert.rejects(client.operations.create({ ...body, dry_run } as CreateOperation), (error: unknown) => {
        const { code, errors } = error as { code: string; errors: { path: string; message: string }[] };
        assert.equal(code, 'invalid_input');
        assert.equal(errors[0]?.path, path);
        assert.match(errors[0]?.message ?? '', words);
        return true;
      });
  };
  const filter = { type: 'mail' };
  await refused({ action: 'cancel', filter: {} }, 'filter', /all: true/);
  await refused({ action: 'cancel', filter: { all: false } }, 'filter', /all: true/);
  await refused({ action: 'cancel', filter: { all: true, type: 'mail' } }, 'filter.all', /contradicts/);
  await refused({ action: 'cancel' }, 'filter', /missing/);
  await refused({ action: 'delete', filter }, 'action', /must be one of cancel, retry/);
  await refused({ filter }, 'action', /missing/);
  await refused({ action: 'reprioritise', filter }, 'priority', /missing/);
  await refused({ action: 'reprioritise', filter, priority: 10 }, 'priority', /<= 9/);
  await refused({ action: 'move_queue', filter }, 'queue', /filter.queue is the old one/);
  await refused({ action: 'move_queue', filter, queue: 'no queue' }, 'queue', /characters/);
  await refused({ action: 'cancel', filter, priority: 1 }, 'priority', /reprioritise only/);
  await refused({ action: 'redrive', filter: { status: 'RUNNING' } }, 'filter.status', /must be one of FAILED/);
  await refused({ action: 'cancel', filter: { typ: 'mail' } }, 'filter.typ', /did you mean type/);
  await refused({ action: 'cancel', filter: { created_after: 'soon' } }, 'filter.created_after', /date-time/);
  await refused({ action: 'cancel', filter: { q: '\u0000' } }, 'filter.q', /characters/);
  await refused({ action: 'cancel', filter: { tag: "'; drop table punctual.jobs; --" } }, 'filter.tag', /characters/);
  assert.equal(await house.count('operations'), 0);
  assert.equal((await client.jobs.get(job_id)).status, 'SCHEDULED');
});

test('forged ids and cursors are refused', async () => {
  await using house = await openHouse();
  const { client } = house;
  const { job_id } = await client.jobs.create({ type: 'mail', delay_ms: hour });
  const { operation_id } = await client.operations.create({ action: 'redrive', filter: { all: true } });
  const elsewhere = `${(operation_id ?? '').slice(0, 33)}fff`;
  for (const id of [job_id, elsewhere]) {
    const unknown = { code: 'operation_not_found', message: `No operation has the id ${id}.` };
    await assert.rejects(client.operations.get(id), unknown);
    await assert.rejects(client.operations.cancel(id), unknown);
  }
  await assert.rejects(client.operations.get('x'), { code: 'invalid_id' });
  await client.operations.create({ action: 'redrive', filter: { all: true } });
  const { next_cursor } = await client.operations.list({ limit: 1 });
  const mark = Buffer.from(next_cursor ?? '', 'base64url')
    .toString()
    .slice(0, 8);
  const forged = [
    'x',
    Buffer.from(`${mark}${job_id}`).toString('base64url'),
    Buffer.from(`${mark}' or true --`).toString('base64url'),
    Buffer.from(`00000000${operation_id}`).toString('base64url'),
  ];
  for (const cursor of forged) await assert.rejects(client.operations.list({ cursor }), { code: 'invalid_cursor' });
  await client.jobs.create({ type: 'mail', delay_ms: hour });
  const jobs = await client.jobs.list({ limit: 1 });
  await assert.rejects(client.operations.list({ cursor: jobs.next_cursor ?? '' }), { code: 'invalid_cursor' });
  // An id of a segment that does not exist is only a place in the list.
  const beyond = Buffer.from(`${mark}${elsewhere}`).toString('base64url');
  assert.equal((await client.operations.list({ cursor: beyond })).operations.length, 1);
});

test('a dry run looks at a bounded number of rows, and says that there may be more', async () => {
  await using house = await openHouse();
  await house.client.jobs.create({ type: 'mail', delay_ms: hour });
  // As many as it looks at, made like that one, on a connection without a deadline: a slow machine may need a while.
  await using app = await openApplication(house.databaseUrl);
  await copyTheJob(app, 100_000);
  const { count, exact } = await house.client.operations.create({
    action: 'cancel',
    filter: { type: 'mail' },
    dry_run: true,
  });
  assert.deepEqual({ count, exact }, { count: 100_000, exact: false });
});

test('no more operations than may go on at once are begun', async () => {
  await using house = await openHouse({ config: { poll_interval_ms: 60_000 } });
  await house.db.query({
    name: '',
    text: `insert into punctual.operations (operation_id, action, filter)
           select gen_random_uuid(), 'cancel', '{"type":"none"}' from generate_series(1, 20)`,
    values: [],
  });
  const asked: CreateOperation = { action: 'redrive', filter: { all: true } };
  const response = await fetch(`${house.url}/operations`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(asked),
  });
  assert.equal(response.status, 429);
  assert.equal(response.headers.get('retry-after'), '10');
  assert.equal(((await response.json()) as { code: string }).code, 'too_many_operations');
  assert.equal(await house.count('operations'), 20);
  assert.equal((await house.client.operations.create({ ...asked, dry_run: true })).count, 0, 'a dry run is not one');
});
