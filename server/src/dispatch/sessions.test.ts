// What a server believes that a worker holds, after calls that overtake each other.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SyncRequest } from '@punctual/contract';
import { noteReported, reconcile, type Session, Sessions } from './sessions.ts';

const run = '01930000-0000-7000-8000-000000001000';

function open(): Session {
  return new Sessions().open(call({ n: 1 }), 'w');
}

function call(fields: Partial<SyncRequest>): SyncRequest {
  return { session_id: crypto.randomUUID(), n: 1, concluded: 0, running: [], accept: true, wait: true, ...fields };
}

function take(session: Session, request: SyncRequest): string[] {
  noteReported(session, request);
  return reconcile(session, request).map((lease) => lease.run_id);
}

test('a run that was reported takes no slot, also when a call that left before still lists it', () => {
  const session = open();
  session.held.set(run, { lease_id: 'l', call: 1, lane_id: 7 });
  const ended = noteReported(session, call({ n: 2, outcomes: [{ run_id: run, lease_id: 'l', status: 'SUCCESS' }] }));
  assert.deepEqual(ended, [{ lane_id: 7, status: 'SUCCESS', seconds: null }]);
  assert.equal(session.held.size, 0);
  assert.deepEqual(take(session, call({ n: 3, concluded: 1, running: [run] })), []);
  assert.equal(session.held.size, 0);
  assert.deepEqual(take(session, call({ n: 4, concluded: 3 })), []);
  assert.equal(session.reported.size, 0);
});

test('a grant whose answer was received or given up, and that is neither run nor reported, is lost', () => {
  const session = open();
  session.held.set(run, { lease_id: 'l', call: 2, lane_id: null });
  assert.deepEqual(take(session, call({ n: 3, concluded: 1 })), []);
  assert.deepEqual(take(session, call({ n: 4, concluded: 3 })), [run]);
  assert.equal(session.held.size, 0);
});

test('a run that another server granted takes a slot until it is no longer listed', () => {
  const session = open();
  take(session, call({ n: 2, concluded: 1, running: [run] }));
  assert.equal(session.held.size, 1);
  assert.deepEqual(take(session, call({ n: 3, concluded: 2 })), []);
  assert.equal(session.held.size, 0);
});

test('a call that does not list what runs has lost nothing, and what it reports takes no slot', () => {
  const session = open();
  const other = run.replace(/1000$/, '2000');
  session.held.set(run, { lease_id: 'l', call: 1, lane_id: 7 });
  session.held.set(other, { lease_id: 'l', call: 1, lane_id: 7 });
  const { running: _, ...brief } = call({ n: 3, concluded: 2 });
  assert.deepEqual(take(session, { ...brief, outcomes: [{ run_id: other, lease_id: 'l', status: 'SUCCESS' }] }), []);
  assert.deepEqual([...session.held.keys()], [run]);
  assert.deepEqual(take(session, { ...brief, n: 4, concluded: 3 }), []);
  assert.deepEqual([session.held.size, session.reported.size], [1, 0]);
});
