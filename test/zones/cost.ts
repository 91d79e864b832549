// What a question to a schedule costs: node test/dist/zones/cost.js
// Warm is what a planner pays again and again; cold includes the first year of a zone and the parsing of the rule.
import { compileCalendar } from '@punctual/server/internal/rules/schedule/calendar';
import { countBetween, occurrencesAfter } from '@punctual/server/internal/rules/schedule/occurrences';
import { parseSchedule } from '@punctual/server/internal/rules/schedule/parse';
import type { ScheduleRule } from '@punctual/server/internal/rules/schedule/rule';

const now = Date.parse('2026-01-15T10:00Z');
const weekend = compileCalendar({ exclude: [{ days: ['SAT-SUN'] }, { dates: ['12-25', '01-01'] }] });
const calendar = 'calendar' in weekend ? weekend.calendar : null;

function ruleOf(expressions: string[], timezone: string, rest = {}): ScheduleRule {
  const parsed = parseSchedule({ type: 'CRON', expressions, timezone, jitter_key: 'job-1', ...rest }, now);
  if ('refused' in parsed) throw new Error(JSON.stringify(parsed.refused));
  return parsed.rule;
}

/** Microseconds of processor time for one call, the best of some rounds. */
function measure(what: string, rounds: number, work: (i: number) => void): void {
  let best = Infinity;
  for (let round = 0; round < 5; round++) {
    const from = process.cpuUsage();
    for (let i = 0; i < rounds; i++) work(i);
    const { user, system } = process.cpuUsage(from);
    best = Math.min(best, (user + system) / rounds);
  }
  console.log(`${what.padEnd(64)} ${best.toFixed(1).padStart(8)} µs`);
}

function measureNext(what: string, rule: ScheduleRule): void {
  let after = now;
  measure(`next: ${what}`, 30_000, (i) => {
    after = i % 300 === 0 ? now : (occurrencesAfter(rule, after).items[0]?.nominal_ms ?? now);
  });
}

measureNext('0 9 * * * in UTC', ruleOf(['0 9 * * *'], 'UTC'));
measureNext('0 9 * * * in Europe/Berlin', ruleOf(['0 9 * * *'], 'Europe/Berlin'));
measureNext('*/5 * * * * in Europe/Berlin', ruleOf(['*/5 * * * *'], 'Europe/Berlin'));
measureNext('0 0 LW * * in America/New_York', ruleOf(['0 0 LW * *'], 'America/New_York'));
measureNext('three expressions in Europe/Berlin', ruleOf(['0 9 * * *', '0 12 * * 6', '30 17 L * *'], 'Europe/Berlin'));
for (const on_excluded of ['skip', 'next', 'previous']) {
  measureNext(`daily, calendar, ${on_excluded}`, ruleOf(['0 9 * * *'], 'Europe/Berlin', { calendar, on_excluded }));
}
const daily = ruleOf(['0 9 * * *'], 'Europe/Berlin');
measure('a thousand next times in one call', 100, () => void occurrencesAfter(daily, now, { limit: 1000 }));
measure('count a year', 300, () => void countBetween(daily, now, now + 365 * 86_400_000, 1000));
measure('parse, warm zone', 1000, (i) => void ruleOf([`${i % 60} 9 * * MON-FRI`], 'Europe/Berlin'));
const fresh = Intl.supportedValuesOf('timeZone').values();
measure('parse, zone and year for the first time', 50, () => void ruleOf(['0 9 * * *'], fresh.next().value ?? 'UTC'));
