// Keys of jobs: in the order in which they were made, none twice, and a time that the server believes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newJobKey } from './job-id.ts';

const start = Date.UTC(2026, 10, 18);

const timeOf = (key: string): number => Number.parseInt(key.slice(4, 12) + key.slice(13, 17), 16);
const make = (count: number, nowMs: number): string[] => Array.from({ length: count }, () => newJobKey(nowMs));
/** Without the segment, which is not part of the order. */
const inOrder = (keys: readonly string[]): boolean =>
  keys.every((key, i) => i === 0 || (keys[i - 1] as string).slice(0, -4) < key.slice(0, -4));

test('keys have the form that the server takes for ids', () => {
  for (const key of make(100, start))
    assert.match(key, /^job:[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{8}0[0-9a-f]{3}$/);
});

test('keys of one millisecond are in the order in which they were made, also when they are very many', () => {
  const keys = [...make(10_000, start + 1_000), ...make(1, start + 1_010)];
  assert.ok(inOrder(keys));
  assert.ok(timeOf(keys.at(-2) as string) < start + 1_010);
  assert.equal(new Set(keys).size, keys.length);
});

test('a clock that goes back a little leaves the order as it is; one that was set back is believed', () => {
  const now = start + 5_000;
  assert.ok(inOrder([newJobKey(now), newJobKey(now - 900), newJobKey(now - 1), newJobKey(now + 1)]));
  assert.equal(timeOf(newJobKey(now - 3_600_000)), now - 3_600_000);
});

test('jobs made within a moment share a segment, and later ones use others', () => {
  const spreads = Array.from({ length: 40 }, (_, i) => make(3, start + 10_000 + i * 100).map((key) => key.slice(-3)));
  for (const spread of spreads) assert.equal(new Set(spread).size, 1);
  assert.ok(new Set(spreads.flat()).size > 20);
});
