// Schedules that are planned together come to what each would come to alone.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type PlanInput, planTimes } from './plan.ts';
import { planTogether } from './plan_together.ts';
import { parseSchedule, type ScheduleInput } from './schedule/parse.ts';
import type { ScheduleRule } from './schedule/rule.ts';

const minute = 60_000;
const noon = Date.UTC(2030, 0, 15, 12);

function ruleOf(input: ScheduleInput): ScheduleRule {
  const parsed = parseSchedule(input, 0);
  assert.ok('rule' in parsed, JSON.stringify(parsed));
  return parsed.rule;
}

const expressions = ['0 * * * *', '*/10 * * * *', '* * * * * *', 'H * * * *', '0 12 * * TUE-THU', '30 2 * * *'];

const rule = fc.oneof(
  fc.record({
    type: fc.constant('CRON'),
    expressions: fc.subarray(expressions, { minLength: 1, maxLength: 2 }),
    timezone: fc.constantFrom('UTC', 'Europe/Paris'),
    jitter_ms: fc.constantFrom(0, 0, 90_000),
    end_at: fc.constantFrom(null, noon - 5 * minute, noon + 5 * minute),
  }),
  fc.record({
    type: fc.constant('INTERVAL'),
    every_ms: fc.constantFrom(1_000, 7 * minute),
    anchor_ms: fc.constantFrom(0, noon - minute),
  }),
);

const schedule = fc.record({
  which: fc.nat(1),
  key: fc.constantFrom('a', 'b', 'c', 'd'),
  fixed_delay: fc.constantFrom(false, false, false, true),
  planned_until_ms: fc.constantFrom(1, 30_000, minute, 3 * 60 * minute, 3 * 24 * 60 * minute).map((ms) => noon - ms),
  paused_until_ms: fc.constantFrom(null, null, noon - 30 * minute),
  overlap: fc.constantFrom('queue_one' as const, 'skip' as const, 'cancel_other' as const, 'allow' as const),
  catch_up: fc.constantFrom('latest' as const, 'all' as const, 'none' as const),
  runs_left: fc.constantFrom(null, null, 1, 3),
  live: fc.nat(1),
  blocked: fc.nat(1),
});

test('schedules that are planned together come to what each would come to alone', () => {
  fc.assert(
    fc.property(fc.tuple(rule, rule), fc.array(schedule, { maxLength: 12 }), (rules, many) => {
      const inputs = many.map(({ which, key, fixed_delay, ...rest }): PlanInput => {
        const asked = rules[which] as (typeof rules)[0];
        return {
          ...rest,
          rule: ruleOf({ ...asked, jitter_key: key }),
          fixed_delay: fixed_delay && asked.type === 'INTERVAL',
          next_ms: noon,
          now_ms: noon,
          max_catch_up_age_ms: null,
          max_catch_up_count: 100,
        };
      });
      assert.deepEqual(
        planTogether(inputs.map((input) => ({ ...input, rule: JSON.stringify(input.rule) }))),
        inputs.map((input) => planTimes(input)),
      );
    }),
    { numRuns: 100 },
  );
});
