// Log lines as they are kept: chunks that a worker sent become rows of bounded size, and rows that are stored together share
// a filter of the words they are found by. Pure; called by dispatch/sync.ts and store/settle.ts.
import type { LogChunk, LogLine } from '@punctual/contract';
import { max_filter_words, WordSet } from './log_filter.ts';
import { type StoredLine, type StoredLines, storeLines } from './log_lines.ts';

/** Of the text of one row: it is read whole. */
const max_row_chars = 128 * 1024;
const max_row_lines = 500;
const max_pack_rows = 200;
/** What a line costs beside its text: a million empty lines are not nothing. */
const chars_per_line = 64;

export interface LogRow extends StoredLines {
  run_id: string;
  lease_id: string;
  weight: number;
  count: number;
  /** Which of the filters holds its words. */
  pack: number;
}

export interface Packed<Row> {
  rows: Row[];
  filters: Buffer[];
}

/** All of it is done at once, so one is enough. */
const words = new WordSet();

export function packLogs(chunks: readonly LogChunk[]): Packed<LogRow> {
  const packed: Packed<LogRow> = { rows: [], filters: [] };
  const packs = new Packs(packed.filters);
  for (const { run_id, lease_id, lines } of chunks) {
    for (let from = 0; from < lines.length; ) {
      let chars = 0;
      let to = from;
      while (to < lines.length && to - from < max_row_lines && !packs.full) {
        const { level, message } = lines[to] as LogLine;
        if (to > from && chars + message.length > max_row_chars) break;
        packs.add(level, message);
        chars += message.length;
        to += 1;
      }
      const count = to - from;
      const weight = chars + count * chars_per_line;
      const stored = storeLines(lines, from, to);
      packed.rows.push({
        run_id,
        lease_id,
        lines: stored.lines,
        packed: stored.packed,
        weight,
        count,
        pack: packs.row(),
      });
      from = to;
    }
  }
  packs.end();
  return packed;
}

export interface ErrorRow {
  /** Why an attempt failed, as a line that can be searched; its time is that of the row. */
  lines: string;
  pack: number;
}

/** Null for what is not to be found. */
export function packErrors(errors: readonly (string | null)[]): Packed<ErrorRow | null> {
  const filters: Buffer[] = [];
  const packs = new Packs(filters);
  const rows = errors.map((message) => {
    if (message === null) return null;
    const line: StoredLine = { level: 'error', message };
    packs.add(line.level, message);
    return { lines: JSON.stringify([line]), pack: packs.row() };
  });
  packs.end();
  return { rows, filters };
}

/** Counts rows into packs. */
export class Packs {
  readonly #filters: Buffer[];
  #rows = 0;

  constructor(filters: Buffer[]) {
    this.#filters = filters;
  }

  /** No further line has room in the filter. */
  get full(): boolean {
    return words.size >= max_filter_words;
  }

  add(level: string, message: string): void {
    words.addMark(`=${level}`);
    words.addLine(message);
  }

  /** What was added since the last row is one; answers the number of its pack. */
  row(): number {
    const pack = this.#filters.length;
    this.#rows += 1;
    if (this.full || this.#rows === max_pack_rows) this.end();
    return pack;
  }

  end(): void {
    if (this.#rows > 0) this.#filters.push(words.take());
    this.#rows = 0;
  }
}
