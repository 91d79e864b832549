// Where the socket goes when paths are long.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { socketFile, socketFolderFor } from './socket.ts';

test('the socket lies beside the cluster when its path is short', () => {
  assert.equal(socketFolderFor('/srv/punctual', 1000), '/srv/punctual/socket');
});

test('no path of a socket is ever longer than the kernel takes', () => {
  for (let length = 1; length < 300; length++) {
    const home = `/${'ü'.repeat(length)}`;
    assert.ok(Buffer.byteLength(socketFile(socketFolderFor(home, 65_534), 65_535)) < 100, home);
  }
});

test('long paths get folders of their own, per folder and per user', () => {
  const [a, b] = [`/${'a'.repeat(200)}`, `/${'b'.repeat(200)}`];
  const all = [socketFolderFor(a, 1), socketFolderFor(b, 1), socketFolderFor(a, 2)];
  assert.equal(new Set(all).size, 3);
  assert.equal(socketFolderFor(a, 1), all[0]);
});
