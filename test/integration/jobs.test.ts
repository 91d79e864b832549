// From submit to outcome, and everything people do to a job on the way.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { PunctualError } from '@punctual/sdk';
import { eventually } from '../support/eventually.ts';
import { gate } from '../support/gate.ts';
import { type House, openHouse } from '../support/house.ts';
import { keepsWithin } from '../support/within.ts';

const inMs = (ms: number): string => new Date(Date.now() + ms).toISOString();

for (const servers of [1, 3]) {
  describe(`with ${servers} server${servers > 1 ? 's' : ''}`, () => {
    let house: House;
    const hold = gate();
    before(async () => {
      house = await openHouse({
        servers,
        workers: 1,
        handlers: {
          echo: async (run) => run.payload,
          fail: async () => {
            throw new Error('it broke');
          },
          hold: async (run, ctx) => {
            ctx.log.info('holding', { run: run.run_id });
            await hold.enter(run.run_id, ctx.signal);
            return 'let go';
          },
        },
      });
    });
    after(async () => {
      await house[Symbol.asyncDispose]();
    });

    test('an immediate job runs and its result can be read', async () => {
      const { job_id, run_id } = await house.client.jobs.create({
        name: 'hello',
        type: 'echo',
        payload: { ü: '日本 😀' },
      });
      const run = await house.ended(job_id);
      assert.equal(run.run_id, run_id);
      assert.equal(run.status, 'SUCCESS');
      assert.deepEqual(run.result, { ü: '日本 😀' });
      assert.equal(run.attempt_number, 1);
      assert.ok(run.executor_id);
      assert.ok(Date.parse(run.end_time ?? '') >= Date.parse(run.start_time ?? ''));
      assert.equal((await house.client.jobs.get(job_id)).status, 'COMPLETED');
    });

    test('a future job waits for its time and starts within milliseconds of it', async () => {
      await keepsWithin(1_500, async () => {
        const due = inMs(2_500);
        const { job_id } = await house.client.jobs.create({
          type: 'echo',
          schedule_type: 'FUTURE',
          schedule_time: due,
        });
        const waiting = await house.client.jobs.status(job_id);
        // Its time came while we stood still: that says nothing, and is tried again.
        if (Date.now() >= Date.parse(due)) return Number.POSITIVE_INFINITY;
        assert.equal(waiting.latest_run?.status, 'QUEUED');
        assert.equal(waiting.latest_run?.reason, 'due_later');
        const run = await house.ended(job_id);
        const late = Date.parse(run.start_time ?? '') - Date.parse(due);
        assert.ok(late >= 0, `it started ${-late} ms early`);
        return late;
      });
    });

    test('a delay counts from the submit, and a time already past runs at once', async () => {
      const soon = await house.client.jobs.create({ type: 'echo', delay_ms: 200 });
      const past = await house.client.jobs.create({ type: 'echo', schedule_time: '2020-02-29T12:00:00+02:00' });
      assert.equal((await house.ended(past.job_id)).status, 'SUCCESS');
      assert.equal((await house.client.jobs.get(past.job_id)).schedule_time, '2020-02-29T10:00:00.000Z');
      assert.equal((await house.ended(soon.job_id)).status, 'SUCCESS');
    });

    test('a job cancelled before its time never runs', async () => {
      const { job_id, run_id } = await house.client.jobs.create({ type: 'echo', delay_ms: 60_000 });
      assert.deepEqual((await house.client.jobs.cancel(job_id)).cancelled_runs, [run_id]);
      const { status, latest_run } = await house.client.jobs.status(job_id);
      assert.equal(status, 'CANCELLED');
      assert.equal(latest_run?.status, 'CANCELLED');
      assert.deepEqual((await house.client.jobs.cancel(job_id)).cancelled_runs, [], 'cancelling again changes nothing');
    });

    test('a job cancelled while it runs is told so and ends as CANCELLED', async () => {
      const { job_id, run_id } = await house.client.jobs.create({ type: 'hold' });
      await hold.entered(run_id ?? '');
      const answer = await house.client.jobs.cancel(job_id);
      assert.deepEqual(answer.cancelling_runs, [run_id]);
      assert.equal((await house.ended(job_id)).status, 'CANCELLED');
    });

    test('a run that has finished is not cancelled afterwards', async () => {
      const { job_id } = await house.client.jobs.create({ type: 'echo' });
      await house.ended(job_id);
      await assert.rejects(house.client.jobs.cancel(job_id), { code: 'job_ended' });
    });

    test('a failing run is tried again and ends as FAILED when its attempts are used up', async () => {
      const { job_id, run_id } = await house.client.jobs.create({
        type: 'fail',
        max_retries: 2,
        backoff: { base_ms: 10, jitter: 0 },
      });
      const run = await house.ended(job_id);
      assert.equal(run.status, 'FAILED');
      assert.equal(run.attempt_number, 3);
      assert.match(run.error_message ?? '', /it broke/);
      const { attempts } = await house.client.runs.attempts(run_id ?? '');
      assert.deepEqual(
        attempts.map((attempt) => [attempt.attempt_number, attempt.outcome]),
        [
          [1, 'failed'],
          [2, 'failed'],
          [3, 'failed'],
        ],
      );
    });

    test('an update changes what waits: payload, priority and time', async () => {
      const { job_id } = await house.client.jobs.create({ type: 'echo', delay_ms: 60_000, payload: 'old' });
      const job = await house.client.jobs.update(job_id, {
        payload: 'new',
        priority: 9,
        queue: 'other',
        schedule_time: inMs(100),
        name: 'renamed',
      });
      assert.equal(job.version, 2);
      assert.equal(job.queue, 'other');
      const run = await house.ended(job_id);
      assert.equal(run.result, 'new');
      assert.equal(run.priority, 9);
      assert.equal(run.queue, 'other');
      assert.equal(run.name, 'renamed');
      await assert.rejects(house.client.jobs.update(job_id, { priority: 1 }), { code: 'job_ended' });
    });

    test('an update with an old ETag is refused and changes nothing', async () => {
      const { job_id } = await house.client.jobs.create({ type: 'echo', delay_ms: 60_000 });
      await house.client.jobs.update(job_id, { priority: 1 }, { ifMatch: '"1"' });
      await assert.rejects(house.client.jobs.update(job_id, { priority: 2 }, { ifMatch: '"1"' }), {
        code: 'version_conflict',
      });
      assert.equal((await house.client.jobs.get(job_id)).priority, 1);
      await house.client.jobs.cancel(job_id);
    });

    test('the time of a run that has started cannot be changed', async () => {
      const { job_id, run_id } = await house.client.jobs.create({ type: 'hold' });
      await hold.entered(run_id ?? '');
      await assert.rejects(house.client.jobs.update(job_id, { delay_ms: 1000 }), { code: 'job_running' });
      await assert.rejects(house.client.jobs.runNow(job_id), { code: 'job_running' });
      hold.open(run_id ?? '');
      assert.equal((await house.ended(job_id)).result, 'let go');
    });

    test('a paused job does not start until it is resumed', async () => {
      const { job_id } = await house.client.jobs.create({ type: 'echo', delay_ms: 6_000 });
      assert.equal((await house.client.jobs.pause(job_id)).status, 'PAUSED');
      await house.client.jobs.pause(job_id);
      await assert.rejects(house.client.jobs.runNow(job_id), { code: 'job_paused' });
      // Its time passes: another job with the same delay runs, this one does not.
      const witness = await house.client.jobs.create({ type: 'echo', delay_ms: 6_100 });
      await house.ended(witness.job_id);
      assert.equal((await house.client.jobs.status(job_id)).latest_run?.reason, 'paused');
      assert.equal((await house.client.jobs.resume(job_id)).status, 'SCHEDULED');
      assert.equal((await house.ended(job_id)).status, 'SUCCESS');
      await assert.rejects(house.client.jobs.pause(job_id), { code: 'job_ended' });
    });

    test('run now starts what waits, and makes a new run of what is done', async () => {
      const { job_id, run_id } = await house.client.jobs.create({ type: 'echo', delay_ms: 60_000 });
      assert.equal((await house.client.jobs.runNow(job_id)).run_id, run_id);
      await house.ended(job_id);
      const again = await house.client.jobs.runNow(job_id);
      assert.notEqual(again.run_id, run_id);
      await eventually(async () => {
        const { runs } = await house.client.jobs.runs(job_id, {});
        assert.deepEqual(
          runs.map((run) => [run.run_id, run.status, run.cause]),
          [
            [again.run_id, 'SUCCESS', 'run_now'],
            [run_id, 'SUCCESS', 'submit'],
          ],
        );
      });
    });

    test('a hundred posts with one key make one job', async () => {
      const answers = await Promise.all(
        Array.from({ length: 100 }, (_, i) =>
          fetch(`${house.servers[i % servers]?.url}/jobs`, {
            method: 'POST',
            headers: { 'content-type': 'application/json', 'idempotency-key': 'the-key' },
            body: JSON.stringify({ type: 'echo', payload: 1 }),
          }).then(async (response) => ({
            status: response.status,
            replayed: response.headers.get('idempotency-replayed'),
            body: (await response.json()) as { job_id: string },
          })),
        ),
      );
      assert.deepEqual(new Set(answers.map((answer) => answer.status)), new Set([201]));
      assert.equal(new Set(answers.map((answer) => answer.body.job_id)).size, 1);
      assert.equal(answers.filter((answer) => answer.replayed === null).length, 1);
      await assert.rejects(house.client.jobs.create({ type: 'echo', payload: 2 }, { idempotencyKey: 'the-key' }), {
        code: 'idempotency_key_reused',
      });
      assert.equal(await house.count('submissions', `where key = 'the-key'`), 1);
    });

    test('a bulk is created whole or not at all', async () => {
      const { jobs } = await house.client.jobs.createMany([
        { type: 'echo', payload: 1 },
        { type: 'echo', payload: 2, delay_ms: 50 },
      ]);
      const results = await Promise.all(jobs.map(async (job) => (await house.ended(job.job_id)).result));
      assert.deepEqual(results, [1, 2]);
      const jobsBefore = await house.count('jobs');
      const bad = [{ type: 'echo' }, { type: 'echo', priority: 99 }, { typ: 'echo' }] as never;
      await assert.rejects(house.client.jobs.createMany(bad), (error: PunctualError) => {
        assert.equal(error.code, 'bulk_refused');
        assert.deepEqual(error.errors?.map((e) => e.path).sort(), ['jobs[1].priority', 'jobs[2].typ']);
        return true;
      });
      assert.equal(await house.count('jobs'), jobsBefore);
    });

    test('what a run logs can be read', async () => {
      const { job_id, run_id } = await house.client.jobs.create({ type: 'hold' });
      await hold.entered(run_id ?? '');
      await eventually(async () => {
        const { lines } = await house.client.runs.logs(run_id ?? '', {});
        assert.equal(lines.length, 1);
        assert.match(lines[0]?.message ?? '', /holding/);
        assert.equal(lines[0]?.level, 'info');
      });
      hold.open(run_id ?? '');
      await house.ended(job_id);
    });

    describe('a job whose id the client chose', () => {
      const post = async (
        key: string,
        payload: unknown,
        server = 0,
      ): Promise<{ status: number; body: { job_id: string; code?: string }; replayed: boolean }> => {
        const response = await fetch(`${house.servers[server % servers]?.url}/jobs`, {
          method: 'POST',
          headers: { 'content-type': 'application/json', 'idempotency-key': key },
          body: JSON.stringify({ type: 'echo', payload }),
        });
        const replayed = response.headers.get('idempotency-replayed') === 'true';
        const body = (await response.json()) as { job_id: string; code?: string };
        return { status: response.status, body, replayed };
      };
      const keyAt = (ms: number, spread = '00a'): string => {
        const time = ms.toString(16).padStart(12, '0');
        const random = crypto.randomUUID().replaceAll('-', '');
        return `job:${time.slice(0, 8)}-${time.slice(8)}-7${random.slice(0, 3)}-8${random.slice(3, 6)}-${random.slice(6, 14)}0${spread}`;
      };

      test('is one job, however often and at how many servers it is submitted at once', async () => {
        const key = keyAt(Date.now());
        const answers = await Promise.all(Array.from({ length: 60 }, (_, i) => post(key, 1, i)));
        assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([201]));
        assert.deepEqual(new Set(answers.map(({ body }) => body.job_id.slice(0, 32))), new Set([key.slice(4, 36)]));
        assert.equal(answers.filter(({ replayed }) => !replayed).length, 1);
        assert.equal((await house.ended(answers[0]?.body.job_id ?? '')).result, 1);
        assert.equal(await house.count('submissions', `where key = '${key}'`), 0);
      });
      test('does not take others down that share its statement', async () => {
        const taken = keyAt(Date.now());
        await post(taken, 'first');
        const answers = await Promise.all(
          Array.from({ length: 20 }, (_, i) =>
            post(i % 5 === 0 ? taken : keyAt(Date.now()), i % 5 === 0 ? 'first' : i),
          ),
        );
        assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([201]));
        assert.equal(new Set(answers.map(({ body }) => body.job_id)).size, 17);
        assert.equal(answers.filter(({ replayed }) => replayed).length, 4);
      });
      test('with another body under the same id is refused', async () => {
        const key = keyAt(Date.now());
        await post(key, 1);
        const answer = await post(key, 2);
        assert.deepEqual([answer.status, answer.body.code], [422, 'idempotency_key_reused']);
      });
      test('with a time far from the clock of the server is refused', async () => {
        for (const ms of [-3_600_000, 3_600_000]) {
          const answer = await post(keyAt(Date.now() + ms), 1);
          assert.deepEqual([answer.status, answer.body.code], [400, 'invalid_input']);
        }
      });
    });
  });
}
