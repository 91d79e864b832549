// Log lines as they are kept: a chunk that a worker sent becomes rows of bounded size, each with the words it is found by.
// Pure; called by dispatch/sync.ts and dispatch/settle.ts.
import type { LogChunk, LogLine } from '@punctual/contract';
import { fold, wordsOf } from './log_words.ts';

/** Of the text of one row: its words must fit into a tsvector, which holds a megabyte. */
const max_row_chars = 128 * 1024;
const max_row_lines = 500;
/** What a line costs beside its text: a million empty lines are not nothing. */
const chars_per_line = 64;

export interface LogRow {
  run_id: string;
  lease_id: string;
  /** The lines as JSON. */
  lines: string;
  /** What it is found by, with spaces between. */
  words: string;
  weight: number;
  count: number;
}

export function rowsOf({ run_id, lease_id, lines }: LogChunk): LogRow[] {
  const rows: LogRow[] = [];
  for (let from = 0; from < lines.length; ) {
    let chars = 0;
    let to = from;
    while (to < lines.length && to - from < max_row_lines) {
      const more = (lines[to] as LogLine).message.length;
      if (to > from && chars + more > max_row_chars) break;
      chars += more;
      to += 1;
    }
    const part = lines.slice(from, to);
    const weight = chars + part.length * chars_per_line;
    rows.push({ run_id, lease_id, lines: JSON.stringify(part), words: searchWords(part), weight, count: part.length });
    from = to;
  }
  return rows;
}

/** The words of the lines, and the levels among them: `=error` cannot be a word. */
export function searchWords(lines: readonly LogLine[]): string {
  const words = new Set(wordsOf(fold(lines.map((line) => line.message).join('\n'))));
  for (const { level } of lines) words.add(`=${level}`);
  return [...words].join(' ');
}

/** Why an attempt failed, as a line that can be searched. */
export function errorRow(error: string): { lines: string; words: string } {
  // The time is that of the row.
  const line: Omit<LogLine, 'at'> = { level: 'error', message: error };
  return { lines: JSON.stringify([line]), words: searchWords([line as LogLine]) };
}
