// How the CLI speaks: tables and fields for people, JSON for machines, colours only on a terminal. Commands write
// through an Output and never to the streams themselves. What comes from jobs is made harmless before it is printed.
import Table from 'cli-table3';
import { refusesColor } from './environment.ts';

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
  /** On a terminal: a line on standard error that replaces the one before; null takes it away. Nothing elsewhere. */
  progress(text: string | null): void;
}

export interface OutputOptions {
  json: boolean;
  stdout?: NodeJS.WritableStream & { isTTY?: boolean };
  stderr?: NodeJS.WritableStream & { isTTY?: boolean };
  color?: boolean;
}

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
    json: (value) => line(JSON.stringify(value, null, 2)),
    jsonLine: (value) => line(JSON.stringify(value)),
    table: (head, rows) => line(renderTable(head, rows, paint)),
    fields: (pairs) => {
      const width = Math.max(...pairs.map(([name]) => name.length));
      for (const [name, value] of pairs) line(`  ${paint('dim', name.padEnd(width))}  ${indent(value, width + 4)}`);
    },
    progress: (text) => {
      if (stderr.isTTY === true && !asJson) stderr.write(`\r\u001b[2K${text ?? ''}`);
    },
    remark: (text, style) => void stderr.write(`${style === undefined ? text : paintRemark(style, text)}\n`),
  };
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
