// Bounds, order, paging, jitter and counting of occurrences.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileCalendar } from './calendar.ts';
import { localText } from './local.ts';
import { countBetween, occurrencesAfter } from './occurrences.ts';
import { diceOf, rollExpression } from './oracle.test.support.ts';
import { parseSchedule } from './parse.ts';
import { LAST_MS, type ScheduleRule } from './rule.ts';
import { cronRule, intervalRule } from './rules.test.support.ts';

const at = (text: string): number => Date.parse(`${text}Z`);
const isoTimes = (rule: ScheduleRule, after: number, limit = 100, untilMs = LAST_MS): string[] =>
  occurrencesAfter(rule, after, { limit, untilMs }).items.map((item) =>
    new Date(item.nominal_ms).toISOString().slice(0, 19),
  );

test('occurrences lie strictly after the time, up to and with the last that is asked for', () => {
  const rule = cronRule('0 9 * * *');
  assert.deepEqual(isoTimes(rule, at('2026-01-01T09:00'), 1), ['2026-01-02T09:00:00']);
  assert.deepEqual(isoTimes(rule, at('2026-01-01T09:00') - 1, 1), ['2026-01-01T09:00:00']);
  assert.deepEqual(isoTimes(rule, at('2026-01-01T09:00') - 0.5, 1), ['2026-01-01T09:00:00']);
  assert.deepEqual(isoTimes(rule, at('2026-01-01T00:00'), 9, at('2026-01-02T09:00')), [
    '2026-01-01T09:00:00',
    '2026-01-02T09:00:00',
  ]);
  const none = occurrencesAfter(rule, at('2026-01-01T09:00'), { untilMs: at('2026-01-02T08:59') });
  assert.deepEqual(none, { items: [], exhausted: true, lookedUntilMs: at('2026-01-02T08:59') });
});

test('start_at and end_at both belong to the schedule', () => {
  const rule = cronRule('0 9 * * *', { start_at: at('2026-01-05T09:00'), end_at: at('2026-01-06T09:00') });
  const { items, exhausted } = occurrencesAfter(rule, 0, { limit: 9 });
  assert.deepEqual(
    items.map((item) => localText(item.local_ms)),
    ['2026-01-05T09:00:00', '2026-01-06T09:00:00'],
  );
  assert.equal(exhausted, true);
  assert.deepEqual(occurrencesAfter(rule, at('2026-02-01T00:00')), {
    items: [],
    exhausted: true,
    lookedUntilMs: LAST_MS,
  });
});

test('a fixed rate begins at its anchor and keeps its distance through clock changes', () => {
  const rule = intervalRule(6 * 3_600_000, at('2026-03-28T20:00:00.250'));
  assert.deepEqual(occurrencesAfter(rule, 0, { limit: 2 }).items, [
    {
      nominal_ms: at('2026-03-28T20:00:00.250'),
      effective_ms: at('2026-03-28T20:00:00.250'),
      local_ms: at('2026-03-28T20:00:00.250'),
      note: null,
      excluded: false,
    },
    {
      nominal_ms: at('2026-03-29T02:00:00.250'),
      effective_ms: at('2026-03-29T02:00:00.250'),
      local_ms: at('2026-03-29T02:00:00.250'),
      note: null,
      excluded: false,
    },
  ]);
  assert.deepEqual(isoTimes(rule, at('2026-03-29T02:00:00.250'), 1), ['2026-03-29T08:00:00']);
});

test('jitter delays by the same for the same job, at most by what is asked, and spreads jobs', () => {
  const delays = Array.from({ length: 300 }, (_, i) => {
    const rule = cronRule('0 9 * * *', { jitter_ms: 60_000, jitter_key: `job-${i}` });
    const { items } = occurrencesAfter(rule, at('2026-01-01T00:00'), { limit: 2 });
    const [first, second] = items.map((item) => item.effective_ms - item.nominal_ms);
    assert.equal(first, second);
    return first ?? -1;
  });
  assert.ok(Math.min(...delays) >= 0 && Math.max(...delays) <= 60_000);
  for (let slice = 0; slice < 6; slice++) {
    const count = delays.filter((delay) => delay >= slice * 10_000 && delay < (slice + 1) * 10_000).length;
    assert.ok(count > 25, `${count} of 300 in slice ${slice}`);
  }
});

test('pages of any size and windows of any length give the same list', () => {
  const dice = diceOf(5);
  const weekend = compileCalendar({ exclude: [{ days: ['SAT-SUN'] }, { hours: ['12:00-13:00'] }] });
  assert.ok('calendar' in weekend);
  const [from, to] = [at('2026-03-01T00:00'), at('2026-04-15T00:00')];
  for (let i = 0; i < 25; i++) {
    const text = rollExpression(dice, from);
    if ('refused' in parseSchedule({ type: 'CRON', expressions: [text], jitter_key: '' }, 0)) continue;
    const on_excluded = dice.pick(['skip', 'next', 'previous'] as const);
    const rule = cronRule(text, { timezone: 'Europe/Berlin', calendar: weekend.calendar, on_excluded });
    const whole: number[] = [];
    for (let after = from; ; ) {
      const page = occurrencesAfter(rule, after, { limit: 10_000, untilMs: to });
      whole.push(...page.items.map((item) => item.nominal_ms));
      if (page.exhausted) break;
      after = page.lookedUntilMs;
    }
    assert.deepEqual(
      whole,
      [...new Set(whole)].sort((a, b) => a - b),
      'in order, each once',
    );
    const paged: number[] = [];
    for (let after = from; after < to; ) {
      const untilMs = Math.min(to, after + 1 + dice.roll(5 * 86_400_000));
      const limit = 1 + dice.roll(2000);
      const page = occurrencesAfter(rule, after, { limit, untilMs });
      if (page.items.length === limit) assert.equal(page.lookedUntilMs, page.items.at(-1)?.nominal_ms);
      paged.push(...page.items.map((item) => item.nominal_ms));
      after = page.lookedUntilMs;
    }
    assert.deepEqual(paged, whole, `${text} ${on_excluded}`);
  }
});

test('a call is bounded: it stops with what it has, and the caller can go on', () => {
  const never = cronRule('30 2 * 3 SUNL', { timezone: 'Europe/Berlin', dst_gap: 'skip' });
  let after = at('2026-01-01T00:00');
  for (let calls = 0; calls < 3; calls++) {
    const { items, exhausted, lookedUntilMs } = occurrencesAfter(never, after, { limit: 5 });
    assert.deepEqual([items.length, exhausted], [0, false]);
    assert.ok(lookedUntilMs > after + 10 * 365 * 86_400_000, 'gets on by decades');
    after = lookedUntilMs;
  }
  const fast = occurrencesAfter(cronRule('* * * * * *'), after, { limit: 1e9 });
  assert.ok(fast.items.length <= 10_000 && !fast.exhausted);
  const last = fast.items.at(-1)?.nominal_ms ?? 0;
  assert.ok(fast.lookedUntilMs >= last && fast.lookedUntilMs < last + 1000);
});

test('rare days are found decades away, and the end of time ends the search', () => {
  assert.deepEqual(isoTimes(cronRule('0 0 29 2 *'), at('2096-03-01T00:00'), 1), ['2104-02-29T00:00:00']);
  assert.deepEqual(isoTimes(cronRule('0 0 ? 2 SUN#5'), at('2088-03-01T00:00'), 1), ['2128-02-29T00:00:00']);
  const { items, exhausted } = occurrencesAfter(cronRule('0 0 1 1 *'), at('9998-06-01T00:00'), { limit: 5 });
  assert.deepEqual([items.map((item) => localText(item.local_ms)), exhausted], [['9999-01-01T00:00:00'], true]);
  assert.deepEqual(occurrencesAfter(cronRule('* * * * *'), LAST_MS + 5).exhausted, true);
  assert.equal(occurrencesAfter(cronRule('* * * * *'), -1e15).items[0]?.local_ms, 0);
});

test('occurrences are counted up to a maximum', () => {
  const rule = cronRule('0 9 * * *', { timezone: 'Europe/Berlin' });
  const [from, to] = [at('2026-01-01T00:00'), at('2027-01-01T00:00')];
  assert.deepEqual(countBetween(rule, from, to, 1000), { count: 365, excluded: 0, complete: true });
  assert.deepEqual(countBetween(rule, from, to, 365), { count: 365, excluded: 0, complete: true });
  assert.deepEqual(countBetween(rule, from, to, 100), { count: 100, excluded: 0, complete: false });
  const weekend = compileCalendar({ exclude: [{ days: ['SAT-SUN'] }] });
  assert.ok('calendar' in weekend);
  const working = { ...rule, calendar: weekend.calendar };
  assert.deepEqual(countBetween(working, from, to, 1000), { count: 261, excluded: 104, complete: true });
  assert.deepEqual(countBetween(intervalRule(1000, from), from, to, 1e9), {
    count: 31_536_000,
    excluded: 0,
    complete: true,
  });
  assert.deepEqual(countBetween(intervalRule(1000, from), from, to, 10), { count: 10, excluded: 0, complete: false });
  assert.deepEqual(countBetween(intervalRule(1000, to), 0, from, 10), { count: 0, excluded: 0, complete: true });
});

test('a rule is a plain value that survives JSON', () => {
  const weekend = compileCalendar({
    timezone: 'Europe/Berlin',
    exclude: [{ dates: ['12-25', '2026-05-01/2026-05-03'] }],
  });
  assert.ok('calendar' in weekend);
  const rule = cronRule('0 9 * * *', { calendar: weekend.calendar, timezone: 'Europe/Berlin' });
  const copy = JSON.parse(JSON.stringify(rule)) as ScheduleRule;
  assert.deepEqual(copy, rule);
  const from = at('2026-04-01T00:00');
  assert.deepEqual(occurrencesAfter(copy, from, { limit: 400 }), occurrencesAfter(rule, from, { limit: 400 }));
});
