// Handlers that run in child processes: one for each run, or a pool of them that are used again. Whatever such a handler does
// to its process, blocking it, leaking, exiting, crashing, harms that run alone. worker.ts makes one of each ModuleHandler.
import { existsSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Handler, RunContext } from '../active-run.ts';
import { Child, type ChildOptions } from './child.ts';

/** A handler that is loaded from a module, in a process of its own. */
export interface ModuleHandler {
  /** The file, such as `new URL('./report.js', import.meta.url)`; or its absolute path. */
  module: URL | string;
  /** The name under which the module exports the handler; `default` unless given. */
  export?: string | undefined;
  /** A process for each run, the default; or at most so many processes, each used again for up to `maxRuns` runs (1000). */
  isolation?: 'process' | { pool: number; maxRuns?: number | undefined } | undefined;
  /** Megabytes of memory for its JavaScript (`--max-old-space-size`); a run that needs more fails. */
  memoryMb?: number | undefined;
}

const max_pool = 1_000;
const default_max_runs = 1_000;
const min_memory_mb = 16;
const max_memory_mb = 1_048_576;

export function isModuleHandler(handler: Handler | ModuleHandler): handler is ModuleHandler {
  return typeof handler === 'object';
}

export class IsolatedHandler {
  readonly #options: ChildOptions;
  /** How many processes at most; null: one for each run. */
  readonly #pool: number | null;
  readonly #maxRuns: number;
  readonly #idle: Child[] = [];
  readonly #all = new Set<Child>();
  readonly #line: (() => void)[] = [];
  #busy = 0;

  /** Throws when what is given cannot be run. */
  constructor(type: string, given: ModuleHandler, graceMs: number) {
    const isolation = given.isolation ?? 'process';
    const { pool = null, maxRuns = default_max_runs } = isolation === 'process' ? {} : isolation;
    if (pool !== null) checkWhole(`${type}: isolation.pool`, pool, 1, max_pool);
    checkWhole(`${type}: isolation.maxRuns`, maxRuns, 1, Number.MAX_SAFE_INTEGER);
    if (given.memoryMb !== undefined) checkWhole(`${type}: memoryMb`, given.memoryMb, min_memory_mb, max_memory_mb);
    this.#pool = pool;
    this.#maxRuns = pool === null ? 1 : maxRuns;
    const memoryMb = given.memoryMb ?? null;
    this.#options = { module: fileOf(type, given.module), export: given.export ?? 'default', memoryMb, graceMs };
  }

  readonly handle: Handler = async (run, ctx) => {
    await this.#takePlace(ctx);
    let child: Child | null = null;
    try {
      child = this.#take();
      return await child.run(run, ctx);
    } finally {
      await this.#giveBack(child, ctx.signal.aborted);
    }
  };

  async close(): Promise<void> {
    await Promise.all([...this.#all].map((child) => child.leave()));
  }

  async #takePlace({ signal }: RunContext): Promise<void> {
    if (this.#pool !== null && this.#busy >= this.#pool) await this.#turn(signal);
    else this.#busy++;
  }

  #take(): Child {
    const idle = this.#idle.pop();
    if (idle?.alive === true) return idle;
    const child = new Child(this.#options);
    this.#all.add(child);
    return child;
  }

  /** Waits until another run gives its place. */
  #turn(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const next = (): void => {
        signal.removeEventListener('abort', onAbort);
        resolve();
      };
      const onAbort = (): void => {
        this.#line.splice(this.#line.indexOf(next), 1);
        reject(signal.reason);
      };
      signal.addEventListener('abort', onAbort, { once: true });
      this.#line.push(next);
      if (signal.aborted) onAbort();
    });
  }

  /** A process whose run was aborted may still be busy with it: it is not used again. */
  async #giveBack(child: Child | null, wasAborted: boolean): Promise<void> {
    try {
      if (child === null) return;
      if (child.alive && !wasAborted && child.runs < this.#maxRuns) {
        this.#idle.push(child);
      } else {
        await child.leave();
        this.#all.delete(child);
      }
    } finally {
      const next = this.#line.shift();
      if (next === undefined) this.#busy--;
      else next();
    }
  }
}

function fileOf(type: string, module: URL | string): string {
  const isUrl = module instanceof URL || module.startsWith('file:');
  if (!isUrl && !path.isAbsolute(module))
    throw new Error(
      `The handler ${type} names the module ${JSON.stringify(module)}: give an absolute path, or a URL such as new URL('./file.js', import.meta.url).`,
    );
  const url = isUrl ? new URL(module) : pathToFileURL(module);
  if (url.protocol !== 'file:' || !existsSync(fileURLToPath(url)))
    throw new Error(`The handler ${type} names the module ${url.href}, which is no file on this machine.`);
  return url.href;
}

function checkWhole(what: string, value: number, lowest: number, highest: number): void {
  if (Number.isInteger(value) && value >= lowest && value <= highest) return;
  throw new Error(`The handler ${what} is ${value}; it must be a whole number from ${lowest} to ${highest}.`);
}
