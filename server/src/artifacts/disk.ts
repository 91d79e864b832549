// Artifacts in a folder, which all servers must share:
//
//   uploads/HASH.UPLOAD/7            the seventh part
//   uploads/HASH.UPLOAD/7.TOKEN.tmp  the same while it arrives
//   objects/9f/HASH.UPLOAD           the content of an artifact
//
// Every file is written under another name, synced and then renamed, so that what is there is whole. Parts are copied when
// they are put together, and the hash is taken of the very bytes that are written: a part that is sent again meanwhile
// changes nothing.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, mkdir, open, readdir, rename, rm, stat, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { PunctualError } from '@punctual/contract';
import { newToken } from '../base/ids.ts';
import { missingParts, partsOf } from '../rules/parts.ts';
import { partUrl } from './addresses.ts';
import { type ArtifactStore, type Content, type ContentInParts, objectName, storageError } from './store.ts';

/** So small that a part arrives within the time of a request on a slow line. */
const least_part_bytes = 4 * 1024 * 1024;

export function diskStore({ folder, secret }: { folder: string; secret: () => Promise<string> }): ArtifactStore {
  const uploadOf = (content: Content): string => join(folder, 'uploads', objectName(content));
  const objectOf = (content: Content): string =>
    join(folder, 'objects', content.sha256.slice(0, 2), objectName(content));
  const guarded = async <T>(what: string, work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      throw storageError(`${what} in the folder of artifacts failed`, error);
    }
  };
  return {
    leastPartBytes: least_part_bytes,
    begin: async () => null,
    abandon: async () => undefined,
    stored: (content) => guarded('Looking for parts', () => partsIn(uploadOf(content))),
    addressOf: async (content, part, expires) => ({
      url: partUrl(await secret(), { ...content, part, expires }),
      headers: { 'content-type': 'application/octet-stream' },
    }),
    receive: (content, part, body, size) =>
      guarded('Writing a part', async () => {
        const upload = uploadOf(content);
        await mkdir(upload, { recursive: true });
        await writeWhole(join(upload, String(part)), upload, (file) => copyExactly(body, file, size));
      }),
    finish: (content) =>
      guarded('Putting a file together', async () => {
        const target = objectOf(content);
        const earlier = await measure(target);
        // An earlier try got this far, or nearly.
        if (earlier !== null) return earlier;
        const upload = uploadOf(content);
        if (missingParts(content, await partsIn(upload)).length > 0) return null;
        await mkdir(upload, { recursive: true });
        await mkdir(dirname(target), { recursive: true });
        const made = await assemble(content, upload, target).catch(ifMissing(null));
        // Another who completes it was quicker.
        if (made === null) return measure(target);
        if (made.sha256 === content.sha256) await rm(upload, { recursive: true, force: true });
        return made;
      }),
    read: (content, range) => guarded('Reading a file', () => openForReading(objectOf(content), range)),
    remove: (content) =>
      guarded('Removing a file', async () => {
        await rm(uploadOf(content), { recursive: true, force: true });
        await rm(objectOf(content), { force: true });
      }),
  };
}

async function partsIn(upload: string): Promise<Map<number, number>> {
  const names = await readdir(upload).catch(ifMissing([]));
  const parts = new Map<number, number>();
  for (const name of names) if (/^\d+$/.test(name)) parts.set(Number(name), (await stat(join(upload, name))).size);
  return parts;
}

/** Only what has the right hash gets its name. */
async function assemble(content: ContentInParts, upload: string, target: string): Promise<Measured> {
  const hash = createHash('sha256');
  let size = 0;
  const wanted = (): boolean => size === content.size && hash.copy().digest('hex') === content.sha256;
  await writeWhole(
    target,
    upload,
    async (file) => {
      for (let part = 1; part <= partsOf(content); part++)
        for await (const chunk of createReadStream(join(upload, String(part))) as AsyncIterable<Buffer>) {
          hash.update(chunk);
          size += chunk.length;
          await writeAll(file, chunk);
        }
    },
    wanted,
  );
  return { size, sha256: hash.digest('hex') };
}

/** Writes a file beside its folder-to-be, syncs it, and gives it its name; nothing is left when that fails. */
async function writeWhole(
  target: string,
  folder: string,
  fill: (file: FileHandle) => Promise<void>,
  isWanted: () => boolean = () => true,
): Promise<void> {
  const temporary = join(folder, `${target.split('/').at(-1)}.${newToken()}.tmp`);
  const file = await open(temporary, 'wx', 0o600);
  try {
    try {
      await fill(file);
      await file.sync();
    } finally {
      await file.close();
    }
    if (!isWanted()) return await unlink(temporary);
    await rename(temporary, target);
  } catch (error) {
    await unlink(temporary).catch(() => undefined);
    throw error;
  }
  await syncFolder(dirname(target));
}

/** A name is durable when its folder is. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

async function copyExactly(body: Readable, file: FileHandle, size: number): Promise<void> {
  let bytes = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > size) throw wrongSize(size, `more than ${size}`);
    await writeAll(file, chunk);
  }
  if (bytes !== size) throw wrongSize(size, String(bytes));
}

async function writeAll(file: FileHandle, chunk: Buffer): Promise<void> {
  for (let at = 0; at < chunk.length; ) at += (await file.write(chunk, at)).bytesWritten;
}

export function wrongSize(wanted: number, got: string): PunctualError {
  return new PunctualError('artifact_mismatch', { detail: `The part has ${got} bytes; it must have ${wanted}.` });
}

interface Measured {
  size: number;
  sha256: string;
}

async function measure(path: string): Promise<Measured | null> {
  const found = await stat(path).catch(ifMissing(null));
  if (found === null) return null;
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) hash.update(chunk);
  return { size: found.size, sha256: hash.digest('hex') };
}

/** Opened before the answer begins, so that a file that is not there is an error and not an answer cut short. */
async function openForReading(path: string, range: { from: number; to: number } | null): Promise<Readable> {
  const file = await open(path, 'r').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
    throw new Error('the file is not there; do all servers share the folder PUNCTUAL_ARTIFACTS_DIR?', { cause: error });
  });
  return file.createReadStream(range === null ? {} : { start: range.from, end: range.to });
}

function ifMissing<T>(value: T): (error: NodeJS.ErrnoException) => T {
  return (error) => {
    if (error.code !== 'ENOENT') throw error;
    return value;
  };
}
