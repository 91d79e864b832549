// One child process of a handler, as the worker sees it: starts it, gives it runs one after the other, does for them what
// they ask through the channel, and ends it with everything it started. It promises that a run has an end whatever becomes of
// the process, with the reason in words. Used by module-handler.ts.
import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Grant } from '@punctual/contract';
import { limits } from '@punctual/contract/plain';
import type { RunContext } from '../active-run.ts';
import { RunAbortedError } from '../errors.ts';
import { fromChildError, toChildError } from './errors.ts';
import type { ChildError, FromChild, ToChild } from './messages.ts';

export interface ChildOptions {
  /** The file of the handler, as a URL. */
  module: string;
  export: string;
  /** Megabytes of V8's heap; null: what Node gives. */
  memoryMb: number | null;
  /** Between SIGTERM and SIGKILL. */
  graceMs: number;
}

interface Current {
  n: number;
  ctx: RunContext;
  resolve: (result: unknown) => void;
  reject: (error: unknown) => void;
}

interface Exit {
  error: Error | null;
  code: number | null;
  signal: string | null;
}

const entry = fileURLToPath(new URL('./entry.js', import.meta.url));
/** Flags of the worker's own process that a second process must not have. */
const ownFlags = /^--(?:inspect|debug|test|watch|max-old-space-size)/;
/** What is kept of standard error, to say why the process ended. */
const max_tail_chars = 4 * 1024;
/** How long a process that is no longer needed has to end by itself. */
const leave_ms = 500;

export class Child {
  readonly #process: ChildProcess;
  readonly #options: ChildOptions;
  readonly #gone: Promise<void>;
  #current: Current | null = null;
  #runs = 0;
  #stderrTail = '';
  #killTimer: NodeJS.Timeout | undefined;
  #ended = false;
  /** Known once all it wrote is read. */
  #exit: Exit | null = null;
  /** What it wrote of a line whose end has not come. */
  readonly #unfinished = { stdout: '', stderr: '' };
  /** It says that it will end. */
  #failing = false;

  constructor(options: ChildOptions) {
    this.#options = options;
    const memory = options.memoryMb === null ? [] : [`--max-old-space-size=${options.memoryMb}`];
    this.#process = fork(entry, [options.module, options.export, String(process.pid)], {
      execArgv: [...process.execArgv.filter((flag) => !ownFlags.test(flag)), ...memory],
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      detached: true, // a group of its own: what it starts ends with it, and Ctrl-C is for the worker
    });
    this.#process.on('message', (message: FromChild) => this.#hear(message));
    this.#follow('stdout');
    this.#follow('stderr');
    this.#gone = this.#untilGone();
  }

  get alive(): boolean {
    return !this.#ended && !this.#failing && this.#process.connected;
  }

  /** How many runs it was given. */
  get runs(): number {
    return this.#runs;
  }

  /** Settles as the handler does, or rejects with the reason for which the process ended. */
  run(run: Grant, ctx: RunContext): Promise<unknown> {
    const n = ++this.#runs;
    this.#stderrTail = '';
    const onAbort = (): void => this.#stop(n, ctx.signal.reason);
    // Another worker may begin this run any moment: there is no time for a grace, also not for one that has begun.
    const onLost = (): void => {
      if (!this.#ended) this.#killGroup();
    };
    const ended = new Promise<unknown>((resolve, reject) => {
      this.#current = { n, ctx, resolve, reject };
      const { traceparent } = ctx;
      this.#send({ kind: 'run', n, run: traceparent === undefined ? run : { ...run, traceparent } });
      ctx.lost.addEventListener('abort', onLost, { once: true });
      ctx.signal.addEventListener('abort', onAbort, { once: true });
      if (ctx.lost.aborted) onLost();
      if (ctx.signal.aborted) onAbort();
      if (this.#exit !== null) this.#settleEnded(this.#exit);
    });
    return ended.finally(() => {
      ctx.lost.removeEventListener('abort', onLost);
      ctx.signal.removeEventListener('abort', onAbort);
    });
  }

  /** It is no longer needed: it ends, if not by itself then by force. */
  async leave(): Promise<void> {
    if (this.#process.connected) this.#process.disconnect();
    if (!this.#ended) this.#killTimer ??= setTimeout(() => this.#killGroup(), leave_ms);
    await this.#gone;
  }

  /** Until the process has ended and all it wrote is read. Its `close` would tell, but does not after a disconnect. */
  async #untilGone(): Promise<void> {
    const { stdout, stderr } = this.#process;
    // Neither is there when the process could not be started for want of descriptors.
    const streams = [stdout, stderr].filter((stream) => stream != null);
    const read = Promise.all(streams.map((stream) => new Promise((resolve) => stream.once('close', resolve))));
    const exit = await new Promise<Exit>((resolve) => {
      this.#process.once('error', (error) => resolve({ error, code: null, signal: null }));
      this.#process.once('exit', (code, signal) => resolve({ error: null, code, signal }));
    });
    this.#ended = true;
    clearTimeout(this.#killTimer);
    this.#killGroup(); // what it started and left behind
    // Something that went its own way may still hold its pipes.
    const patience = setTimeout(() => streams.forEach((stream) => void stream.destroy()), leave_ms);
    await read;
    clearTimeout(patience);
    this.#exit = exit;
    this.#settleEnded(exit);
  }

  #settleEnded(exit: Exit): void {
    this.#settle((current) => current.reject(this.#endError(exit, current.ctx)));
  }

  #stop(n: number, reason: unknown): void {
    const aborted = reason instanceof RunAbortedError ? reason : new RunAbortedError('shutdown');
    this.#send({ kind: 'abort', n, reason: aborted.reason, message: aborted.message });
    this.#process.kill('SIGTERM');
    this.#killTimer = setTimeout(() => this.#killGroup(), this.#options.graceMs);
  }

  #killGroup(): void {
    const { pid } = this.#process;
    if (pid === undefined) return;
    try {
      process.kill(-pid, 'SIGKILL');
    } catch {
      this.#process.kill('SIGKILL');
    }
  }

  #send(message: ToChild): void {
    // A process that has just ended is told nothing more; its end is noticed by itself.
    if (this.#process.connected) this.#process.send(message, () => undefined);
  }

  #settle(settle: (current: Current) => void): void {
    const current = this.#current;
    for (const stream of ['stdout', 'stderr'] as const) this.#endLine(stream);
    this.#current = null;
    clearTimeout(this.#killTimer);
    this.#killTimer = undefined;
    if (current !== null) settle(current);
  }

  #hear(message: FromChild): void {
    const current = this.#current;
    if (current === null || message.n !== current.n) return;
    const { ctx } = current;
    try {
      switch (message.kind) {
        case 'log':
          return ctx.log[message.level](message.message, message.fields);
        case 'output':
          return ctx.log.output(message.stream, message.line);
        case 'redact':
          return ctx.redact(...message.values);
        case 'progress':
          return ctx.progress(message.percent, message.message);
        case 'completing':
          // The child speaks to its database itself; here it only has to be known.
          return void ctx.completeIn({ query: async () => undefined }).catch(() => undefined);
        case 'ask':
          return void this.#answer(current, message);
        case 'done':
          return this.#settleSoon(current, ({ resolve }) =>
            resolve(message.result === undefined ? undefined : JSON.parse(message.result)),
          );
        case 'failed':
          this.#failing = message.ends === true;
          if (this.#failing) return this.#settle(() => current.reject(this.#errorOf(message.error, ctx)));
          return this.#settleSoon(current, ({ reject }) => reject(this.#errorOf(message.error, ctx)));
      }
    } catch (error) {
      ctx.log.warn(`What the handler said could not be taken: ${(error as Error).message}`);
    }
  }

  /** Lines that were written before the end are read first. */
  #settleSoon(current: Current, settle: (current: Current) => void): void {
    setImmediate(() =>
      setImmediate(() => {
        if (this.#current === current) this.#settle(settle);
      }),
    );
  }

  async #answer({ n, ctx }: Current, { ask, what, value }: Extract<FromChild, { kind: 'ask' }>): Promise<void> {
    try {
      this.#send({ kind: 'answer', n, ask, value: await asked(ctx, what, value) });
    } catch (error) {
      this.#send({ kind: 'answer', n, ask, error: toChildError(error) });
    }
  }

  #errorOf(error: ChildError, ctx: RunContext): unknown {
    return fromChildError(error, ctx.signal.aborted ? ctx.signal.reason : undefined);
  }

  /** Why the process ended although its run had not. */
  #endError({ error, code, signal }: Exit, ctx: RunContext): unknown {
    if (ctx.signal.aborted) return ctx.signal.reason;
    if (error !== null) return new Error(`The process of the handler could not be started: ${error.message}.`);
    const { memoryMb } = this.#options;
    if (/heap out of memory|Allocation failed/.test(this.#stderrTail))
      return new Error(
        `The process of the handler ran out of memory${memoryMb === null ? '' : ` (it may use ${memoryMb} MB)`}.`,
      );
    if (signal === null)
      return new Error(`The process of the handler exited with code ${code} before the handler had ended.`);
    const perhaps = signal === 'SIGKILL' ? ', perhaps because the machine ran out of memory' : '';
    return new Error(`The process of the handler was ended by ${signal}${perhaps}.`);
  }

  /** What it writes belongs to the run it has; a line without end is cut into pieces. */
  #follow(stream: 'stdout' | 'stderr'): void {
    const source = this.#process[stream];
    const log = (text: string): void => this.#current?.ctx.log.output(stream, text);
    source?.setEncoding('utf8');
    source?.on('error', () => undefined);
    source?.on('data', (text: string) => {
      if (stream === 'stderr') this.#stderrTail = (this.#stderrTail + text).slice(-max_tail_chars);
      const lines = (this.#unfinished[stream] + text).split('\n');
      let line = lines.pop() ?? '';
      for (const one of lines) log(one);
      for (; line.length > limits.max_log_line_chars; line = line.slice(limits.max_log_line_chars))
        log(line.slice(0, limits.max_log_line_chars));
      this.#unfinished[stream] = line;
    });
  }

  /** What comes next belongs to another run. */
  #endLine(stream: 'stdout' | 'stderr'): void {
    const line = this.#unfinished[stream];
    this.#unfinished[stream] = '';
    if (line !== '') this.#current?.ctx.log.output(stream, line);
  }
}

/** Does what the handler asks for; answers a value when there is one. */
async function asked(
  ctx: RunContext,
  what: Extract<FromChild, { kind: 'ask' }>['what'],
  value: string,
): Promise<string | undefined> {
  if (what === 'secret') return ctx.secret(value);
  if (what === 'publish') {
    const { name, path } = JSON.parse(value) as { name: string; path: string };
    return JSON.stringify(await ctx.publish(name, path));
  }
  await ctx.checkpoint(JSON.parse(value));
  return undefined;
}
