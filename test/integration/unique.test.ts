// Once-ness by a key: each scope with each action, one key at many servers, pauses and schedules. With bulks and idempotency
// keys: unique-bulk.test.ts; forced races: unique-races.test.ts.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { CreateJob } from '@punctual/contract';
import { within } from '@punctual/server/internal/store/database';
import { sweepUniques } from '@punctual/server/internal/upkeep/uniques';
import { eventually } from '../support/eventually.ts';
import { gate } from '../support/gate.ts';
import { type House, openHouse } from '../support/house.ts';
import { existing, newKey, posts, refused } from '../support/unique.ts';

let house: House;
const hold = gate();
const ran: unknown[] = [];
before(async () => {
  house = await openHouse({
    servers: 3,
    workers: 1,
    slots: 50,
    handlers: {
      echo: async (run) => {
        ran.push(run.payload);
        return run.payload;
      },
      fail: async () => {
        throw new Error('it broke');
      },
      hold: async (run, ctx) => {
        await hold.enter(run.run_id, ctx.signal);
        return run.payload;
      },
    },
  });
});
after(async () => {
  await house[Symbol.asyncDispose]();
});

const { post, created } = posts(() => house);

const hour = 3_600_000;
const scopes = [
  { unique_scope: 'waiting' },
  { unique_scope: 'live' },
  { unique_scope: 'period', unique_period_ms: hour },
] as const satisfies Partial<CreateJob>[];

for (const scope of scopes) {
  describe(`scope ${scope.unique_scope}`, () => {
    const unique = (more: CreateJob = {}): CreateJob => ({ type: 'hold', unique_key: newKey(), ...scope, ...more });

    describe('while the earlier job waits', () => {
      const waits = async () => {
        const job = unique({ delay_ms: hour, payload: 'old' });
        return { job, ...(await created(job)) };
      };
      test('reject refuses with the id of that job and creates nothing', async () => {
        const { job, job_id } = await waits();
        const jobsBefore = await house.count('jobs');
        refused(await post(job, { server: 1 }), job_id, /has not started|until its unique_period_ms/);
        refused(await post({ ...job, on_conflict: 'reject' }), job_id);
        assert.equal(await house.count('jobs'), jobsBefore);
      });
      test('return_existing answers that job and leaves it as it is', async () => {
        const { job, job_id, run_id } = await waits();
        const answer = await post({ ...job, payload: 'new', on_conflict: 'return_existing' }, { server: 1 });
        existing(answer, job_id, 'returned');
        assert.equal(answer.body.run_id, run_id);
        const stored = await house.client.jobs.get(job_id);
        assert.deepEqual([stored.payload, stored.version, stored.unique_key], ['old', 1, job.unique_key]);
      });
      test('replace_payload gives that job the payload and nothing else', async () => {
        const { job, job_id } = await waits();
        const earlier = await house.client.jobs.get(job_id);
        const answer = await post({ ...job, payload: 'new', delay_ms: 5, name: 'n', on_conflict: 'replace_payload' });
        existing(answer, job_id, 'payload_replaced');
        const stored = await house.client.jobs.get(job_id);
        assert.deepEqual({ ...stored, updated_at: '' }, { ...earlier, payload: 'new', version: 2, updated_at: '' });
        assert.equal((await house.client.jobs.status(job_id)).latest_run?.reason, 'due_later');
      });
      test('reschedule gives that job the payload and the due time', async () => {
        const { job, job_id, run_id } = await waits();
        const at = new Date(Date.now() + 5 * hour).toISOString();
        const { delay_ms: _delay, ...rest } = job;
        const answer = await post({ ...rest, payload: 'new', schedule_time: at, on_conflict: 'reschedule' });
        existing(answer, job_id, 'rescheduled');
        const stored = await house.client.jobs.get(job_id);
        assert.deepEqual([stored.payload, stored.schedule_time, stored.version], ['new', at, 2]);
        assert.equal((await house.client.runs.get(run_id)).due_at, at);
        // Without a time it is due now.
        existing(await post({ ...rest, payload: 'newest', on_conflict: 'reschedule' }), job_id, 'rescheduled');
        await hold.entered(run_id);
        hold.open(run_id);
        assert.equal((await house.ended(job_id)).result, 'newest');
      });
    });

    describe('while the earlier job runs', () => {
      const runs = async () => {
        const job = unique({ payload: 'old' });
        const ids = await created(job);
        await hold.entered(ids.run_id);
        return { job, ...ids };
      };
      const again = ['reject', 'return_existing', 'replace_payload', 'reschedule'] as const;
      for (const on_conflict of again) {
        test(on_conflict, async () => {
          const { job, job_id, run_id } = await runs();
          const answer = await post({ ...job, payload: 'new', on_conflict }, { server: 2 });
          if (scope.unique_scope === 'waiting') {
            assert.deepEqual([answer.status, answer.body.existing], [201, undefined], 'it no longer holds its key');
            assert.notEqual(answer.body.job_id, job_id);
            hold.open(answer.body.run_id ?? '');
          } else if (on_conflict === 'return_existing') existing(answer, job_id, 'returned');
          else if (on_conflict === 'reject') refused(answer, job_id, /run has started/);
          else refused(answer, job_id, /run has started.*can no longer be changed/);
          hold.open(run_id);
          const run = await house.ended(job_id);
          assert.deepEqual([run.status, run.result], ['SUCCESS', 'old']);
        });
      }
    });

    test('after the earlier job has ended', async () => {
      const job = unique({ type: 'echo' });
      const { job_id } = await created(job);
      await house.ended(job_id);
      if (scope.unique_scope !== 'period') {
        assert.notEqual((await created(job)).job_id, job_id);
        return;
      }
      refused(await post(job), job_id, /has ended and holds it until its unique_period_ms is over/);
      refused(await post({ ...job, on_conflict: 'replace_payload' }), job_id, /can no longer be changed/);
      refused(await post({ ...job, on_conflict: 'reschedule' }), job_id, /can no longer be changed/);
      existing(await post({ ...job, on_conflict: 'return_existing' }), job_id, 'returned');
    });

    test('a job that was cancelled no longer counts', async () => {
      const job = unique({ delay_ms: hour });
      const { job_id } = await created(job);
      await house.client.jobs.cancel(job_id);
      assert.notEqual((await created(job)).job_id, job_id);
    });
  });
}

describe('a key', () => {
  test('is free again when the period is over, though the job still waits', async () => {
    const job: CreateJob = {
      type: 'echo',
      unique_key: newKey(),
      unique_scope: 'period',
      unique_period_ms: 8_000,
      delay_ms: hour,
    };
    const { job_id } = await created(job);
    refused(await post(job), job_id);
    await eventually(async () => assert.equal((await post(job)).status, 201));
  });
  test('of another user, or of no user, never conflicts', async () => {
    const unique_key = newKey();
    const of = (user?: string): CreateJob => ({
      ...{ type: 'echo', unique_key, delay_ms: hour },
      ...(user === undefined ? {} : { user_id: user }),
    });
    const ids = [await created(of('ann')), await created(of('bob')), await created(of())];
    assert.equal(new Set(ids.map(({ job_id }) => job_id)).size, 3);
    refused(await post(of('ann')), ids[0]?.job_id ?? '');
    refused(await post(of()), ids[2]?.job_id ?? '');
  });
  test('is one over all types, and a payload is not given to a job of another type', async () => {
    const unique_key = newKey();
    const { job_id } = await created({ type: 'echo', unique_key, delay_ms: hour });
    refused(await post({ type: 'hold', unique_key }), job_id);
    refused(await post({ type: 'hold', unique_key, on_conflict: 'replace_payload' }), job_id, /is of type echo/);
  });
  test('is held by a job as long as its own scope says, whatever a later one says', async () => {
    const unique_key = newKey();
    const { job_id, run_id } = await created({ type: 'hold', unique_key, unique_scope: 'live' });
    await hold.entered(run_id);
    refused(await post({ type: 'echo', unique_key, unique_scope: 'waiting' }), job_id);
    hold.open(run_id);
    await house.ended(job_id);
    await created({ type: 'echo', unique_key, unique_scope: 'period', unique_period_ms: hour });
  });
  test('of a run that waits for its next attempt is held while live, and the run keeps its payload', async () => {
    const job: CreateJob = { type: 'fail', unique_key: newKey(), payload: 1, backoff: { base_ms: hour } };
    const { job_id } = await created(job);
    await eventually(async () => {
      assert.equal((await house.client.jobs.status(job_id)).latest_run?.reason, 'retry');
    });
    refused(await post(job), job_id);
    refused(await post({ ...job, payload: 2, on_conflict: 'replace_payload' }), job_id, /has started/);
    assert.equal((await house.client.jobs.status(job_id)).latest_run?.reason, 'retry');
    await house.client.jobs.cancel(job_id);
  });
  test('of a cancelled job is held until its run has stopped', async () => {
    const job: CreateJob = { type: 'hold', unique_key: newKey() };
    const { job_id, run_id } = await created(job);
    await hold.entered(run_id);
    await house.client.jobs.cancel(job_id);
    assert.equal((await house.ended(job_id)).status, 'CANCELLED');
    assert.notEqual((await created({ ...job, type: 'echo' })).job_id, job_id);
  });
  test('is given back for good: a job that people run again after its end runs without it', async () => {
    const job: CreateJob = { type: 'hold', unique_key: newKey() };
    const { job_id, run_id } = await created(job);
    hold.open(run_id);
    await house.ended(job_id);
    const again = (await house.client.jobs.runNow(job_id)).run_id ?? '';
    await hold.entered(again);
    const next = await created(job);
    refused(await post(job), next.job_id);
    for (const id of [again, next.run_id]) hold.open(id);
    await Promise.all([house.ended(job_id), house.ended(next.job_id)]);
  });
  test('finds the job that holds it, and nothing once it is free', async () => {
    const unique_key = newKey();
    const { job_id } = await created({ type: 'echo', unique_key, user_id: 'ann', delay_ms: hour });
    const list = async (query: object) => (await house.client.jobs.list(query)).jobs.map((job) => job.job_id);
    assert.deepEqual(await list({ unique_key, user_id: 'ann' }), [job_id]);
    assert.deepEqual(await list({ unique_key, user_id: 'ann', status: 'COMPLETED' }), []);
    assert.deepEqual(await list({ unique_key, user_id: 'ann', type: 'echo', status: 'pending' }), [job_id]);
    assert.deepEqual(await list({ unique_key }), []);
    await house.client.jobs.cancel(job_id);
    assert.deepEqual(await list({ unique_key, user_id: 'ann' }), []);
  });
  test('whose job also has a concurrency key is judged like any other', async () => {
    const job: CreateJob = { type: 'echo', unique_key: newKey(), concurrency_key: 'tenant-7', delay_ms: hour };
    const { job_id } = await created(job);
    refused(await post(job, { server: 1 }), job_id);
    existing(await post({ ...job, payload: 1, on_conflict: 'replace_payload' }), job_id, 'payload_replaced');
  });
});

test('a hundred posts with one unique key over three servers make one job', async () => {
  for (const on_conflict of ['reject', 'return_existing', 'replace_payload'] as const) {
    const unique_key = newKey();
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, i) =>
        post({ type: 'hold', unique_key, payload: i, on_conflict, delay_ms: hour }, { server: i }),
      ),
    );
    const fresh = answers.filter(({ status, body }) => status === 201 && body.existing === undefined);
    assert.equal(fresh.length, 1);
    assert.equal(await house.count('jobs', `where unique_key = '${unique_key}'`), 1);
    const job_id = fresh[0]?.body.job_id ?? '';
    for (const answer of answers.filter((one) => !fresh.includes(one))) {
      if (on_conflict === 'reject') refused(answer, job_id);
      else existing(answer, job_id, on_conflict === 'return_existing' ? 'returned' : 'payload_replaced');
    }
    if (on_conflict === 'replace_payload') assert.equal((await house.client.jobs.get(job_id)).version, 100);
  }
});

test('fifty posts that push a job before them run once, with the last payload', async () => {
  const unique_key = newKey();
  const ids = new Set<string>();
  for (let i = 0; i < 50; i++) {
    // Only the last lets it come: on a slow machine a short time would be over before the next post.
    const delay_ms = i === 49 ? 100 : hour - i;
    const job: CreateJob = { type: 'echo', unique_key, payload: `${unique_key} ${i}`, delay_ms };
    ids.add((await post({ ...job, on_conflict: 'reschedule' }, { server: i })).body.job_id);
  }
  const [job_id = ''] = ids;
  assert.equal(ids.size, 1);
  assert.equal((await house.ended(job_id)).result, `${unique_key} 49`);
  assert.deepEqual(
    ran.filter((payload) => String(payload).startsWith(`${unique_key} `)),
    [`${unique_key} 49`],
  );
});

test('jobs of one key never run at the same time, whoever posts what', async () => {
  const running = new Map<string, number>();
  let most = 0;
  const overlap = await house.addWorker(
    {
      exclusive: async (run) => {
        const key = String(run.payload);
        const now = (running.get(key) ?? 0) + 1;
        running.set(key, now);
        most = Math.max(most, now);
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 20));
        running.set(key, (running.get(key) ?? 0) - 1);
      },
    },
    { slots: 20 },
  );
  const names = Array.from({ length: 4 }, newKey);
  const actions = ['reject', 'return_existing', 'replace_payload', 'reschedule'] as const;
  const caller = async (server: number): Promise<number> => {
    let made = 0;
    for (let i = 0; i < 40; i++) {
      const unique_key = names[Math.floor(Math.random() * names.length)] ?? '';
      const on_conflict = actions[i % actions.length] ?? 'reject';
      const job: CreateJob = { type: 'exclusive', unique_key, payload: unique_key, on_conflict };
      const { status, body } = await post(i % 3 === 0 ? { ...job, delay_ms: 5 } : job, { server });
      assert.ok(status === 201 || status === 409, JSON.stringify(body));
      if (status === 201 && body.existing === undefined) made++;
      if (i % 10 === 9 && status === 201) await house.client.jobs.cancel(body.job_id).catch(() => {});
    }
    return made;
  };
  const made = (await Promise.all(Array.from({ length: 9 }, (_, i) => caller(i)))).reduce((a, b) => a + b);
  assert.equal(most, 1);
  assert.equal(await house.count('jobs', `where type = 'exclusive'`), made, 'as many jobs as answers said');
  await overlap.stop();
});

test('a paused job keeps its key, and stays paused when it is changed', async () => {
  const job: CreateJob = { type: 'echo', unique_key: newKey(), delay_ms: hour, payload: 1 };
  const { job_id } = await created(job);
  await house.client.jobs.pause(job_id);
  refused(await post(job), job_id);
  existing(await post({ ...job, payload: 2, delay_ms: 0, on_conflict: 'reschedule' }), job_id, 'rescheduled');
  assert.equal((await house.client.jobs.status(job_id)).latest_run?.reason, 'paused');
  await house.client.jobs.resume(job_id);
  assert.equal((await house.ended(job_id)).result, 2);
});

describe('a recurring job', () => {
  const every = (more: CreateJob = {}): CreateJob => ({
    type: 'echo',
    interval_ms: hour,
    unique_key: newKey(),
    ...more,
  });
  test('holds its key until it has ended, also with scope waiting', async () => {
    for (const unique_scope of ['live', 'waiting'] as const) {
      const job = every({ unique_scope, start_at: new Date(Date.now() + hour).toISOString() });
      const { job_id } = await created(job);
      refused(await post(job), job_id, /recurring/);
      existing(await post({ ...job, on_conflict: 'return_existing' }), job_id, 'returned');
      await house.client.jobs.cancel(job_id);
      const next = await created(job);
      await house.client.jobs.cancel(next.job_id);
    }
  });
  test('gets a payload for the runs to come, and cannot be rescheduled', async () => {
    const job = every({ start_at: new Date(Date.now() + hour).toISOString(), payload: 1 });
    const { job_id } = await created(job);
    existing(await post({ ...job, payload: 2, on_conflict: 'replace_payload' }), job_id, 'payload_replaced');
    const once: CreateJob = { type: 'echo', unique_key: job.unique_key ?? '', on_conflict: 'reschedule' };
    refused(await post(once), job_id, /follow its schedule/);
    await house.client.jobs.runNow(job_id);
    assert.equal((await house.ended(job_id)).result, 2);
    await house.client.jobs.cancel(job_id);
  });
});

test('keys that nobody holds are swept, those that are held stay', async () => {
  const [gone, kept] = [newKey(), newKey()];
  const { job_id } = await created({ type: 'echo', unique_key: gone });
  await created({ type: 'echo', unique_key: kept, delay_ms: hour });
  await house.ended(job_id);
  const named = (key: string) => house.count('uniques', `where key = '${key}'`);
  await sweepUniques(house.db, [0, 1, 2, 3]);
  assert.deepEqual([await named(gone), await named(kept)], [1, 1], 'it is not time to look yet');
  // In one transaction: servers sweep too, and must not come in between.
  const swept = await house.db.transaction(async (tx) => {
    await tx.query({ name: '', text: `update punctual.uniques set look_at = now() - interval '1 second'`, values: [] });
    return sweepUniques(within(tx), [0, 1, 2, 3]);
  });
  assert.ok(swept >= 1);
  assert.deepEqual([await named(gone), await named(kept)], [0, 1]);
  assert.equal(await house.count('uniques', 'where look_at <= now()'), 0, 'what is held is looked at later');
  await created({ type: 'echo', unique_key: gone });
});
