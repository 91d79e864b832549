// Log lines as the text that is stored. Each has the same few names, nearly the same time and mostly the same level, which is
// half of it; so the first line stands as it is, and the others by what they do not share with it:
//
//   [{"at":"2030-01-31T09:00:00.017Z","level":"info","message":"one",
//     "rest":{"at":"9Z,,24Z","level":"iwi","stream":"lle","message":["two","three","four"]}}]
//
// A time that begins as the one before stands by its end. Older versions stored a list of lines, and read this as one.
//
// A long text is compressed (Brotli at its quickest), and no lines stand beside it. PostgreSQL would compress it as well, and
// takes four times as long for less. Pure.
import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib';
import type { LogLevel, LogLine, LogStream } from '@punctual/contract';

/** A shorter one stays in its row, where little is gained. */
const min_packed_chars = 2000;
const quickly = {
  params: { [constants.BROTLI_PARAM_QUALITY]: 1, [constants.BROTLI_PARAM_LGWIN]: 17 },
};

export interface StoredLines {
  lines: string;
  packed: Buffer | null;
}

export function storeLines(lines: readonly LogLine[], from: number, to: number): StoredLines {
  const text = linesText(lines, from, to);
  return text.length < min_packed_chars
    ? { lines: text, packed: null }
    : { lines: '[]', packed: brotliCompressSync(text, quickly) };
}

export function readLines({ lines, packed }: StoredLines): StoredLine[] {
  return linesIn(packed === null ? lines : brotliDecompressSync(packed).toString());
}

/** What an error has no time of its own for. */
export type StoredLine = Omit<LogLine, 'at'> & { at?: string };

interface Rest {
  at: string;
  level: string;
  /** Left out when all are of `log`. */
  stream?: string;
  message: string[];
}

const levels: Record<string, LogLevel> = { d: 'debug', i: 'info', w: 'warn', e: 'error' };
const streams: Record<string, LogStream> = { l: 'log', o: 'stdout', e: 'stderr' };
const streamCodes: Record<LogStream, string> = { log: 'l', stdout: 'o', stderr: 'e' };

/** A time of another length than the one before: no time begins so. */
const whole = '=';

function linesText(lines: readonly LogLine[], from: number, to: number): string {
  const first = lines[from] as LogLine;
  if (to - from === 1) return JSON.stringify([first]);
  const rest: Rest = { at: '', level: '', message: [] };
  let before = first.at;
  let plain = true;
  for (let i = from + 1; i < to; i++) {
    const line = lines[i] as LogLine;
    rest.at += i === from + 1 ? tailOf(line.at, before) : `,${tailOf(line.at, before)}`;
    rest.level += line.level[0];
    rest.message.push(line.message);
    plain &&= line.stream === undefined || line.stream === 'log';
    before = line.at;
  }
  if (!plain)
    rest.stream = lines
      .slice(from + 1, to)
      .map(({ stream }) => streamCodes[stream ?? 'log'])
      .join('');
  return JSON.stringify([{ ...first, rest }]);
}

function tailOf(at: string, before: string): string {
  if (at === before) return '';
  if (at.length !== before.length) return whole + at;
  let same = 0;
  while (at.charCodeAt(same) === before.charCodeAt(same)) same += 1;
  return at.slice(same);
}

function linesIn(text: string): StoredLine[] {
  const lines = JSON.parse(text) as (StoredLine & { rest?: Rest })[];
  const [first] = lines;
  if (first?.rest === undefined) return lines;
  const { rest, ...line } = first;
  const ats = rest.at.split(',');
  let at = line.at as string;
  const others = rest.message.map((message, i): StoredLine => {
    const tail = ats[i] as string;
    at = tail.startsWith(whole) ? tail.slice(1) : at.slice(0, at.length - tail.length) + tail;
    const level = levels[rest.level[i] as string] as LogLevel;
    const stream = rest.stream === undefined ? undefined : streams[rest.stream[i] as string];
    return stream === undefined ? { at, level, message } : { at, level, stream, message };
  });
  return [line, ...others];
}
