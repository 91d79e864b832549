// Artifacts as the door and the loops use them: the book and the store together. An upload is begun or joined, its parts
// arrive in the store, completing verifies them and only then makes the artifact. What is over is removed by the sweep.
import {
  type Artifact,
  type ArtifactOrUpload,
  type CreateArtifact,
  limits,
  PunctualError,
  type Upload,
} from '@punctual/contract';
import type { Logger } from '../base/log.ts';
import { missingParts, partBytesOf, partsOf, sizeOfPart } from '../rules/parts.ts';
import {
  beginUpload,
  completeUpload,
  endUpload,
  forgetUpload,
  getUpload,
  nameUpload,
  overUploads,
  type StoredUpload,
} from '../store/artifact_uploads.ts';
import { deleteArtifact, getArtifact, type StoredArtifact, touchArtifact } from '../store/artifacts.ts';
import type { Database } from '../store/database.ts';
import type { ArtifactStore } from './store.ts';

export interface ArtifactsParts {
  db: Database;
  segments: number;
  store: ArtifactStore;
  maxBytes: number;
  log: Pick<Logger, 'warn'>;
}

/** Who is cut off for a night can go on in the morning. */
const upload_hours = 24;
const address_seconds = 3600;

export class Artifacts {
  readonly store: ArtifactStore;
  readonly #parts: ArtifactsParts;

  constructor(parts: ArtifactsParts) {
    this.#parts = parts;
    this.store = parts.store;
  }

  /** The artifact, or how to upload what is missing of it. */
  async create(wanted: CreateArtifact): Promise<ArtifactOrUpload> {
    const { db, segments, maxBytes } = this.#parts;
    const artifact = await touchArtifact(db, wanted.sha256, segments);
    if (artifact !== null) {
      if (artifact.size === wanted.size) return { artifact: shown(artifact), upload: null };
      throw new PunctualError('artifact_mismatch', {
        detail: `What has this sha256 has ${artifact.size} bytes, not ${wanted.size}.`,
      });
    }
    if (wanted.size > maxBytes)
      throw new PunctualError('artifact_too_large', {
        detail: `The file has ${wanted.size} bytes; this installation takes up to ${maxBytes} (PUNCTUAL_ARTIFACTS_MAX_MB).`,
      });
    const upload = (await this.#begin(wanted)) ?? (await this.#begin(wanted));
    if (upload === null) throw new PunctualError('upload_not_found');
    return { artifact: null, upload };
  }

  /** Null when what was to be joined is no longer in the store, which may throw away what it waits for too long. */
  async #begin(wanted: CreateArtifact): Promise<Upload | null> {
    const { db, segments } = this.#parts;
    const partBytes = partBytesOf(wanted.size, this.store.leastPartBytes);
    const begun = await beginUpload(db, wanted, { segments, partBytes, hours: upload_hours });
    const upload = await this.#named(begun);
    const stored = await this.store.stored(upload);
    if (stored !== null) return this.#describe(upload, stored);
    await endUpload(db, upload);
    return null;
  }

  /** With the name the store has given it. */
  async #named(upload: StoredUpload): Promise<StoredUpload> {
    if (upload.multipart !== null || upload.size === 0) return upload;
    const multipart = await this.store.begin(upload);
    if (multipart === null) return upload;
    const first = await nameUpload(this.#parts.db, upload, multipart);
    // Another server was quicker: its name counts.
    if (first !== multipart) await this.store.abandon(upload, multipart);
    return { ...upload, multipart: first };
  }

  async #describe(upload: StoredUpload, stored: ReadonlyMap<number, number>): Promise<Upload> {
    const missing = missingParts(upload, stored);
    const expires = upload.now_seconds + address_seconds;
    const expires_at = new Date(expires * 1000).toISOString();
    const gone = new Set(missing);
    const { upload_id, sha256, size, part_bytes } = upload;
    const addresses = missing.slice(0, limits.max_part_addresses).map(async (part) => ({
      part,
      size: sizeOfPart(upload, part),
      method: 'PUT' as const,
      ...(await this.store.addressOf(upload, part, expires, upload.now_seconds)),
      expires_at,
    }));
    return {
      ...{ upload_id, sha256, size, part_bytes, parts: partsOf(upload) },
      stored: [...stored.keys()].filter((part) => part <= partsOf(upload) && !gone.has(part)).sort((a, b) => a - b),
      missing: await Promise.all(addresses),
      expires_at: upload.expires_at,
    };
  }

  /** The upload under way; throws when there is none. */
  async upload(sha256: string): Promise<StoredUpload> {
    const upload = await getUpload(this.#parts.db, sha256, this.#parts.segments);
    if (upload === null) throw new PunctualError('upload_not_found');
    return upload;
  }

  async complete(sha256: string): Promise<StoredArtifact> {
    const { db, segments } = this.#parts;
    const earlier = await getArtifact(db, sha256, segments);
    if (earlier !== null) return earlier;
    const upload = await this.upload(sha256);
    const found = await this.store.finish(upload);
    if (found === null) throw await this.#incomplete(upload);
    if (found.sha256 !== sha256 || found.size !== upload.size) {
      await this.#discard(upload);
      throw new PunctualError('artifact_mismatch', {
        detail: `What was sent has the sha256 ${found.sha256} and ${found.size} bytes; announced were ${sha256} and ${upload.size} bytes.`,
      });
    }
    const artifact = (await completeUpload(db, upload)) ?? (await getArtifact(db, sha256, segments));
    if (artifact === null) throw new PunctualError('upload_not_found');
    return artifact;
  }

  async #incomplete(upload: StoredUpload): Promise<PunctualError> {
    const stored = await this.store.stored(upload);
    if (stored === null) return new PunctualError('upload_not_found');
    const missing = missingParts(upload, stored);
    const some = missing.slice(0, 10).join(', ');
    const detail = `${missing.length} of ${partsOf(upload)} parts are not there: ${some}${missing.length > 10 ? ', …' : ''}.`;
    return new PunctualError('upload_incomplete', { detail });
  }

  async #discard(upload: StoredUpload): Promise<void> {
    await endUpload(this.#parts.db, upload);
    // If that fails the sweep does it.
    await this.store.remove(upload).catch((error: unknown) => this.#warn(error));
  }

  /** Answers false when there is none. */
  delete(sha256: string): Promise<boolean> {
    return deleteArtifact(this.#parts.db, sha256, this.#parts.segments);
  }

  /** Removes the content of what is over. One that cannot be removed keeps no other from going. */
  async sweep(): Promise<number> {
    const { db, segments } = this.#parts;
    let removed = 0;
    for (let segment = 0; segment < segments; segment++)
      for (const upload of await overUploads(db, segment))
        try {
          await this.store.remove(upload);
          if (upload.is_final) await forgetUpload(db, upload);
          removed++;
        } catch (error) {
          this.#warn(error);
        }
    return removed;
  }

  #warn(error: unknown): void {
    this.#parts.log.warn({ err: error }, 'content that is not needed could not be removed; it is tried again');
  }
}

/** An artifact as people see it. */
export function shown({ sha256, size, name, content_type, created_at, used_at }: StoredArtifact): Artifact {
  return { sha256, size, name, content_type, created_at, used_at };
}
