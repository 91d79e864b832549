// Which times a backfill has, and what it does next.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '@punctual/contract';
import fc from 'fast-check';
import { nextStep, rangeOf, timesIn } from './backfill.ts';
import { compileCalendar } from './schedule/calendar.ts';
import type { ScheduleRule } from './schedule/rule.ts';
import { cronRule, intervalRule } from './schedule/rules.test.support.ts';

const at = (text: string): number => Date.parse(`${text}Z`);
const now = at('2026-03-02T12:00:00');

function find(
  rule: ScheduleRule,
  from: string,
  to: string,
): number[] | { refused: { path: string; message: string }[] } {
  const steps = timesIn(rule, { from_ms: at(from), to_ms: at(to) });
  for (let step = steps.next(); ; step = steps.next()) if (step.done === true) return step.value;
}

const times = (rule: ScheduleRule, from: string, to: string): number[] => {
  const found = find(rule, from, to);
  assert.ok(Array.isArray(found), JSON.stringify(found));
  return found;
};

test('a range lies in the past, in order, and both ends belong to it', () => {
  assert.deepEqual(rangeOf({ from: '2026-03-01T00:00:00Z', to: '2026-03-02T12:00:00Z' }, now), {
    from_ms: at('2026-03-01T00:00:00'),
    to_ms: now,
  });
  const refused = (from: string, to: string): string[] => {
    const answer = rangeOf({ from, to }, now);
    return 'refused' in answer ? answer.refused.map(({ path, message }) => `${path} ${message}`) : [];
  };
  assert.deepEqual(refused('2026-03-02T00:00:00Z', '2026-03-01T00:00:00Z'), ['from must not be after to']);
  assert.deepEqual(refused('2026-03-01T00:00:00Z', '2026-03-02T12:00:00.001Z'), [
    'to must not be in the future: those times make their runs when they come',
  ]);
  assert.deepEqual(refused('2026-02-31T99:00:00Z', '2026-03-01T00:00:00Z'), ['from is not a date that exists']);
  const hourly = cronRule('0 * * * *');
  assert.equal(times(hourly, '2026-03-01T00:00:00', '2026-03-01T02:00:00').length, 3);
  assert.equal(times(hourly, '2026-03-01T00:00:01', '2026-03-01T01:59:59').length, 1);
  assert.deepEqual(times(hourly, '2026-03-01T00:00:01', '2026-03-01T00:59:59'), []);
});

test('times that a calendar excludes are left out; the spread does not move times', () => {
  const compiled = compileCalendar({ exclude: [{ days: ['SUN'] }] });
  assert.ok('calendar' in compiled);
  const rule = cronRule('0 9 * * *', { calendar: compiled.calendar, jitter_ms: 3_600_000 });
  assert.deepEqual(times(rule, '2026-02-28T00:00:00', '2026-03-02T23:00:00'), [
    at('2026-02-28T09:00:00'),
    at('2026-03-02T09:00:00'),
  ]);
});

test('many times are found in several goes, and too many are refused with their number', () => {
  const minutely = cronRule('* * * * *');
  assert.equal(times(minutely, '2026-01-01T00:00:00', '2026-02-28T23:59:00').length, 59 * 1440);
  assert.deepEqual(find(minutely, '2026-01-01T00:00:00', '2026-12-31T00:00:00'), {
    refused: [
      {
        path: 'to',
        message: 'is too far from from: the range has more than 100000 times, and a backfill takes at most 100000',
      },
    ],
  });
  const every = intervalRule(1000, 0);
  assert.equal(times(every, '2026-01-01T00:00:00', '2026-01-02T03:46:39').length, limits.max_backfill_times);
  const refused = find(every, '2026-01-01T00:00:00', '2026-02-01T00:00:00');
  assert.match(JSON.stringify(refused), /the range has 2678401 times/);
});

test('a rare time of a long range is found', () => {
  assert.deepEqual(times(cronRule('0 0 29 2 *'), '1971-01-01T00:00:00', '1981-01-01T00:00:00'), [
    at('1972-02-29T00:00:00'),
    at('1976-02-29T00:00:00'),
    at('1980-02-29T00:00:00'),
  ]);
});

test('a backfill makes as many as it may at once, none while its job is paused, and ends when nothing is left', () => {
  const running = { state: 'RUNNING', job: 'live', max_concurrency: 3, live: 0, unmade: 10 } as const;
  assert.deepEqual(nextStep(running), { make: 3, state: 'RUNNING', ended: false });
  assert.deepEqual(nextStep({ ...running, live: 2 }), { make: 1, state: 'RUNNING', ended: false });
  assert.deepEqual(nextStep({ ...running, live: 3 }), { make: 0, state: 'RUNNING', ended: false });
  assert.deepEqual(nextStep({ ...running, unmade: 2 }), { make: 2, state: 'RUNNING', ended: false });
  assert.deepEqual(nextStep({ ...running, live: 1, unmade: 0 }), { make: 0, state: 'RUNNING', ended: false });
  assert.deepEqual(nextStep({ ...running, unmade: 0 }), { make: 0, state: 'DONE', ended: true });
  assert.deepEqual(nextStep({ ...running, job: 'paused' }), { make: 0, state: 'RUNNING', ended: false });
  assert.deepEqual(nextStep({ ...running, job: 'cancelled', live: 1 }), { make: 0, state: 'CANCELLED', ended: false });
  assert.deepEqual(nextStep({ ...running, job: 'cancelled' }), { make: 0, state: 'CANCELLED', ended: true });
  assert.deepEqual(nextStep({ ...running, state: 'CANCELLED', live: 2 }), {
    make: 0,
    state: 'CANCELLED',
    ended: false,
  });
});

test('whatever happens, no step makes too many, and every backfill ends', () => {
  const job = fc.constantFrom('live' as const, 'paused' as const);
  const turn = fc.record({ job, ends: fc.nat(3) });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 5 }), fc.nat(30), fc.array(turn, { maxLength: 60 }), (max, total, turns) => {
      let live = 0;
      let unmade = total;
      const rest = Array.from({ length: 2 * total + 2 }, () => ({ job: 'live' as const, ends: 5 }));
      for (const { job: now_, ends } of [...turns, ...rest]) {
        live -= Math.min(ends, live);
        const step = nextStep({ state: 'RUNNING', job: now_, max_concurrency: max, live, unmade });
        if (step.ended) {
          assert.equal(live + unmade, 0);
          return;
        }
        live += step.make;
        unmade -= step.make;
        assert.ok(live <= max && unmade >= 0 && step.make >= 0);
      }
      assert.fail('it did not end');
    }),
  );
});
