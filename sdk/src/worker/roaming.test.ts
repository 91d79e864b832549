// When calls count as going to changing servers.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Roaming } from './roaming.ts';

test('calls roam when the server has changed three times within a minute, and a minute later no more', () => {
  const roaming = new Roaming();
  const answered = (server: string, now: number): void => roaming.answered(server, { now, beside: false });
  for (const [at, server] of ['a', 'a', 'b', 'b', 'a'].entries()) answered(server, at * 1000);
  assert.equal(roaming.isOn(4_000), false, 'one that went away and came back');
  answered('c', 5_000);
  assert.equal(roaming.isOn(5_000), true);
  assert.equal(roaming.isOn(61_999), true);
  assert.equal(roaming.isOn(62_000), false);
  answered('a', 62_500);
  assert.equal(roaming.isOn(62_500), true, 'counted from the first of the last three');
  answered('a', 63_500);
  assert.equal(roaming.isOn(64_000), false);
});

test('calls roam when another server answers while a call is open at the one before', () => {
  const roaming = new Roaming();
  roaming.answered('a', { now: 0, beside: false });
  roaming.answered('a', { now: 1_000, beside: true });
  assert.equal(roaming.isOn(1_000), false);
  roaming.answered('b', { now: 2_000, beside: true });
  assert.equal(roaming.isOn(2_000), true);
  assert.equal(roaming.isOn(62_000), false);
});
