// Plans of schedules that are due together. Many of them have the same rule (midnight): its times up to a moment are looked
// for once, from the longest ago that any of them was planned, and each takes those that are new to it. Pure; the planner calls it.
import { findTimes, type Plan, type PlanInput, planTimes, type Times } from './plan.ts';
import { dependsOnKey } from './schedule/occurrences.ts';
import type { ScheduleRule } from './schedule/rule.ts';

/** A schedule as it is stored: its rule is text. */
export type StoredPlanInput = Omit<PlanInput, 'rule'> & { rule: string };

interface Shared {
  rule: ScheduleRule;
  /** null: each has to look for itself. */
  found: Exclude<Times, { looked_until_ms: number }> | null;
}

/** What of a stored rule is the job's own. */
const ownKey = /"jitter_key":"([^"]*)"/;

export function planTogether(inputs: readonly StoredPlanInput[]): Plan[] {
  const bare = inputs.map(
    ({ rule, fixed_delay, now_ms }) => `${now_ms} ${fixed_delay ? rule : rule.replace(ownKey, '')}`,
  );
  const planned = new Map<string, number>();
  for (const [i, { planned_until_ms }] of inputs.entries()) {
    const text = bare[i] as string;
    planned.set(text, Math.min(planned.get(text) ?? Number.POSITIVE_INFINITY, planned_until_ms));
  }
  const known = new Map<string, Shared>();
  return inputs.map((input, i) => {
    const text = bare[i] as string;
    const shared = known.get(text);
    if (shared === undefined) {
      const rule = JSON.parse(input.rule) as ScheduleRule;
      known.set(text, { rule, found: lookFrom({ ...input, rule, planned_until_ms: planned.get(text) ?? 0 }) });
    }
    return planOne(input, known.get(text) as Shared);
  });
}

function lookFrom(input: PlanInput): Shared['found'] {
  if (input.fixed_delay || dependsOnKey(input.rule)) return null;
  const found = findTimes(input);
  return 'looked_until_ms' in found ? null : found;
}

function planOne(input: StoredPlanInput, { rule, found }: Shared): Plan {
  if (found === null) return planTimes({ ...input, rule: JSON.parse(input.rule) as ScheduleRule });
  const items = found.items.filter((item) => item.nominal_ms > input.planned_until_ms);
  return planTimes(
    { ...input, rule: { ...rule, jitter_key: ownKey.exec(input.rule)?.[1] ?? '' } },
    { items, next_ms: found.next_ms },
  );
}
