// Where the content of artifacts is kept: a port with two adapters, disk.ts and s3.ts. The book says what exists; a store
// only keeps bytes under names. Names are made of the hash and the id of the upload and of nothing that users chose, and are
// never used twice: removing one that was meant long ago harms nothing newer. Every call may be repeated.
import type { Readable } from 'node:stream';
import { PunctualError } from '@punctual/contract';
import type { ByteRange } from '../rules/range.ts';

/** Names content. */
export interface Content {
  sha256: string;
  upload_id: string;
}

export interface ContentInParts extends Content {
  size: number;
  part_bytes: number;
  /** What `begin` answered. */
  multipart: string | null;
}

export interface Address {
  url: string;
  headers: Record<string, string>;
}

export interface Download {
  name: string;
  contentType: string;
}

export interface ArtifactStore {
  /** No part but the last is smaller. */
  readonly leastPartBytes: number;
  /** Prepares an upload; answers what the store calls it, if it gives it a name. */
  begin(content: Content): Promise<string | null>;
  /** Gives up what `begin` prepared. */
  abandon(content: Content, multipart: string): Promise<void>;
  /** The parts that are there, with their bytes; null when the store has given up what `begin` prepared. */
  stored(content: ContentInParts): Promise<Map<number, number> | null>;
  /** Where a part is to be sent, until a time in seconds since 1970. */
  addressOf(content: ContentInParts, part: number, until: number, now: number): Promise<Address>;
  /** Takes a part, where parts come through the server; throws `artifact_mismatch` when it has not so many bytes. */
  receive: ((content: Content, part: number, body: Readable, size: number) => Promise<void>) | null;
  /** Puts the parts together. Answers what they are; only what fits is ever read. Null when parts are missing. */
  finish(content: ContentInParts): Promise<{ size: number; sha256: string } | null>;
  /** The content, or where to get it. */
  read(content: Content, range: ByteRange | null, download: Download): Promise<Readable | { location: string }>;
  /** Removes content with all its parts, whatever is there of it. */
  remove(content: Content): Promise<void>;
}

const hashShape = /^[0-9a-f]{64}$/;
const idShape = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The name of content in any store. */
export function objectName({ sha256, upload_id }: Content): string {
  if (!hashShape.test(sha256) || !idShape.test(upload_id)) throw new Error('this names no content');
  return `${sha256}.${upload_id}`;
}

/** A store that fails is not a fault of the server: the same may well succeed later. */
export function storageError(what: string, cause: unknown): PunctualError {
  if (cause instanceof PunctualError) return cause;
  const detail = `${what}: ${cause instanceof Error ? cause.message : String(cause)}.`;
  return new PunctualError('storage_unavailable', { detail, retryAfterSeconds: 5, cause });
}
