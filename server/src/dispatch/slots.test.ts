// When a worker is answered with what was leased to it, and how many runs it may be given.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { monotonicMs } from '../base/clock.ts';
import { type OutgoingGrant, type Session, Sessions } from './sessions.ts';
import { freeSlots, release, send, takeSlots } from './slots.ts';

function open({ roams }: { roams: boolean }): { session: Session; answers: number } {
  const request = { session_id: crypto.randomUUID(), n: 1, concluded: 0, accept: true, wait: true };
  const session = new Sessions().open(request, 'w');
  session.worker = { host: 'h', pid: 1, version: 'v', slots: 10, types: ['echo'], executors: [], queues: null };
  session.accept = true;
  if (roams) session.roamsUntil = monotonicMs() + 60_000;
  const opened = { session, answers: 0 };
  session.parked = { n: 1, answer: () => void opened.answers++ };
  return opened;
}

const grant = {} as OutgoingGrant;

test('a worker that stays here is answered at once, whatever else is being leased to it', () => {
  const opened = open({ roams: false });
  const { session } = opened;
  assert.equal(takeSlots([session], 4).length, 4);
  session.outbox.push(grant);
  send(session);
  assert.equal(opened.answers, 1);
  assert.equal(freeSlots(session), 6);
});

test('a worker that roams is answered when all that is being leased to it has come, and gets nothing more meanwhile', () => {
  const opened = open({ roams: true });
  const { session } = opened;
  assert.equal(takeSlots([session], 4).length, 4);
  assert.equal(freeSlots(session), 6);
  session.outbox.push(grant);
  send(session);
  assert.equal(opened.answers, 0);
  assert.equal(freeSlots(session), 0);
  release(session, 3);
  assert.equal(opened.answers, 0);
  release(session, 1);
  assert.equal(opened.answers, 1);
});

test('a worker to which nothing was leased after all goes on waiting', () => {
  const opened = open({ roams: true });
  takeSlots([opened.session], 4);
  release(opened.session, 4);
  assert.equal(opened.answers, 0);
});
