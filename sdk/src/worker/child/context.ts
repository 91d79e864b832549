// The context of a handler that runs in a child process: what the handler says and asks goes over the channel to the worker,
// whose own context (active-run.ts) does it. What a value must be is checked here, where the handler can see the error.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Grant, RunArtifact } from '@punctual/contract';
import { type ArtifactSource, isFile } from '../../artifact-source.ts';
import type { RunContext } from '../active-run.ts';
import { completeIn, type Transaction } from '../complete-in.ts';
import { RunAbortedError } from '../errors.ts';
import type { AbortReason } from '../messages.ts';
import { checkpointText, progressText } from '../outcome.ts';
import { Redactor } from '../redact.ts';
import type { Log } from '../run-log.ts';
import { formsOf } from '../secrets.ts';
import { fromChildError } from './errors.ts';
import type { Said, ToChild } from './messages.ts';

/** `sent`: called once it has left, of what is not a line. */
type Say = (message: Said, sent?: () => void) => void;

interface Waiter {
  resolve: (value: string | undefined) => void;
  reject: (error: unknown) => void;
}

export class ChildContext implements RunContext {
  readonly run: Grant;
  readonly log: Log;
  /** Never aborted: when the lease is lost the process is killed. */
  readonly lost: AbortSignal = new AbortController().signal;
  readonly #say: Say;
  readonly #controller = new AbortController();
  readonly #asked = new Map<number, Waiter>();
  #redactor = new Redactor();
  #asks = 0;
  /** Not said yet: one is on its way, and of those that come meanwhile only the newest counts. */
  #newestProgress: Said | null = null;
  #progressIsOnTheWay = false;

  constructor(run: Grant, say: Say) {
    this.run = run;
    this.#say = say;
    const add = (level: 'debug' | 'info' | 'warn' | 'error') => (message: string, fields?: Record<string, unknown>) =>
      say({ kind: 'log', level, message: asText(message), fields: sendable(fields) });
    this.log = {
      debug: add('debug'),
      info: add('info'),
      warn: add('warn'),
      error: add('error'),
      output: (stream, line) => say({ kind: 'output', stream, line: asText(line) }),
    };
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get traceparent(): string | undefined {
    return this.run.traceparent;
  }

  get redactor(): Redactor {
    return this.#redactor;
  }

  get checkpointed(): unknown {
    return this.run.checkpoint?.value;
  }

  // Bound: handlers like to take them out of their context.
  readonly redact = (...values: string[]): void => {
    this.#redactor = this.#redactor.with(values);
    this.#say({ kind: 'redact', values });
  };

  readonly secret = async (name: string): Promise<string> => {
    const value = (await this.#ask('secret', typeof name === 'string' ? name : JSON.stringify(name))) ?? '';
    this.#redactor = this.#redactor.with(formsOf(value));
    return value;
  };

  readonly checkpoint = (value: unknown): Promise<void> => {
    const saved = (async () => {
      checkpointText(this.run, 0, value);
      await this.#ask('checkpoint', JSON.stringify(value));
    })();
    // A handler that does not wait for its checkpoint does not care how it went.
    saved.catch(() => undefined);
    return saved;
  };

  /** The worker uploads it, from a file: what is no file is made one first. */
  readonly publish = async (name: string, content: ArtifactSource): Promise<RunArtifact> => {
    const file = await fileOf(content);
    try {
      const published = await this.#ask('publish', JSON.stringify({ name, path: file.path }));
      return JSON.parse(published ?? 'null') as RunArtifact;
    } finally {
      await file.remove();
    }
  };

  readonly progress = (percent: number, message?: string): void => {
    progressText(this.run, percent, message);
    this.#newestProgress = { kind: 'progress', percent, message };
    if (!this.#progressIsOnTheWay) this.#sayProgress();
  };

  readonly completeIn = (tx: Transaction, result?: unknown): Promise<void> => {
    this.#say({ kind: 'completing' });
    return completeIn(tx, this.run, result);
  };

  abort(reason: AbortReason, message: string): void {
    this.#controller.abort(new RunAbortedError(reason, message));
  }

  answered({ ask, value, error }: Extract<ToChild, { kind: 'answer' }>): void {
    const waiter = this.#asked.get(ask);
    this.#asked.delete(ask);
    if (error === undefined) waiter?.resolve(value);
    else waiter?.reject(fromChildError(error, this.signal.reason));
  }

  /** The end of the run is said next. */
  end(): void {
    this.#sayProgress();
  }

  #sayProgress(): void {
    const newest = this.#newestProgress;
    if (newest === null) return;
    this.#newestProgress = null;
    this.#progressIsOnTheWay = true;
    this.#say(newest, () => {
      this.#progressIsOnTheWay = false;
      this.#sayProgress();
    });
  }

  #ask(what: Extract<Said, { kind: 'ask' }>['what'], value: string): Promise<string | undefined> {
    const ask = ++this.#asks;
    return new Promise((resolve, reject) => {
      this.#asked.set(ask, { resolve, reject });
      this.#say({ kind: 'ask', ask, what, value });
    });
  }
}

async function fileOf(content: ArtifactSource): Promise<{ path: string; remove: () => Promise<void> }> {
  if (typeof content === 'string') return { path: path.resolve(content), remove: async () => undefined };
  const folder = await mkdtemp(path.join(tmpdir(), 'punctual-publish-'));
  const remove = (): Promise<void> => rm(folder, { recursive: true, force: true });
  try {
    const file = path.join(folder, 'file');
    await writeFile(
      file,
      !(content instanceof Uint8Array) && isFile(content) ? content.createReadStream({ autoClose: false }) : content,
    );
    return { path: file, remove };
  } catch (error) {
    await remove();
    throw error;
  }
}

/** Handlers without types say anything. */
function asText(value: unknown): string {
  return String(value);
}

/** Fields that the channel can carry: those that are no JSON are said to be none by the worker's log, as words. */
function sendable(fields: Record<string, unknown> | undefined): Record<string, unknown> | undefined {
  if (fields === undefined) return undefined;
  try {
    return JSON.parse(JSON.stringify(fields)) as Record<string, unknown>;
  } catch (error) {
    return { not_json: (error as Error).message };
  }
}
