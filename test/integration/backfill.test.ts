// Backfills over a real house: each past time makes exactly one run, in order, never more at once than allowed, with one
// server and with three; they are cancelled, paused, and stand beside what the schedule does.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Backfill, Run } from '@punctual/contract';
import type { Handler } from '@punctual/sdk';
import { stepBackfill } from '@punctual/server/internal/store/backfill_moves';
import { Lanes } from '@punctual/server/internal/store/lanes';
import { eventually } from '../support/eventually.ts';
import { gate } from '../support/gate.ts';
import { type House, openHouse } from '../support/house.ts';

/** Never comes while a test runs, unless that runs at midnight on the first of a month. */
const monthly = { type: 'make', cron_expression: '0 0 1 * *' } as const;
const years = (from: number, to: number): { from: string; to: string } => ({
  from: `${from}-01-01T00:00:00Z`,
  to: `${to}-12-31T00:00:00Z`,
});
const months = (from: number, to: number): string[] =>
  Array.from({ length: (to - from + 1) * 12 }, (_, i) => new Date(Date.UTC(from, i)).toISOString());

/** A handler that remembers the times it ran for, in order, and how many ran at once at most. */
function recorder(pauseMs = 0): { handler: Handler; times: string[]; most: () => number } {
  const times: string[] = [];
  let now = 0;
  let most = 0;
  const handler: Handler = async (run) => {
    times.push(new Date(run.scheduled_for).toISOString());
    most = Math.max(most, ++now);
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
    now--;
    return null;
  };
  return { handler, times, most: () => most };
}

async function ended(house: House, id: string | null, withinMs = 120_000): Promise<Backfill> {
  return eventually(
    async () => {
      const backfill = await house.client.backfills.get(id ?? '');
      assert.notEqual(backfill.ended_at, null, JSON.stringify(backfill));
      return backfill;
    },
    { withinMs },
  );
}

for (const order of ['oldest_first', 'newest_first'] as const) {
  test(`one after the other, ${order}, each time makes one run`, async () => {
    const { handler, times, most } = recorder();
    await using house = await openHouse({ workers: 1, handlers: { make: handler } });
    const { job_id } = await house.client.jobs.create(monthly);
    const plan = await house.client.backfills.create(job_id, { ...years(2019, 2020), order });
    assert.deepEqual(
      { ...plan, backfill_id: typeof plan.backfill_id },
      {
        backfill_id: 'string',
        times: 24,
        first: '2019-01-01T00:00:00.000Z',
        last: '2020-12-01T00:00:00.000Z',
        already: 0,
        runs: 24,
      },
    );
    const done = await ended(house, plan.backfill_id);
    const expected = months(2019, 2020);
    assert.deepEqual(times, order === 'oldest_first' ? expected : expected.toReversed());
    assert.equal(most(), 1);
    const { state, total, made, running, succeeded, failed, cancelled } = done;
    assert.deepEqual(
      { state, total, made, running, succeeded, failed, cancelled },
      { state: 'DONE', total: 24, made: 24, running: 0, succeeded: 24, failed: 0, cancelled: 0 },
    );
    const { runs } = await house.client.jobs.runs(job_id);
    assert.equal(runs.length, 24);
    assert.ok(runs.every((run) => run.cause === 'backfill' && run.status === 'SUCCESS'));
    assert.deepEqual((await house.client.backfills.list(job_id)).backfills, [done]);

    const again = await house.client.backfills.create(job_id, { ...years(2018, 2020), dry_run: true });
    assert.deepEqual([again.times, again.already, again.runs], [36, 24, 12]);
    const all = await house.client.backfills.create(job_id, {
      ...years(2018, 2020),
      dry_run: true,
      include_done: true,
    });
    assert.deepEqual([all.times, all.already, all.runs], [36, 24, 36]);
  });
}

test('with three servers each time makes one run, and never more at once than allowed', async () => {
  const { handler, times, most } = recorder(5);
  await using house = await openHouse({ servers: 3 });
  for (const server of house.servers) await house.addWorker({ make: handler }, { url: server.url, slots: 10 });
  const { job_id } = await house.client.jobs.create(monthly);
  const first = await house.client.backfills.create(job_id, { ...years(1980, 1989), max_concurrency: 4 });
  assert.equal((await ended(house, first.backfill_id)).succeeded, 120);
  assert.deepEqual(times.toSorted(), months(1980, 1989));
  assert.ok(most() <= 4, `${most()} at once`);
  assert.ok(most() > 1, 'and more than one');
});

test('two backfills that are asked for at once share the range: each time still makes one run', async () => {
  const { handler, times } = recorder();
  await using house = await openHouse({ servers: 2, workers: 1, handlers: { make: handler } });
  const { job_id } = await house.client.jobs.create(monthly);
  const plans = await Promise.all(
    Array.from({ length: 5 }, () =>
      house.client.backfills.create(job_id, { ...years(2001, 2001), max_concurrency: 10 }),
    ),
  );
  for (const plan of plans) await ended(house, plan.backfill_id);
  assert.deepEqual(plans.map((plan) => plan.runs).toSorted(), [0, 0, 0, 0, 12]);
  assert.deepEqual(times.toSorted(), months(2001, 2001));
});

test('steps that race make no run too many, and one that fails in the middle leaves nothing behind', async () => {
  await using house = await openHouse({ servers: 2 });
  const { job_id } = await house.client.jobs.create(monthly);
  await house.client.jobs.pause(job_id);
  const { backfill_id } = await house.client.backfills.create(job_id, { ...years(1990, 1999), max_concurrency: 7 });
  assert.equal(await house.count('ready'), 0, 'a paused job waits');
  await house.client.jobs.resume(job_id);
  const lanes = new Lanes(house.db);
  const failing = { ensure: () => Promise.reject(new Error('the server dies here')) } as unknown as Lanes;
  const steps = Array.from({ length: 40 }, (_, i) =>
    stepBackfill(house.db, i % 4 === 0 ? failing : lanes, backfill_id ?? '').catch(() => null),
  );
  await Promise.all(steps);
  await eventually(async () => assert.equal(await house.count('ready'), 7));
  await Promise.all(steps.map(() => stepBackfill(house.db, lanes, backfill_id ?? '')));
  assert.equal(await house.count('ready'), 7);
  assert.equal(await house.count('backfill_times', 'where run_id is not null'), 7);
  assert.equal((await house.client.backfills.get(backfill_id ?? '')).running, 7);
});

test('cancelled in the middle it makes no further runs, those that wait end, those that run go on', async () => {
  const hold = gate();
  const entered: string[] = [];
  await using house = await openHouse({
    workers: 1,
    slots: 2,
    handlers: {
      make: async (run, ctx) => {
        entered.push(run.run_id);
        await hold.enter('run', ctx.signal);
      },
    },
  });
  const { job_id } = await house.client.jobs.create(monthly);
  const { backfill_id } = await house.client.backfills.create(job_id, { ...years(2000, 2009), max_concurrency: 5 });
  await eventually(() => assert.equal(entered.length, 2));
  const cancelled = await house.client.backfills.cancel(backfill_id ?? '');
  assert.equal(cancelled.state, 'CANCELLED');
  assert.equal(cancelled.ended_at, null, 'two still run');
  await eventually(async () => assert.equal((await house.client.backfills.get(backfill_id ?? '')).cancelled, 3));
  hold.open('run');
  const { state, total, made, running, succeeded, failed } = await ended(house, backfill_id);
  assert.deepEqual(
    { state, total, made, running, succeeded, failed },
    { state: 'CANCELLED', total: 120, made: 5, running: 0, succeeded: 2, failed: 0 },
  );
  assert.equal((await house.client.backfills.cancel(backfill_id ?? '')).state, 'CANCELLED');
  const { runs } = await house.client.jobs.runs(job_id);
  assert.deepEqual(runs.map((run) => run.reason).toSorted(), [
    'backfill_cancelled',
    'backfill_cancelled',
    'backfill_cancelled',
    null,
    null,
  ]);
  const rest = await house.client.backfills.create(job_id, { ...years(2000, 2009), dry_run: true });
  assert.equal(rest.already, 5, 'what it did not make can be made by another');
});

test('it waits while its job is paused, and is cancelled with it', async () => {
  const { handler, times } = recorder();
  await using house = await openHouse({ workers: 1, handlers: { make: handler } });
  const { job_id } = await house.client.jobs.create(monthly);
  await house.client.jobs.pause(job_id);
  const { backfill_id } = await house.client.backfills.create(job_id, years(2001, 2001));
  await house.client.jobs.resume(job_id);
  assert.equal((await ended(house, backfill_id)).state, 'DONE');
  assert.equal(times.length, 12);
  await house.client.jobs.pause(job_id);
  const other = await house.client.backfills.create(job_id, years(2002, 2002));
  await house.client.jobs.cancel(job_id);
  const { state, made } = await ended(house, other.backfill_id);
  assert.deepEqual({ state, made }, { state: 'CANCELLED', made: 0 });
});

test('failures are counted and tried again like those of other runs', async () => {
  let tries = 0;
  await using house = await openHouse({
    workers: 1,
    handlers: {
      make: async (run) => {
        tries++;
        if (new Date(run.scheduled_for).getUTCMonth() % 2 === 0) throw new Error('no');
      },
    },
  });
  const { job_id } = await house.client.jobs.create({ ...monthly, max_retries: 1, backoff: { base_ms: 1 } });
  const { backfill_id } = await house.client.backfills.create(job_id, { ...years(2001, 2001), max_concurrency: 3 });
  const { state, succeeded, failed } = await ended(house, backfill_id);
  assert.deepEqual({ state, succeeded, failed, tries }, { state: 'DONE', succeeded: 6, failed: 6, tries: 18 });
});

for (const overlap of ['skip', 'cancel_other', 'queue_one'] as const) {
  test(`the schedule goes on beside a backfill, with overlap ${overlap}`, async () => {
    const hold = gate();
    const causes = new Map<string, Run['cause']>();
    await using house = await openHouse({
      workers: 1,
      slots: 10,
      handlers: {
        make: async (run, ctx) => {
          if (new Date(run.scheduled_for).getUTCFullYear() < 2002) await hold.enter('old', ctx.signal);
        },
      },
    });
    const { job_id } = await house.client.jobs.create({
      type: 'make',
      interval_ms: 1000,
      start_at: '2001-01-01T00:00:00Z',
      overlap,
      catch_up: 'none',
    });
    const { backfill_id } = await house.client.backfills.create(job_id, {
      from: '2001-01-01T00:00:00Z',
      to: '2001-01-01T00:00:01Z',
      max_concurrency: 2,
    });
    await hold.entered('old');
    // Just now one of the schedule may be running.
    let asked = await eventually(() => house.client.jobs.runNow(job_id));
    await eventually(async () => {
      const { runs } = await house.client.jobs.runs(job_id);
      for (const run of runs) if (run.status === 'SUCCESS') causes.set(run.run_id, run.cause);
      // The next time of the schedule may have come before it was done, and cancels others: it is asked for again.
      if (runs.some((run) => run.run_id === asked.run_id && run.status === 'CANCELLED'))
        asked = await house.client.jobs.runNow(job_id);
      const of = (cause: string): number => [...causes.values()].filter((one) => one === cause).length;
      assert.ok(of('schedule') >= 2 && of('run_now') >= 1, JSON.stringify([...causes]));
    });
    hold.open('old');
    const { succeeded, cancelled } = await ended(house, backfill_id);
    assert.deepEqual({ succeeded, cancelled }, { succeeded: 2, cancelled: 0 });
    await house.client.jobs.pause(job_id);
  });
}

test('times of the ledger that made a run are left out, unless asked for', async () => {
  const { handler } = recorder();
  await using house = await openHouse({ workers: 1, handlers: { make: handler } });
  const start = new Date(Math.floor(Date.now() / 1000) * 1000 - 60_000);
  const { job_id } = await house.client.jobs.create({ type: 'make', interval_ms: 1000, start_at: start.toISOString() });
  await eventually(async () =>
    assert.ok((await house.client.jobs.occurrences(job_id, { with_run: true })).occurrences.length >= 2),
  );
  await house.client.jobs.pause(job_id);
  const { occurrences } = await house.client.jobs.occurrences(job_id, { with_run: true });
  const range = { from: start.toISOString(), to: occurrences[0]?.scheduled_for ?? '' };
  const plan = await house.client.backfills.create(job_id, { ...range, dry_run: true });
  assert.equal(plan.already, occurrences.length);
  assert.equal(plan.times, (Date.parse(range.to) - Date.parse(range.from)) / 1000 + 1);
  assert.equal(plan.runs, plan.times - plan.already);
});

test('a dry run changes nothing', async () => {
  await using house = await openHouse();
  const { job_id } = await house.client.jobs.create(monthly);
  const plan = await house.client.backfills.create(job_id, { ...years(2001, 2001), dry_run: true });
  assert.deepEqual(plan, {
    backfill_id: null,
    times: 12,
    first: '2001-01-01T00:00:00.000Z',
    last: '2001-12-01T00:00:00.000Z',
    already: 0,
    runs: 12,
  });
  const none = await house.client.backfills.create(job_id, {
    from: '2001-01-02T00:00:00Z',
    to: '2001-01-03T00:00:00Z',
    dry_run: true,
  });
  assert.deepEqual([none.times, none.first, none.last, none.runs], [0, null, null, 0]);
  for (const table of ['backfills', 'backfill_times', 'ready', 'waiting', 'occurrences'])
    assert.equal(await house.count(table), 0, table);
  assert.deepEqual((await house.client.backfills.list(job_id)).backfills, []);
});

test('lists have pages', async () => {
  await using house = await openHouse();
  const { job_id } = await house.client.jobs.create(monthly);
  const ids: (string | null)[] = [];
  for (const year of [2001, 2002, 2003])
    ids.unshift((await house.client.backfills.create(job_id, years(year, year))).backfill_id);
  const first = await house.client.backfills.list(job_id, { limit: 2 });
  const second = await house.client.backfills.list(job_id, { limit: 2, cursor: first.next_cursor ?? '' });
  assert.equal(second.next_cursor, null);
  assert.deepEqual(
    [...first.backfills, ...second.backfills].map((backfill) => backfill.backfill_id),
    ids,
  );
});

test('what cannot be done is refused, and says why', async () => {
  await using house = await openHouse();
  const { client } = house;
  const { job_id } = await client.jobs.create(monthly);
  const missing = `${job_id.slice(0, 24)}ffff${job_id.slice(28)}`;
  const refused = async (id: string, body: object, code: string, message: string): Promise<void> => {
    await assert.rejects(client.backfills.create(id, { ...years(2001, 2001), ...body }), { code, message });
    await assert.rejects(client.backfills.create(id, { ...years(2001, 2001), ...body, dry_run: true }), {
      code,
      message,
    });
  };
  await refused(
    job_id,
    { from: '2002-01-01T00:00:00Z', to: '2001-01-01T00:00:00Z' },
    'invalid_input',
    'from must not be after to',
  );
  await refused(
    job_id,
    { to: new Date(Date.now() + 60_000).toISOString() },
    'invalid_input',
    'to must not be in the future: those times make their runs when they come',
  );
  await refused(missing, {}, 'job_not_found', `No job has the id ${missing}.`);
  await refused(job_id, { max_concurrency: 0 }, 'invalid_input', 'max_concurrency must be >= 1');
  await refused(job_id, { max_concurrency: 101 }, 'invalid_input', 'max_concurrency must be <= 100');

  const once = await client.jobs.create({ type: 'make', delay_ms: 1_000_000 });
  await refused(
    once.job_id,
    {},
    'invalid_schedule',
    'schedule_type is FUTURE: only CRON and INTERVAL jobs have past times',
  );
  const delay = await client.jobs.create({ type: 'make', interval_ms: 3_600_000, interval_mode: 'fixed_delay' });
  await refused(
    delay.job_id,
    {},
    'invalid_schedule',
    'interval_mode is fixed_delay: its times depend on its runs, so none were missed',
  );
  const many = await client.jobs.create({ type: 'make', cron_expression: '* * * * *' });
  await refused(
    many.job_id,
    {},
    'invalid_input',
    'to is too far from from: the range has more than 100000 times, and a backfill takes at most 100000',
  );
  await client.jobs.cancel(job_id);
  await refused(job_id, {}, 'job_ended', 'The job is cancelled.');
  const unknown = { code: 'backfill_not_found', message: `No backfill has the id ${job_id}.` };
  await assert.rejects(client.backfills.get(job_id), unknown);
  await assert.rejects(client.backfills.cancel(job_id), unknown);
  await assert.rejects(client.backfills.list(missing), { code: 'job_not_found' });
});
