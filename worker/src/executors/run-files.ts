// Files through which a program speaks of its run, in a folder of its own that is removed afterwards: what it saved last is
// there when it starts, and what it writes is sent on. Used by run-program.ts; docs/runs.md tells programs how to use them.
//
// A program may write anything, at any moment: a file is read once it has not changed for one look, at most as much as may be
// sent, never through a link, and never from a pipe, which could block. What is wrong is said in the run's log, once.
import { constants } from 'node:fs';
import { chown, lstat, open, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { limits } from '@punctual/contract/plain';
import { RunAbortedError, type RunContext, Snooze } from '@punctual/sdk';
import { makeRunFolder, type Owner, type RunFolder, removeFolder } from '../isolation/folder.ts';
import { type ProgramOutcome, readOutcome } from './outcome.ts';

const look_every_ms = 500;
/** A program may append line after line: the last one counts. */
const max_progress_bytes = 4 * 1024;
const max_snooze_bytes = 100;
const max_outcome_bytes = 64 * 1024;

export class RunFiles {
  readonly env: Record<string, string>;
  readonly folder: RunFolder;
  /** Whom the program runs as, if not the worker's own user. */
  readonly owner: Owner | null;
  readonly #ctx: RunContext;
  readonly #checkpoint: WatchedFile;
  readonly #progress: WatchedFile;
  readonly #said = new Set<string>();
  #timer: NodeJS.Timeout | null = null;
  #look: Promise<void> = Promise.resolve();
  #stopped = false;

  private constructor(folder: RunFolder, ctx: RunContext, owner: Owner | null) {
    const { files } = folder;
    this.folder = folder;
    this.owner = owner;
    this.#ctx = ctx;
    this.env = {
      PUNCTUAL_CHECKPOINT_FILE: join(files, 'checkpoint.json'),
      PUNCTUAL_PROGRESS_FILE: join(files, 'progress'),
      PUNCTUAL_RESULT_FILE: join(files, 'result.json'),
      PUNCTUAL_SNOOZE_FILE: join(files, 'snooze'),
      PUNCTUAL_OUTCOME_FILE: join(files, 'outcome.json'),
      PUNCTUAL_OUTPUT_DIR: folder.output,
    };
    this.#checkpoint = new WatchedFile(join(files, 'checkpoint.json'));
    this.#progress = new WatchedFile(join(files, 'progress'));
  }

  /** `owner`: whom the program runs as, if not the worker's own user. */
  static async open(ctx: RunContext, owner: Owner | null): Promise<RunFiles> {
    const folder = await makeRunFolder(owner, async (files) => {
      if (ctx.run.checkpoint === undefined) return;
      const file = join(files, 'checkpoint.json');
      await writeFile(file, JSON.stringify(ctx.checkpointed), { mode: 0o600 });
      if (owner !== null) await chown(file, owner.uid, owner.gid);
    });
    const files = new RunFiles(folder, ctx, owner);
    await files.#checkpoint.hasChanged(true);
    files.#lookSoon();
    return files;
  }

  /** The program has ended: what it wrote last is sent before its outcome. */
  async finish(): Promise<void> {
    this.#stopped = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    await this.#look;
    await this.#sendCheckpoint(true);
  }

  /** What the program wrote as its result; undefined when that is nothing, or nothing to keep. */
  async result(): Promise<unknown> {
    const bytes = await this.#read('PUNCTUAL_RESULT_FILE', limits.max_result_bytes);
    return bytes === null ? undefined : this.#parse('PUNCTUAL_RESULT_FILE', bytes);
  }

  /** The snooze the program asked for, if it did; throws when that is no time. */
  async snooze(): Promise<Snooze | null> {
    const bytes = await this.#read('PUNCTUAL_SNOOZE_FILE', max_snooze_bytes);
    if (bytes === null) return null;
    const text = bytes.toString().trim();
    if (/^\d+$/.test(text) && Number(text) <= limits.max_delay_ms) return new Snooze(Number(text));
    throw new Error(
      `The program wrote ${JSON.stringify(text)} into PUNCTUAL_SNOOZE_FILE; it takes whole milliseconds up to ${limits.max_delay_ms}.`,
    );
  }

  /** What the program says its end means, if it does; throws when that cannot be understood. */
  async outcome(): Promise<ProgramOutcome | null> {
    const bytes = await this.#read('PUNCTUAL_OUTCOME_FILE', max_outcome_bytes);
    return bytes === null ? null : readOutcome(bytes.toString());
  }

  async remove(): Promise<void> {
    this.#stopped = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    await this.#look;
    await removeFolder(this.folder.path);
  }

  #lookSoon(): void {
    if (this.#stopped) return;
    this.#timer = setTimeout(() => {
      this.#look = this.#lookOnce().finally(() => this.#lookSoon());
    }, look_every_ms);
  }

  async #lookOnce(): Promise<void> {
    await this.#sendProgress();
    await this.#sendCheckpoint(false);
  }

  async #sendCheckpoint(atOnce: boolean): Promise<void> {
    if (this.#ctx.lost.aborted) return;
    if (!(await this.#checkpoint.hasChanged(atOnce))) return;
    const bytes = await this.#read('PUNCTUAL_CHECKPOINT_FILE', limits.max_checkpoint_bytes);
    const value = bytes === null ? undefined : this.#parse('PUNCTUAL_CHECKPOINT_FILE', bytes);
    if (value === undefined) return;
    try {
      await this.#ctx.checkpoint(value);
    } catch (error) {
      if (!(error instanceof RunAbortedError)) this.#say(`The checkpoint was not saved: ${(error as Error).message}`);
    }
  }

  async #sendProgress(): Promise<void> {
    if (!(await this.#progress.hasChanged(true))) return;
    const bytes = await readEnd(this.#progress.path, max_progress_bytes, this.owner).catch(() => null);
    const line = bytes?.toString().trimEnd().split('\n').at(-1)?.trim() ?? '';
    if (line === '') return;
    const [, number, words = ''] = /^(\d+(?:\.\d+)?)%?(?:\s+(.*))?$/.exec(line) ?? [];
    const percent = Number(number);
    if (percent <= 100) this.#ctx.progress(percent, words === '' ? undefined : words);
    else this.#say('The last line of PUNCTUAL_PROGRESS_FILE is not like `42 words`, a number from 0 to 100 first.');
  }

  /** The content of a file up to a limit; null when there is none that can be used. */
  async #read(name: string, maxBytes: number): Promise<Buffer | null> {
    try {
      const bytes = await readStart(this.env[name] as string, maxBytes + 1, this.owner);
      if (bytes.length <= maxBytes) return bytes;
      this.#say(`${name} has more than ${maxBytes} bytes and is passed over.`);
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      if (code !== 'ENOENT') this.#say(`${name} cannot be read and is passed over: ${message}.`);
    }
    return null;
  }

  #parse(name: string, bytes: Buffer): unknown {
    try {
      return JSON.parse(bytes.toString()) as unknown;
    } catch (error) {
      this.#say(`${name} is not JSON and is passed over: ${(error as Error).message}.`);
      return undefined;
    }
  }

  #say(message: string): void {
    if (this.#said.has(message)) return;
    this.#said.add(message);
    this.#ctx.log.warn(message);
  }
}

/** Tells whether a file has become another since it was last used. */
class WatchedFile {
  readonly path: string;
  #used = '';
  #seen = '';

  constructor(path: string) {
    this.path = path;
  }

  /** `atOnce`: also when it may still be written. */
  async hasChanged(atOnce: boolean): Promise<boolean> {
    const state = await stateOf(this.path);
    if (state === '' || state === this.#used) return false;
    const isStill = state === this.#seen;
    this.#seen = state;
    if (!isStill && !atOnce) return false;
    this.#used = state;
    return true;
  }
}

async function stateOf(path: string): Promise<string> {
  try {
    const { ino, size, mtimeNs, ctimeNs } = await lstat(path, { bigint: true });
    return `${ino} ${size} ${mtimeNs} ${ctimeNs}`;
  } catch {
    return '';
  }
}

function readStart(path: string, bytes: number, owner: Owner | null): Promise<Buffer> {
  return readPart(path, owner, (size) => ({ from: 0, length: Math.min(size, bytes) }));
}

function readEnd(path: string, bytes: number, owner: Owner | null): Promise<Buffer> {
  return readPart(path, owner, (size) => ({ from: Math.max(0, size - bytes), length: Math.min(size, bytes) }));
}

async function readPart(
  path: string,
  owner: Owner | null,
  which: (size: number) => { from: number; length: number },
): Promise<Buffer> {
  // Without O_NONBLOCK opening a pipe would wait for somebody who writes into it.
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const found = await file.stat();
    if (!found.isFile()) throw new Error('it is no plain file');
    // A hard link to what only the worker may read.
    if (owner !== null && found.uid !== owner.uid) throw new Error('it does not belong to the program');
    const { from, length } = which(found.size);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, from);
    return buffer.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}
