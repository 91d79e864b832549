// How the CLI speaks: tables and fields for people, JSON for machines, colours only on a terminal. Commands write
// through an Output and never to the streams themselves. What comes from jobs is made harmless before it is printed.
import { Writable } from 'node:stream';
import Table from 'cli-table3';
import { refusesColor } from './environment.ts';
import { bar } from './progress.ts';
import { now } from './time.ts';

const codes = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, blue: 34, cyan: 36 } as const;
export type Style = keyof typeof codes;
export type Paint = (style: Style, text: string) => string;

export interface Output {
  /** --json was given. */
  readonly asJson: boolean;
  readonly paint: Paint;
  line(text?: string): void;
  /** One JSON document, over several lines. */
  json(value: unknown): void;
  /** One JSON document on one line, for streams of them. */
  jsonLine(value: unknown): void;
  table(head: string[], rows: string[][]): void;
  /** Names and values, one a line. */
  fields(pairs: [string, string][]): void;
  /** To standard error: what went wrong, and remarks that are not the answer. */
  remark(text: string, style?: Style): void;
  /**
   * How far something long is, on standard error. On a terminal a line that replaces the one before, with a bar when the
   * part done (0–1) is known; elsewhere a plain line, once a second at most. null when it is over. Nothing with --json.
   */
  progress(words: string | null, part?: number): void;
  /** A whole answer anew: on a terminal in place of the one before, elsewhere below it. */
  redraw(text: string): void;
}

/** A stream that may be a terminal. */
type Terminal = NodeJS.WritableStream & { isTTY?: boolean; rows?: number; columns?: number };

export interface OutputOptions {
  json: boolean;
  stdout?: Terminal;
  stderr?: Terminal;
  color?: boolean;
  /** JSON documents on one line each. */
  compact?: boolean;
}

/** Between two plain lines that say how far something is. */
const progress_every_ms = 1_000;

export function createOutput(options: OutputOptions): Output {
  const { json: asJson, stdout = process.stdout, stderr = process.stderr } = options;
  const painter = (stream: { isTTY?: boolean }): Paint => {
    const colored = options.color ?? (stream.isTTY === true && !refusesColor());
    return colored && !asJson ? (style, text) => `\u001b[${codes[style]}m${text}\u001b[0m` : (_, text) => text;
  };
  const paint = painter(stdout);
  const paintRemark = painter(stderr);
  const line = (text = '') => void stdout.write(`${text}\n`);
  return {
    asJson,
    paint,
    line,
    json: (value) => line(JSON.stringify(value, null, options.compact === true ? undefined : 2)),
    jsonLine: (value) => line(JSON.stringify(value)),
    table: (head, rows) => line(renderTable(head, rows, paint)),
    fields: (pairs) => {
      const width = Math.max(...pairs.map(([name]) => name.length));
      for (const [name, value] of pairs) line(`  ${paint('dim', name.padEnd(width))}  ${indent(value, width + 4)}`);
    },
    progress: asJson ? () => {} : progressOn(stderr, (words) => void stderr.write(`${paintRemark('dim', words)}\n`)),
    redraw: (text) => {
      if (stdout.isTTY === true && !asJson) stdout.write(`\u001b[H\u001b[2J${cut(text, stdout.rows)}`);
      else stdout.write(text);
    },
    remark: (text, style) => void stderr.write(`${style === undefined ? text : paintRemark(style, text)}\n`),
  };
}

function progressOn(stream: Terminal, say: (words: string) => void) {
  if (stream.isTTY === true) {
    return (words: string | null, part?: number): void => {
      const shown = words === null ? '' : `${part === undefined ? '' : `${bar(part)}  `}${words}`;
      // A line that wraps could not be replaced.
      stream.write(
        `\r\u001b[2K${Array.from(shown)
          .slice(0, (stream.columns ?? 80) - 1)
          .join('')}`,
      );
    };
  }
  let last: string | null = null;
  let saidAt: number | null = null;
  return (words: string | null): void => {
    const at = now();
    saidAt ??= at;
    if (words === null) saidAt = null;
    else if (words !== last && at - saidAt >= progress_every_ms) {
      saidAt = at;
      last = words;
      say(words);
    }
  };
}

/** What fits on a screen of so many rows; the last one says that there is more. */
function cut(text: string, rows: number | undefined): string {
  const lines = text.split('\n');
  if (rows === undefined || lines.length <= rows) return text;
  return [...lines.slice(0, rows - 1), `… ${lines.length - rows} more lines`].join('\n');
}

/** An output that keeps what is written, in the colours of another; remarks too unless it is JSON. */
export function recording(like: Output): { output: Output; text: () => string } {
  let kept = '';
  const sink = new Writable({
    write(chunk: Buffer | string, _encoding, done) {
      kept += String(chunk);
      done();
    },
  });
  const color = like.paint('bold', '') !== '';
  const stderr = like.asJson ? new Writable({ write: (_chunk, _encoding, done) => done() }) : sink;
  return { output: createOutput({ json: like.asJson, compact: true, stdout: sink, stderr, color }), text: () => kept };
}

/** `punctual jobs list | head` closes our output early: that is no failure. */
export function quietWhenClosed(then: () => void): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE' && error.code !== 'EIO') throw error;
      if (stream === process.stdout) then();
    });
  }
}

/** Everything written has left the process. */
export async function flushed(): Promise<void> {
  for (const stream of [process.stdout, process.stderr]) {
    if (stream.writable) await new Promise<void>((resolve) => void stream.write('', () => resolve()));
  }
}

const bare = {
  ...{ top: '', 'top-mid': '', 'top-left': '', 'top-right': '', bottom: '', 'bottom-mid': '', 'bottom-left': '' },
  ...{ 'bottom-right': '', left: '', 'left-mid': '', mid: '', 'mid-mid': '', right: '', 'right-mid': '', middle: '  ' },
};

function renderTable(head: string[], rows: string[][], paint: Paint): string {
  const style = { head: [], border: [], 'padding-left': 0, 'padding-right': 0 };
  const table = new Table({ head: head.map((word) => paint('dim', word)), chars: bare, style });
  table.push(...rows);
  return table
    .toString()
    .split('\n')
    .map((row) => row.trimEnd())
    .join('\n');
}

function indent(text: string, columns: number): string {
  return text.replaceAll('\n', `\n${' '.repeat(columns)}`);
}

const statusStyles: Record<string, Style> = {
  ...{ SUCCESS: 'green', COMPLETED: 'green', ALIVE: 'green', RUNNING: 'cyan', QUEUED: 'blue', SCHEDULED: 'blue' },
  ...{
    PAUSED: 'yellow',
    BLOCKED: 'yellow',
    WAITING: 'yellow',
    SKIPPED: 'dim',
    PENDING: 'dim',
    DRAINING: 'yellow',
    CANCELLED: 'yellow',
    DROPPED: 'yellow',
  },
  ...{ FAILED: 'red', LOST: 'red', GONE: 'dim' },
};

export function showStatus(status: string, paint: Paint): string {
  const style = statusStyles[status];
  return style === undefined ? status : paint(style, status);
}

/** Text of jobs may hold escape sequences that would move the cursor or worse: control characters become visible. */
export function harmless(text: string): string {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, (character) => {
    const code = character.charCodeAt(0);
    return code < 32 ? String.fromCharCode(0x2400 + code) : `\\u${code.toString(16).padStart(4, '0')}`;
  });
}

/** The same, on one line and not longer than `max` characters. */
export function oneLine(text: string, max: number): string {
  const flat = Array.from(harmless(text.replace(/\s+/g, ' ').trim()));
  return flat.length <= max ? flat.join('') : `${flat.slice(0, max - 1).join('')}…`;
}

/** A JSON value for people: short ones on one line, long ones over several. */
export function showJson(value: unknown): string {
  const short = JSON.stringify(value) ?? '–';
  return harmless(short.length <= 100 ? short : JSON.stringify(value, null, 2));
}
