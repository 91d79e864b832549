// The index never misses a line that fits, and what is shown of it is short and marked.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { limits } from '@punctual/contract';
import fc from 'fast-check';
import { rowsOf } from './log_rows.ts';
import { findTerms, fold, indexWords, parseSearch, snippet, wordsOf } from './log_words.ts';

const ids = { run_id: 'r', lease_id: 'l' };
const text = fc.string({
  unit: fc.oneof(
    fc.constantFrom('a', 'B', 'ß', 'É', 'ж', 'İ', 'Σ', '7', ' ', '-', '"', '*', '\n', '🙂', '𝒳', '\u001b[1m'),
    fc.string({ unit: 'grapheme', maxLength: 1 }),
  ),
  maxLength: 40,
});

function termsOf(q: string) {
  const search = parseSearch(q);
  return 'terms' in search ? search.terms : null;
}

describe('words', () => {
  test('folding keeps every place where it is, and folding again changes nothing', () => {
    fc.assert(
      fc.property(text, (line) => {
        assert.equal(fold(line).length, line.length);
        assert.equal(fold(fold(line)), fold(line));
      }),
    );
  });

  test('a line that fits is never missed by the index: its chunk holds every word asked for', () => {
    fc.assert(
      fc.property(text, text, fc.array(text, { maxLength: 3 }), (q, around, others) => {
        const terms = termsOf(q.slice(0, 500));
        fc.pre(terms !== null);
        const line = `${around} ${terms.map((term) => term.text).join(' ')} ${around}`;
        fc.pre(findTerms(terms, line) !== null);
        const lines = [...others, line].map((message) => ({ at: '', level: 'info' as const, message }));
        const words = rowsOf({ ...ids, lines }).flatMap((row) => row.words.split(' '));
        for (const { word, prefix } of indexWords(terms))
          assert.ok(
            words.some((one) => (prefix ? one.startsWith(word) : one === word)),
            `${word} is not in the index`,
          );
      }),
      { numRuns: 1000 },
    );
  });

  test('a search is read as it is written', () => {
    assert.deepEqual(termsOf('Payment "Not Found" user-42, pay*'), [
      { text: 'payment', prefix: false },
      { text: 'not found', prefix: false },
      { text: 'user-42', prefix: false },
      { text: 'pay', prefix: true },
    ]);
    for (const none of ['', ' ', '"', '""', '***', '!?', '\0']) assert.equal(termsOf(none), null, none);
    assert.equal(termsOf('a*'), null);
    assert.equal(termsOf('w '.repeat(limits.max_search_words + 1)), null);
  });

  test('words of terminals and long words are found', () => {
    assert.deepEqual(wordsOf(fold('\u001b[31mError\u001b[0m at /api/v1')), ['error', 'at', 'api', 'v1']);
    const long = 'x'.repeat(3000);
    assert.equal(wordsOf(long)[0]?.length, 64);
    assert.ok(findTerms([{ text: long, prefix: false }], `a ${long} b`));
    assert.equal(findTerms([{ text: long, prefix: false }], `a ${long}y b`), null);
  });
});

describe('what is shown', () => {
  test('a snippet is short, holds the first thing found and marks it', () => {
    fc.assert(
      fc.property(fc.nat(5000), fc.nat(5000), (before, after) => {
        const line = `${'é🙂 '.repeat(before % 1000)}needle${' 🙂y'.repeat(after % 1000)}`;
        const ranges = findTerms([{ text: 'needle', prefix: false }], line);
        assert.ok(ranges);
        const { text: shown, highlights } = snippet(line, ranges);
        assert.ok(shown.length <= limits.max_snippet_chars);
        assert.deepEqual(
          highlights.map(({ from, to }) => shown.slice(from, to)),
          ['needle'],
        );
        assert.doesNotMatch(shown, /\p{Cs}/u, 'half a character');
      }),
    );
  });

  test('rows are bounded and lose nothing', () => {
    const lines = Array.from({ length: 1000 }, (_, i) => ({
      at: '',
      level: 'info' as const,
      message: 'x'.repeat((i * 37) % 8192),
    }));
    const rows = rowsOf({ ...ids, lines });
    assert.deepEqual(
      rows.flatMap((row) => JSON.parse(row.lines) as unknown[]),
      lines,
    );
    assert.equal(
      rows.reduce((sum, row) => sum + row.count, 0),
      1000,
    );
    for (const row of rows) assert.ok(row.weight < 200_000 && row.count <= 500);
  });
});
