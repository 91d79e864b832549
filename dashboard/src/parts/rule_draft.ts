// An alert rule as somebody writes it: which fields a rule of a kind has, and the rule that the texts make. Pure; the server
// decides what is right, this only reads durations and numbers, and leaves out what is not of the kind.
import type { AlertGroupBy, AlertKind, FieldError, PutAlertRule } from '@punctual/contract';
import { readDuration, writeDuration } from './time.ts';

export interface RuleField {
  path: keyof PutAlertRule;
  label: string;
  reads: 'duration' | 'number' | 'percent';
  hint?: string;
  placeholder?: string;
}

interface RuleKind {
  words: string;
  fields: readonly RuleField[];
  scopes: readonly Scope[];
  groups: readonly AlertGroupBy[];
}

type Scope = 'type' | 'queue' | 'job_id' | 'user_id' | 'tag';
export const scopeWords: Record<Scope, string> = {
  type: 'Type',
  queue: 'Queue',
  job_id: 'Job id',
  user_id: 'User',
  tag: 'Tag',
};
export const groupWords: Record<AlertGroupBy, string> = {
  rule: 'all together',
  type: 'each type',
  queue: 'each queue',
  job: 'each job',
};

const everything: readonly Scope[] = ['type', 'queue', 'job_id', 'user_id', 'tag'];
const lanes: readonly Scope[] = ['type', 'queue'];
const over = (label: string, placeholder = '5m'): RuleField => ({
  path: 'over_ms',
  label,
  reads: 'duration',
  placeholder,
});

export const ruleKinds: Record<AlertKind, RuleKind> = {
  failure: {
    words: 'A run failed for good',
    fields: [resolveAfter()],
    scopes: everything,
    groups: ['job', 'type', 'queue', 'rule'],
  },
  failure_rate: {
    words: 'Too many runs fail',
    fields: [
      { path: 'rate', label: 'So many percent failed', reads: 'percent', placeholder: '10' },
      { path: 'window_ms', label: 'of the runs that ended within', reads: 'duration', placeholder: '5m' },
      { path: 'min_runs', label: 'of at least so many runs', reads: 'number', placeholder: '20' },
    ],
    scopes: everything,
    groups: ['type', 'queue', 'rule'],
  },
  late_start: {
    words: 'Runs start too late',
    fields: [over('Started later than due by', '30s'), resolveAfter()],
    scopes: everything,
    groups: ['queue', 'type', 'job', 'rule'],
  },
  missed: {
    words: 'Nothing succeeded for too long',
    fields: [{ path: 'period_ms', label: 'At least one must succeed within', reads: 'duration', placeholder: '25h' }],
    scopes: everything,
    groups: ['rule'],
  },
  running_long: {
    words: 'A run takes too long',
    fields: [
      over('Longer than', '1h'),
      {
        path: 'p95_factor',
        label: 'or so many times what 95 of 100 took',
        reads: 'number',
        placeholder: '3',
        hint: 'One of the two, or both',
      },
    ],
    scopes: everything,
    groups: ['job', 'type', 'queue', 'rule'],
  },
  backlog_age: {
    words: 'A due run waits too long',
    fields: [over('Waits for longer than', '1m')],
    scopes: lanes,
    groups: ['queue', 'type', 'rule'],
  },
  no_worker: {
    words: 'Due runs, and no worker that serves them',
    fields: [over('Waits for longer than', '1m')],
    scopes: lanes,
    groups: ['queue', 'type', 'rule'],
  },
  dead_letters: {
    words: 'Too many dead letters stand open',
    fields: [{ path: 'threshold', label: 'So many are too many', reads: 'number', placeholder: '10' }],
    scopes: everything,
    groups: ['rule', 'type', 'queue'],
  },
  breaker_open: { words: 'A circuit breaker has tripped', fields: [], scopes: ['type'], groups: ['type'] },
};

function resolveAfter(): RuleField {
  return { path: 'resolve_after_ms', label: 'Over when not again for', reads: 'duration', placeholder: '10m' };
}

/** Of every kind: when people are told. */
export const tellFields: readonly RuleField[] = [
  { path: 'wait_ms', label: 'Gather before telling', reads: 'duration', placeholder: '10s' },
  { path: 'cool_down_ms', label: 'Then not again for', reads: 'duration', placeholder: '5m' },
  {
    path: 'repeat_ms',
    label: 'Tell again while it goes on, every',
    reads: 'duration',
    placeholder: '0s',
    hint: 'Until somebody acknowledges it; 0s: never',
  },
];

export interface RuleDraft {
  kind: AlertKind;
  enabled: boolean;
  notify_resolved: boolean;
  channels: readonly string[];
  /** All other fields, by their names, as texts; what is empty is left out. */
  texts: Readonly<Record<string, string>>;
}

export const newDraft: RuleDraft = {
  kind: 'failure',
  enabled: true,
  notify_resolved: true,
  channels: [],
  texts: {},
};

const fieldsOf = (kind: AlertKind): readonly RuleField[] => [...ruleKinds[kind].fields, ...tellFields];

export function draftOf(rule: PutAlertRule): RuleDraft {
  const { kind, enabled = true, notify_resolved = true, channels = [], ...rest } = rule;
  const texts: Record<string, string> = {};
  for (const [path, value] of Object.entries(rest)) texts[path] = String(value);
  for (const { path, reads } of fieldsOf(kind)) {
    const value = rule[path];
    if (typeof value !== 'number') continue;
    if (reads === 'duration') texts[path] = writeDuration(value);
    if (reads === 'percent') texts[path] = String(Math.round(value * 1e8) / 1e6);
  }
  return { kind, enabled, notify_resolved, channels, texts };
}

/** The rule, and what cannot be read of it. */
export function ruleOf(draft: RuleDraft): { rule: PutAlertRule; wrong: FieldError[] } {
  const { kind, enabled, notify_resolved, channels, texts } = draft;
  const wrong: FieldError[] = [];
  const rule: Record<string, unknown> = { kind, enabled, notify_resolved, channels };
  const { scopes, groups } = ruleKinds[kind];
  for (const path of ['note', ...scopes]) {
    const text = texts[path]?.trim() ?? '';
    if (text !== '') rule[path] = text;
  }
  const group = texts['group_by'] as AlertGroupBy | undefined;
  if (group !== undefined && groups.includes(group)) rule['group_by'] = group;
  for (const { path, reads } of fieldsOf(kind)) {
    const text = texts[path]?.trim() ?? '';
    if (text === '') continue;
    const value = reads === 'duration' ? readDuration(text) : Number(text);
    if (value === undefined || Number.isNaN(value)) wrong.push({ path, message: faults[reads] });
    else rule[path] = reads === 'percent' ? Math.round(value * 1e6) / 1e8 : value;
  }
  return { rule: rule as PutAlertRule, wrong };
}

const faults: Record<RuleField['reads'], string> = {
  duration: 'is no duration: write it as 90s, 5m or 1h 30m',
  number: 'is no number',
  percent: 'is no number of percent',
};
