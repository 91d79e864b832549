// Plans: what must be done and nothing else, in an order that is safe.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { presetPriority } from '@punctual/server/internal/rules/flow';
import { Checker, type Entry } from './check.ts';
import type { Fields } from './fields.ts';
import { jobKind, madeKey } from './job_kind.ts';
import type { Kind } from './kind.ts';
import { kinds, settingKinds, settingKindsOf } from './kinds.ts';
import { ordered, type Plan, type PresentJob, planSettings } from './plan.ts';
import { planJobs } from './plan_jobs.ts';

const context = { now_ms: Date.parse('2030-01-01T00:00:00Z'), user: null, defaultPriority: presetPriority };

function entriesOf(text: string): Entry[] {
  const checker = new Checker({ kinds, context, environment: () => undefined });
  checker.add(text, 'f.yaml');
  assert.deepEqual(checker.problems, []);
  return checker.entries;
}

const told = ({ steps, unchanged }: Plan): unknown[] => [
  ...steps.map(({ action, kind, id, changes }) =>
    [action, kind.noun, id, ...changes.map(({ path }) => path)].join(' '),
  ),
  unchanged,
];

function settings(text: string, present: Partial<Record<string, Fields[]>>, more: { prune?: 'calendars' } = {}): Plan {
  const entries = entriesOf(text);
  const there = new Map<Kind, Fields[]>();
  for (const kind of settingKinds) {
    const list = (present[kind.section] ?? []).filter((value) => value[kind.id] !== undefined);
    if (entries.some((entry) => entry.kind === kind) || more.prune === kind.section) there.set(kind, list);
  }
  const pruned = new Set<Kind>(more.prune === undefined ? [] : settingKindsOf([more.prune]));
  return planSettings(entries, there, { context, pruned, sendSecrets: false });
}

test('what is as wanted is left alone, however it is spelled', () => {
  const text = `
limits: [{key: k, rate: {units: 5, per_ms: 1000, burst: 5}}, {queue: q}]
gates: [{type: t, state: open}]
queues: [{name: batch, default_priority: 3}]
silences: [{name: s, until: 2031-01-01T01:00:00+01:00}, {name: over, until: 2020-01-01T00:00:00Z}]
alert_rules: [{name: r, kind: failure, group_by: job, channels: [b, a]}]`;
  const present = {
    limits: [{ key: 'k', max_concurrency: null, rate: { units: 5, per_ms: 1000, burst: 5 }, note: null }],
    silences: [{ name: 's', rule: null, group: null, until: '2031-01-01T00:00:00.000Z', note: null, author: null }],
    alert_rules: [{ name: 'r', kind: 'failure', channels: ['a', 'b'], wait_ms: 10_000 }],
  };
  assert.deepEqual(told(settings(text, present)), [7]);
});

test('changes are told field by field, and a rule that is put again is put only then', () => {
  const text = 'alert_rules: [{name: r, kind: missed, period_ms: 2000, note: n}]';
  const plan = settings(text, { alert_rules: [{ name: 'r', kind: 'missed', period_ms: 1000, type: 't' }] });
  assert.deepEqual(told(plan), ['update alert rule r period_ms type note', 0]);
});

test('of kinds that are pruned, what the files do not hold goes, last, and what is used comes first', () => {
  const text =
    'calendars: [{name: new}]\ngates: [{type: a, state: open}, {type: b, state: hold}]\nqueues: [{name: q, ageing_ms: 1000}]';
  const present = { calendars: [{ name: 'old' }], gates: [{ type: 'a', state: 'hold', note: null, author: null }] };
  const plan = settings(text, present, { prune: 'calendars' });
  assert.deepEqual(
    ordered(plan.steps).map(({ action, kind, id }) => `${action} ${kind.section} ${id}`),
    ['create calendars new', 'create queues q', 'create gates b', 'update gates a', 'delete calendars old'],
  );
});

test('a secret is not compared; !keep needs something to keep, and a place that stays', () => {
  const hook = (more: string): string => `channels: [{name: c, kind: webhook, ${more}}]`;
  const present = { channels: [{ name: 'c', kind: 'webhook', url: 'https://h.example/a', secret: '(set)' }] };
  assert.deepEqual(told(settings(hook('url: "https://h.example/a", secret: !keep '), present)), [1]);
  assert.deepEqual(told(settings(hook('url: "https://h.example/a"'), present)), [1]);
  const moved = settings(hook('url: "https://h.example/b", secret: !keep '), present);
  assert.match(moved.problems[0]?.message ?? '', /cannot be kept, because it belongs to another place/);
  const fresh = settings(hook('url: "https://h.example/b", secret: !keep '), {});
  assert.match(fresh.problems[0]?.message ?? '', /there is no such channel to keep it of/);
});

const there = (job_id: string, value: Fields, marks: string[] = []): PresentJob => ({
  ...{ job_id, version: 1, marks },
  value: { name: 'a', type: 't', priority: 5, interval_ms: 5000, ...value },
});
const jobs = (text: string, present: PresentJob[], more: { set?: string; prune?: true } = {}): Plan =>
  planJobs(entriesOf(text), present, { context, set: more.set ?? null, prune: more.prune ?? false });
const one = 'jobs: [{name: a, type: t, interval_ms: 5000}]';

test('a job is known by its id, by its key, or by its name when that is clear', () => {
  assert.deepEqual(told(jobs(one, [])), ['create job a', 0]);
  assert.deepEqual(told(jobs(one, [there('1', {})])), [1]);
  assert.deepEqual(told(jobs(one, [there('1', { user_id: 'u' })])), ['create job a', 0]);
  assert.deepEqual(told(jobs(one, [there('1', { unique_key: 'own' })])), ['create job a', 0]);
  assert.deepEqual(told(jobs(one, [there('1', { name: 'renamed', unique_key: madeKey('a') })])), [
    'update job a name',
    0,
  ]);
  const twins = [there('1', {}), there('2', {})];
  assert.match(jobs(one, twins).problems[0]?.message ?? '', /is the name of 2 jobs: say which one by job_id/);
  const id = '01890000-0000-7000-8000-000000000001';
  const pinned = `jobs: [{name: b, job_id: ${id}, type: t, interval_ms: 5000}]`;
  assert.deepEqual(told(jobs(pinned, [there(id, {}), there('2', {})])), ['update job a name'.replace(' a ', ' b '), 0]);
  assert.match(jobs(pinned, []).problems[0]?.message ?? '', /of no recurring job that is there/);
});

test('what can be changed is changed, the rest needs a new job, and a pause is left to whoever paused it', () => {
  const change = (more: Fields): unknown[] => told(jobs(one, [there('1', more)]));
  assert.deepEqual(change({ priority: 9, payload: { x: 1 } }), ['update job a priority payload', 0]);
  assert.deepEqual(change({ requires: ['gpu'] }), ['replace job a requires', 0]);
  assert.deepEqual(change({ paused: true, pause_note: 'night' }), [1]);
  const asked = 'jobs: [{name: a, type: t, interval_ms: 5000, paused: false}]';
  assert.deepEqual(told(jobs(asked, [there('1', { paused: true, pause_note: 'x' })])), [
    'update job a paused pause_note',
    0,
  ]);
});

test('only what a set marked is pruned, and what another set manages is refused', () => {
  const present = [
    there('1', { name: 'old' }, ['managed-by:s']),
    there('2', { name: 'free' }),
    there('3', {}, ['managed-by:s']),
  ];
  assert.deepEqual(told(jobs(one, present, { set: 's', prune: true })), ['delete job old', 1]);
  assert.deepEqual(told(jobs(one, present, { set: 's' })), [1]);
  assert.deepEqual(told(jobs(one, [there('1', {})], { set: 's' })), ['update job a managed by', 0]);
  const other = jobs(one, [there('1', {}, ['managed-by:other'])], { set: 's' });
  assert.match(other.problems[0]?.message ?? '', /is managed by the set other/);
  assert.equal(jobs(one, [there('1', {}, ['managed-by:other'])]).unchanged, 1);
  assert.equal(jobKind.section, 'jobs');
});
