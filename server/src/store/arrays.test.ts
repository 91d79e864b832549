// The binary form of arrays, byte for byte; that PostgreSQL reads it is shown by every integration test.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bools, int2s, int4s, int8s, texts, timestamps, uuids } from './arrays.ts';

const hex = (buffer: Buffer): string => buffer.toString('hex');

test('an empty array has no dimension', () => {
  assert.equal(hex(int4s([])), '000000000000000000000017');
  assert.equal(hex(texts([])), '000000000000000000000019');
});

test('numbers, with and without nulls', () => {
  assert.equal(hex(int2s([1, -2])), `00000001${'00000000'}00000015${'00000002'}00000001${'000000020001'}${'00000002fffe'}`);
  assert.equal(hex(int4s([null, 7])), `00000001${'00000001'}00000017${'00000002'}00000001${'ffffffff'}${'0000000400000007'}`);
  assert.equal(hex(int8s([2 ** 40 + 5, -1])).slice(40), `${'00000008'}0000010000000005${'00000008'}ffffffffffffffff`);
});

test('text is UTF-8, null is not the empty text', () => {
  assert.equal(hex(texts(['é', '', null])).slice(40), `${'00000002c3a9'}${'00000000'}${'ffffffff'}`);
});

test('uuids, times and truth', () => {
  assert.equal(hex(uuids(['01a1de4b-92f8-7000-9c4c-36270fb00008'])).slice(48), '01a1de4b92f870009c4c36270fb00008');
  assert.equal(hex(timestamps([946_684_800_000, 946_684_801_000])).slice(40), `${'00000008'}0000000000000000${'00000008'}00000000000f4240`);
  assert.equal(hex(timestamps([946_684_799_999])).slice(48), 'fffffffffffffc18');
  assert.equal(hex(bools([true, false])).slice(40), `${'0000000101'}${'0000000100'}`);
});
