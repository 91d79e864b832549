// A house whose servers share a folder of artifacts, and plain HTTP calls to them, for tests of artifacts.
import { createHash, randomBytes } from 'node:crypto';
import { type FileHandle, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ArtifactOrUpload, Upload } from '@punctual/contract';
import { Artifacts } from '@punctual/server/internal/artifacts/artifacts';
import { diskStore } from '@punctual/server/internal/artifacts/disk';
import { sharedSecret } from '@punctual/server/internal/store/secrets';
import { type House, type HouseOptions, openHouse } from './house.ts';

export const mb = 1024 ** 2;
export const sha256Of = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
/** Content that no other test has. */
export const fresh = (size: number): Buffer => randomBytes(size);

/** A file whose first part is sent only when something has happened; it was read once before, for its hash. */
export function slowFile(content: Uint8Array, first: () => Promise<unknown>): FileHandle {
  let isHashed = false;
  const read = async (buffer: Uint8Array, offset: number, length: number, position: number) => {
    if (isHashed) await first();
    const bytes = content.subarray(position, position + length);
    buffer.set(bytes, offset);
    isHashed ||= bytes.length === 0;
    return { bytesRead: bytes.length, buffer };
  };
  return { fd: -1, stat: async () => ({ isFile: () => true }), read } as unknown as FileHandle;
}

export interface Answer {
  status: number;
  headers: Headers;
  body: Record<string, unknown> & { code?: string; detail?: string };
}

export class FileHouse implements AsyncDisposable {
  readonly house: House;
  readonly folder: string;

  constructor(house: House, folder: string) {
    this.house = house;
    this.folder = folder;
  }

  async send(method: string, path: string, body?: unknown, server = 0): Promise<Answer> {
    const response = await fetch(`${this.house.servers[server]?.url}${path}`, {
      method,
      ...(body === undefined ? {} : { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    });
    const text = await response.text();
    const isJson = response.headers.get('content-type')?.includes('json') === true;
    return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : {} };
  }

  async begin(content: Uint8Array, more: object = {}, server = 0): Promise<ArtifactOrUpload> {
    const wanted = { sha256: sha256Of(content), size: content.length, ...more };
    const answer = await this.send('POST', '/artifacts', wanted, server);
    if (answer.status !== 200) throw new Error(`${answer.status} ${answer.body.detail ?? answer.body.code}`);
    return answer.body as unknown as ArtifactOrUpload;
  }

  /** Sends one part of what was begun. */
  async put(upload: Upload, part: number, bytes: Uint8Array, server = 0): Promise<Answer> {
    const address = upload.missing.find((one) => one.part === part);
    if (address === undefined) throw new Error(`there is no address for part ${part}`);
    return this.putTo(address.url, bytes, server);
  }

  async putTo(url: string, bytes: Uint8Array | ReadableStream<Uint8Array>, server = 0): Promise<Answer> {
    const response = await fetch(`${this.house.servers[server]?.url}${url}`, {
      method: 'PUT',
      body: bytes,
      ...(bytes instanceof ReadableStream ? { duplex: 'half' as const } : {}),
    });
    return { status: response.status, headers: response.headers, body: (await response.json()) as Answer['body'] };
  }

  /** The names of all files in the folder, as paths. */
  async files(): Promise<string[]> {
    const entries = await readdir(this.folder, { recursive: true, withFileTypes: true });
    return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  }

  /** What a server does once a minute. */
  async sweep(): Promise<void> {
    const { db } = this.house;
    const store = diskStore({ folder: this.folder, secret: () => sharedSecret(db, 'artifact_addresses') });
    await new Artifacts({ db, segments: 4, store, maxBytes: mb, log: { warn: () => undefined } as never }).sweep();
  }

  async query<Row extends object>(text: string, values: unknown[] = []): Promise<Row[]> {
    return this.house.db.query({ name: '', text, values });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.house[Symbol.asyncDispose]();
    await rm(this.folder, { recursive: true, force: true });
  }
}

export async function openFiles(options: HouseOptions = {}): Promise<FileHouse> {
  const folder = await mkdtemp(join(tmpdir(), 'punctual-files-'));
  const house = await openHouse({
    ...options,
    config: { artifacts_dir: folder, artifacts_max_mb: 16, ...options.config },
  });
  return new FileHouse(house, folder);
}
