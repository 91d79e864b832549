// Settings that fit the machine, and those nobody may set.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkSettings, settingsFor } from './settings.ts';

const GB = 1024 ** 3;

test('shared_buffers is a quarter of the memory, at most 1 GB, at least 32 MB', () => {
  assert.equal(settingsFor(2 * GB, true)['shared_buffers'], '512MB');
  assert.equal(settingsFor(64 * GB, true)['shared_buffers'], '1024MB');
  assert.equal(settingsFor(GB / 16, true)['shared_buffers'], '32MB');
});

test('a durable cluster leaves everything that keeps data safe as it is', () => {
  const settings = settingsFor(8 * GB, true);
  for (const name of ['fsync', 'full_page_writes', 'synchronous_commit', 'wal_level']) assert.ok(!(name in settings));
  assert.equal(settingsFor(8 * GB, false)['fsync'], 'off');
});

test('a caller cannot change what keeps the door shut, in any spelling', () => {
  for (const name of ['port', 'listen_addresses', 'Listen_Addresses', 'HBA_FILE', 'a b', '-c', '']) {
    assert.throws(() => checkSettings({ [name]: 'x' }), /setting/, name);
  }
  checkSettings({ work_mem: '3MB', 'auto_explain.log_min_duration': '1s' });
});
