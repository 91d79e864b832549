// How long history is kept at least and at most, over everything that was said about it: what is over for the longest of
// them is over for all, and can go as a whole; what is not over for the shortest need not be looked at. Pure; which rule
// holds for a single run is asked by the statements in store/retention.ts.
import type { RetentionPolicy, RetentionRule } from '@punctual/contract';

export interface Span {
  /** In days; infinite when nothing is ever over. */
  shortest: number;
  longest: number;
}

type Rule = Pick<RetentionRule, 'runs_days' | 'logs_days'>;

/** Log lines go with their run at the latest. */
export function spansOf(
  installation: Pick<RetentionPolicy, 'runs_days' | 'logs_days'>,
  rules: readonly Rule[],
): { runs: Span; logs: Span } {
  const runs = spanOf([installation.runs_days, ...rules.map((rule) => rule.runs_days)]);
  const logs = spanOf([installation.logs_days, ...rules.map((rule) => rule.logs_days)]);
  return {
    runs,
    logs: { shortest: Math.min(logs.shortest, runs.shortest), longest: Math.min(logs.longest, runs.longest) },
  };
}

function spanOf(days: readonly (number | null)[]): Span {
  const said = days.filter((one) => one !== null).map((one) => (one === 0 ? Number.POSITIVE_INFINITY : one));
  return { shortest: Math.min(...said), longest: Math.max(...said) };
}
