// The words of log lines: what filters hold (log_filter.ts), what a search asks for, and whether a line has it. Pure. Chunks
// are found by their filters in the book (store/log_search.ts); their lines are then judged here. Both use the same words, so a line that
// fits is never missed.
//
// A word is a run of letters and digits of any script; everything else separates, also the escape sequences of terminals.
// Of long words only the beginning counts for a filter.
import { limits } from '@punctual/contract';

export const max_word_chars = 64;
/** A shorter beginning of a word would fit half of all there are. */
const min_prefix_chars = 3;

const asciiWords = /[a-z0-9]+/g;
const anyWords = /[\p{L}\p{N}\p{M}]+/gu;
const wordBefore = /[\p{L}\p{N}\p{M}]$/u;
const wordAfter = /^[\p{L}\p{N}\p{M}]/u;
// oxlint-disable-next-line no-control-regex
const ascii = /^[\x00-\x7f]*$/;
// oxlint-disable-next-line no-control-regex
const escapes = /\x1b\[[0-9;?]{0,100}[@-~]/g;

export interface Term {
  /** What must stand in the line, folded. */
  text: string;
  /** The last word may go on. */
  prefix: boolean;
}

export interface Range {
  from: number;
  to: number;
}

/** Lower case, character by character, so that every place stays where it is; escape sequences become spaces. */
export function fold(text: string): string {
  const plain = text.includes('\x1b') ? text.replace(escapes, (escape) => ' '.repeat(escape.length)) : text;
  return ascii.test(plain) ? plain.toLowerCase() : Array.from(plain, foldCharacter).join('');
}

function foldCharacter(character: string): string {
  const lower = character.toLowerCase();
  return lower.length === character.length ? lower : character;
}

/** The words of a folded text. */
export function wordsOf(folded: string): string[] {
  return (folded.match(ascii.test(folded) ? asciiWords : anyWords) ?? []).map((word) => word.slice(0, max_word_chars));
}

/** What somebody searches for, or what is wrong with it. */
export function parseSearch(q: string): { terms: Term[] } | { problem: string } {
  const terms: Term[] = [];
  for (const [, phrase, bare] of q.matchAll(/"([^"]*)"?|([^\s"]+)/g)) {
    const term = phrase === undefined ? bareTerm(bare ?? '') : { text: fold(phrase.trim()), prefix: false };
    const last = wordsOf(term.text).at(-1);
    if (last === undefined) continue;
    if (term.prefix && last.length < min_prefix_chars)
      return { problem: `needs at least ${min_prefix_chars} letters or digits before a *` };
    terms.push(term);
  }
  if (terms.length === 0) return { problem: 'holds no word: give letters or digits' };
  const words = terms.reduce((sum, { text }) => sum + wordsOf(text).length, 0);
  if (words > limits.max_search_words) return { problem: `holds ${words} words; at most ${limits.max_search_words}` };
  return { terms };
}

/** Signs around it are left out; signs within it must stand in the line. */
function bareTerm(bare: string): Term {
  const text = fold(bare);
  const within = /[\p{L}\p{N}\p{M}](?:.*[\p{L}\p{N}\p{M}])?/su.exec(text);
  if (within === null) return { text: '', prefix: false };
  return { text: within[0], prefix: text[within.index + within[0].length] === '*' };
}

/** The words that a chunk must hold for one of its lines to fit. */
export function wordsAsked(terms: readonly Term[]): { word: string; prefix: boolean }[] {
  return terms.flatMap(({ text, prefix }) => {
    const words = wordsOf(text);
    return words.map((word, i) => ({ word, prefix: prefix && i === words.length - 1 }));
  });
}

/** Where the terms stand in the line, in order; null when one of them does not. */
export function findTerms(terms: readonly Term[], line: string): Range[] | null {
  const folded = fold(line);
  const found: Range[] = [];
  for (const term of terms) {
    const ranges = findTerm(term, folded);
    if (ranges.length === 0) return null;
    found.push(...ranges);
  }
  return merge(found);
}

function findTerm({ text, prefix }: Term, folded: string): Range[] {
  const ranges: Range[] = [];
  const opens = wordAfter.test(text);
  const closes = !prefix && wordBefore.test(text);
  for (let at = folded.indexOf(text); at !== -1; at = folded.indexOf(text, at + 1)) {
    const end = at + text.length;
    if (opens && at > 0 && wordBefore.test(folded.slice(Math.max(0, at - 2), at))) continue;
    if (closes && end < folded.length && wordAfter.test(folded.slice(end, end + 2))) continue;
    ranges.push({ from: at, to: end });
  }
  return ranges;
}

function merge(ranges: Range[]): Range[] {
  const merged: Range[] = [];
  for (const range of ranges.sort((a, b) => a.from - b.from)) {
    const last = merged.at(-1);
    if (last !== undefined && range.from <= last.to) last.to = Math.max(last.to, range.to);
    else merged.push({ ...range });
  }
  return merged;
}

/** A part of the line around the first thing found, and where in it everything found stands. */
export function snippet(line: string, ranges: readonly Range[]): { text: string; highlights: Range[] } {
  const first = ranges[0]?.from ?? 0;
  const room = limits.max_snippet_chars;
  let start = line.length <= room ? 0 : Math.max(0, Math.min(first - Math.floor(room / 4), line.length - room));
  let end = Math.min(line.length, start + room);
  if (start > 0 && isLowSurrogate(line, start)) start += 1;
  if (end < line.length && isLowSurrogate(line, end)) end -= 1;
  const highlights = ranges
    .filter(({ from, to }) => to > start && from < end)
    .slice(0, limits.max_highlights)
    .map(({ from, to }) => ({ from: Math.max(from, start) - start, to: Math.min(to, end) - start }));
  return { text: line.slice(start, end), highlights };
}

function isLowSurrogate(text: string, at: number): boolean {
  const unit = text.charCodeAt(at);
  return unit >= 0xdc00 && unit <= 0xdfff;
}
