// Filters of words: which words the log lines that were stored together may hold, in a few hundred bytes. A search reads the
// filters, and only the lines behind those that may hold what it asks for. A filter never denies a word that is there; of
// those that are not, it denies all but about one in a thousand. Pure.
//
// It is a Bloom filter in blocks: a word has a block, and some bits in it. Words stand in it whole and by some of their
// beginnings, for searches with `*`; the two are not told apart, so `error` may also be found where only `errors` is.
import type { LogLevel } from '@punctual/contract';
import { fold, max_word_chars, type Term, wordsAsked, wordsOf } from './log_words.ts';

/** Of so many characters beginnings are kept; what is asked for is cut to the next shorter one. */
const beginnings = [3, 5, 8] as const;

const block_bytes = 64;
const bits_a_word = 16;
/** So that two filters fit on a page of PostgreSQL with all that belongs to them. */
const max_blocks = 60;
/** With more words than this a filter would deny less. */
export const max_filter_words = (max_blocks * block_bytes * 8) / bits_a_word;
/** Small enough for the cache of a processor. No line is added to a filter that is full, but the last one may bring many. */
const slots = 4096;
const most_words = slots - 512;

/** The code of a letter or digit in lower case by its own; 0 for what separates words. */
const letters = new Uint8Array(128);
for (const character of 'abcdefghijklmnopqrstuvwxyz0123456789') {
  letters[character.charCodeAt(0)] = character.charCodeAt(0);
  letters[character.toUpperCase().charCodeAt(0)] = character.charCodeAt(0);
}

const basis = 0x811c9dc5 | 0;
const prime = 0x01000193;
const escape = 0x1b;

/** The words of lines, as hashes. One is filled, read and emptied again and again. */
export class WordSet {
  readonly #slots = new Int32Array(slots);
  readonly #hashes = new Int32Array(most_words);
  #count = 0;

  get size(): number {
    return this.#count;
  }

  /** Words that are no words of a line, such as `=error`. */
  addMark(mark: string): void {
    this.#add(hashOf(mark));
  }

  addLine(message: string): void {
    if (!this.#addPlain(message)) for (const word of wordsOf(fold(message))) this.#addWord(word);
  }

  /** Nearly all lines are ASCII; answers false at the first sign that needs the long way. */
  #addPlain(message: string): boolean {
    const end = message.length;
    for (let i = 0; i < end; i++) {
      const code = message.charCodeAt(i);
      if (code > 127 || code === escape) return false;
      let letter = letters[code] as number;
      if (letter === 0) continue;
      let hash = basis;
      let length = 0;
      let three = 0;
      let five = 0;
      let eight = 0;
      do {
        if (length < max_word_chars) {
          hash = Math.imul(hash ^ letter, prime);
          length += 1;
          if (length === 3) three = hash;
          else if (length === 5) five = hash;
          else if (length === 8) eight = hash;
        }
        i += 1;
        if (i === end) break;
        const next = message.charCodeAt(i);
        if (next > 127 || next === escape) return false;
        letter = letters[next] as number;
      } while (letter !== 0);
      // Also when the word is there: another one may have the same hash, and other beginnings.
      this.#add(hash);
      if (length > 3) this.#add(three);
      if (length > 5) this.#add(five);
      if (length > 8) this.#add(eight);
    }
    return true;
  }

  #addWord(word: string): void {
    this.#add(hashOf(word));
    for (const length of beginnings) if (word.length > length) this.#add(hashOf(word.slice(0, length)));
  }

  #add(hash: number): void {
    const mixed = mix(hash) || 1;
    let slot = mixed & (slots - 1);
    for (let there = this.#slots[slot]; there !== 0; there = this.#slots[slot]) {
      if (there === mixed) return;
      slot = (slot + 1) & (slots - 1);
    }
    if (this.#count === most_words) return;
    this.#slots[slot] = mixed;
    this.#hashes[this.#count] = mixed;
    this.#count += 1;
  }

  /** The filter of all words since the last one; none are left. */
  take(): Buffer {
    // Whole numbers throughout: a remainder of others takes ten times as long.
    const blocks = Math.max(1, Math.min(max_blocks, Math.ceil((this.#count * bits_a_word) / (block_bytes * 8)))) | 0;
    // With more than there is room for it admits everything.
    const filter = Buffer.alloc(blocks * block_bytes, this.#count === most_words ? 0xff : 0);
    for (let i = 0; i < this.#count; i++) {
      const hash = this.#hashes[i] as number;
      const start = (((hash >>> 0) % blocks) | 0) * block_bytes;
      let bits = mix(hash ^ basis);
      for (let probe = 0; probe < probes; probe++) {
        if (probe === probes / 2) bits = mix(hash ^ prime);
        // As get_bit counts: the lowest bit of a byte first.
        const at = start + ((bits >>> 3) & 63);
        filter[at] = (filter[at] as number) | (1 << (bits & 7));
        bits >>>= 9;
      }
    }
    this.#slots.fill(0);
    this.#count = 0;
    return filter;
  }
}

const probes = 6;

/** How a filter is asked for a word: the number that gives the block by the count of blocks, and the bits in it. */
export interface Probe {
  hash: number;
  bits: number[];
}

/** What a filter must admit for one of its lines to fit: the longest words first, which are rarer. */
export function probesOf(terms: readonly Term[], level: LogLevel | undefined): Probe[] {
  const asked = wordsAsked(terms).map(({ word, prefix }) => (prefix ? beginningOf(word) : word));
  asked.sort((a, b) => b.length - a.length);
  return [...new Set(asked), ...(level === undefined ? [] : [`=${level}`])].map(probeOf);
}

function beginningOf(word: string): string {
  return word.slice(
    0,
    beginnings.findLast((length) => length <= word.length),
  );
}

function probeOf(word: string): Probe {
  const hash = mix(hashOf(word)) || 1;
  const bits: number[] = [];
  let drawn = mix(hash ^ basis);
  for (let probe = 0; probe < probes; probe++) {
    if (probe === probes / 2) drawn = mix(hash ^ prime);
    bits.push(drawn & 511);
    drawn >>>= 9;
  }
  return { hash: hash >>> 0, bits };
}

/** Does the filter admit it? PostgreSQL asks the same (store/log_search.ts). */
export function admits(filter: Buffer, { hash, bits }: Probe): boolean {
  const start = (hash % (filter.length / block_bytes)) * block_bytes;
  return bits.every((bit) => ((filter[start + (bit >>> 3)] as number) & (1 << (bit & 7))) !== 0);
}

/** FNV-1a over the code units. */
function hashOf(text: string): number {
  let hash = basis;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), prime);
  return hash;
}

/** Spreads what is in the lower bits over all of them. */
function mix(hash: number): number {
  let mixed = hash ^ (hash >>> 16);
  mixed = Math.imul(mixed, 0x85ebca6b);
  mixed ^= mixed >>> 13;
  mixed = Math.imul(mixed, 0xc2b2ae35);
  return mixed ^ (mixed >>> 16);
}
