// Whether a key may do what a plan asks for is known before anything is done.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { jobKind } from './job_kind.ts';
import { settingKindsOf } from './kinds.ts';
import { readWishes, refusals, writeWishes } from './permit.ts';
import type { Step } from './plan.ts';

const step = (kind: Step['kind']): Step => ({
  ...{ action: 'create', kind, id: 'x', before: null, after: {}, changes: [], given: null },
});

test('a key is told once for each kind what it lacks', () => {
  const gates = settingKindsOf(['gates']);
  const wishes = writeWishes([...gates.map(step), step(jobKind), ...settingKindsOf(['retention']).map(step)]);
  assert.deepEqual(refusals({ role: 'submitter', user_id: null }, wishes), [
    'to change gates needs a key with the role operator or admin; yours is submitter',
    'to change retention needs a key with the role admin; yours is submitter',
  ]);
  assert.deepEqual(refusals({ role: 'operator', user_id: 'u' }, writeWishes(gates.map(step))), [
    'to change gates concerns all users, and your key belongs to the user u',
  ]);
  assert.deepEqual(refusals({ role: 'admin', user_id: null }, wishes), []);
  assert.deepEqual(refusals({ role: 'viewer', user_id: 'u' }, readWishes([jobKind])), []);
});
