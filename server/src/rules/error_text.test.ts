// What is looked for in the messages of a group.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commonText } from './error_text.ts';

test('the longest text that stands in all messages of a group is found', () => {
  assert.equal(commonText('no account … at shop …'), 'no account');
  assert.equal(commonText('same each time'), 'same each time');
  assert.equal(commonText('a\tlonger piece of …'), 'longer piece of');
});

test('nothing is looked for when the messages have nothing in common', () => {
  for (const shape of [null, '', '…', '… a …', '   ']) assert.equal(commonText(shape), null);
});
