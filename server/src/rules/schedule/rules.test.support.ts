// Rules for tests, through the same door as everybody's.
import assert from 'node:assert/strict';
import { parseSchedule } from './parse.ts';
import type { CronRule, ScheduleRule } from './rule.ts';

/** Before every time that tests ask for. */
const longAgo = 0;

/** Several expressions stand one below the other. */
export function cronRule(expressions: string, changes: Partial<CronRule> = {}): CronRule {
  const input = { type: 'CRON' as const, expressions: expressions.split('\n'), jitter_key: 'job-1' };
  const parsed = parseSchedule(input, longAgo);
  assert.ok('rule' in parsed, `${expressions}: ${JSON.stringify(parsed)}`);
  return { ...(parsed.rule as CronRule), ...changes };
}

export function intervalRule(every_ms: number, anchor_ms: number, changes: Partial<ScheduleRule> = {}): ScheduleRule {
  const parsed = parseSchedule({ type: 'INTERVAL', every_ms, anchor_ms, jitter_key: 'job-1' }, longAgo);
  assert.ok('rule' in parsed, JSON.stringify(parsed));
  return { ...parsed.rule, ...changes } as ScheduleRule;
}
