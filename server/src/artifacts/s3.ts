// Artifacts in a bucket of S3, or of what speaks like it. Files of every size are sent as a multipart upload: once that is
// completed its addresses are worth nothing, so that nobody who still has one can change the content that was verified.
// Whether it fits its hash is found out by reading it once, since not every such service can be asked for that.
import { createHash } from 'node:crypto';
import { PunctualError } from '@punctual/contract';
import { AwsClient } from 'aws4fetch';
import { allParts, missingParts, partsOf } from '../rules/parts.ts';
import { disposition } from './disposition.ts';
import { type ArtifactStore, type Content, type ContentInParts, objectName, storageError } from './store.ts';

export interface S3Options {
  bucket: string;
  /** Where the service is; AWS in the region unless given. */
  endpoint: string | null;
  region: string;
  /** The bucket as the first step of the path instead of a part of the host name. */
  pathStyle: boolean;
  /** Before the name of every object. */
  prefix: string;
  accessKeyId: string;
  secretAccessKey: string;
}

/** S3 takes no smaller parts but the last. */
const least_part_bytes = 5 * 1024 * 1024;
const request_timeout_ms = 30_000;
/** Putting thousands of parts together takes minutes. */
const complete_timeout_ms = 600_000;
/** Reading a large file to verify it takes its time. */
const verify_timeout_ms = 3_600_000;
const download_seconds = 300;
const max_pages = 20;

export function s3Store(options: S3Options): ArtifactStore {
  const { accessKeyId, secretAccessKey, region, prefix } = options;
  const client = new AwsClient({ accessKeyId, secretAccessKey, region, service: 's3', retries: 2 });
  const base = baseUrl(options);
  const keyOf = (content: Content): string => `${prefix}${objectName(content)}`;
  const urlOf = (content: Content, query: Record<string, string> = {}): string =>
    `${base}/${keyOf(content).split('/').map(encodeURIComponent).join('/')}${queryText(query)}`;

  const send = async (
    method: string,
    url: string,
    body?: string,
    timeoutMs = request_timeout_ms,
  ): Promise<Response> => {
    try {
      const signal = AbortSignal.timeout(timeoutMs);
      return await client.fetch(url, { method, signal, ...(body === undefined ? {} : { body }) });
    } catch (error) {
      throw storageError('S3 did not answer', error);
    }
  };
  const text = async (method: string, url: string, body?: string, timeoutMs?: number): Promise<string> => {
    const response = await send(method, url, body, timeoutMs);
    const answer = await response.text();
    // Completing may fail after the status was sent.
    if (response.ok && !answer.includes('<Error>')) return answer;
    throw new S3Error(response.status, tag(answer, 'Code') ?? '', tag(answer, 'Message') ?? '');
  };
  const presign = async (method: string, url: string, seconds: number): Promise<string> => {
    const signed = new URL(url);
    signed.searchParams.set('X-Amz-Expires', String(seconds));
    // A plus stands for a space in forms only; some services take it for itself.
    return (await client.sign(signed, { method, aws: { signQuery: true } })).url.replaceAll('+', '%20');
  };
  const listParts = async (content: ContentInParts): Promise<Part[]> => {
    const parts: Part[] = [];
    for (let marker = '0', page = 0; page < max_pages; page++) {
      const query = { uploadId: content.multipart ?? '', 'max-parts': '1000', 'part-number-marker': marker };
      const answer = await text('GET', urlOf(content, query));
      parts.push(...tags(answer, 'Part').map(toPart));
      if (tag(answer, 'IsTruncated') !== 'true') break;
      marker = tag(answer, 'NextPartNumberMarker') ?? '';
    }
    return parts;
  };
  /** Null when the parts are not as announced. */
  const putTogether = async (content: ContentInParts): Promise<true | null> => {
    if (partsOf(content) === 0) {
      await text('PUT', urlOf(content), '');
      return true;
    }
    try {
      const parts = await listParts(content);
      // Services differ in what they say of parts that are too small or empty: they are not asked.
      if (missingParts(content, sizesOf(parts)).length > 0) return null;
      const list = parts.map(({ part, etag }) => `<Part><PartNumber>${part}</PartNumber><ETag>${etag}</ETag></Part>`);
      const body = `<CompleteMultipartUpload>${list.join('')}</CompleteMultipartUpload>`;
      await text('POST', urlOf(content, { uploadId: content.multipart ?? '' }), body, complete_timeout_ms);
    } catch (error) {
      // It was completed before, and the answer was lost; or it never will be: reading it tells.
      if (!isGone(error)) throw error;
    }
    return true;
  };
  const guarded = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      throw storageError('S3 refused', error);
    }
  };

  return {
    leastPartBytes: least_part_bytes,
    receive: null,
    begin: (content) =>
      guarded(async () => {
        const answer = await text('POST', urlOf(content, { uploads: '' }));
        const id = tag(answer, 'UploadId');
        if (id === null) throw new Error('the answer names no upload');
        return id;
      }),
    abandon: (content, uploadId) => guarded(async () => void (await send('DELETE', urlOf(content, { uploadId })))),
    stored: (content) =>
      guarded(async () => {
        if (content.multipart === null) return new Map();
        try {
          return sizesOf(await listParts(content));
        } catch (error) {
          if (!isGone(error)) throw error;
        }
        const { ok, status } = await send('HEAD', urlOf(content));
        // Put together by a server that did not live to note it: completing once more verifies it.
        if (ok) return allParts(content);
        if (status !== 404) throw new S3Error(status, '', '');
        return null;
      }),
    addressOf: async (content, part, until, now) => ({
      url: await presign(
        'PUT',
        urlOf(content, { partNumber: String(part), uploadId: content.multipart ?? '' }),
        until - now,
      ),
      headers: {},
    }),
    finish: (content) =>
      guarded(async () => {
        if ((await putTogether(content)) === null) return null;
        const response = await send('GET', urlOf(content), undefined, verify_timeout_ms);
        if (response.status === 404) throw new PunctualError('upload_not_found');
        if (!response.ok || response.body === null) throw new S3Error(response.status, '', await response.text());
        const hash = createHash('sha256');
        let size = 0;
        for await (const chunk of response.body as AsyncIterable<Uint8Array>) {
          hash.update(chunk);
          size += chunk.length;
        }
        return { size, sha256: hash.digest('hex') };
      }),
    read: async (content, _range, { name, contentType }) => ({
      location: await presign(
        'GET',
        urlOf(content, {
          'response-content-disposition': disposition(name),
          'response-content-type': contentType,
        }),
        download_seconds,
      ),
    }),
    remove: (content) =>
      guarded(async () => {
        const answer = await text('GET', `${base}/${queryText({ uploads: '', prefix: keyOf(content) })}`);
        for (const upload of tags(answer, 'Upload')) {
          const uploadId = tag(upload, 'UploadId') ?? '';
          await send('DELETE', urlOf(content, { uploadId }));
        }
        const response = await send('DELETE', urlOf(content));
        if (!response.ok && response.status !== 404) throw new S3Error(response.status, '', await response.text());
      }),
  };
}

class S3Error extends Error {
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(
      `status ${status}${code === '' ? '' : ` ${code}`}${message === '' ? '' : `, ${message.slice(0, 300).replace(/\.$/, '')}`}`,
    );
    this.code = code;
  }
}

/** There is no such upload, or no longer. S3 says the first, Ceph the second of it. */
function isGone(error: unknown): boolean {
  return error instanceof S3Error && ['NoSuchUpload', 'NoSuchKey'].includes(error.code);
}

function baseUrl({ endpoint, region, bucket, pathStyle }: S3Options): string {
  const url = new URL(endpoint ?? `https://s3.${region}.amazonaws.com`);
  const path = url.pathname.replace(/\/$/, '');
  return pathStyle ? `${url.protocol}//${url.host}${path}/${bucket}` : `${url.protocol}//${bucket}.${url.host}${path}`;
}

/** As S3 signs it: every character but the plainest is encoded. */
function queryText(query: Record<string, string>): string {
  const encode = (value: string): string =>
    encodeURIComponent(value).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
  const pairs = Object.entries(query).map(([name, value]) => `${encode(name)}=${encode(value)}`);
  return pairs.length === 0 ? '' : `?${pairs.join('&')}`;
}

interface Part {
  part: number;
  size: number;
  etag: string;
}

function sizesOf(parts: readonly Part[]): Map<number, number> {
  return new Map(parts.map(({ part, size }) => [part, size]));
}

function toPart(xml: string): Part {
  return { part: Number(tag(xml, 'PartNumber')), size: Number(tag(xml, 'Size')), etag: tag(xml, 'ETag') ?? '' };
}

/** Answers of S3 are flat and small: what stands between two tags is all there is to read. */
function tags(xml: string, name: string): string[] {
  return [...xml.matchAll(new RegExp(`<${name}>([\\s\\S]*?)</${name}>`, 'g'))].map((match) => match[1] ?? '');
}

function tag(xml: string, name: string): string | null {
  const found = tags(xml, name)[0];
  return found === undefined ? null : unescaped(found);
}

function unescaped(text: string): string {
  return text.replace(/&(quot|apos|lt|gt|amp|#34|#39);/g, (whole, name: string) => entities[name] ?? whole);
}

const entities: Record<string, string> = { quot: '"', '#34': '"', apos: "'", '#39': "'", lt: '<', gt: '>', amp: '&' };
