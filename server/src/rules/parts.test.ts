// Parts of files and ranges of bytes, as properties.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '@punctual/contract';
import fc from 'fast-check';
import { allParts, missingParts, partBytesOf, partsOf, sizeOfPart } from './parts.ts';
import { readRange } from './range.ts';

const sizes = fc.integer({ min: 0, max: limits.max_artifact_bytes });

test('the parts of a file of any size make up the file, and are not too many', () => {
  fc.assert(
    fc.property(sizes, fc.integer({ min: 1, max: 10_000_000 }), (size, least) => {
      const upload = { size, part_bytes: partBytesOf(size, least) };
      const parts = partsOf(upload);
      assert.ok(parts <= limits.max_artifact_parts);
      assert.ok(upload.part_bytes >= least);
      const last = parts === 0 ? 0 : sizeOfPart(upload, parts);
      assert.equal((parts === 0 ? 0 : (parts - 1) * upload.part_bytes) + last, size);
      assert.equal(sizeOfPart(upload, parts + 1), 0);
    }),
  );
});

test('a part that is missing, or not whole, is sent again', () => {
  const upload = { size: 25, part_bytes: 10 };
  assert.deepEqual(missingParts(upload, new Map()), [1, 2, 3]);
  assert.deepEqual(
    missingParts(
      upload,
      new Map([
        [1, 10],
        [2, 9],
        [3, 5],
        [4, 10],
      ]),
    ),
    [2],
  );
  assert.deepEqual(missingParts({ size: 0, part_bytes: 10 }, new Map()), []);
  assert.deepEqual([...allParts(upload).values()], [10, 10, 5]);
  assert.deepEqual(missingParts(upload, allParts(upload)), []);
});

test('a range lies within the file, whatever is asked for', () => {
  fc.assert(
    fc.property(fc.string(), fc.nat(), fc.nat(), fc.nat(), (text, a, b, size) => {
      for (const header of [text, `bytes=${a}-${b}`, `bytes=${a}-`, `bytes=-${b}`]) {
        const range = readRange(header, size);
        if (range === null || range === 'unsatisfiable') continue;
        assert.ok(range.from >= 0 && range.from <= range.to && range.to < size, header);
      }
    }),
  );
});

test('ranges are read as the standard says', () => {
  assert.deepEqual(readRange('bytes=0-0', 10), { from: 0, to: 0 });
  assert.deepEqual(readRange('bytes=5-', 10), { from: 5, to: 9 });
  assert.deepEqual(readRange('bytes=-3', 10), { from: 7, to: 9 });
  assert.deepEqual(readRange('bytes=-30', 10), { from: 0, to: 9 });
  assert.deepEqual(readRange('bytes=4-100', 10), { from: 4, to: 9 });
  for (const header of ['bytes=10-', 'bytes=-0', 'bytes=11-12']) assert.equal(readRange(header, 10), 'unsatisfiable');
  for (const header of [undefined, '', 'bytes=', 'bytes=-', 'bytes=3-2', 'bytes=0-1,4-5', 'lines=1-2', 'bytes=a-b'])
    assert.equal(readRange(header, 10), null);
});
