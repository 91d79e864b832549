// Room for bodies: what is taken is given back, what is too much is refused, and workers still find some.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BodyRoom } from './body_room.ts';

test('what does not fit is refused as too much, and fits when others are answered', () => {
  const room = new BodyRoom(100);
  room.take(60);
  room.take(40);
  assert.throws(() => room.take(1), { code: 'overloaded', retryAfterSeconds: 1 });
  room.give(60);
  room.take(1);
  assert.equal(room.held, 41);
});

test('who has a larger share finds room where others are refused, and none beyond it', () => {
  const room = new BodyRoom(100);
  room.take(100);
  room.take(100, 2);
  assert.throws(() => room.take(1, 2), { code: 'overloaded' });
});
