// The calls about artifacts, as `client.artifacts`. Uploads and downloads do not go through the caller of all other calls
// (http/caller.ts), which holds whole answers in memory, and may go to S3: fetch sends and reads them.
import { createWriteStream } from 'node:fs';
import { rename, unlink } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Artifact, ArtifactPageQuery, ErrorCode, PartAddress, Problem, PublishArtifact } from '@punctual/contract';
import { fillPath, fromProblem, PunctualError, routes } from '@punctual/contract/plain';
import { type ArtifactSource, type OpenSource, openSource } from './artifact-source.ts';
import type { Call } from './client.ts';
import type { Server } from './follow.ts';
import { eachRow } from './pages.ts';

/** How a file is uploaded. */
export interface UploadOptions {
  /** What to call it; a file is called what it is called unless given. */
  name?: string | undefined;
  contentType?: string | undefined;
  signal?: AbortSignal | undefined;
  /** Told how many bytes have arrived, from the first call on with those that were there already. */
  onProgress?: ((sent: number, size: number) => void) | undefined;
}

export interface DownloadOptions {
  signal?: AbortSignal | undefined;
  /** Told how many bytes have arrived. */
  onProgress?: ((got: number) => void) | undefined;
}

/** A part on a slow line takes its time. */
const part_timeout_ms = 600_000;
/** The server reads the whole file to verify it. */
const complete_timeout_ms = 3_600_000;
const parts_at_once = 3;
const tries = 4;
const first_pause_ms = 200;
/** Each round sends what the one before could not; two are the rule. */
const max_rounds = 1_000;
const max_barren_rounds = 3;

export function artifactCalls(call: Call, server: Server) {
  const upload = (source: ArtifactSource, options: UploadOptions = {}): Promise<Artifact> =>
    uploadArtifact(call, server, source, options);
  return {
    /** Uploads a file (its path), bytes or a stream, and goes on where an earlier try was cut off. */
    upload,
    get: (sha256: string) => call(routes.getArtifact, { params: { sha256 } }),
    list: (query?: ArtifactPageQuery) => call(routes.listArtifacts, { query }),
    /** The artifacts of all pages, newest first. */
    all: () =>
      eachRow(
        (cursor) => call(routes.listArtifacts, { query: cursor === undefined ? {} : { cursor } }),
        (page) => page.artifacts,
      ),
    delete: (sha256: string) => call(routes.deleteArtifact, { params: { sha256 } }),
    /** The content as a stream. */
    open: (sha256: string, options?: { signal?: AbortSignal | undefined }) => openArtifact(server, sha256, options),
    /** Writes the content to a file, which appears when it is whole. */
    download: (sha256: string, path: string, options?: DownloadOptions) =>
      downloadArtifact(server, { sha256, path, ...options }),
    /** Publishes what was uploaded as a file of a run; for its worker. */
    publish: (run_id: string, body: PublishArtifact) => call(routes.publishArtifact, { params: { run_id }, body }),
  };
}

async function uploadArtifact(
  call: Call,
  server: Server,
  given: ArtifactSource,
  options: UploadOptions,
): Promise<Artifact> {
  const { signal, onProgress } = options;
  const source = await openSource(given, signal);
  try {
    const { sha256, size } = source;
    const name = options.name ?? source.name;
    const body = {
      ...{ sha256, size },
      ...(name === undefined ? {} : { name }),
      ...(options.contentType === undefined ? {} : { content_type: options.contentType }),
    };
    let barren = 0;
    for (let round = 0, before = -1; round < max_rounds && barren < max_barren_rounds; round++) {
      const { artifact, upload } = await call(routes.createArtifact, { body, signal });
      if (artifact !== null) return artifact;
      if (upload === null) break;
      const there = upload.stored.length;
      barren = there > before ? 0 : barren + 1;
      before = there;
      if (upload.missing.length === 0) {
        const completed = await complete(call, sha256, signal);
        if (completed !== null) return completed;
        continue;
      }
      let sent = upload.stored.reduce(
        (sum, part) => sum + Math.min(upload.part_bytes, size - (part - 1) * upload.part_bytes),
        0,
      );
      onProgress?.(sent, size);
      await sendParts(server, source, upload, {
        signal,
        onSent: (bytes) => {
          sent += bytes;
          onProgress?.(sent, size);
        },
      }).catch(unlessOver);
    }
    throw new PunctualError('upload_incomplete', {
      detail: 'Parts that were sent do not arrive; is the store all right?',
    });
  } finally {
    await source.close();
  }
}

/** Null when another who sends the same file was at it at the same moment, or the time of the upload was over. */
async function complete(call: Call, sha256: string, signal: AbortSignal | undefined): Promise<Artifact | null> {
  return call(routes.completeArtifact, { params: { sha256 }, signal, timeoutMs: complete_timeout_ms }).catch(
    unlessOver,
  );
}

/** Asking again says how things are when another was at it too. */
function unlessOver(error: unknown): null {
  if (error instanceof PunctualError && /^upload_(incomplete|not_found)$/.test(error.code)) return null;
  throw error;
}

interface SendOptions {
  signal: AbortSignal | undefined;
  onSent: (bytes: number) => void;
}

/** A few at a time; the first failure ends all. */
async function sendParts(
  server: Server,
  source: OpenSource,
  { missing, part_bytes }: { missing: PartAddress[]; part_bytes: number },
  { signal, onSent }: SendOptions,
): Promise<void> {
  const left = [...missing];
  const sendNext = async (): Promise<void> => {
    for (let address = left.shift(); address !== undefined; address = left.shift()) {
      const bytes = await source.read((address.part - 1) * part_bytes, address.size);
      try {
        await sendPart(server, address, bytes, signal);
      } catch (error) {
        left.length = 0;
        throw error;
      }
      onSent(address.size);
    }
  };
  await Promise.all(Array.from({ length: parts_at_once }, sendNext));
}

async function sendPart(
  server: Server,
  { url, method, headers }: PartAddress,
  body: Uint8Array,
  signal: AbortSignal | undefined,
): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    // Not AbortSignal.timeout: together with another signal Node 20 forgets it when it tidies its memory up.
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(new Error('the part took too long')), part_timeout_ms);
    const all = signal === undefined ? late.signal : AbortSignal.any([signal, late.signal]);
    try {
      const response = await ask(server, url, { method, headers, body, signal: all });
      await response.arrayBuffer();
      return;
    } catch (error) {
      const final = error instanceof PunctualError && error.status < 500 && error.status !== 429;
      if (final || attempt >= tries || signal?.aborted === true) throw error;
      await sleep(first_pause_ms * 2 ** (attempt - 1), undefined, signal === undefined ? {} : { signal });
    } finally {
      clearTimeout(timer);
    }
  }
}

async function openArtifact(
  server: Server,
  sha256: string,
  { signal }: { signal?: AbortSignal | undefined } = {},
): Promise<Readable> {
  const path = fillPath(routes.getArtifactContent.path, { sha256 });
  const response = await ask(server, path, signal === undefined ? {} : { signal });
  return response.body === null ? Readable.from([]) : Readable.fromWeb(response.body);
}

async function downloadArtifact(
  server: Server,
  { sha256, path, signal, onProgress }: DownloadOptions & { sha256: string; path: string },
): Promise<void> {
  const content = await openArtifact(server, sha256, { signal });
  let got = 0;
  if (onProgress !== undefined) content.on('data', (chunk: Buffer) => onProgress((got += chunk.length)));
  const temporary = `${path}.${process.pid}.part`;
  try {
    await pipeline(content, createWriteStream(temporary, { flags: 'wx' }), signal === undefined ? {} : { signal });
    await rename(temporary, path);
  } catch (error) {
    await unlink(temporary).catch(() => undefined);
    throw error;
  }
}

/** An answer of 2xx; a PunctualError for any other, and when there is none. */
async function ask(server: Server, url: string, init: RequestInit): Promise<Response> {
  const own = url.startsWith('/');
  const headers = new Headers(init.headers);
  // Who calls is the business of the server, and of nobody it refers us to.
  if (own && server.authorization !== '') headers.set('authorization', server.authorization);
  const call = `${init.method ?? 'GET'} ${(own ? url : new URL(url).origin).split('?', 1)[0]}`;
  let response: Response;
  try {
    response = await fetch(own ? `${server.url}${url}` : url, { ...init, headers });
  } catch (error) {
    if (init.signal?.aborted === true) throw error;
    const cause = (error as Error).cause instanceof Error ? ((error as Error).cause as Error) : (error as Error);
    throw new PunctualError('unreachable', { detail: `${call} was not answered (${cause.message}).`, cause: error });
  }
  if (response.ok) return response;
  // So S3 says that the upload was completed or given up.
  throw await failureOf(response, call, init.method === 'PUT' ? 'upload_not_found' : 'internal');
}

async function failureOf(response: Response, call: string, ifMissing: ErrorCode): Promise<PunctualError> {
  const text = await response.text().catch(() => '');
  try {
    const problem = JSON.parse(text) as Partial<Problem>;
    if (typeof problem.code === 'string') return fromProblem(problem);
  } catch {
    // Not ours: a proxy or S3.
  }
  const { status } = response;
  const code = status >= 500 || status === 429 ? 'storage_unavailable' : status === 404 ? ifMissing : 'internal';
  return new PunctualError(code, {
    detail: `${call} was answered with status ${response.status}: ${text.slice(0, 300)}`,
  });
}
