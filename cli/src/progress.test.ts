// Sizes and bars for people.
import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { createOutput } from './output.ts';
import { bar, partOf, showBytes } from './progress.ts';

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
  assert.equal(bar(0), `${'░'.repeat(30)}   0 %`);
  assert.equal(bar(partOf(50, 100)), `${'█'.repeat(15)}${'░'.repeat(15)}  50 %`);
  assert.match(bar(partOf(999_999, 1_000_000)), /^█{29}░ {2}99 %/);
  assert.match(bar(partOf(0, 0)), /^█{30} 100 %/);
  assert.match(bar(partOf(3, 2)), /^█{30} 100 %/);
});

test('progress replaces itself on a terminal, is a plain line now and then elsewhere, and nothing for machines', (t) => {
  const saidBy = (isTTY: boolean, json: boolean): string => {
    const stderr = Object.assign(new PassThrough(), { isTTY });
    const output = createOutput({ json, stdout: new PassThrough(), stderr });
    let at = 0;
    const clock = t.mock.method(Date, 'now', () => at);
    for (const words of ['one', 'two', 'two', 'three']) {
      output.progress(words, 0.5);
      at += 700;
    }
    output.progress(null);
    clock.mock.restore();
    return String(stderr.read() ?? '');
  };
  const half = `${'█'.repeat(15)}${'░'.repeat(15)}  50 %`;
  const drawn = ['one', 'two', 'two', 'three'].map((words) => `\r\u001b[2K${half}  ${words}`).join('');
  assert.equal(saidBy(true, false), `${drawn}\r\u001b[2K`);
  assert.equal(saidBy(false, false), 'two\n');
  assert.equal(saidBy(true, true), '');
  assert.equal(saidBy(false, true), '');
});
