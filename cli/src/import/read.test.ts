// Files to import are text of bounded size; everything else is refused with a sentence.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { max_import_bytes, readImport, textOf } from './read.ts';

test('a file and standard input are read, without a byte order mark', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'punctual-import-'));
  try {
    const file = path.join(folder, 'crontab');
    writeFileSync(file, '\ufeffü\n');
    assert.equal(await readImport(file), 'ü\n');
    await assert.rejects(readImport(folder), /cannot read .*EISDIR/);
    await assert.rejects(readImport(`${file}.not`), /cannot read .*crontab\.not/);
  } finally {
    rmSync(folder, { recursive: true });
  }
  assert.equal(await readImport('-', Readable.from(['a', 'b'])), 'ab');
  assert.equal(await readImport('-', Readable.from([])), '');
});

test('what is too large or no text is refused', async () => {
  const large = Readable.from(Array.from({ length: 17 }, () => 'x'.repeat(max_import_bytes / 16)));
  await assert.rejects(readImport('-', large), /standard input is larger than 1048576 bytes/);
  assert.throws(() => textOf(Buffer.from('a\0b'), 'f'), /f is not a text file: it holds NUL bytes/);
  assert.throws(() => textOf(Buffer.from([0xff, 0xfe]), 'f'), /it is not UTF-8/);
});
