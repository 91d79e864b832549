// How the CLI words the stats.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Stats } from '@punctual/contract';
import { statsFields } from './stats.ts';

const stats: Stats = {
  ...{ version: 'a-1', at: '2030-01-01T12:00:00.000Z' },
  server: { server_id: 'a', version: '0.1.0', database: '18.4' },
  ...{ started_per_s: 4.3, ended_per_s: 4.1, late_p50_ms: 2, late_p99_ms: null },
  ...{ ready: 100_000, exact: false, running: 4, dead_letters: 2 },
  workers: { alive: 2, draining: 0, lost: 0, slots: 24, busy: 4 },
  ...{ queues: [], changes: [] },
  minutes: [1, 2].map((failed) => ({
    at: '2030-01-01T11:59:00.000Z',
    started: 9,
    ended: 9,
    failed,
    late_p50_ms: 2,
    late_p99_ms: 9,
  })),
};

test('the stats are told in words, and what is not known or not counted whole is said', () => {
  assert.deepEqual(Object.fromEntries(statsFields(stats)), {
    started: '4.3 a second',
    ended: '4.1 a second',
    'start delay': 'median 2ms, p99 unknown',
    failed: '3 within 2 minutes, 2 open dead letters',
    waiting: '100000 or more due',
    running: '4 in 24 slots of 2 workers',
  });
});
