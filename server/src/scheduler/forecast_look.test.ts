// The look ahead over all schedules at once counts what each of them counts alone, whatever they share.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type Ahead, type ForecastSchedule, minuteCounts, windowOf } from '../rules/forecast.ts';
import { adder, newTally, type Tally } from '../rules/forecast_tally.ts';
import { compileCalendar } from '../rules/schedule/calendar.ts';
import { type ScheduleRule, SECOND_MS } from '../rules/schedule/rule.ts';
import { cronRule, intervalRule } from '../rules/schedule/rules.test.support.ts';
import type { Queryable } from '../store/database.ts';
import type { ForecastFilter, ForecastRow } from '../store/forecast.ts';
import { KnownSchedules } from './forecast_known.ts';
import { lookAhead, lookAtMinute } from './forecast_look.ts';

const noon = Date.parse('2026-03-28T12:00:00Z');
const day = 86_400_000;

const calendar = (() => {
  const compiled = compileCalendar({ exclude: [{ days: ['SUN'] }] });
  assert.ok('calendar' in compiled);
  return compiled.calendar;
})();

const bounds = fc.record({
  start_at: fc.option(fc.integer({ min: noon - day, max: noon + day }), { freq: 3 }),
  end_at: fc.option(fc.integer({ min: noon - day, max: noon + 2 * day }), { freq: 3 }),
  jitter_ms: fc.constantFrom(0, 0, 59_999, 300_000, 5_000_000),
  jitter_key: fc.constantFrom('one', 'two', 'three', 'four'),
  calendar: fc.constantFrom(null, null, null, calendar),
});
const expressions = [
  '0 * * * *',
  '*/7 * * * *',
  '30 2 * * *',
  'H * * * *',
  'H/20 H * * *',
  '*/40 * * * * *',
  '5 4 * * MON',
];
const zones = ['UTC', 'Europe/Paris', 'America/New_York', 'Asia/Kolkata', 'Australia/Lord_Howe'];
const cron = fc
  .tuple(fc.constantFrom(...expressions), fc.constantFrom(...zones), bounds)
  .map(([text, timezone, changes]): ScheduleRule => ({ ...cronRule(text), timezone, ...changes }));
const interval = fc
  .tuple(
    fc.oneof(fc.constantFrom(60_000, 3_600_000, 3_600_000, 90_000), fc.integer({ min: 20 * SECOND_MS, max: day })),
    fc.integer({ min: noon - day, max: noon + day }),
    bounds,
  )
  .map(([every, anchor, changes]) => intervalRule(every, anchor, changes));

const row = fc
  .record({
    rule: fc.oneof(cron, interval),
    fixed_delay: fc.boolean(),
    next: fc.integer({ min: noon - day, max: noon + day }),
    runs_left: fc.option(fc.integer({ min: 0, max: 20 }), { freq: 3 }),
    queue: fc.constantFrom('fast', 'slow'),
    user_id: fc.constantFrom('ann', 'bob', null),
  })
  .map(({ rule, next, fixed_delay, ...rest }): Omit<ForecastRow, 'job_id'> => {
    const isDelay = fixed_delay && rule.type === 'INTERVAL';
    return { ...rest, rule: JSON.stringify(rule), fixed_delay: isDelay, next_ms: `${next}`, type: 'mail' };
  });
const rows = fc
  .array(row, { minLength: 1, maxLength: 30 })
  .map((all): ForecastRow[] => all.map((one, i) => ({ ...one, job_id: `${i}`.padStart(8, '0') })));
const ahead = fc
  .tuple(fc.integer({ min: 0, max: 120_000 }), fc.constantFrom(0, 0, 40_000, day), fc.constantFrom(1, 24, 60))
  .map(([now, later, hours]): Ahead => ({ nowMs: noon + now, window: windowOf(noon + now + later, hours) }));
const filters = fc.constantFrom<ForecastFilter>({}, { queue: 'fast' }, { user_id: 'ann' }, { user_id: 'nobody' });

/** A book with these schedules in one segment, all of them on its first page. */
function bookOf(all: readonly ForecastRow[]): Queryable {
  const pages = [all];
  return { query: async <Row extends object>() => (pages.shift() ?? []) as Row[] };
}

async function read(all: readonly ForecastRow[]) {
  const known = new KnownSchedules({ db: bookOf(all), segments: [0], budgetMs: 60_000, inTurn: (work) => work() });
  return (await known.within(60_000)).schedules;
}

function alone({ rule, next_ms, fixed_delay, runs_left }: ForecastRow, question: Ahead): Map<number, number> {
  const schedule: ForecastSchedule = { rule: JSON.parse(rule), next_ms: Number(next_ms), fixed_delay, runs_left };
  const steps = minuteCounts(schedule, question);
  for (let step = steps.next(); ; step = steps.next()) if (step.done === true) return step.value;
}

function oneByOne(all: readonly ForecastRow[], question: Ahead): Tally {
  const counted = newTally(question.window);
  for (const one of all) {
    const add = adder(counted, one);
    for (const [minute, runs] of alone(one, question)) add(minute, runs);
  }
  return counted;
}

const shown = ({ minutes, buckets, groups }: Tally) => ({
  minutes,
  buckets,
  groups: [...groups.values()].sort((a, b) => a.queue.localeCompare(b.queue)),
});

test('all schedules together are counted as one by one, for every filter', async () => {
  await fc.assert(
    fc.asyncProperty(rows, ahead, filters, async (all, question, filter) => {
      const { queue, user_id } = filter;
      const asked = all.filter(
        (one) => (queue === undefined || one.queue === queue) && (user_id === undefined || one.user_id === user_id),
      );
      const look = await lookAhead({ ...question, filter, schedules: await read(all), budgetMs: 60_000 });
      assert.deepEqual(shown(look.counted), shown(oneByOne(asked, question)));
      assert.deepEqual([look.schedules, look.complete], [asked.length, true]);
      const ids = new Set(asked.map(({ job_id }) => job_id));
      assert.ok([...look.jobs.values()].flat().every((id) => ids.has(id)));
    }),
    { numRuns: 200 },
  );
});

test('a minute names the schedules that start runs in it, and how many', async () => {
  await fc.assert(
    fc.asyncProperty(rows, fc.integer({ min: 0, max: 180 }), async (all, minute) => {
      const base_ms = noon + minute * 60_000;
      const window = { from_ms: base_ms, to_ms: base_ms + 60_000, bucket_ms: 60_000, base_ms, buckets: 1 };
      const question = { window, nowMs: noon };
      const { runs } = await lookAtMinute({ ...question, filter: {}, schedules: await read(all), budgetMs: 60_000 });
      const expected = all.map((one) => [one.job_id, alone(one, question).get(0) ?? 0]).filter(([, own]) => own !== 0);
      assert.deepEqual(
        [...runs].map(([{ job_id }, own]) => [job_id, own]),
        expected,
      );
    }),
    { numRuns: 200 },
  );
});

test('many schedules are counted in slices: others go first now and then', async () => {
  const rule = (i: number) => JSON.stringify(intervalRule(7_001, noon - i));
  const all = Array.from(
    { length: 3000 },
    (_, i): ForecastRow => ({
      job_id: `${i}`,
      rule: rule(i),
      fixed_delay: false,
      next_ms: `${noon}`,
      runs_left: null,
      queue: 'fast',
      type: 'mail',
      user_id: null,
    }),
  );
  const schedules = await read(all);
  let turns = 0;
  const others = setInterval(() => turns++, 1);
  try {
    const began = performance.now();
    await lookAhead({ nowMs: noon, window: windowOf(noon, 24), filter: {}, schedules, budgetMs: 60_000 });
    const took = performance.now() - began;
    assert.ok(took < 60 || turns >= 3, `${took} ms without a break`);
  } finally {
    clearInterval(others);
  }
});
