// Lengths of time as systemd writes them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseTimeSpan } from './time_span.ts';

test('units have their short and long names, and none means seconds', () => {
  const cases: [string, number][] = [
    ['90', 90_000],
    ['15min', 900_000],
    ['1h 30m', 5_400_000],
    ['1h30min 5s', 5_405_000],
    ['2 weeks', 14 * 86_400_000],
    ['1.5d', 129_600_000],
    ['500ms', 500],
    ['1M', 2_630_016_000],
    ['1y', 31_557_600_000],
  ];
  for (const [text, ms] of cases) assert.equal(parseTimeSpan(text), ms, text);
});

test('what is no length of time is refused', () => {
  for (const text of ['', ' ', 'infinity', '5 apples', '-5s', '5s,', 'min', '1h-2h'])
    assert.equal(parseTimeSpan(text), null, text);
});
