// A small service that speaks S3 on loopback, for tests: objects and multipart uploads in memory. It verifies the signature
// of every request and of every presigned address with a signer of its own (the one of the AWS SDK), their time, and what
// S3 is strict about: etags, the order and the least size of parts. Lists come in short pages, to be read to their end.
import { createHash, timingSafeEqual } from 'node:crypto';
import * as http from 'node:http';
import type { AddressInfo } from 'node:net';
import { Sha256 } from '@aws-crypto/sha256-js';
import { SignatureV4 } from '@smithy/signature-v4';

const credentials = { accessKeyId: 'AKTEST', secretAccessKey: 'a secret of the test' };
const region = 'eu-test-1';
const bucket = 'files';
const least_part_bytes = 5 * 1024 * 1024;
const page_parts = 1;
const hashHeader = 'x-amz-content-sha256';

interface MultipartUpload {
  key: string;
  parts: Map<number, { body: Buffer; etag: string }>;
}

export interface S3 extends AsyncDisposable {
  config: {
    s3_bucket: string;
    s3_endpoint: string;
    s3_region: string;
    s3_path_style: true;
    s3_prefix: string;
    s3_access_key_id: string;
    s3_secret_access_key: string;
  };
  objects: Map<string, Buffer>;
  uploads: Map<string, MultipartUpload>;
  /** Requests that were refused because of their signature. */
  refused: string[];
  /** Every request, as method and what it was about. */
  calls: string[];
  /** Answers every request with 503 while set. */
  isDown: boolean;
  /** What is said of parts of an upload that is not there: Ceph calls it NoSuchKey. */
  goneCode: 'NoSuchUpload' | 'NoSuchKey';
}

class Refusal extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string) {
    super(code);
    this.status = status;
    this.code = code;
  }
}

const signer = new SignatureV4({ credentials, region, service: 's3', sha256: Sha256, uriEscapePath: false });

export async function openS3(): Promise<S3> {
  const server = http.createServer((request, response) => void answer(s3, request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const s3: S3 = {
    config: {
      ...{ s3_bucket: bucket, s3_region: region, s3_path_style: true, s3_prefix: 'some/prefix/' },
      s3_endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      ...{ s3_access_key_id: credentials.accessKeyId, s3_secret_access_key: credentials.secretAccessKey },
    },
    ...{ objects: new Map(), uploads: new Map(), refused: [], calls: [], isDown: false, goneCode: 'NoSuchUpload' },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return s3;
}

async function answer(s3: S3, request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  const url = new URL(request.url ?? '', `http://${request.headers.host}`);
  try {
    if (s3.isDown) throw new Refusal(503, 'SlowDown');
    await verify(request, url, body).catch((error: unknown) => {
      s3.refused.push(`${request.method} ${request.url} ${String(error)}`);
      throw new Refusal(403, 'SignatureDoesNotMatch');
    });
    const [, named, ...rest] = url.pathname.split('/').map(decodeURIComponent);
    if (named !== bucket) throw new Refusal(404, 'NoSuchBucket');
    const what = act(s3, { method: request.method ?? '', key: rest.join('/'), query: url.searchParams, body });
    response.writeHead(what.status ?? 200, what.headers ?? {}).end(what.body ?? '');
  } catch (error) {
    const { status, code } = error instanceof Refusal ? error : new Refusal(500, String(error));
    response.writeHead(status, { 'content-type': 'application/xml' });
    response.end(`<?xml version="1.0"?><Error><Code>${code}</Code><Message>refused</Message></Error>`);
  }
}

/** Signs the request once more, as it was signed, and compares. */
async function verify(request: http.IncomingMessage, url: URL, body: Buffer): Promise<void> {
  const query = Object.fromEntries(url.searchParams);
  const isPresigned = 'X-Amz-Signature' in query;
  const given = isPresigned ? presignedWith(query) : headerWith(request.headers.authorization ?? '');
  const stamp = String(isPresigned ? query['X-Amz-Date'] : request.headers['x-amz-date']);
  const signingDate = new Date(stamp.replace(/^(....)(..)(..T..)(..)(..)Z$/, '$1-$2-$3:$4:$5Z'));
  const ageMs = Date.now() - signingDate.getTime();
  const lifeMs = isPresigned ? Number(query['X-Amz-Expires']) * 1000 : 900_000;
  if (!(ageMs > -60_000 && ageMs < lifeMs)) throw new Error('it has expired');
  const names = given.signedHeaders.split(';');
  if (!names.includes('host')) throw new Error('the host is not signed');
  const headers = Object.fromEntries(names.map((name) => [name, String(request.headers[name])]));
  const unsigned = Object.fromEntries(Object.entries(query).filter(([name]) => !/^X-Amz-(?!Content)/.test(name)));
  const plain = {
    ...{ method: request.method ?? '', protocol: 'http:', hostname: url.hostname, port: Number(url.port) },
    ...{ path: url.pathname, query: unsigned, headers },
  };
  const made = isPresigned
    ? await presignAgain(plain, Number(query['X-Amz-Expires']), signingDate)
    : await signAgain(plain, signingDate, request.headers[hashHeader] as string | undefined, body);
  const [ours, theirs] = [Buffer.from(made, 'hex'), Buffer.from(given.signature, 'hex')];
  if (ours.length !== theirs.length || !timingSafeEqual(ours, theirs)) throw new Error('the signature is wrong');
}

type Plain = Parameters<SignatureV4['presign']>[0];

async function presignAgain(plain: Plain, expiresIn: number, signingDate: Date): Promise<string> {
  // The hash of the body is not known beforehand; it is neither signed nor part of the address.
  const hidden = new Set([hashHeader]);
  const request = { ...plain, headers: { ...plain.headers, [hashHeader]: 'UNSIGNED-PAYLOAD' } };
  const options = { expiresIn, signingDate, unsignableHeaders: hidden, unhoistableHeaders: hidden };
  return String((await signer.presign(request, options)).query?.['X-Amz-Signature']);
}

async function signAgain(plain: Plain, signingDate: Date, hash: string | undefined, body: Buffer): Promise<string> {
  if (hash !== 'UNSIGNED-PAYLOAD' && hash !== createHash('sha256').update(body).digest('hex'))
    throw new Error('the hash of the body is wrong');
  const { headers } = await signer.sign(
    { ...plain, headers: { ...plain.headers, [hashHeader]: hash } },
    { signingDate },
  );
  return headerWith(String(headers['authorization'])).signature;
}

function presignedWith(query: Record<string, string>): { signedHeaders: string; signature: string } {
  if (!query['X-Amz-Credential']?.startsWith(`${credentials.accessKeyId}/`)) throw new Error('another key');
  return { signedHeaders: query['X-Amz-SignedHeaders'] ?? '', signature: query['X-Amz-Signature'] ?? '' };
}

function headerWith(header: string): { signedHeaders: string; signature: string } {
  const [, key, signedHeaders = '', signature = ''] =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/[^,]+, SignedHeaders=([^,]+), Signature=([0-9a-f]{64})$/.exec(header) ?? [];
  if (key !== credentials.accessKeyId) throw new Error('it is not signed');
  return { signedHeaders, signature };
}

interface Asked {
  method: string;
  key: string;
  query: URLSearchParams;
  body: Buffer;
}

interface Said {
  status?: number;
  headers?: Record<string, string>;
  body?: string | Buffer;
}

function act(s3: S3, asked: Asked): Said {
  const { method, key, query, body } = asked;
  const uploadId = query.get('uploadId');
  const about = [
    query.has('uploads') ? ' uploads' : '',
    uploadId === null ? '' : ' upload',
    query.has('partNumber') ? ' part' : '',
  ];
  s3.calls.push(`${method}${about.join('')}`);
  if (key === '' && query.has('uploads')) return listUploads(s3, query.get('prefix') ?? '');
  if (method === 'POST' && query.has('uploads')) {
    const id = `id+/${s3.uploads.size + s3.calls.length}=`;
    s3.uploads.set(id, { key, parts: new Map() });
    return { body: `<R><Bucket>${bucket}</Bucket><Key>${key}</Key><UploadId>${id}</UploadId></R>` };
  }
  if (uploadId !== null) return actOnUpload(s3, asked, uploadId);
  if (method === 'PUT') {
    s3.objects.set(key, body);
    return {};
  }
  if (method === 'DELETE') {
    s3.objects.delete(key);
    return { status: 204 };
  }
  const found = s3.objects.get(key);
  if (found === undefined) throw new Refusal(404, 'NoSuchKey');
  const disposition = query.get('response-content-disposition');
  return {
    body: found,
    headers: {
      'content-type': query.get('response-content-type') ?? 'binary/octet-stream',
      ...(disposition === null ? {} : { 'content-disposition': disposition }),
    },
  };
}

function actOnUpload(s3: S3, { method, key, query, body }: Asked, id: string): Said {
  const upload = s3.uploads.get(id);
  if (upload === undefined || upload.key !== key) throw new Refusal(404, s3.goneCode);
  if (method === 'DELETE') {
    s3.uploads.delete(id);
    return { status: 204 };
  }
  if (method === 'PUT') {
    const etag = `"${createHash('md5').update(body).digest('hex')}"`;
    upload.parts.set(Number(query.get('partNumber')), { body, etag });
    return { headers: { etag } };
  }
  return method === 'GET'
    ? listParts(upload, Number(query.get('part-number-marker') ?? 0))
    : complete(s3, upload, id, body);
}

function listParts({ parts }: MultipartUpload, marker: number): Said {
  const all = [...parts].filter(([part]) => part > marker).sort(([a], [b]) => a - b);
  const page = all.slice(0, page_parts);
  const rows = page.map(
    ([part, { body, etag }]) =>
      `<Part><PartNumber>${part}</PartNumber><ETag>${etag.replaceAll('"', '&quot;')}</ETag><Size>${body.length}</Size></Part>`,
  );
  const more = all.length > page.length;
  return {
    body: `<R><IsTruncated>${more}</IsTruncated><NextPartNumberMarker>${page.at(-1)?.[0] ?? 0}</NextPartNumberMarker>${rows.join('')}</R>`,
  };
}

function complete(s3: S3, upload: MultipartUpload, id: string, body: Buffer): Said {
  const listed = [...body.toString().matchAll(/<PartNumber>(\d+)<\/PartNumber><ETag>(.*?)<\/ETag>/g)];
  if (listed.length === 0) throw new Refusal(400, 'MalformedXML');
  const parts = listed.map(([, part, etag]) => {
    const found = upload.parts.get(Number(part));
    if (found === undefined || found.etag !== etag) throw new Refusal(400, 'InvalidPart');
    return found.body;
  });
  if (parts.slice(0, -1).some((part) => part.length < least_part_bytes)) throw new Refusal(400, 'EntityTooSmall');
  if (listed.some(([, part], i) => i > 0 && Number(part) <= Number(listed[i - 1]?.[1])))
    throw new Refusal(400, 'InvalidPartOrder');
  s3.objects.set(upload.key, Buffer.concat(parts));
  s3.uploads.delete(id);
  return { body: '<R><ETag>done</ETag></R>' };
}

function listUploads(s3: S3, prefix: string): Said {
  const rows = [...s3.uploads]
    .filter(([, { key }]) => key.startsWith(prefix))
    .map(([id, { key }]) => `<Upload><Key>${key}</Key><UploadId>${id}</UploadId></Upload>`);
  return { body: `<R>${rows.join('')}</R>` };
}
