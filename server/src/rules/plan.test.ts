// What becomes of the times of a schedule, by each policy.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type PlanInput, planTimes } from './plan.ts';
import { parseSchedule } from './schedule/parse.ts';
import type { ScheduleRule } from './schedule/rule.ts';

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;
const noon = Date.UTC(2030, 0, 15, 12);

function cron(expression: string, more: object = {}): ScheduleRule {
  const parsed = parseSchedule({ type: 'CRON', expressions: [expression], jitter_key: 'k', ...more }, 0);
  assert.ok('rule' in parsed, JSON.stringify(parsed));
  return parsed.rule;
}

function input(fields: Partial<PlanInput>): PlanInput {
  return {
    rule: cron('*/10 * * * *'),
    fixed_delay: false,
    next_ms: noon,
    planned_until_ms: noon - 1,
    paused_until_ms: null,
    now_ms: noon,
    overlap: 'queue_one',
    catch_up: 'latest',
    max_catch_up_age_ms: null,
    max_catch_up_count: 100,
    runs_left: null,
    live: 0,
    blocked: 0,
    ...fields,
  };
}

/** What became of the times, in order: `run`, `blocked` or the reason, with the number of times when more than one. */
function became(fields: Partial<PlanInput>): string[] {
  return planTimes(input(fields)).times.map(({ reason, times, blocked }) => {
    const what = reason ?? (blocked ? 'blocked' : 'run');
    return times === 1 ? what : `${times} × ${what}`;
  });
}

test('a time that has come makes a run, and the next time is looked for', () => {
  const plan = planTimes(input({}));
  assert.deepEqual(
    plan.times.map(({ nominal_ms, effective_ms }) => [nominal_ms, effective_ms]),
    [[noon, noon]],
  );
  assert.deepEqual([plan.next_ms, plan.planned_until_ms, plan.ended], [noon + 10 * minute, noon, false]);
});

test('a schedule that nothing has come of yet makes nothing', () => {
  const plan = planTimes(input({ planned_until_ms: noon, now_ms: noon + minute }));
  assert.deepEqual([plan.times, plan.next_ms], [[], noon + 10 * minute]);
});

test('times at most a minute late are on time, however many they are', () => {
  const everySecond = { rule: cron('* * * * * *'), planned_until_ms: noon - 4_000, overlap: 'allow' } as const;
  assert.deepEqual(became(everySecond), ['run', 'run', 'run', 'run']);
  assert.deepEqual(became({ ...everySecond, catch_up: 'none' }), ['run', 'run', 'run', 'run']);
});

describe('missed times', () => {
  const missed = { planned_until_ms: noon - 65 * minute, now_ms: noon + 5 * minute };
  test('latest: the last of them runs, the others are coalesced', () => {
    assert.deepEqual(became(missed), ['6 × coalesced', 'run']);
  });
  test('latest: none of them, when one is on time', () => {
    assert.deepEqual(became({ ...missed, now_ms: noon }), ['6 × coalesced', 'run']);
  });
  test('all: each runs, one after the other', () => {
    assert.deepEqual(became({ ...missed, catch_up: 'all' }), ['run', ...Array<string>(6).fill('blocked')]);
    assert.deepEqual(became({ ...missed, catch_up: 'all', overlap: 'allow' }), Array<string>(7).fill('run'));
  });
  test('all: not more than allowed, and not older', () => {
    assert.deepEqual(became({ ...missed, catch_up: 'all', max_catch_up_count: 2 }), [
      '5 × coalesced',
      'run',
      'blocked',
    ]);
    assert.deepEqual(became({ ...missed, catch_up: 'all', max_catch_up_age_ms: 20 * minute }), [
      '5 × too_old',
      'run',
      'blocked',
    ]);
  });
  test('none: none', () => {
    assert.deepEqual(became({ ...missed, catch_up: 'none' }), ['7 × too_old']);
  });
  test('they are spread, by at most a tenth of how late they are and five minutes', () => {
    const time = planTimes(input({ planned_until_ms: noon - hour, now_ms: noon + 5 * minute })).times.find(
      ({ reason }) => reason === null,
    );
    const after = (time?.effective_ms ?? 0) - (noon + 5 * minute);
    assert.ok(after >= 0 && after <= 30_000, `${after} ms`);
  });
});

test('four hundred days of every minute are passed over in steps, each time counted once', () => {
  const rule = cron('* * * * *');
  const state = input({ rule, planned_until_ms: noon - 400 * day, now_ms: noon + 30_000 });
  let times = 0;
  let runs = 0;
  for (let step = 0; step < 1000; step++) {
    const plan = planTimes(state);
    times += plan.times.reduce((sum, time) => sum + time.times, 0);
    runs += plan.times.filter(({ reason }) => reason === null).length;
    state.planned_until_ms = plan.planned_until_ms;
    if (plan.next_ms !== null && plan.next_ms > state.now_ms) break;
  }
  assert.deepEqual([times, runs], [400 * 24 * 60, 1]);
});

test('with catch_up all the last allowed ones run, also after a long time', () => {
  const rule = cron('* * * * *');
  const state = input({
    rule,
    planned_until_ms: noon - 20 * day,
    now_ms: noon + 30_000,
    catch_up: 'all',
    max_catch_up_count: 1000,
    overlap: 'allow',
  });
  const runs: number[] = [];
  for (let step = 0; step < 1000; step++) {
    const plan = planTimes(state);
    runs.push(...plan.times.filter(({ reason }) => reason === null).map((time) => time.nominal_ms));
    state.planned_until_ms = plan.planned_until_ms;
    if (plan.next_ms !== null && plan.next_ms > state.now_ms) break;
  }
  // The thousand that were missed, and the one that is on time.
  assert.equal(runs.length, 1001);
  assert.deepEqual([runs[0], runs.at(-1)], [noon - 1000 * minute, noon]);
});

describe('overlap', () => {
  test('skip: none while one is not done', () => {
    assert.deepEqual(became({ overlap: 'skip', live: 1 }), ['skipped_overlap']);
    assert.deepEqual(became({ overlap: 'skip' }), ['run']);
  });
  test('queue_one: one waits, the next is coalesced', () => {
    assert.deepEqual(became({ live: 1 }), ['blocked']);
    assert.deepEqual(became({ live: 1, blocked: 1 }), ['coalesced']);
  });
  test('queue_one: while one waits, even with nothing running, another never starts beside it', () => {
    assert.deepEqual(became({ blocked: 1 }), ['coalesced']);
  });
  test('cancel_other: the new one waits for the end of the others', () => {
    const plan = planTimes(input({ overlap: 'cancel_other', live: 1 }));
    assert.deepEqual([plan.times[0]?.blocked, plan.cancel_others], [true, true]);
    assert.equal(planTimes(input({ overlap: 'cancel_other' })).cancel_others, false);
  });
  test('allow: runs beside others', () => {
    assert.deepEqual(became({ overlap: 'allow', live: 3 }), ['run']);
  });
});

test('times in a pause and times that the calendar excludes are recorded as such', () => {
  assert.deepEqual(
    became({ planned_until_ms: noon - 25 * minute, now_ms: noon + minute / 2, paused_until_ms: noon - minute }),
    ['2 × paused', 'run'],
  );
  const calendar = {
    timezone: 'UTC',
    include: [],
    exclude: [{ weekdays: 127, spans: null, yearly: null, hours: [12 * 60, 12 * 60 + 5] }],
  };
  assert.deepEqual(became({ rule: cron('*/10 * * * *', { calendar }) }), ['excluded']);
});

describe('the end', () => {
  test('after so many runs; times that make none do not count', () => {
    const plan = planTimes(input({ runs_left: 1 }));
    assert.deepEqual([plan.times.length, plan.next_ms, plan.ended], [1, null, true]);
    assert.deepEqual(planTimes(input({ runs_left: 1, overlap: 'skip', live: 1 })).ended, false);
  });
  test('at end_at', () => {
    const plan = planTimes(input({ rule: cron('*/10 * * * *', { end_at: noon + minute }) }));
    assert.deepEqual([plan.times.length, plan.next_ms, plan.ended], [1, null, true]);
  });
});

describe('a fixed delay', () => {
  const parsed = parseSchedule({ type: 'INTERVAL', every_ms: minute, jitter_key: 'k' }, noon - hour);
  assert.ok('rule' in parsed);
  const delay = { rule: parsed.rule, fixed_delay: true };
  test('has one time, and then waits for the end of its run', () => {
    const plan = planTimes(input(delay));
    assert.deepEqual([plan.times.map((time) => time.nominal_ms), plan.next_ms, plan.ended], [[noon], null, false]);
  });
  test('that fell into a pause begins again after it', () => {
    const plan = planTimes(input({ ...delay, paused_until_ms: noon }));
    assert.deepEqual([plan.times[0]?.reason, plan.next_ms], ['paused', noon + minute]);
  });
  test('ends after its last run', () => {
    assert.equal(planTimes(input({ ...delay, runs_left: 0 })).ended, true);
  });
});
