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
    outcomes: [],
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
  const outcomes = [{ ...lease, status: 'SNOOZED' as const, snooze_ms: 0 }];
  assert.deepEqual(prepareReport({ outcomes }), { checkpoints: [], outcomes });
});

test('runs that succeeded without a result are outcomes like the others, and count with them', () => {
  const outcomes = [{ ...lease, status: 'FAILED' as const }];
  const succeeded = [
    { lease_id: 'a', run_ids: ['1', '2'] },
    { lease_id: 'b', run_ids: ['3'] },
  ];
  assert.deepEqual(prepareReport({ outcomes, succeeded }), {
    checkpoints: [],
    outcomes: [
      ...outcomes,
      { run_id: '1', lease_id: 'a', status: 'SUCCESS' },
      { run_id: '2', lease_id: 'a', status: 'SUCCESS' },
      { run_id: '3', lease_id: 'b', status: 'SUCCESS' },
    ],
  });
  const run_ids = Array.from({ length: limits.max_outcomes }, String);
  assert.ok(!('refused' in prepareReport({ succeeded: [{ lease_id: 'a', run_ids }] })));
  const over = prepareReport({ outcomes, succeeded: [{ lease_id: 'a', run_ids }] });
  assert.deepEqual('refused' in over && over.refused, [
    { path: 'succeeded', message: 'holds, with outcomes, more than 4000 runs' },
  ]);
});
