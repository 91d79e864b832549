// Who may call a route: the ladder of roles, and that every change is told in the audit log or known to be left out.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Route, roleMay, roles, routes } from './index.ts';

const all = Object.values(routes as Record<string, Route>);

test('each role may do what the one below it may; workers stand apart, and admins may do everything', () => {
  const ladder = ['viewer', 'submitter', 'operator', 'admin'] as const;
  for (const [i, role] of ladder.entries())
    for (const [k, needed] of ladder.entries()) assert.equal(roleMay(role, needed), i >= k, `${role} for ${needed}`);
  for (const role of roles) {
    assert.equal(roleMay(role, 'any'), true);
    assert.equal(roleMay(role, 'worker'), role === 'worker' || role === 'admin');
    if (role !== 'worker') assert.equal(roleMay('worker', role), false);
  }
});

test('every route that changes something is told in the audit log, but submits and what workers say', () => {
  const untold = all.filter(({ method, audit }) => method !== 'GET' && audit === undefined);
  assert.deepEqual(untold.map(({ operation }) => operation).sort(), [
    'completeArtifact',
    'createArtifact',
    'createJob',
    'createJobs',
    'createWorkflow',
    'previewSchedule',
    'publishArtifact',
    'scheduleWorkflow',
    'sendArtifactPart',
    'syncWorker',
    'validateWorkflow',
  ]);
  assert.deepEqual(
    all.filter(({ method, audit }) => method === 'GET' && audit !== undefined),
    [],
  );
});

test('what changes rules for all users is not for viewers, nor for keys of a user', () => {
  const shared = new Set<string>(['breaker', 'calendar', 'gate', 'key', 'limit', 'queue', 'retention']);
  for (const { operation, audit, access } of all) {
    if (audit === undefined || !shared.has(audit)) continue;
    assert.ok(access !== 'open' && access.rows === 'all' && ['operator', 'admin'].includes(access.role), operation);
  }
});
