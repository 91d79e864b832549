// What is stored of lines gives the same lines back, in less room; what older versions stored is read as well.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LogLine } from '@punctual/contract';
import fc from 'fast-check';
import { readLines, storeLines } from './log_lines.ts';

const at = fc.oneof(
  fc
    .date({ min: new Date('1990-01-01'), max: new Date('2090-01-01'), noInvalidDate: true })
    .map((d) => d.toISOString()),
  fc.integer({ min: 0, max: 999 }).map((ms) => `2030-01-31T09:00:00.${String(ms).padStart(3, '0')}Z`),
  fc.constantFrom('2030-01-31T09:00:00Z', '2030-01-31T09:00:00+02:00', '2030-01-31T09:00:00.123456789-11:30'),
);
const line: fc.Arbitrary<LogLine> = fc
  .record({
    at,
    level: fc.constantFrom('debug' as const, 'info' as const, 'warn' as const, 'error' as const),
    stream: fc.option(fc.constantFrom('log' as const, 'stdout' as const, 'stderr' as const), { nil: undefined }),
    message: fc.string({ unit: 'binary', maxLength: 300 }),
  })
  .map(({ stream, ...others }) => (stream === undefined ? others : { ...others, stream }));

/** A line without a stream is one of `log`. */
const told = (lines: readonly { stream?: unknown }[]): unknown[] =>
  lines.map((one) => ({ ...one, stream: one.stream ?? 'log' }));

test('lines that were stored are read as they were', () => {
  fc.assert(
    fc.property(fc.array(line, { minLength: 1, maxLength: 20 }), fc.nat(5), fc.nat(5), (lines, before, after) => {
      const [one] = lines as [LogLine];
      const around = [...Array<LogLine>(before).fill(one), ...lines, ...Array<LogLine>(after).fill(one)];
      assert.deepEqual(told(readLines(storeLines(around, before, before + lines.length))), told(lines));
    }),
    { numRuns: 2000 },
  );
});

test('what older versions stored is read', () => {
  const older = [
    { at: '2030-01-31T09:00:00.000Z', level: 'info', message: 'one' },
    { at: '2030-01-31T09:00:00.001Z', level: 'warn', stream: 'stderr', message: 'two' },
  ];
  assert.deepEqual(readLines({ lines: JSON.stringify(older), packed: null }), older);
  assert.deepEqual(readLines({ lines: '[{"level":"error","message":"why"}]', packed: null }), [
    { level: 'error', message: 'why' },
  ]);
  assert.deepEqual(readLines({ lines: '[]', packed: null }), []);
});

test('a line costs little more than its message, and less when there are many', () => {
  const lines = Array.from({ length: 100 }, (_, i) => ({
    at: new Date(Date.UTC(2030, 0, 31) + i * 7).toISOString(),
    level: 'info' as const,
    message: `Größe ${i} of ${i * 37}`.padEnd(20, 'x'),
  }));
  const few = storeLines(lines, 0, 40);
  assert.ok(few.packed === null && few.lines.length < 40 * 32 + 100, few.lines);
  const many = storeLines(lines, 0, 100);
  assert.ok(many.packed !== null && many.packed.length < 1000 && many.lines === '[]');
  assert.deepEqual(readLines(few), lines.slice(0, 40));
  assert.deepEqual(readLines(many), lines);
});
