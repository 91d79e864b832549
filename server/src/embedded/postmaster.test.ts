// What is read from a postmaster.pid, and what is refused.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parsePidFile } from './postmaster.ts';

test('a whole lock file is read', () => {
  const text = '123\n/data\n1700000000\n5432\n/run/x\n127.0.0.1\n  1 2\nready   \n';
  const expected = { pid: 123, port: 5432, socketDir: '/run/x', listens: '127.0.0.1', status: 'ready' };
  assert.deepEqual(parsePidFile(text), expected);
  assert.equal(parsePidFile(text.replace('ready   ', 'stopping'))?.status, 'stopping');
  assert.equal(parsePidFile(text.replace('ready   ', 'standby '))?.status, 'ready');
});

test('a lock file that is still being written belongs to a postmaster that starts', () => {
  assert.equal(parsePidFile('123\n')?.status, 'starting');
  assert.equal(parsePidFile('123\n/data\n1700000000\n5432\n/run/x\n')?.status, 'starting');
});

test('garbage is no lock file', () => {
  for (const text of ['', '\n', 'x', '-1\n', '0\n', '1.5\n', '99999999999999\n', '\0\0\0']) {
    assert.equal(parsePidFile(text), null, JSON.stringify(text));
  }
});
