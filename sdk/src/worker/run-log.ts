// The lines a run logs, on their way to the protocol thread: gathered into chunks and bounded. A run that logs faster than
// its lines can be sent loses lines, never memory, and a line says how many were lost. Used by active-run.ts.
import type { LogLine, LogStream } from '@punctual/contract';
import { limits } from '@punctual/contract/plain';
import type { Outbox } from './outbox.ts';
import { type Leased, storable } from './outcome.ts';
import type { Redactor } from './redact.ts';
import type { RunClock } from './run-clock.ts';

/** Lines of a run that was silent leave this much later, those of one that goes on logging a little later; at the end at once. */
const first_flush_ms = 50;
const flush_after_ms = 200;
const max_chunk_lines = 500;
const max_chunk_chars = 256 * 1024;
/** Characters on their way to the server, of one run and of all: what is over is dropped and counted. */
const max_run_chars = 1024 * 1024;
const max_worker_chars = 8 * 1024 * 1024;

/** Writes lines that are kept with a run. */
export interface Log {
  debug(message: string, fields?: Record<string, unknown>): void;
  info(message: string, fields?: Record<string, unknown>): void;
  warn(message: string, fields?: Record<string, unknown>): void;
  error(message: string, fields?: Record<string, unknown>): void;
  /** A line that a program wrote. */
  output(stream: 'stdout' | 'stderr', line: string): void;
}

/** Characters on their way, of all runs of a worker. */
export interface LogRoom {
  chars: number;
}

export class RunLog implements Log {
  readonly #key: number;
  readonly #run: Leased;
  readonly #outbox: Outbox;
  readonly #room: LogRoom;
  readonly #redactor: () => Redactor;
  #lines: LogLine[] = [];
  #chunkChars = 0;
  /** Characters of this run that were handed on and not taken by the server yet. */
  #charsOnTheWay = 0;
  #dropped = 0;
  #closed = false;
  readonly #clock: RunClock;
  #endPause: (() => void) | null = null;
  #flushedAt = Number.NEGATIVE_INFINITY;

  constructor(
    key: number,
    run: Leased,
    deps: { outbox: Outbox; room: LogRoom; redactor: () => Redactor; clock: RunClock },
  ) {
    this.#key = key;
    this.#run = run;
    this.#outbox = deps.outbox;
    this.#room = deps.room;
    this.#redactor = deps.redactor;
    this.#clock = deps.clock;
  }

  debug(message: string, fields?: Record<string, unknown>): void {
    this.#add({ level: 'debug' }, message, fields);
  }

  info(message: string, fields?: Record<string, unknown>): void {
    this.#add({ level: 'info' }, message, fields);
  }

  warn(message: string, fields?: Record<string, unknown>): void {
    this.#add({ level: 'warn' }, message, fields);
  }

  error(message: string, fields?: Record<string, unknown>): void {
    this.#add({ level: 'error' }, message, fields);
  }

  output(stream: 'stdout' | 'stderr', line: string): void {
    this.#add({ level: stream === 'stderr' ? 'warn' : 'info', stream }, line);
  }

  /** The server took a chunk, or it was dropped. */
  arrived(chars: number): void {
    this.#charsOnTheWay -= chars;
  }

  /** Hands on what is left; later lines are ignored. */
  close(): void {
    if (this.#closed) return;
    this.flush();
    this.#closed = true;
  }

  flush(): void {
    this.#endPause?.();
    this.#endPause = null;
    if (this.#dropped > 0) {
      const message = `${this.#dropped} log lines were dropped here: the run logs faster than its lines can be sent.`;
      this.#lines.push({ at: this.#stamp(), level: 'warn', message });
      this.#dropped = 0;
    }
    if (this.#lines.length === 0) return;
    this.#flushedAt = this.#clock.now();
    const { run_id, lease_id } = this.#run;
    const text = JSON.stringify({ run_id, lease_id, lines: this.#lines });
    this.#lines = [];
    this.#chunkChars = 0;
    this.#charsOnTheWay += text.length;
    this.#room.chars += text.length;
    this.#outbox.logs(this.#key, text);
  }

  #add(
    kind: { level: LogLine['level']; stream?: LogStream },
    message: unknown,
    fields?: Record<string, unknown>,
  ): void {
    if (this.#closed) return;
    if (this.#charsOnTheWay + this.#chunkChars > max_run_chars || this.#room.chars > max_worker_chars) {
      this.#dropped += 1;
      this.#flushSoon();
      return;
    }
    const redactor = this.#redactor();
    // Handlers without types say anything.
    const said = `${redactor.text(String(message))}${fields === undefined ? '' : ` ${shown(fields, redactor)}`}`;
    const text = storable(said, limits.max_log_line_chars);
    this.#lines.push({ at: this.#stamp(), ...kind, message: text });
    this.#chunkChars += text.length;
    if (this.#lines.length >= max_chunk_lines || this.#chunkChars >= max_chunk_chars) this.flush();
    else this.#flushSoon();
  }

  #flushSoon(): void {
    if (this.#endPause !== null) return;
    const isFirst = this.#clock.now() - this.#flushedAt > flush_after_ms;
    this.#endPause = this.#clock.after(isFirst ? first_flush_ms : flush_after_ms, () => this.flush());
  }

  #stamp(): string {
    return new Date(this.#clock.now()).toISOString();
  }
}

function shown(fields: Record<string, unknown>, redactor: Redactor): string {
  try {
    return redactor.json(fields) ?? '';
  } catch (error) {
    return `(fields that are not JSON: ${error instanceof Error ? error.message : String(error)})`;
  }
}
