// The long run of schedules: random expressions in every zone Intl knows, by all the names that PostgreSQL has for them too,
// around changes of the clocks and between them, against the brute-force oracle, and our local times against PostgreSQL's:
// that of PUNCTUAL_TEST_DATABASE_URL, or one of its own. `npm run test:zones -- [seed] [part/parts]`. Prints its seed, each zone that differs, and how many do not.
import assert from 'node:assert/strict';
import { localText } from '@punctual/server/internal/rules/schedule/local';
import { occurrencesAfter } from '@punctual/server/internal/rules/schedule/occurrences';
import {
  type Dice,
  diceOf,
  type Expected,
  expectedIn,
  type Policy,
  rollExpression,
  type Tick,
  walk,
  wallAt,
} from '@punctual/server/internal/rules/schedule/oracle.test.support';
import { parseSchedule } from '@punctual/server/internal/rules/schedule/parse';
import type { ScheduleRule } from '@punctual/server/internal/rules/schedule/rule';
import { spread } from '@punctual/server/internal/rules/schedule/spread';
import { compareWithPostgres, withPostgres, zonesOfPostgres } from './postgres.ts';

const DAY = 86_400_000;
const HOUR = 3_600_000;
const MINUTE = 60_000;
/** Until January 1972 clocks of Monrovia were half a minute off, and the oracle walks in whole minutes. */
const FIRST_YEAR = 1973;
const LAST_YEAR = 2040;
const SPANS_A_ZONE = 4;
const EXPRESSIONS_A_SPAN = 30;

const [, , seedText, partText = '1/1'] = process.argv;
const seed = seedText === undefined ? Date.now() % 1_000_000_000 : Number(seedText);
const [part = 1, parts = 1] = partText.split('/').map(Number);
let compared = 0;
let passed = 0;
let failed = 0;
await withPostgres(async (client) => {
  const names = new Set([...Intl.supportedValuesOf('timeZone'), ...(await zonesOfPostgres(client)).filter(isZone)]);
  const zones = [...names].filter((_, i) => i % parts === part - 1);
  console.log(`seed ${seed}, part ${part}/${parts}: ${zones.length} zones`);
  for (const zone of zones) {
    // Each zone has its own dice, so that a failure can be repeated alone.
    const dice = diceOf(seed + spread(zone, 1_000_000));
    await attempt(zone, () => {
      for (let span = 0; span < SPANS_A_ZONE; span++) compared += compareSpan(zone, dice, span);
    });
  }
  console.log(`${compared} occurrences in ${passed} of ${zones.length} zones are those of the oracle`);
  await attempt('PostgreSQL', () => compareWithPostgres(client, zones, diceOf(seed)));
});
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;

/** Names that we take, of those that PostgreSQL has. */
function isZone(name: string): boolean {
  return !(
    'refused' in parseSchedule({ type: 'CRON', expressions: ['* * * * *'], timezone: name, jitter_key: 'a' }, 0)
  );
}

async function attempt(what: string, work: () => void | Promise<void>): Promise<void> {
  try {
    await work();
    passed += 1;
  } catch (error) {
    failed += 1;
    console.error(`${what} differs: ${(error as Error).message}`);
  }
}

/** Every second span with seconds is short: a second has sixty times as many ticks. */
function compareSpan(zone: string, dice: Dice, span: number): number {
  const at = rollInstant(zone, dice);
  const isBySecond = span === SPANS_A_ZONE - 1;
  const step = isBySecond ? 1000 : MINUTE;
  const reach = isBySecond ? 4 * HOUR : 1.5 * DAY;
  const margin = isBySecond ? 2.5 * HOUR : 4 * HOUR;
  const ticks = walk(zone, at - reach, at + reach, step);
  let count = 0;
  for (let i = 0; i < (isBySecond ? 4 : EXPRESSIONS_A_SPAN); i++) {
    const policy: Policy = {
      dst_gap: dice.pick(['run_after', 'skip']),
      dst_overlap: dice.pick(['first', 'both']),
    };
    const text = rollExpression(dice, wallAt(zone, at), isBySecond);
    const input = { type: 'CRON' as const, expressions: [text], timezone: zone, jitter_key: 'a', ...policy };
    const parsed = parseSchedule(input, Math.max(0, at - 2 * DAY));
    if ('refused' in parsed) {
      assert.match(JSON.stringify(parsed.refused), /never run/, text);
      continue;
    }
    count += compareLists(parsed.rule, expectedIn(ticks, step, text, policy), inside(ticks, margin), `${text} ${zone}`);
  }
  return count;
}

/** A change of the clocks in some year if there is one, else any instant; on a whole minute. */
function rollInstant(zone: string, dice: Dice): number {
  for (let tries = 0; tries < 4; tries++) {
    const start = Date.UTC(FIRST_YEAR + dice.roll(LAST_YEAR - FIRST_YEAR), 0, 1);
    const offsets = Array.from({ length: 367 }, (_, day) => wallAt(zone, start + day * DAY) - (start + day * DAY));
    const days = offsets.flatMap((offset, day) => (day > 0 && offset !== offsets[day - 1] ? [day] : []));
    if (days.length === 0) continue;
    let [low, high] = [start + (dice.pick(days) - 1) * DAY, 0];
    high = low + DAY;
    const before = wallAt(zone, low) - low;
    while (high - low > MINUTE) {
      const middle = low + Math.floor((high - low) / 2 / MINUTE) * MINUTE;
      if (wallAt(zone, middle) - middle === before) low = middle;
      else high = middle;
    }
    return high;
  }
  return Date.UTC(FIRST_YEAR, 0, 1) + dice.roll((LAST_YEAR - FIRST_YEAR) * 365) * DAY;
}

function inside(ticks: readonly Tick[], margin: number): { from: number; to: number } {
  return { from: (ticks[0]?.ms ?? 0) + margin, to: (ticks.at(-1)?.ms ?? 0) - margin };
}

function compareLists(
  rule: ScheduleRule,
  expected: readonly Expected[],
  { from, to }: { from: number; to: number },
  what: string,
): number {
  const found: Expected[] = [];
  for (let after = from; ; ) {
    const { items, exhausted, lookedUntilMs } = occurrencesAfter(rule, after, { limit: 5000, untilMs: to });
    found.push(...items.map(({ nominal_ms, local_ms, note }) => ({ nominal_ms, local: localText(local_ms), note })));
    if (exhausted) break;
    assert.ok(lookedUntilMs > after, `${what}: a call that does not get further`);
    after = lookedUntilMs;
  }
  const wanted = expected.filter(({ nominal_ms }) => nominal_ms > from && nominal_ms <= to);
  assert.deepEqual(found, wanted, `seed ${seed}: ${what} ${JSON.stringify(rule)}`);
  return wanted.length;
}
