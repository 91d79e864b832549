// What an alert rule may say, by its kind: its defaults, its contradictions, and the rule as a sentence. Pure; called by the
// door when a rule is put and by the watcher when it is checked.
import type { AlertGroupBy, AlertKind, FieldError, PutAlertRule } from '@punctual/contract';

type Field = keyof PutAlertRule;
type Scope = 'type' | 'queue' | 'job_id' | 'user_id' | 'tag';

interface KindOfRule {
  /** At least one of each list must be given. */
  needs: readonly (readonly Field[])[];
  may: readonly Field[];
  scopes: readonly Scope[];
  /** The first is taken unless the rule says otherwise. */
  groups: readonly AlertGroupBy[];
  /** It happens rather than lasts: over when it has not happened for a while. */
  happens?: true;
}

const allScopes = ['type', 'queue', 'job_id', 'user_id', 'tag'] as const;

const kinds: Record<AlertKind, KindOfRule> = {
  failure: { needs: [], may: [], scopes: allScopes, groups: ['job', 'type', 'queue', 'rule'], happens: true },
  failure_rate: {
    needs: [['rate'], ['window_ms']],
    may: ['min_runs'],
    scopes: allScopes,
    groups: ['type', 'queue', 'rule'],
  },
  late_start: {
    needs: [['over_ms']],
    may: [],
    scopes: allScopes,
    groups: ['queue', 'type', 'job', 'rule'],
    happens: true,
  },
  missed: { needs: [['period_ms']], may: [], scopes: allScopes, groups: ['rule'] },
  running_long: {
    needs: [['over_ms', 'p95_factor']],
    may: [],
    scopes: allScopes,
    groups: ['job', 'type', 'queue', 'rule'],
  },
  backlog_age: { needs: [['over_ms']], may: [], scopes: ['type', 'queue'], groups: ['queue', 'type', 'rule'] },
  no_worker: { needs: [], may: ['over_ms'], scopes: ['type', 'queue'], groups: ['queue', 'type', 'rule'] },
  dead_letters: { needs: [['threshold']], may: [], scopes: allScopes, groups: ['rule', 'type', 'queue'] },
  breaker_open: { needs: [], may: [], scopes: ['type'], groups: ['type'] },
};

const ofKinds: readonly Field[] = ['rate', 'window_ms', 'min_runs', 'over_ms', 'p95_factor', 'period_ms', 'threshold'];

export interface PreparedAlertRule {
  kind: AlertKind;
  note: string | null;
  enabled: boolean;
  channels: readonly string[];
  scope: {
    type: string | null;
    queue: string | null;
    job_id: string | null;
    user_id: string | null;
    tag: string | null;
  };
  group_by: AlertGroupBy;
  rate: number;
  window_ms: number;
  min_runs: number;
  over_ms: number | null;
  p95_factor: number | null;
  period_ms: number;
  threshold: number;
  wait_ms: number;
  cool_down_ms: number;
  repeat_ms: number;
  /** How long it must not have been found to be over. */
  resolve_after_ms: number;
  notify_resolved: boolean;
}

const minuteMs = 60_000;

export function prepareAlertRule(rule: PutAlertRule): PreparedAlertRule | { refused: FieldError[] } {
  const refused = contradictions(rule);
  if (refused.length > 0) return { refused };
  const kind = kinds[rule.kind];
  return {
    kind: rule.kind,
    note: rule.note ?? null,
    enabled: rule.enabled ?? true,
    channels: rule.channels ?? [],
    scope: {
      type: rule.type ?? null,
      queue: rule.queue ?? null,
      job_id: rule.job_id ?? null,
      user_id: rule.user_id ?? null,
      tag: rule.tag ?? null,
    },
    group_by: rule.group_by ?? (kind.groups[0] as AlertGroupBy),
    rate: rule.rate ?? 1,
    window_ms: rule.window_ms ?? minuteMs,
    min_runs: rule.min_runs ?? 20,
    over_ms: rule.over_ms ?? (rule.kind === 'no_worker' ? minuteMs : null),
    p95_factor: rule.p95_factor ?? null,
    period_ms: rule.period_ms ?? minuteMs,
    threshold: rule.threshold ?? 1,
    wait_ms: rule.wait_ms ?? 10_000,
    cool_down_ms: rule.cool_down_ms ?? 5 * minuteMs,
    repeat_ms: rule.repeat_ms ?? 0,
    resolve_after_ms: kind.happens === true ? (rule.resolve_after_ms ?? 10 * minuteMs) : 0,
    notify_resolved: rule.notify_resolved ?? true,
  };
}

function contradictions(rule: PutAlertRule): FieldError[] {
  const kind = kinds[rule.kind];
  const given = (field: Field): boolean => rule[field] !== undefined;
  const wrong: FieldError[] = [];
  for (const choice of kind.needs)
    if (!choice.some(given))
      wrong.push({
        path: choice[0] as string,
        message: `is missing: a rule of kind ${rule.kind} needs ${choice.join(' or ')}`,
      });
  for (const field of ofKinds)
    if (given(field) && !kind.may.includes(field) && !kind.needs.some((choice) => choice.includes(field)))
      wrong.push({ path: field, message: `means nothing for a rule of kind ${rule.kind}; leave it out` });
  for (const scope of allScopes)
    if (given(scope) && !kind.scopes.includes(scope))
      wrong.push({
        path: scope,
        message: `cannot narrow a rule of kind ${rule.kind}; use ${kind.scopes.join(' or ')}`,
      });
  if (rule.group_by !== undefined && !kind.groups.includes(rule.group_by))
    wrong.push({ path: 'group_by', message: `of a rule of kind ${rule.kind} is one of ${kind.groups.join(', ')}` });
  if (given('resolve_after_ms') && kind.happens !== true)
    wrong.push({
      path: 'resolve_after_ms',
      message: `means nothing for a rule of kind ${rule.kind}, which knows when it is over`,
    });
  return wrong;
}

/** The rule as people would say it. */
export function wordingOf(rule: PreparedAlertRule): string {
  const { scope } = rule;
  const where = [
    scope.type === null ? '' : ` of type ${scope.type}`,
    scope.queue === null ? '' : ` in queue ${scope.queue}`,
    scope.job_id === null ? '' : ` of job ${scope.job_id}`,
    scope.user_id === null ? '' : ` of user ${scope.user_id}`,
    scope.tag === null ? '' : ` tagged ${scope.tag}`,
  ].join('');
  const each = rule.group_by === 'rule' || rule.kind === 'breaker_open' ? '' : `, for each ${rule.group_by}`;
  return `${sentences[rule.kind](rule, where)}${each}`;
}

const sentences: Record<AlertKind, (rule: PreparedAlertRule, where: string) => string> = {
  failure: (_rule, where) => `a run${where} failed for good`,
  failure_rate: (rule, where) =>
    `at least ${percent(rule.rate)} of the runs${where} that ended within ${inWords(rule.window_ms)} failed (of ${rule.min_runs} or more)`,
  late_start: (rule, where) => `a run${where} started more than ${inWords(rule.over_ms ?? 0)} after it was due`,
  missed: (rule, where) => `no run${where} succeeded for ${inWords(rule.period_ms)}`,
  running_long: (rule, where) =>
    `a run${where} takes longer than ${[
      ...(rule.over_ms === null ? [] : [inWords(rule.over_ms)]),
      ...(rule.p95_factor === null ? [] : [`${rule.p95_factor} times the p95 of its type`]),
    ].join(' or ')}`,
  backlog_age: (rule, where) => `a due run${where} has waited for more than ${inWords(rule.over_ms ?? 0)}`,
  no_worker: (rule, where) =>
    `a due run${where} has waited for more than ${inWords(rule.over_ms ?? 0)}, and no worker serves it`,
  dead_letters: (rule, where) => `${rule.threshold} or more dead letters${where} stand open`,
  breaker_open: (_rule, where) => `the circuit breaker${where === '' ? ' of a type' : where} is open`,
};

export function percent(share: number): string {
  return `${Math.round(share * 1000) / 10} %`;
}

/** 90 s, 5 min, 2.5 h. */
export function inWords(ms: number): string {
  const units = [
    [24 * 3600_000, 'd'],
    [3600_000, 'h'],
    [minuteMs, 'min'],
    [1000, 's'],
  ] as const;
  const [size, unit] = units.find(([unitMs]) => ms >= 2 * unitMs || (ms >= unitMs && ms % unitMs === 0)) ?? [1, 'ms'];
  return `${Math.round((ms / size) * 10) / 10} ${unit}`;
}

interface Summed {
  group: string;
  value: number;
  count: number;
}

/** What is said of a group in which it was found. */
export function summaryOf(rule: PreparedAlertRule, found: Summed): string {
  return summaries[rule.kind](rule, found, found.group === '' ? '' : ` (${rule.group_by} ${found.group})`);
}

const summaries: Record<AlertKind, (rule: PreparedAlertRule, found: Summed, of: string) => string> = {
  failure: (_rule, found, of) => `${found.count === 1 ? 'A run' : `${found.count} runs`} failed for good${of}`,
  failure_rate: (rule, found, of) =>
    `${percent(found.value)} of ${found.count} runs failed within ${inWords(rule.window_ms)}${of}`,
  late_start: (_rule, found, of) =>
    `${found.count === 1 ? 'A run' : `${found.count} runs`} started up to ${inWords(found.value)} late${of}`,
  missed: (_rule, found, of) => `Nothing has succeeded for ${inWords(found.value)}${of}`,
  running_long: (_rule, found, of) =>
    `${found.count === 1 ? 'A run' : `${found.count} runs`} running for up to ${inWords(found.value)}${of}`,
  backlog_age: (_rule, found, of) => `The oldest due run has waited for ${inWords(found.value)}${of}`,
  no_worker: (_rule, found, of) => `Due runs have waited for ${inWords(found.value)}, and no worker serves them${of}`,
  dead_letters: (_rule, found, of) => `${found.value} dead letters stand open${of}`,
  breaker_open: (_rule, _found, of) => `The circuit breaker is open${of}`,
};
