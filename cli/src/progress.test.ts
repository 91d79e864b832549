// Sizes and bars for people.
import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { createOutput } from './output.ts';
import { progressBar, showBytes } from './progress.ts';

test('sizes are short', () => {
  assert.deepEqual([0, 1023, 1024, 1_500_000, 200 * 1024 ** 3, 2 ** 60].map(showBytes), [
    '0 B',
    '1023 B',
    '1.0 KB',
    '1.4 MB',
    '200 GB',
    '1048576 TB',
  ]);
});

test('a bar fills up, and is full at the end only', () => {
  assert.equal(progressBar(0, 100), `${'░'.repeat(30)}   0 %  0 B of 100 B`);
  assert.equal(progressBar(50, 100), `${'█'.repeat(15)}${'░'.repeat(15)}  50 %  50 B of 100 B`);
  assert.match(progressBar(999_999, 1_000_000), /^█{29}░ {2}99 %/);
  assert.match(progressBar(0, 0), /^█{30} 100 %/);
});

test('progress is for terminals: it replaces itself there, and is nothing elsewhere', () => {
  const saidBy = (isTTY: boolean, json: boolean): string => {
    const stderr = Object.assign(new PassThrough(), { isTTY });
    const output = createOutput({ json, stdout: new PassThrough(), stderr });
    output.progress('half');
    output.progress('all');
    output.progress(null);
    return String(stderr.read() ?? '');
  };
  assert.equal(saidBy(true, false), '\r\u001b[2Khalf\r\u001b[2Kall\r\u001b[2K');
  assert.equal(saidBy(false, false), '');
  assert.equal(saidBy(true, true), '');
});
