// The forecast over a real house: what it counts is what the planner then makes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Forecaster } from '@punctual/server/internal/scheduler/forecast';
import { countWaiting, justBefore } from '@punctual/server/internal/store/forecast';
import { eventually } from '../support/eventually.ts';
import { openHouse } from '../support/house.ts';

const minuteMs = 60_000;

/** Asks until all is counted: what takes longer than a moment comes in part, and the next answer goes on from there. */
const whole = <T extends { complete: boolean }>(ask: () => Promise<T>): Promise<T> =>
  eventually(async () => {
    const answer = await ask();
    assert.equal(answer.complete, true);
    return answer;
  });

test('a forecast counts times of schedules and runs that wait, by queue and type', async () => {
  await using house = await openHouse();
  const { jobs } = house.client;
  await jobs.create({ type: 'mail', queue: 'fast', cron_expression: '*/5 * * * *' });
  await jobs.create({ type: 'mail', queue: 'fast', cron_expression: '*/5 * * * *', timezone: 'Europe/Paris' });
  await jobs.create({ type: 'report', interval_ms: 1000 });
  const paused = await jobs.create({ type: 'report', interval_ms: 1000 });
  await jobs.pause(paused.job_id);
  await jobs.create({ type: 'late', delay_ms: 90 * minuteMs });
  await jobs.create({ type: 'late', delay_ms: 1000 * minuteMs });

  const forecast = await whole(() => house.client.forecast({ hours: 2 }));
  assert.equal(forecast.bucket_ms, minuteMs);
  assert.equal(Date.parse(forecast.to) - Date.parse(forecast.from), 120 * minuteMs);
  const runs = Object.fromEntries(forecast.groups.map((group) => [`${group.queue} ${group.type}`, group.runs]));
  assert.deepEqual(runs, { 'default report': 7200, 'fast mail': 48, 'default late': 1 });
  assert.equal(forecast.runs, 7249);
  assert.equal(forecast.waiting, 1);
  assert.equal(
    forecast.buckets.reduce((sum, bucket) => sum + bucket.runs, 0),
    7249,
  );
  assert.equal(forecast.busiest_minutes.length, 10);
  const busiest = forecast.busiest_minutes[0]?.runs ?? 0;
  assert.ok(
    busiest === 62 || busiest === 63,
    'sixty by the interval, two by the fives, and the late one where it falls',
  );
  assert.equal(new Date(forecast.busiest_minutes[0]?.at ?? '').getUTCMinutes() % 5, 0);
  assert.equal(forecast.buckets[0]?.slots, null, 'nothing has run yet');
  assert.match(forecast.groups[0]?.note ?? '', /^No run/);

  const mails = await whole(() => house.client.forecast({ hours: 24, queue: 'fast', type: 'mail' }));
  assert.equal(mails.runs, 576);
  assert.equal(mails.bucket_ms, 5 * minuteMs);
  assert.equal((await whole(() => house.client.forecast({ hours: 168, queue: 'nobody' }))).runs, 0);
  assert.equal((await whole(() => house.client.forecast({ hours: 24, type: 'late' }))).runs, 2);
});

test('a forecast may begin later, and knows how long runs took', async () => {
  await using house = await openHouse({ workers: 1, handlers: { mail: async () => null } });
  const { job_id } = await house.client.jobs.create({ type: 'mail', cron_expression: '0 9 * * *' });
  await house.client.jobs.runNow(job_id);
  await house.ended(job_id);
  const from = new Date(Date.now() + 40 * 24 * 3_600_000).toISOString();
  const { runs, groups, buckets, runs_with_history } = await whole(() => house.client.forecast({ from, hours: 72 }));
  assert.equal(runs, 3);
  assert.equal(runs_with_history, 3);
  assert.equal(groups[0]?.sample, 1);
  assert.equal(groups[0]?.note, null);
  assert.ok((groups[0]?.median_ms ?? -1) >= 0);
  assert.equal(typeof buckets[0]?.slots, 'number');
});

test('bad questions are refused', async () => {
  await using house = await openHouse();
  await assert.rejects(house.client.forecast({ hours: 169 }), {
    code: 'invalid_input',
    message: /hours must be <= 168/,
  });
  await assert.rejects(house.client.forecast({ hours: 0 }), { code: 'invalid_input' });
  await assert.rejects(house.client.forecast({ from: 'tomorrow' }), { code: 'invalid_input', message: /^from / });
  await assert.rejects(house.client.forecast({ from: '2126-01-01T00:00:00Z' }), {
    code: 'invalid_input',
    message: 'from must be within the next 366 days',
  });
});

test('a forecast whose time is up says so, and the same question is answered from memory', async () => {
  await using house = await openHouse();
  await house.client.jobs.createMany(
    Array.from({ length: 50 }, () => ({ type: 'tick', cron_expression: '* * * * * *' })),
  );
  const hurried = new Forecaster({ db: house.db, segments: [0, 1, 2, 3], budgetMs: 0 });
  const none = await hurried.get({ hours: 168 });
  assert.deepEqual([none.complete, none.schedules, none.runs], [false, 0, 0]);

  const patient = new Forecaster({ db: house.db, segments: [0, 1, 2, 3], budgetMs: 60_000, patienceMs: 60_000 });
  const [one, other] = await Promise.all([patient.get({ hours: 1 }), patient.get({ hours: 1 })]);
  assert.equal(one, other);
  assert.deepEqual([one.complete, one.schedules, one.runs], [true, 50, 50 * 3600]);
  assert.equal(await patient.get({ hours: 1 }), one);
  const many = await Promise.allSettled([2, 3, 4, 5, 6, 7, 8, 9, 10, 11].map((hours) => patient.get({ hours })));
  const refused = many.filter((answer) => answer.status === 'rejected');
  assert.equal(refused.length, 2, 'eight at most are answered at once');
});

test('a forecast that came in part goes on, and the next answers are complete', async () => {
  await using house = await openHouse();
  await house.client.jobs.createMany(
    Array.from({ length: 700 }, (_, i) => ({ type: 'tick', cron_expression: `${i % 60} * * * *` })),
  );
  await house.client.jobs.createMany(
    Array.from({ length: 30 }, (_, i) => ({ type: 'late', delay_ms: (i + 1) * minuteMs })),
  );
  const forecaster = new Forecaster({ db: house.db, segments: [0, 1, 2, 3], patienceMs: 0 });
  const first = await forecaster.get({ hours: 1 });
  assert.deepEqual([first.complete, first.runs < 730], [false, true], 'nothing could be read in no time');
  const all = await whole(() => forecaster.get({ hours: 1 }));
  assert.deepEqual([all.runs, all.schedules, all.waiting], [730, 700, 30]);
  assert.equal(all.from, first.from, 'it is the same question as of the same moment');
});

test('what is known of schedules follows what is changed, and nobody is counted what is of others', async () => {
  await using house = await openHouse();
  const { jobs } = house.client;
  const forecaster = new Forecaster({ db: house.db, segments: [0, 1, 2, 3], keepMs: 0, patienceMs: 60_000 });
  const ask = async (user_id?: string) => (await forecaster.get({ hours: 1, ...(user_id && { user_id }) })).schedules;
  const { job_id } = await jobs.create({ type: 'tick', cron_expression: '* * * * *', user_id: 'ann' });
  await jobs.create({ type: 'tick', cron_expression: '* * * * *', user_id: 'bob' });
  await jobs.create({ type: 'tick', cron_expression: '* * * * *' });
  assert.deepEqual([await ask(), await ask('ann'), await ask('bob'), await ask('eve')], [3, 1, 1, 0]);
  await jobs.pause(job_id);
  await jobs.create({ type: 'tick', interval_ms: 60_000, user_id: 'bob' });
  await eventually(async () => {
    assert.deepEqual([await ask(), await ask('ann'), await ask('bob')], [3, 0, 2]);
  });
});

test('runs that wait are counted once each, in statements of a few', async () => {
  await using house = await openHouse();
  const from = Date.now() + 60 * minuteMs;
  const times = [0, 0, 0, 1, 1, 2, 3, 3, 3, 3, 9].map((minutes) => new Date(from + minutes * minuteMs).toISOString());
  await house.client.jobs.createMany(
    times.map((schedule_time, i) => ({ type: 'late', schedule_time, user_id: i % 2 === 0 ? 'ann' : 'bob' })),
  );
  const count = async (user_id?: string) => {
    let runs = 0;
    let statements = 0;
    for (const segment of [0, 1, 2, 3])
      for (let after: string | null = justBefore(from); after !== null; ) {
        const toMs = from + 9 * minuteMs;
        const found: Awaited<ReturnType<typeof countWaiting>> = await countWaiting(house.db, segment, {
          after,
          toMs,
          limit: 1,
          user_id,
        });
        runs += found.reduce((sum, one) => sum + one.runs, 0);
        after = found[0]?.next_after ?? null;
        statements++;
      }
    return { runs, statements };
  };
  const all = await count();
  assert.equal(all.runs, 10, 'from the first instant, up to before the last');
  assert.ok(all.statements > 4, `${all.statements} statements`);
  assert.deepEqual([(await count('ann')).runs, (await count('bob')).runs], [5, 5]);
  assert.deepEqual((await count('nobody')).runs, 0);
});

test('a busy minute names its schedules, and which of them could be spread', async () => {
  await using house = await openHouse();
  const { jobs } = house.client;
  const hourly = await jobs.create({ name: 'hourly', type: 'a', cron_expression: '0 * * * *' });
  const spread = await jobs.create({ name: 'spread', type: 'a', cron_expression: '0 * * * *', jitter_ms: 1000 });
  const often = await jobs.create({ name: 'often', type: 'b', interval_ms: 1000 });
  await jobs.create({ name: 'other', type: 'a', cron_expression: '30 * * * *' });
  const at = new Date(Math.ceil(Date.now() / 3_600_000 + 1) * 3_600_000).toISOString();
  const ask = async (query: string) => (await fetch(`${house.url}/forecast/minute?${query}`)).json();
  const minute = await whole(
    () => ask(`at=${at}`) as Promise<{ at: string; complete: boolean; jobs: { job_id: string }[] }>,
  );
  assert.equal(minute.at, at);
  const byId = Object.fromEntries(minute.jobs.map(({ job_id, ...rest }) => [job_id, rest]));
  const shared = { queue: 'default', jitter_ms: 0 };
  assert.deepEqual(byId, {
    [hourly.job_id]: { ...shared, name: 'hourly', type: 'a', runs: 1, spread_ms: 10 * minuteMs },
    [spread.job_id]: { ...shared, name: 'spread', type: 'a', runs: 1, jitter_ms: 1000, spread_ms: null },
    [often.job_id]: { ...shared, name: 'often', type: 'b', runs: 60, spread_ms: null },
  });
  assert.equal(((await ask(`at=${at}&type=b`)) as { jobs: unknown[] }).jobs.length, 1);
  assert.equal(((await ask('at=2999-01-01T00:00:00Z')) as { code: string }).code, 'invalid_input');
});
