// Unit files: sections, comments, continued lines, and assignments that are taken back.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { all, isTrue, last, parseUnitFile } from './unit_file.ts';

const values = (text: string, key: string) => all(parseUnitFile(text), key).map(({ value, line }) => [value, line]);

test('assignments are found by section and name, with their lines', () => {
  const text =
    '# head\r\n[Unit]\r\nDescription = a = b \r\n\r\n[Timer]\r\nOnCalendar=daily\r\n; no\r\nOnCalendar=weekly';
  assert.deepEqual(values(text, 'Unit.Description'), [['a = b', 3]]);
  assert.deepEqual(values(text, 'Timer.OnCalendar'), [
    ['daily', 6],
    ['weekly', 8],
  ]);
  assert.deepEqual(values(text, 'Service.ExecStart'), []);
});

test('an empty assignment forgets the ones before it', () => {
  assert.deepEqual(values('[Timer]\nOnCalendar=a\nOnCalendar=\nOnCalendar=b', 'Timer.OnCalendar'), [['b', 4]]);
});

test('a line that ends with a backslash goes on, across comments, also at the end of the file', () => {
  assert.deepEqual(values('[S]\nA=one \\\n# between\n  two\\\n three\nB=x\\', 'S.A'), [['one  two three', 2]]);
  assert.deepEqual(values('[S]\nB=x\\', 'S.B'), [['x', 2]]);
});

test('what is no line of a unit file is told', () => {
  assert.deepEqual(parseUnitFile('A=1\n[S]\nnonsense\n=x').wrong, [
    { line: 1, text: 'A=1' },
    { line: 3, text: 'nonsense' },
    { line: 4, text: '=x' },
  ]);
  assert.deepEqual(parseUnitFile('').wrong, []);
});

test('yes has several names, and the last assignment holds', () => {
  const unit = parseUnitFile('[T]\nA=no\nA=YES\nB=false');
  assert.equal(isTrue(last(unit, 'T.A')), true);
  assert.equal(isTrue(last(unit, 'T.B')), false);
  assert.equal(isTrue(last(unit, 'T.C')), false);
});
