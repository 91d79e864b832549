// Programs of `binary` jobs, fetched once and kept by their hash in a folder of this process, up to a size: those not used for
// longest go first, never one that is being fetched or run. Used by binary.ts.
//
// It promises that a path it gives holds exactly the content of the hash: what was fetched is hashed as it is written, gets
// its name only when it fits, and is fetched again when the file has been touched since.
import { createHash } from 'node:crypto';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { chmod, lstat, open, rename, unlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { binaries_folder_prefix } from '../isolation/folder.ts';
import { ownMark } from '../isolation/mark.ts';

/** What was fetched is not what was asked for. */
export class HashMismatch extends Error {}
/** It has no room, now or ever. */
export class CacheFull extends Error {
  readonly isForEver: boolean;

  constructor(message: string, isForEver: boolean) {
    super(message);
    this.isForEver = isForEver;
  }
}

export interface Fetched {
  size: number;
  content: Readable;
}

export type FetchContent = (sha256: string, signal: AbortSignal) => Promise<Fetched>;

interface Entry {
  users: number;
  size: number;
  /** What `lstat` says of it when it was put there. */
  state: string;
  ready: Promise<string>;
  giveUp: AbortController;
}

export interface Lent {
  path: string;
  giveBack(): void;
}

export class BinaryCache {
  readonly folder: string;
  readonly #maxBytes: number;
  readonly #fetch: FetchContent;
  /** The least recently used first. */
  readonly #entries = new Map<string, Entry>();
  #fetches = 0;

  constructor(maxBytes: number, fetch: FetchContent) {
    this.#maxBytes = maxBytes;
    this.#fetch = fetch;
    this.folder = mkdtempSync(join(tmpdir(), `${binaries_folder_prefix}${ownMark}-`));
    // Other users may run what they know the hash of, and list nothing.
    chmodSync(this.folder, 0o711);
  }

  /** The program as a file that stays until it is given back. */
  async lend(sha256: string, signal: AbortSignal): Promise<Lent> {
    signal.throwIfAborted();
    const entry = await this.#take(sha256);
    let isBack = false;
    const giveBack = (): void => {
      if (isBack) return;
      isBack = true;
      this.#leave(entry);
    };
    try {
      return { path: await orAbort(entry.ready, signal), giveBack };
    } catch (error) {
      giveBack();
      throw error;
    }
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** What is there or on its way, in use from here on; or a new one. */
  async #take(sha256: string): Promise<Entry> {
    for (;;) {
      const entry = this.#entries.get(sha256) ?? this.#begin(sha256);
      entry.users += 1;
      this.#entries.delete(sha256);
      this.#entries.set(sha256, entry);
      if (await this.#isWhole(sha256, entry)) return entry;
      this.#leave(entry);
      if (this.#entries.get(sha256) === entry) this.#entries.delete(sha256);
    }
  }

  async #isWhole(sha256: string, entry: Entry): Promise<boolean> {
    if (entry.state === '') return !entry.giveUp.signal.aborted;
    return (await stateOf(this.#pathOf(sha256))) === entry.state;
  }

  #leave(entry: Entry): void {
    entry.users -= 1;
    // Nobody waits for it any more; when it is there already this does nothing.
    if (entry.users === 0) entry.giveUp.abort();
  }

  #begin(sha256: string): Entry {
    const entry: Entry = { users: 0, size: 0, state: '', giveUp: new AbortController(), ready: Promise.resolve('') };
    entry.ready = this.#bring(sha256, entry);
    entry.ready.catch(() => {
      if (this.#entries.get(sha256) === entry) this.#entries.delete(sha256);
    });
    return entry;
  }

  async #bring(sha256: string, entry: Entry): Promise<string> {
    const { size, content } = await this.#fetch(sha256, entry.giveUp.signal);
    // Who reads it hears of its failure; one that comes when nobody reads any more is of no interest.
    content.on('error', () => undefined);
    const temporary = join(this.folder, `${sha256}.${++this.#fetches}.part`);
    try {
      this.#makeRoom(size);
      entry.size = size;
      await write(content, temporary, { sha256, size });
      await chmod(temporary, 0o555);
      await rename(temporary, this.#pathOf(sha256));
    } catch (error) {
      content.destroy();
      await unlink(temporary).catch(() => undefined);
      throw error;
    }
    entry.state = await stateOf(this.#pathOf(sha256));
    return this.#pathOf(sha256);
  }

  /** At once, without a pause in which somebody could take what goes. */
  #makeRoom(size: number): void {
    if (size > this.#maxBytes)
      throw new CacheFull(
        `it has ${size} bytes, and this worker keeps ${this.#maxBytes} of all programs (PUNCTUAL_BINARY_CACHE_MB)`,
        true,
      );
    let used = [...this.#entries.values()].reduce((sum, entry) => sum + entry.size, 0);
    for (const [sha256, entry] of [...this.#entries]) {
      if (used + size <= this.#maxBytes) return;
      if (entry.users > 0 || entry.size === 0) continue;
      this.#entries.delete(sha256);
      used -= entry.size;
      rmSync(this.#pathOf(sha256), { force: true });
    }
    if (used + size > this.#maxBytes)
      throw new CacheFull('the programs that run now fill all the room there is (PUNCTUAL_BINARY_CACHE_MB)', false);
  }

  #pathOf(sha256: string): string {
    return join(this.folder, sha256);
  }
}

async function write(content: Readable, path: string, wanted: { sha256: string; size: number }): Promise<void> {
  const hash = createHash('sha256');
  let size = 0;
  const file = await open(path, 'wx', 0o600);
  try {
    for await (const chunk of content as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > wanted.size) throw new HashMismatch(`it has more than its ${wanted.size} bytes`);
      hash.update(chunk);
      await file.writeFile(chunk);
    }
  } finally {
    await file.close();
  }
  const sha256 = hash.digest('hex');
  if (size !== wanted.size || sha256 !== wanted.sha256)
    throw new HashMismatch(`what came has ${size} bytes and the sha256 ${sha256}`);
}

async function stateOf(path: string): Promise<string> {
  const found = await lstat(path, { bigint: true }).catch(() => null);
  return found === null ? '' : `${found.ino} ${found.size} ${found.mtimeNs} ${found.ctimeNs} ${found.mode}`;
}

/** The promise, unless the signal comes first. */
function orAbort<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason as Error);
    signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}
