// Recurring jobs: every nominal time is in the ledger once, as a run or with a reason, whatever people and servers do.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { CreateJob, Occurrence } from '@punctual/sdk';
import { eventually } from '../support/eventually.ts';
import { gate } from '../support/gate.ts';
import { type House, openHouse } from '../support/house.ts';
import { keepsWithin, timed } from '../support/within.ts';

for (const servers of [1, 3]) {
  // They mostly wait for the next second: some do so at once.
  describe(`with ${servers} server${servers > 1 ? 's' : ''}`, { concurrency: 6 }, () => {
    let house: House;
    const hold = gate();
    before(async () => {
      house = await openHouse({
        servers,
        workers: 1,
        slots: 20,
        handlers: {
          echo: async (run) => ({ scheduled_for: run.scheduled_for }),
          fail: async () => {
            throw new Error('it broke');
          },
          hold: async (run, ctx) => {
            await hold.enter(run.run_id, ctx.signal);
          },
        },
      });
    });
    after(async () => {
      await house[Symbol.asyncDispose]();
    });

    const create = async (job: CreateJob): Promise<string> => (await house.client.jobs.create(job)).job_id;
    const ledger = async (jobId: string): Promise<Occurrence[]> =>
      (await house.client.jobs.occurrences(jobId, { limit: 200 })).occurrences.toReversed();

    /** As if no server had looked at the schedule since then. */
    const sleepSince = async (jobId: string, interval: string): Promise<void> => {
      await house.db.query({
        name: '',
        text: `update punctual.schedules set turn = turn + 1, planned_until = now() - $1::interval, next_fire_at = now() - $1::interval where job_id = $2`,
        values: [interval, jobId],
      });
    };

    /** How many times lie in the time from then to now that come every ten minutes, at that minute. */
    const tens = (minute: number, fromMs: number, toMs: number): number =>
      Math.floor((toMs - minute * 60_000) / 600_000) - Math.floor((fromMs - minute * 60_000) / 600_000);

    test('a cron job of every second runs every second, each time once', async () => {
      const jobId = await create({ type: 'echo', cron_expression: '* * * * * *' });
      const entries = await eventually(async () => {
        const all = await ledger(jobId);
        assert.ok(all.length >= 4);
        return all;
      });
      assert.ok(entries.every((entry) => Date.parse(entry.scheduled_for) % 1000 === 0));
      assertWhole(entries, 1000);
      const job = await house.client.jobs.get(jobId);
      assert.equal(job.schedule_type, 'CRON');
      assert.equal(job.schedule?.words, 'Every second, UTC');
      assert.equal(job.status, 'SCHEDULED');
      const run = await eventually(async () => {
        const { runs } = await house.client.jobs.runs(jobId, { limit: 200 });
        const ended = runs.find((one) => one.status === 'SUCCESS');
        assert.ok(ended !== undefined);
        return ended;
      });
      assert.ok(entries.some((entry) => entry.run_id === run.run_id) || (await ledger(jobId)).length > entries.length);
      await house.client.jobs.cancel(jobId);
      assert.equal((await house.client.jobs.get(jobId)).status, 'CANCELLED');
    });

    test('an interval ends after its last run', async () => {
      const jobId = await create({ type: 'echo', interval_ms: 1000, max_runs: 2 });
      await eventually(async () => assert.equal((await house.client.jobs.get(jobId)).status, 'COMPLETED'));
      assert.equal((await ledger(jobId)).filter((entry) => entry.run_id !== null).length, 2);
      assert.equal((await house.client.jobs.get(jobId)).schedule?.ended, true);
    });

    test('a fixed delay counts from the end of the run before', async () => {
      const jobId = await create({ type: 'hold', interval_ms: 1000, interval_mode: 'fixed_delay', max_runs: 2 });
      const first = await house.runWith(jobId, 'RUNNING');
      await new Promise((resolve) => setTimeout(resolve, 1500));
      assert.equal((await ledger(jobId)).length, 1);
      hold.open(first.run_id);
      const second = await eventually(async () => {
        const { latest_run: run } = await house.client.jobs.status(jobId);
        assert.ok(run !== null && run.run_id !== first.run_id && run.status === 'RUNNING');
        return run;
      });
      const ended = Date.parse((await house.client.runs.get(first.run_id)).end_time ?? '');
      const times = (await ledger(jobId)).map((entry) => Date.parse(entry.scheduled_for));
      assert.ok((times[1] ?? 0) - ended >= 950, 'it did not wait for the end');
      hold.open(second.run_id);
      await eventually(async () => assert.equal((await house.client.jobs.get(jobId)).status, 'COMPLETED'));
    });

    for (const { catch_up, expected } of [
      { catch_up: 'latest', expected: (n: number) => ({ runs: 1, coalesced: n - 1 }) },
      { catch_up: 'all', expected: (n: number) => ({ runs: Math.min(n, 20), coalesced: Math.max(0, n - 20) }) },
      { catch_up: 'none', expected: (n: number) => ({ runs: 0, too_old: n }) },
    ] as const) {
      for (const [interval, ms] of [
        ['3 hours', 3 * 3_600_000],
        ['40 days', 40 * 86_400_000],
        ['400 days', 400 * 86_400_000],
      ] as const) {
        test(`after ${interval} of standstill, catch_up ${catch_up}`, async () => {
          // Minutes that are never just now: such a time would be on time.
          const minute = Math.floor(Date.now() / 60_000 + 5) % 10;
          const jobId = await create({
            type: 'echo',
            cron_expression: `${minute}-59/10 * * * *`,
            catch_up,
            max_catch_up_count: 20,
            overlap: 'allow',
          });
          const now = Date.now();
          await sleepSince(jobId, interval);
          await eventually(async () => {
            const { schedule } = await house.client.jobs.get(jobId);
            assert.ok(Date.parse(schedule?.next_time ?? '') > now);
          });
          const entries = await ledger(jobId);
          const found: Record<string, number> = { runs: 0 };
          for (const { run_id, reason, times } of entries) {
            const what = run_id === null ? String(reason) : 'runs';
            found[what] = (found[what] ?? 0) + times;
          }
          const n = tens(minute, now - ms, now);
          const wanted = Object.fromEntries(
            Object.entries(expected(n)).filter(([what, m]) => m > 0 || what === 'runs'),
          );
          assert.deepEqual(found, wanted);
          await house.client.jobs.cancel(jobId);
        });
      }
    }

    test('a run that is caught up has its whole time from when it was made', async () => {
      const minute = Math.floor(Date.now() / 60_000 + 5) % 10;
      const jobId = await create({ type: 'echo', cron_expression: `${minute}-59/10 * * * *`, run_timeout_ms: 60_000 });
      await sleepSince(jobId, '15 minutes');
      assert.equal((await house.ended(jobId, 180_000)).status, 'SUCCESS');
      await house.client.jobs.cancel(jobId);
    });

    test('queue_one: one waits for the end, the others are coalesced, never two at once', async () => {
      const jobId = await create({ type: 'hold', cron_expression: '* * * * * *' });
      const first = await house.runWith(jobId, 'RUNNING');
      await eventually(async () => {
        const reasons = (await ledger(jobId)).map((entry) => entry.reason);
        assert.ok(reasons.filter((reason) => reason === 'coalesced').length >= 1, reasons.join());
      });
      const live = await house.count('running', `where job_id = '${jobId}'`);
      const blocked = await house.count('waiting', `where job_id = '${jobId}' and reason = 'overlap'`);
      assert.deepEqual([live, blocked], [1, 1]);
      hold.open(first.run_id);
      const second = await eventually(async () => {
        const rows = await house.client.jobs.runs(jobId, { limit: 50 });
        const running = rows.runs.find((run) => run.status === 'RUNNING' && run.run_id !== first.run_id);
        assert.ok(running !== undefined);
        return running;
      });
      await house.client.jobs.cancel(jobId);
      hold.open(second.run_id);
    });

    test('skip and cancel_other', async () => {
      const skipping = await create({ type: 'hold', cron_expression: '* * * * * *', overlap: 'skip' });
      const replacing = await create({ type: 'hold', cron_expression: '* * * * * *', overlap: 'cancel_other' });
      const first = await house.runWith(replacing, 'RUNNING');
      await eventually(async () => {
        assert.ok((await ledger(skipping)).some((entry) => entry.reason === 'skipped_overlap'));
        assert.equal((await house.client.runs.get(first.run_id)).status, 'CANCELLED');
      });
      await eventually(async () => {
        const { latest_run: run } = await house.client.jobs.status(replacing);
        assert.ok(run !== null && run.run_id !== first.run_id);
      });
      await house.client.jobs.cancel(skipping);
      await house.client.jobs.cancel(replacing);
    });

    test('times in a pause are recorded as paused, and the note can be read', async () => {
      const jobId = await create({ type: 'echo', cron_expression: '* * * * * *' });
      await eventually(async () => assert.ok((await ledger(jobId)).length >= 1));
      await house.client.jobs.pause(jobId, { note: 'the mail server moves' });
      const paused = await house.client.jobs.get(jobId);
      assert.deepEqual(
        [paused.status, paused.pause_note, paused.schedule?.next_time],
        ['PAUSED', 'the mail server moves', null],
      );
      const known = (await ledger(jobId)).length;
      await new Promise((resolve) => setTimeout(resolve, 2500));
      assert.equal((await ledger(jobId)).length, known);
      await house.client.jobs.resume(jobId);
      const entries = await eventually(async () => {
        const all = await ledger(jobId);
        assert.ok(all.slice(known).some((entry) => entry.run_id !== null));
        return all;
      });
      const span = entries.find((entry) => entry.reason === 'paused');
      assert.ok(span !== undefined && span.times >= 2, JSON.stringify(span));
      assertWhole(entries, 1000);
      await house.client.jobs.cancel(jobId);
    });

    test('a schedule that is changed again and again while it runs loses and doubles nothing', async () => {
      const jobId = await create({ type: 'echo', cron_expression: '* * * * * *', overlap: 'allow' });
      const until = Date.now() + 4_000;
      let edits = 0;
      while (Date.now() < until || edits <= 20) {
        // Always the same times under another name: whatever the edits do, the ledger must be whole.
        await house.client.jobs.update(jobId, { cron_expression: edits++ % 2 === 0 ? '*/1 * * * * *' : '* * * * * *' });
      }
      const entries = await eventually(async () => {
        const all = await ledger(jobId);
        assert.ok(all.length >= 5);
        return all;
      });
      assertWhole(entries, 1000);
      await house.client.jobs.cancel(jobId);
    });

    test('a job that fails too often in a row is paused', async () => {
      const jobId = await create({
        type: 'fail',
        cron_expression: '* * * * * *',
        max_retries: 0,
        pause_after_failures: 2,
      });
      const job = await eventually(async () => {
        const found = await house.client.jobs.get(jobId);
        assert.equal(found.status, 'PAUSED');
        return found;
      });
      assert.match(job.pause_note ?? '', /too often/);
      await house.client.jobs.cancel(jobId);
    });

    test('run now beside the schedule never runs twice at once', async () => {
      const jobId = await create({ type: 'hold', cron_expression: '0 0 1 1 *' });
      const { run_id } = await house.client.jobs.runNow(jobId);
      await house.runWith(jobId, 'RUNNING');
      await assert.rejects(house.client.jobs.runNow(jobId), { code: 'job_running' });
      hold.open(run_id as string);
      await house.client.jobs.cancel(jobId);
    });

    test('calendars exclude times, and schedules follow when they change', async () => {
      // But for one minute, which is half a day away.
      const now = Date.now();
      const clock = (ms: number): string => new Date(now + ms).toISOString().slice(11, 16);
      const hours = [`${clock(12 * 3_600_000 + 60_000)}-${clock(12 * 3_600_000)}`];
      await house.client.calendars.put('always-closed', { exclude: [{ hours }] });
      await assert.rejects(house.client.jobs.create({ type: 'echo', interval_ms: 1000, calendar: 'none-such' }), {
        code: 'calendar_not_found',
      });
      const jobId = await create({ type: 'echo', cron_expression: '* * * * * *', calendar: 'always-closed' });
      await eventually(async () => assert.ok((await ledger(jobId)).some((entry) => entry.reason === 'excluded')));
      await assert.rejects(house.client.calendars.delete('always-closed'), { code: 'calendar_in_use' });
      const { jobs } = await house.client.calendars.jobs('always-closed');
      assert.deepEqual(
        jobs.map(({ job_id, name }) => ({ job_id, name })),
        [{ job_id: jobId, name: 'echo' }],
      );
      await assert.rejects(house.client.calendars.jobs('none-such'), { code: 'calendar_not_found' });
      await house.client.calendars.put('always-closed', { exclude: [{ dates: ['02-29'] }] });
      await eventually(async () => assert.ok((await ledger(jobId)).some((entry) => entry.run_id !== null)));
      assertWhole(await ledger(jobId), 1000);
      await house.client.jobs.cancel(jobId);
      assert.deepEqual(await house.client.calendars.delete('always-closed'), { name: 'always-closed' });
      await assert.rejects(house.client.calendars.get('always-closed'), { code: 'calendar_not_found' });
    });

    test('a preview shows what the clocks do', async () => {
      const preview = await house.client.schedules.preview({
        cron_expression: '30 2 * * *',
        timezone: 'Europe/Berlin',
        from: '2027-03-27T12:00:00Z',
        count: 2,
      });
      assert.deepEqual(
        preview.times.map(({ utc, local }) => [utc, local]),
        [
          ['2027-03-28T01:00:00.000Z', '2027-03-28T02:30:00'],
          ['2027-03-29T00:30:00.000Z', '2027-03-29T02:30:00'],
        ],
      );
      assert.match(preview.times[0]?.note ?? '', /02:30 does not exist/);
      assert.match(preview.words, /02:30/);
    });

    test('what cannot be followed is refused with the field and the reason, at once', async () => {
      for (const [fields, path] of [
        [{ cron_expression: '*/0 * * * *' }, 'cron_expression'],
        [{ cron_expression: '61 * * * *' }, 'cron_expression'],
        [{ cron_expression: '0 0 30 2 *' }, 'cron_expression'],
        [{ cron_expression: ['0 0 * * *', 'nonsense'] }, 'cron_expression[1]'],
        [{ cron_expression: '0 0 * * *', timezone: 'Mars/Olympus' }, 'timezone'],
        [{ cron_expression: '0 0 * * *', timezone: '../etc/passwd' }, 'timezone'],
        [{ cron_expression: '0 0 * * *', start_at: '2031-01-01T00:00:00Z', end_at: '2030-01-01T00:00:00Z' }, 'end_at'],
        [{ cron_expression: '0 0 * * *', end_at: '2001-01-01T00:00:00Z' }, 'end_at'],
        [{ interval_ms: 10 }, 'interval_ms'],
      ] as const) {
        await keepsWithin(1_000, () =>
          timed(() =>
            assert.rejects(
              house.client.jobs.create({ type: 'echo', ...(fields as object) }),
              (error: { code: string; status: number; errors: { path: string; message: string }[] }) => {
                assert.equal(error.code, 'invalid_schedule', JSON.stringify(fields));
                assert.equal(error.status, 422);
                assert.equal(error.errors[0]?.path, path, JSON.stringify(error.errors));
                assert.ok((error.errors[0]?.message.length ?? 0) > 10);
                return true;
              },
            ),
          ),
        );
      }
      await assert.rejects(house.client.jobs.create({ type: 'echo', cron_expression: '* * * * *', delay_ms: 5 }), {
        code: 'invalid_input',
      });
      await assert.rejects(house.client.jobs.create({ type: 'echo', schedule_type: 'CRON' }), {
        code: 'invalid_input',
      });
    });
  });
}

/** The entries, in order, are all times that far apart, none missing and none twice. */
function assertWhole(entries: readonly Occurrence[], everyMs: number): void {
  let expected: number | null = null;
  for (const { scheduled_for, through, times } of entries) {
    const at = Date.parse(scheduled_for);
    if (expected !== null) assert.equal(at, expected, `a hole or an overlap before ${scheduled_for}`);
    assert.equal((Date.parse(through) - at) / everyMs + 1, times, `the span from ${scheduled_for}`);
    expected = Date.parse(through) + everyMs;
  }
}
