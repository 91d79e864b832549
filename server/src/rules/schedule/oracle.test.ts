// Random schedules against the brute-force oracle: the quick version. test/zones walks all zones.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { localText } from './local.ts';
import { occurrencesAfter } from './occurrences.ts';
import {
  diceOf,
  type Expected,
  expectedIn,
  naiveMatcher,
  type Policy,
  rollExpression,
  type Tick,
  textOf,
  walk,
  wallAt,
} from './oracle.test.support.ts';
import { parseSchedule } from './parse.ts';
import type { CronRule } from './rule.ts';
import { cronRule } from './rules.test.support.ts';

const DAY = 86_400_000;
const HOUR = 3_600_000;
const MINUTE = 60_000;
const SEED = 20_260_329;

/** A change of the clocks of every zone in guarantees.md, in both directions where there are two. */
const changes: [string, ...string[]][] = [
  ['America/New_York', '2026-03-08T07:00', '2026-11-01T06:00'],
  ['Europe/London', '2026-03-29T01:00', '2026-10-25T01:00'],
  ['Europe/Berlin', '2026-03-29T01:00', '2026-10-25T01:00'],
  ['Europe/Dublin', '2026-03-29T01:00', '2026-10-25T01:00'],
  ['Australia/Lord_Howe', '2026-04-04T15:00', '2026-10-03T15:30'],
  ['Antarctica/Troll', '2026-03-29T01:00', '2026-10-25T01:00'],
  ['Africa/Casablanca', '2026-02-15T02:00', '2026-03-22T02:00'],
  ['Africa/Cairo', '2026-04-23T22:00', '2026-10-29T21:00'],
  ['Asia/Beirut', '2026-03-28T22:00', '2026-10-24T21:00'],
  ['America/Santiago', '2026-04-05T03:00', '2026-09-06T04:00'],
  ['America/Sao_Paulo', '2018-02-18T02:00', '2018-11-04T03:00'],
  ['Pacific/Apia', '2011-12-30T10:00', '2012-03-31T14:00'],
  ['Asia/Kathmandu', '2026-03-29T00:00'],
];

const policies: Policy[] = [
  { dst_gap: 'run_after', dst_overlap: 'first' },
  { dst_gap: 'skip', dst_overlap: 'both' },
  { dst_gap: 'run_after', dst_overlap: 'both' },
  { dst_gap: 'skip', dst_overlap: 'first' },
];

/** What the code says of the same span, but for the oracle's margins. */
function compare(rule: CronRule, ticks: readonly Tick[], expected: readonly Expected[], margin: number): number {
  const from = (ticks[0]?.ms ?? 0) + margin;
  const to = (ticks.at(-1)?.ms ?? 0) - margin;
  const found: Expected[] = [];
  for (let after = from; ; ) {
    const { items, exhausted, lookedUntilMs } = occurrencesAfter(rule, after, { limit: 777, untilMs: to });
    found.push(...items.map(({ nominal_ms, local_ms, note }) => ({ nominal_ms, local: localText(local_ms), note })));
    if (exhausted) break;
    assert.ok(lookedUntilMs > after, 'every call gets further');
    after = lookedUntilMs;
  }
  const wanted = expected.filter(({ nominal_ms }) => nominal_ms > from && nominal_ms <= to);
  assert.deepEqual(found, wanted, `seed ${SEED}: "${rule.expressions.join('" "')}" in ${rule.timezone}`);
  return wanted.length;
}

test('random expressions fire at exactly the minutes of the oracle, around every change in the table', () => {
  const dice = diceOf(SEED);
  let compared = 0;
  for (const [zone, ...instants] of changes) {
    for (const instant of instants) {
      const at = Date.parse(`${instant}Z`);
      const ticks = walk(zone, at - 1.5 * DAY, at + 1.5 * DAY, MINUTE);
      for (let i = 0; i < 14; i++) {
        const text = rollExpression(dice, wallAt(zone, at));
        const policy = dice.pick(policies);
        if ('refused' in parseSchedule({ type: 'CRON', expressions: [text], jitter_key: '' }, 0)) continue;
        const rule = cronRule(text, { timezone: zone, ...policy });
        compared += compare(rule, ticks, expectedIn(ticks, MINUTE, text, policy), 3 * HOUR);
      }
    }
  }
  assert.ok(compared > 10_000, `compared only ${compared}`);
});

test('random expressions with seconds fire at exactly the seconds of the oracle', () => {
  const dice = diceOf(SEED + 1);
  for (const [zone, first = ''] of changes.slice(2, 6)) {
    const at = Date.parse(`${first}Z`);
    const ticks = walk(zone, at - 4.5 * HOUR, at + 4.5 * HOUR, 1000);
    for (let i = 0; i < 6; i++) {
      const text = rollExpression(dice, wallAt(zone, at), true);
      const policy = dice.pick(policies);
      if ('refused' in parseSchedule({ type: 'CRON', expressions: [text], jitter_key: '' }, 0)) continue;
      const rule = cronRule(text, { timezone: zone, ...policy });
      compare(rule, ticks, expectedIn(ticks, 1000, text, policy), 2.5 * HOUR);
    }
  }
});

test('several expressions make the union of their times, each instant once', () => {
  const dice = diceOf(SEED + 2);
  for (const [zone, first = ''] of changes) {
    const at = Date.parse(`${first}Z`);
    const ticks = walk(zone, at - 1.5 * DAY, at + 1.5 * DAY, MINUTE);
    const policy = dice.pick(policies);
    const texts = Array.from({ length: 2 + dice.roll(3) }, () => rollExpression(dice, wallAt(zone, at))).filter(
      (text) => 'rule' in parseSchedule({ type: 'CRON', expressions: [text], jitter_key: '' }, 0),
    );
    const union = new Map<number, Expected>();
    for (const one of texts.flatMap((text) => expectedIn(ticks, MINUTE, text, policy))) {
      if (one.note === 'gap_moved' ? union.get(one.nominal_ms)?.note !== 'gap_moved' : !union.has(one.nominal_ms))
        union.set(one.nominal_ms, one);
    }
    const expected = [...union.values()].sort((a, b) => a.nominal_ms - b.nominal_ms);
    compare(cronRule(texts.join('\n'), { timezone: zone, ...policy }), ticks, expected, 3 * HOUR);
  }
});

test('days of forty years are those of the oracle', () => {
  const dice = diceOf(SEED + 3);
  const [from, to] = [Date.UTC(2080, 0, 1), Date.UTC(2120, 0, 1)];
  for (let i = 0; i < 10; i++) {
    const [, , dom, month, dow] = rollExpression(dice, from + dice.roll(14_000) * DAY).split(' ');
    const text = `0 0 ${dom} ${month} ${dow}`;
    if ('refused' in parseSchedule({ type: 'CRON', expressions: [text], jitter_key: '' }, 0)) continue;
    const matches = naiveMatcher(text);
    const wanted: string[] = [];
    for (let day = from; day < to; day += DAY) if (matches(day)) wanted.push(textOf(day));
    const rule = cronRule(text);
    const found: string[] = [];
    for (let after = from - 1; ; ) {
      const { items, exhausted, lookedUntilMs } = occurrencesAfter(rule, after, { limit: 5000, untilMs: to - 1 });
      found.push(...items.map(({ local_ms }) => localText(local_ms)));
      if (exhausted) break;
      after = lookedUntilMs;
    }
    assert.deepEqual(found, wanted, `seed ${SEED}: ${text}`);
  }
});
