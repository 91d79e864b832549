// What is looked for in the messages of a group.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commonText, shapeOf } from './error_text.ts';

test('the longest text that stands in all messages of a group is found', () => {
  assert.equal(commonText('no account … at shop …'), 'no account');
  assert.equal(commonText('same each time'), 'same each time');
  assert.equal(commonText('a\tlonger piece of …'), 'longer piece of');
});

test('nothing is looked for when the messages have nothing in common', () => {
  for (const shape of [null, '', '…', '… a …', '   ']) assert.equal(commonText(shape), null);
});

test('messages that differ only in numbers and ids have the same shape', () => {
  assert.equal(shapeOf('connect ECONNREFUSED 10.0.0.17:5432'), 'connect ECONNREFUSED …');
  assert.equal(shapeOf('Invoice 0198f1c2-7a3b-7c4d-8e5f-0123456789AB not found\n    at x'), 'Invoice … not found');
  assert.equal(shapeOf('at 0x7fff in deadbeefdeadbeef, 123456789012345.5 and 7 ms'), 'at … in …, … and … ms');
  assert.equal(shapeOf('feed the facade'), 'feed the facade');
  assert.equal(shapeOf('1'.repeat(100_000)), '…');
  assert.equal(shapeOf(''), '');
});
