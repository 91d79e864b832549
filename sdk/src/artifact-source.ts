// What is uploaded: a file, bytes, or a stream. Its hash and size are found out first, then parts of it are read as they are
// sent: never more than those are in memory. A stream can be read only once, so it goes through a temporary file.
import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { type FileHandle, mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { pipeline } from 'node:stream/promises';

/** A path, an open file, bytes, or a stream of bytes. */
export type ArtifactSource = string | FileHandle | Uint8Array | AsyncIterable<Uint8Array>;

export interface OpenSource {
  sha256: string;
  size: number;
  /** What a file is called where it is. */
  name: string | undefined;
  read(from: number, length: number): Promise<Uint8Array>;
  close(): Promise<void>;
}

const chunk_bytes = 256 * 1024;

export async function openSource(source: ArtifactSource, signal?: AbortSignal): Promise<OpenSource> {
  if (source instanceof Uint8Array) return bytesSource(source);
  if (typeof source === 'string') return ownedFile(await open(source, 'r'), signal, basename(source));
  if (isFile(source)) return fileSource(source, { signal, close: async () => undefined });
  return spooled(source, signal);
}

export function isFile(source: FileHandle | AsyncIterable<Uint8Array>): source is FileHandle {
  // A stream of a file has a descriptor too.
  return typeof (source as FileHandle).fd === 'number' && typeof (source as FileHandle).stat === 'function';
}

function bytesSource(bytes: Uint8Array): OpenSource {
  return {
    sha256: createHash('sha256').update(bytes).digest('hex'),
    size: bytes.length,
    name: undefined,
    read: async (from, length) => bytes.subarray(from, from + length),
    close: async () => undefined,
  };
}

/** Closes the file when that fails. */
async function ownedFile(file: FileHandle, signal: AbortSignal | undefined, name?: string): Promise<OpenSource> {
  try {
    return await fileSource(file, { signal, name, close: () => file.close() });
  } catch (error) {
    await file.close();
    throw error;
  }
}

async function fileSource(
  file: FileHandle,
  options: { signal: AbortSignal | undefined; name?: string | undefined; close: () => Promise<void> },
): Promise<OpenSource> {
  if (!(await file.stat()).isFile()) throw new TypeError('Only plain files can be uploaded.');
  const hash = createHash('sha256');
  const buffer = Buffer.alloc(chunk_bytes);
  let size = 0;
  for (;;) {
    options.signal?.throwIfAborted();
    const { bytesRead } = await file.read(buffer, 0, chunk_bytes, size);
    if (bytesRead === 0) break;
    hash.update(buffer.subarray(0, bytesRead));
    size += bytesRead;
  }
  return {
    sha256: hash.digest('hex'),
    size,
    name: options.name,
    close: options.close,
    async read(from, length) {
      const part = Buffer.alloc(length);
      for (let at = 0; at < length; ) {
        const { bytesRead } = await file.read(part, at, length - at, from + at);
        if (bytesRead === 0) throw new Error('The file has become shorter while it was uploaded.');
        at += bytesRead;
      }
      return part;
    },
  };
}

async function spooled(stream: AsyncIterable<Uint8Array>, signal?: AbortSignal): Promise<OpenSource> {
  const folder = await mkdtemp(join(tmpdir(), 'punctual-upload-'));
  const remove = (): Promise<void> => rm(folder, { recursive: true, force: true });
  try {
    const path = join(folder, 'content');
    await pipeline(stream, createWriteStream(path, { mode: 0o600 }), signal === undefined ? {} : { signal });
    const source = await ownedFile(await open(path, 'r'), signal);
    return { ...source, close: () => source.close().finally(remove) };
  } catch (error) {
    await remove();
    throw error;
  }
}
