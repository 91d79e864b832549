// With --readme: puts what was measured into bench/README.md, between the marks of its kind (all, or the held snapshot).
import { readFileSync, writeFileSync } from 'node:fs';

const file = new URL('./README.md', import.meta.url);

export function writeReadme(kind, text) {
  const before = readFileSync(file, 'utf8');
  const marks = new RegExp(`(<!-- ${kind}: begin -->\n)[^]*?(<!-- ${kind}: end -->)`);
  if (!marks.test(before)) throw new Error(`bench/README.md has no place marked ${kind}`);
  writeFileSync(
    file,
    before.replace(marks, (_, begin, end) => `${begin}${text}\n${end}`),
  );
}
