// Operations over a real house: each action on jobs and runs in every state, with exact counts against a simple model; a
// dry run that changes nothing; filters that combine; what comes later; cancel.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CreateJob, OperationFilter } from '@punctual/contract';
import { FatalError, type Handler } from '@punctual/sdk';
import { eventually } from '../support/eventually.ts';
import { gate } from '../support/gate.ts';
import { type House, openHouse } from '../support/house.ts';
import { ended, operate } from '../support/operate.ts';

const hour = 3_600_000;
const monthly = { cron_expression: '0 0 1 * *' } as const;

/** Every state a job can be in, by the name of how it gets there. */
const kinds = {
  later: { type: 'ok', delay_ms: hour },
  idle: { type: 'nobody' },
  highest: { type: 'nobody', priority: 9, queue: 'other' },
  paused: { type: 'ok', delay_ms: hour },
  running: { type: 'hold' },
  retrying: { type: 'flaky', backoff: { base_ms: hour, max_ms: hour } },
  failed: { type: 'fatal' },
  failed_and_running: { type: 'fatal_first' },
  done: { type: 'ok' },
  cancelled: { type: 'ok', delay_ms: hour },
  recurring: { type: 'ok', ...monthly },
  recurring_running: { type: 'hold', ...monthly },
} as const satisfies Record<string, CreateJob>;
type Kind = keyof typeof kinds;

/** Those with something to do. */
const live: Kind[] = [
  ...(['later', 'idle', 'highest', 'paused', 'retrying', 'recurring'] as const),
  ...(['running', 'recurring_running', 'failed_and_running'] as const),
];
const copies = 3;

interface Mix {
  house: House;
  /** The ids of the jobs of a kind with the tag `mix`. */
  of: (kind: Kind) => string[];
  all: string[];
  bystanders: string[];
  mend: () => void;
}

/** A house with jobs of every kind, some with the tag `mix`, one of each without. */
async function openMix(): Promise<Mix> {
  let broken = true;
  const hold = gate();
  const seen = new Set<string>();
  const failing =
    (error: Error): Handler =>
    async () => {
      if (broken) throw error;
    };
  const handlers = {
    ok: async () => {},
    flaky: failing(new Error('a passing fault')),
    fatal: failing(new FatalError('a lasting fault')),
    hold: async (_run, ctx) => hold.enter('all', ctx.signal),
    fatal_first: async (run, ctx) => {
      const again = seen.has(run.job_id);
      seen.add(run.job_id);
      if (!again) throw new FatalError('a lasting fault');
      await hold.enter('all', ctx.signal);
    },
  } satisfies Record<string, Handler>;
  const house = await openHouse({ servers: 2, workers: 1, slots: 100, handlers });
  const { client } = house;
  const ids = new Map<Kind, string[]>();
  const bystanders: string[] = [];
  for (const kind of Object.keys(kinds) as Kind[])
    for (let i = 0; i <= copies; i++) {
      const { job_id } = await client.jobs.create({ ...kinds[kind], tags: [i < copies ? 'mix' : 'rest'] });
      if (i < copies) ids.set(kind, [...(ids.get(kind) ?? []), job_id]);
      else bystanders.push(job_id);
      if (kind === 'paused') await client.jobs.pause(job_id);
      if (kind === 'cancelled') await client.jobs.cancel(job_id);
      if (kind === 'recurring_running') await client.jobs.runNow(job_id);
      if (kind === 'done' || kind === 'failed' || kind === 'failed_and_running') await house.ended(job_id);
      if (kind === 'failed_and_running') await client.jobs.runNow(job_id);
      if (kind.endsWith('running')) await house.runWith(job_id, 'RUNNING');
      if (kind === 'retrying')
        await eventually(async () => assert.equal((await client.jobs.status(job_id)).latest_run?.reason, 'retry'));
    }
  const of = (kind: Kind): string[] => ids.get(kind) ?? [];
  return {
    house,
    of,
    all: [...ids.values()].flat(),
    bystanders,
    mend: () => {
      broken = false;
    },
  };
}

async function stateOf(house: House, jobId: string): Promise<string> {
  const { status, latest_run } = await house.client.jobs.status(jobId);
  return `${status} ${latest_run?.status ?? 'none'} ${latest_run?.reason ?? ''} ${latest_run?.queue} ${latest_run?.priority}`;
}

async function statesOf(house: House, ids: readonly string[]): Promise<string[]> {
  const states: string[] = [];
  for (const id of ids) states.push(await stateOf(house, id));
  return states;
}

test('cancel: every job that is to do something is cancelled, also what runs, and nothing else', async () => {
  const { house, of, all, bystanders } = await openMix();
  await using _ = house;
  const untouched = [...bystanders, ...of('done'), ...of('failed'), ...of('cancelled')];
  const before = await statesOf(house, untouched);
  const operation = await operate(house, {
    action: 'cancel',
    filter: { tag: 'mix' },
    user_id: 'ann',
    note: 'too many',
  });
  assert.equal(operation.done, live.length * copies);
  assert.equal(operation.skipped, 0);
  assert.deepEqual(
    [operation.action, operation.acts_on, operation.user_id, operation.note, operation.filter],
    ['cancel', 'jobs', 'ann', 'too many', { tag: 'mix' }],
  );
  for (const kind of live)
    for (const id of of(kind)) {
      assert.equal((await house.client.jobs.get(id)).status, 'CANCELLED', kind);
      if (kind !== 'recurring')
        assert.equal((await house.ended(id)).status, 'CANCELLED', `${kind}: what ran was told to stop`);
    }
  assert.deepEqual(await statesOf(house, untouched), before);
  const again = await operate(house, { action: 'cancel', filter: { tag: 'mix' } });
  assert.deepEqual([again.matched, again.done], [0, 0]);
  assert.equal(all.length, Object.keys(kinds).length * copies);
});

test('cancel by a status of runs cancels those runs and leaves their jobs', async () => {
  const { house, of, bystanders } = await openMix();
  await using _ = house;
  const before = await statesOf(house, bystanders);
  const retrying = await operate(house, {
    action: 'cancel',
    filter: { tag: 'mix', status: 'QUEUED', reason: 'retry' },
  });
  assert.equal(retrying.done, copies);
  const queued = await operate(house, { action: 'cancel', filter: { tag: 'mix', status: 'QUEUED' } });
  // Those that wait for a retry are cancelled already.
  const waiting: Kind[] = ['later', 'idle', 'highest', 'paused'];
  assert.deepEqual([queued.acts_on, queued.done, queued.skipped], ['runs', waiting.length * copies, 0]);
  const running = await operate(house, { action: 'cancel', filter: { tag: 'mix', status: 'RUNNING' } });
  assert.deepEqual([running.acts_on, running.done, running.skipped], ['runs', 3 * copies, 0]);
  for (const kind of [...waiting, 'retrying', 'running', 'recurring_running', 'failed_and_running'] as Kind[])
    for (const id of of(kind)) {
      const { status, reason } = await house.ended(id);
      assert.deepEqual([status, reason], ['CANCELLED', 'cancelled'], kind);
      const job = await house.client.jobs.get(id);
      assert.equal(job.status, kind === 'recurring_running' ? 'SCHEDULED' : 'COMPLETED', kind);
    }
  assert.deepEqual(await statesOf(house, bystanders), before);
});

for (const [action, change] of [
  ['reprioritise', { priority: 9 }],
  ['move_queue', { queue: 'other' }],
] as const) {
  test(`${action}: jobs and their runs that have not started change, what is so already is skipped`, async () => {
    const { house, of, bystanders } = await openMix();
    await using _ = house;
    const untouched = [...bystanders, ...of('done'), ...of('failed'), ...of('cancelled'), ...of('highest')];
    const before = await statesOf(house, untouched);
    const operation = await operate(house, { action, ...change, filter: { tag: 'mix' } });
    const changed = live.filter((kind) => kind !== 'highest');
    assert.equal(operation.done, changed.length * copies);
    assert.deepEqual(operation.skipped_reasons, [{ reason: 'unchanged', count: copies }]);
    for (const kind of changed)
      for (const id of of(kind)) {
        const job = await house.client.jobs.get(id);
        const [wanted] = Object.entries(change);
        assert.deepEqual(
          Object.entries(job).find(([name]) => name === wanted?.[0]),
          wanted,
          kind,
        );
        const { latest_run } = await house.client.jobs.status(id);
        if (latest_run === null || latest_run.status === 'RUNNING') continue;
        assert.equal(latest_run.priority, job.priority, kind);
        assert.equal(latest_run.queue, job.queue, kind);
        assert.equal(latest_run.status, 'QUEUED', kind);
      }
    assert.deepEqual(await statesOf(house, untouched), before);
  });
}

test('retry: what waits for its next attempt is due now, what failed is redriven, what cannot is counted', async () => {
  const { house, of, bystanders, mend } = await openMix();
  await using _ = house;
  mend();
  const untouched = [...bystanders, ...of('later'), ...of('paused'), ...of('failed_and_running'), ...of('running')];
  const before = await statesOf(house, untouched);
  const operation = await operate(house, { action: 'retry', filter: { tag: 'mix' } });
  assert.deepEqual([operation.acts_on, operation.matched, operation.done], ['runs', 3 * copies, 2 * copies]);
  assert.deepEqual(operation.skipped_reasons, [{ reason: 'job_running', count: copies }]);
  for (const kind of ['retrying', 'failed'] as const)
    for (const id of of(kind)) assert.equal((await house.ended(id)).status, 'SUCCESS', kind);
  assert.deepEqual(await statesOf(house, untouched), before);
});

test('redrive: dead letters get a new run, once, and the text and reason of their error choose among them', async () => {
  const { house, of, bystanders, mend } = await openMix();
  await using _ = house;
  mend();
  const before = await statesOf(house, bystanders);
  for (const filter of [{ q: 'passing' }, { reason: 'lost' }, { name: 'nobody' }] as OperationFilter[])
    assert.equal((await operate(house, { action: 'redrive', filter: { tag: 'mix', ...filter } })).matched, 0);
  const filter: OperationFilter = { tag: 'mix', q: 'LASTING', reason: 'failed', status: 'FAILED' };
  const operation = await operate(house, { action: 'redrive', filter });
  assert.deepEqual([operation.matched, operation.done], [2 * copies, copies]);
  assert.deepEqual(operation.skipped_reasons, [{ reason: 'job_running', count: copies }]);
  for (const id of of('failed')) {
    assert.equal((await house.ended(id)).status, 'SUCCESS');
    assert.equal((await house.client.jobs.runs(id)).runs.length, 2);
  }
  const again = await operate(house, { action: 'redrive', filter });
  assert.deepEqual([again.matched, again.done], [copies, 0], 'only those that could not be redriven are left');
  assert.deepEqual(await statesOf(house, bystanders), before);
});

test('retry by the text of the error finds waiting runs by their last attempt', async () => {
  const { house } = await openMix();
  await using _ = house;
  const count = async (filter: OperationFilter): Promise<number | undefined> =>
    (await house.client.operations.create({ action: 'retry', filter, dry_run: true })).count;
  assert.equal(await count({ tag: 'mix', q: 'passing' }), copies);
  assert.equal(await count({ tag: 'mix', q: 'lasting' }), 2 * copies);
  assert.equal(await count({ tag: 'mix', q: 'fault', status: 'QUEUED' }), copies);
  assert.equal(await count({ tag: 'mix', status: 'FAILED' }), 2 * copies);
  assert.equal(await count({ q: 'fault' }), 3 * copies + 3, 'also those of others');
});

test('conditions combine: a job must fit all of them', async () => {
  await using house = await openHouse();
  const { client } = house;
  const pick = <T>(items: readonly T[], i: number): T => items[i % items.length] as T;
  const jobs: (CreateJob & { created: number })[] = [];
  let middle = '';
  for (let i = 0; i < 90; i++) {
    if (i === 45) {
      const at = Date.now() + 2;
      middle = new Date(at).toISOString();
      await eventually(() => assert.ok(Date.now() > at), { everyMs: 1 });
    }
    const job: CreateJob = {
      type: pick(['mail', 'report'], i),
      queue: pick(['a', 'b', 'c'], Math.floor(i / 2)),
      user_id: pick(['ann', 'bob'], Math.floor(i / 6)),
      name: pick(['one', 'two'], Math.floor(i / 12)),
      tags: i % 5 === 0 ? ['red', 'big'] : ['big'],
      payload: { text: i % 7 === 0 ? 'Seventh' : 'any' },
      delay_ms: hour,
    };
    await client.jobs.create(job);
    jobs.push({ ...job, created: i });
  }
  const conditions: [OperationFilter, (job: (typeof jobs)[number]) => boolean][] = [
    [{ type: 'mail' }, (job) => job.type === 'mail'],
    [{ queue: 'b' }, (job) => job.queue === 'b'],
    [{ user_id: 'bob' }, (job) => job.user_id === 'bob'],
    [{ name: 'two' }, (job) => job.name === 'two'],
    [{ tag: 'red' }, (job) => job.tags?.includes('red') === true],
    [{ q: 'seventh' }, (job) => JSON.stringify(job.payload).includes('Seventh')],
    [{ status: 'SCHEDULED' }, () => true],
    [{ created_after: middle }, (job) => job.created >= 45],
    [{ created_before: middle }, (job) => job.created < 45],
  ];
  for (let bits = 1; bits < 1 << conditions.length; bits += 3) {
    const chosen = conditions.filter((_, i) => (bits & (1 << i)) !== 0);
    const filter = Object.assign({}, ...chosen.map(([one]) => one)) as OperationFilter;
    if (filter.created_after !== undefined && filter.created_before !== undefined) continue;
    const expected = jobs.filter((job) => chosen.every(([, fits]) => fits(job))).length;
    const { count } = await client.operations.create({ action: 'cancel', filter, dry_run: true });
    assert.equal(count, expected, JSON.stringify(filter));
  }
  const red = await operate(house, { action: 'cancel', filter: { tag: 'red', type: 'mail', created_before: middle } });
  assert.equal(red.done, 5);
  assert.equal(await house.count('jobs', 'where cancelled_at is not null'), 5);
  const everything = await operate(house, { action: 'cancel', filter: { all: true } });
  assert.equal(everything.done, 85);
});

test('what is created after an operation began is left alone', async () => {
  await using house = await openHouse({ config: { poll_interval_ms: 60_000 } });
  const { client } = house;
  const before = await client.jobs.create({ type: 'mail', delay_ms: hour });
  await house.db.query({
    name: '',
    text: `insert into punctual.operations (operation_id, action, filter)
           values ('${operationId}', 'cancel', '{"all":true}')`,
    values: [],
  });
  const after = await client.jobs.create({ type: 'mail', delay_ms: hour });
  await house.db.query({
    name: '',
    text: `insert into punctual.operation_parts (segment, operation_id) select s, '${operationId}' from generate_series(0, 3) s`,
    values: [],
  });
  // Any operation wakes the loop.
  await client.operations.create({ action: 'redrive', filter: { all: true } });
  assert.equal((await ended(house, operationId)).done, 1);
  assert.equal((await client.jobs.get(before.job_id)).status, 'CANCELLED');
  assert.equal((await client.jobs.get(after.job_id)).status, 'SCHEDULED');
});

const operationId = '01900000-0000-7000-8000-000000004000';

test('twenty thousand waiting jobs are cancelled, and a job submitted meanwhile runs', async () => {
  await using house = await openHouse({ servers: 2, workers: 1 });
  const { client } = house;
  for (let i = 0; i < 20; i++)
    await client.jobs.createMany(
      Array.from({ length: 1000 }, (_, k) => ({
        type: 'mail',
        queue: 'bulk',
        ...(k % 2 === 0 ? { delay_ms: hour } : {}),
      })),
    );
  const { operation_id } = await client.operations.create({ action: 'cancel', filter: { queue: 'bulk' } });
  const { job_id } = await client.jobs.create({ type: 'echo', payload: 'meanwhile' });
  const run = await house.ended(job_id, 30_000);
  assert.equal(run.status, 'SUCCESS');
  const { state, matched, done, skipped } = await ended(house, operation_id, 60_000);
  assert.deepEqual({ state, matched, done, skipped }, { state: 'DONE', matched: 20_000, done: 20_000, skipped: 0 });
  assert.equal(await house.count('ended_runs', "where status = 'CANCELLED' and reason = 'job_cancelled'"), 20_000);
  assert.equal(await house.count('waiting'), 0);
  assert.equal(await house.count('ready'), 0);
});

test('runs keep their order of arrival in the lane they are moved to', async () => {
  const started: unknown[] = [];
  await using house = await openHouse({ segments: 1 });
  for (let i = 0; i < 40; i++) await house.client.jobs.create({ type: 'echo', payload: i });
  await operate(house, { action: 'move_queue', queue: 'other', filter: { type: 'echo' } });
  const handler: Handler = async (run) => void started.push(run.payload);
  await house.addWorker({ echo: handler }, { slots: 1, queues: ['other'] });
  await eventually(() => assert.equal(started.length, 40));
  assert.deepEqual(
    started,
    Array.from({ length: 40 }, (_, i) => i),
  );
});

test('a cancelled operation goes no further once that is answered', async () => {
  await using house = await openHouse({ servers: 2 });
  const { client } = house;
  for (let i = 0; i < 10; i++)
    await client.jobs.createMany(Array.from({ length: 1000 }, () => ({ type: 'mail', delay_ms: hour })));
  const { operation_id } = await client.operations.create({ action: 'cancel', filter: { type: 'mail' } });
  const cancelled = await client.operations.cancel(operation_id ?? '');
  assert.equal(cancelled.state, 'CANCELLED');
  assert.ok(cancelled.done < 10_000, `${cancelled.done} were done before it was cancelled`);
  assert.equal(await house.count('jobs', 'where cancelled_at is not null'), cancelled.done);
  // Both servers have gone round once more when these are done.
  await operate(house, { action: 'redrive', filter: { all: true } });
  await operate(house, { action: 'redrive', filter: { all: true } });
  assert.deepEqual(await client.operations.get(operation_id ?? ''), cancelled);
  assert.equal(await house.count('jobs', 'where cancelled_at is not null'), cancelled.done);
  assert.deepEqual(await client.operations.cancel(operation_id ?? ''), cancelled);
  const rest = await operate(house, { action: 'cancel', filter: { type: 'mail' } });
  assert.equal(rest.done, 10_000 - cancelled.done);
  assert.equal((await client.operations.cancel(rest.operation_id)).state, 'DONE', 'what is done stays done');
});
