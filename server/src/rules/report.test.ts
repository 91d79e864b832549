// What a worker reports, beyond its schema.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '@punctual/contract';
import { prepareReport } from './report.ts';

const lease = { run_id: 'r', lease_id: 'l' };
const checkpoint = (value: unknown) => ({ ...lease, version: 1, value });

test('a checkpoint may have exactly as many bytes as the limit says, counted as UTF-8', () => {
  const fits = 'ü'.repeat(limits.max_checkpoint_bytes / 2 - 1);
  assert.deepEqual(prepareReport({ checkpoints: [checkpoint(fits)] }), {
    checkpoints: [{ ...lease, version: 1, value: JSON.stringify(fits) }],
  });
  const over = prepareReport({ checkpoints: [checkpoint(1), checkpoint(`${fits}ü`)] });
  assert.ok('refused' in over);
  assert.equal(over.refused[0]?.path, 'checkpoints[1].value');
  assert.match(over.refused[0]?.message ?? '', /larger than 1048576 bytes/);
});

test('a checkpoint nested too deep is refused, also one that would exhaust the stack', () => {
  let value: unknown = 1;
  for (let i = 0; i < 100_000; i++) value = [value];
  const deep = prepareReport({ checkpoints: [checkpoint(value)] });
  assert.match(('refused' in deep && deep.refused[0]?.message) || '', /deeper than 64 levels/);
});

test('a snooze says how long, and nothing else does', () => {
  const without = prepareReport({ outcomes: [{ ...lease, status: 'SNOOZED' }] });
  assert.match(('refused' in without && without.refused[0]?.message) || '', /is missing/);
  const other = prepareReport({ outcomes: [{ ...lease, status: 'SUCCESS', snooze_ms: 1 }] });
  assert.match(('refused' in other && other.refused[0]?.path) || '', /outcomes\[0\]\.snooze_ms/);
  assert.deepEqual(prepareReport({ outcomes: [{ ...lease, status: 'SNOOZED', snooze_ms: 0 }] }), { checkpoints: [] });
});
