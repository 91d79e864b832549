// The binary form of arrays, byte for byte; that PostgreSQL reads it is shown by every integration test.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { int2s, int4s, int8s, texts, timestamps, uuids } from './arrays.ts';

const same = <T>(value: T): T => value;
const hex = (buffer: Buffer): string => buffer.toString('hex');

test('an empty array has no dimension', () => {
  assert.equal(hex(int4s([], same)), '000000000000000000000017');
  assert.equal(hex(texts([], same)), '000000000000000000000019');
});

test('numbers, with and without nulls', () => {
  assert.equal(hex(int2s([1, -2], same)), '000000010000000000000015000000020000000100000002000100000002fffe');
  assert.equal(hex(int4s([null, 7], same)), '0000000100000001000000170000000200000001ffffffff0000000400000007');
  assert.equal(hex(int8s([2 ** 40 + 5, -1], same)).slice(40), '00000008000001000000000500000008ffffffffffffffff');
});

test('text is UTF-8, null is not the empty text', () => {
  assert.equal(hex(texts(['é', '', null], same)).slice(40), '00000002c3a900000000ffffffff');
});

test('uuids and times', () => {
  assert.equal(
    hex(uuids(['01a1de4b-92f8-7000-9c4c-36270fb00008'], same)).slice(48),
    '01a1de4b92f870009c4c36270fb00008',
  );
  assert.equal(
    hex(timestamps([946_684_800_000, 946_684_801_000], same)).slice(40),
    '0000000800000000000000000000000800000000000f4240',
  );
  assert.equal(hex(timestamps([946_684_799_999], same)).slice(48), 'fffffffffffffc18');
});
