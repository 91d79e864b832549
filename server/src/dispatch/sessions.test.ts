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
  const { ended } = noteReported(
    session,
    call({ n: 2, outcomes: [{ run_id: run, lease_id: 'l', status: 'SUCCESS' }] }),
  );
  assert.deepEqual(ended, [{ lane_id: 7, status: 'SUCCESS', seconds: null, runs: 1 }]);
  assert.equal(session.held.size, 0);
  assert.deepEqual(take(session, call({ n: 3, concluded: 1, running: [run] })), []);
  assert.equal(session.held.size, 0);
  assert.deepEqual(take(session, call({ n: 4, concluded: 3 })), []);
  assert.equal(session.reported.length, 0);
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
  assert.deepEqual([session.held.size, session.reported.length], [1, 0]);
});

test('runs that ended alike are counted together, and one that succeeded and has kept something is named', () => {
  const session = open();
  const ids = ['2000', '3000', '4000'].map((end) => run.replace(/1000$/, end));
  for (const [i, run_id] of [run, ...ids].entries())
    session.held.set(run_id, { lease_id: 'l', call: 1, lane_id: 7, keeps: i === 1 });
  const outcomes = [run, ...ids].map((run_id, i) => ({
    run_id,
    lease_id: 'l',
    status: i < 3 ? ('SUCCESS' as const) : ('FAILED' as const),
  }));
  const saved = { run_id: ids[1] ?? '', lease_id: 'l', value: 1, version: 1 };
  const { ended, keepers } = noteReported(session, call({ n: 2, outcomes, checkpoints: [saved] }));
  assert.deepEqual(ended, [
    { lane_id: 7, status: 'SUCCESS', seconds: null, runs: 3 },
    { lane_id: 7, status: 'FAILED', seconds: null, runs: 1 },
  ]);
  assert.deepEqual(keepers, ids.slice(0, 2));
});

test('an outcome of an earlier lease leaves the one that is held where it is', () => {
  const session = open();
  session.held.set(run, { lease_id: 'new', call: 0, lane_id: 7, keeps: true });
  const outcomes = [{ run_id: run, lease_id: 'old', status: 'SUCCESS' as const }];
  assert.deepEqual(noteReported(session, call({ n: 2, outcomes })), { ended: [], keepers: [] });
  assert.equal(session.held.get(run)?.lease_id, 'new');
});
