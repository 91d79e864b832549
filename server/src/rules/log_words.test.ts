// Filters never deny a line that fits, and what is shown of it is short and marked.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { limits } from '@punctual/contract';
import fc from 'fast-check';
import { admits, probesOf } from './log_filter.ts';
import { readLines } from './log_lines.ts';
import { packErrors, packLogs } from './log_rows.ts';
import { findTerms, fold, parseSearch, snippet, wordsOf } from './log_words.ts';

const ids = { run_id: 'r', lease_id: 'l' };
const text = fc.string({
  unit: fc.oneof(
    fc.constantFrom('a', 'B', 'ß', 'É', 'ж', 'İ', 'Σ', '7', ' ', '-', '"', '*', '\n', '🙂', '𝒳', '\u001b[1m'),
    fc.string({ unit: 'grapheme', maxLength: 1 }),
  ),
  maxLength: 40,
});

const logged = (message: string) => ({ at: '', level: 'info' as const, message });

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

  test('a line that fits is never missed: its filter admits every word asked for', () => {
    fc.assert(
      fc.property(text, text, fc.array(text, { maxLength: 3 }), fc.boolean(), (q, around, others, prefix) => {
        const terms = termsOf(q.slice(0, 500))?.map((term) => ({ ...term, prefix: term.prefix || prefix }));
        fc.pre(terms !== undefined && terms.every(({ text: asked }) => (wordsOf(asked).at(-1)?.length ?? 0) >= 3));
        const line = `${around} ${terms.map((term) => term.text + (prefix ? around.slice(0, 3) : '')).join(' ')} ${around}`;
        fc.pre(findTerms(terms, line) !== null);
        const lines = [...others, line].map((message) => ({ at: '', level: 'warn' as const, message }));
        const { filters } = packLogs([{ ...ids, lines }]);
        const probes = probesOf(terms, 'warn');
        assert.ok(filters.some((filter) => probes.every((probe) => admits(filter, probe))));
      }),
      { numRuns: 2000 },
    );
  });

  test('a filter denies nearly everything that is not there', () => {
    const lines = Array.from({ length: 400 }, (_, i) =>
      logged(`order ${(i * 2654435761).toString(16)} of ${i} was paid`),
    );
    const { filters } = packLogs([{ ...ids, lines }]);
    const wrong = Array.from({ length: 20_000 }, (_, i) => probesOf([{ text: `absent${i}`, prefix: false }], undefined))
      .flat()
      .filter((probe) => filters.some((filter) => admits(filter, probe)));
    assert.ok(wrong.length < 100 * filters.length, `${wrong.length} of 20,000 words that are not there were admitted`);
    const has = (word: string, level?: 'info' | 'error'): boolean =>
      filters.some((filter) => probesOf([{ text: word, prefix: true }], level).every((probe) => admits(filter, probe)));
    assert.ok(has('order', 'info'));
    assert.ok(!has('order', 'error'), 'a level that none of the lines has');
    assert.ok(has('orde') && has('ord'), 'beginnings, also of a length that is not kept');
    assert.ok(!has('reorder'));
  });

  test('a line of thousands of words has a filter of bounded size, which denies none of them', () => {
    const words = Array.from({ length: 1300 }, (_, i) => (i * 7919 + 46_656).toString(36));
    const { rows, filters } = packLogs([{ ...ids, lines: [logged('few'), logged(words.join(' ')), logged('more')] }]);
    assert.deepEqual(
      rows.map(({ count, pack }) => ({ count, pack })),
      [
        { count: 2, pack: 0 },
        { count: 1, pack: 1 },
      ],
    );
    assert.equal(filters.length, 2);
    for (const word of words)
      assert.ok(admits(filters[0] as Buffer, probesOf([{ text: word, prefix: false }], undefined)[0] as never), word);
    assert.ok(filters.every(({ length }) => length <= 4000));
  });

  test('a word whose hash another word has is found by its beginning as well', () => {
    // The two have the same hash (FNV-1a).
    for (const words of ['costarring liquid', 'liquid costarring', 'größe costarring liquid']) {
      const { filters } = packLogs([{ ...ids, lines: [logged(words)] }]);
      for (const beginning of ['liq', 'liqui', 'cos', 'costarri'])
        for (const probe of probesOf([{ text: beginning, prefix: true }], undefined))
          assert.ok(admits(filters[0] as Buffer, probe), `${beginning}* in ${words}`);
    }
  });

  test('a filter that was given more words than it has room for denies nothing', () => {
    const few = Array.from({ length: 600 }, (_, i) => logged(`n${i * 7919 + 1000}`));
    const words = Array.from({ length: 1170 }, (_, i) => (i * 1_299_709 + 60_466_176).toString(36));
    const { rows, filters } = packLogs([{ ...ids, lines: [...few, logged(words.join(' '))] }]);
    const filter = filters[rows.at(-1)?.pack as number] as Buffer;
    assert.ok(filter.every((byte) => byte === 0xff) && filter.length <= 4000);
  });

  test('errors share a filter, and what is not to be found has no row', () => {
    const { rows, filters } = packErrors(['Card was declined', null, 'Timed out']);
    assert.deepEqual(
      rows.map((row) => row?.pack ?? null),
      [0, null, 0],
    );
    const [probe] = probesOf([{ text: 'declined', prefix: false }], undefined);
    assert.ok(probe !== undefined && admits(filters[0] as Buffer, probe));
    assert.deepEqual(packErrors([null]), { rows: [null], filters: [] });
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
    const { rows, filters } = packLogs([{ ...ids, lines }]);
    assert.deepEqual(
      rows.flatMap((row) => readLines(row)),
      lines,
    );
    assert.equal(
      rows.reduce((sum, row) => sum + row.count, 0),
      1000,
    );
    for (const row of rows) assert.ok(row.weight < 200_000 && row.count <= 500);
    assert.deepEqual([...new Set(rows.map(({ pack }) => pack))], [...filters.keys()], 'each has its filter');
  });
});
