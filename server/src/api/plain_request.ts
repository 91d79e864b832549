// Reads a request that is as plain as the programs that submit jobs write it: a POST that has arrived whole, with headers whose
// meaning is known here, each once; what follows it may be the next. Pure; quick_door.ts calls it. Whatever is not of that form
// is null, not an error: a real parser of HTTP then decides what it means. So nothing is understood here in another way than
// there.
import { isUtf8 } from 'node:buffer';

/** What these mean to a submit is known: nothing, or what the guard and the handler make of them. Those of browsers are missing. */
const known: ReadonlySet<string> = new Set([
  'host',
  'user-agent',
  'accept',
  'accept-encoding',
  'accept-language',
  'authorization',
  'connection',
  'content-length',
  'content-type',
  'idempotency-key',
  'traceparent',
  'tracestate',
  // What proxies add.
  'forwarded',
  'via',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-port',
  'x-forwarded-proto',
  'x-real-ip',
  'x-request-id',
]);

/** More than programs send; the reader of everything else has its own limit. */
const maxHeaders = 20;
const maxHeadBytes = 8 * 1024;
const requestLine = /^POST (\/[a-z_/-]*) HTTP\/1\.1$/;
const headerLine = /^([A-Za-z-]+):[ \t]*([\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)$/;
const length = /^[1-9]\d{0,6}$/;
const json = /^application\/json(?:; ?charset=utf-8)?$/i;
const headEnd = '\r\n\r\n';

export interface PlainRequest {
  path: string;
  /** By their names in lower case. */
  headers: Record<string, string>;
  body: string;
  /** Where it ends among the bytes. */
  end: number;
}

/** It may become one when more has come. */
export const unfinished = Symbol('unfinished');

/** The one that begins at `from`. */
export function readPlainRequest(bytes: Buffer, from = 0): PlainRequest | typeof unfinished | null {
  const headEnds = bytes.indexOf(headEnd, from, 'latin1');
  if ((headEnds === -1 ? bytes.length : headEnds) - from > maxHeadBytes) return null;
  if (headEnds === -1) return unfinished;
  const lines = bytes.toString('latin1', from, headEnds).split('\r\n');
  const path = requestLine.exec(lines[0] as string)?.[1];
  if (path === undefined || lines.length > maxHeaders) return null;
  const headers: Record<string, string> = {};
  for (let i = 1; i < lines.length; i++) {
    const line = headerLine.exec(lines[i] as string);
    if (line === null) return null;
    const name = (line[1] as string).toLowerCase();
    if (!known.has(name) || headers[name] !== undefined) return null;
    headers[name] = line[2] as string;
  }
  if (!isPlain(headers)) return null;
  const begin = headEnds + headEnd.length;
  const end = begin + Number(headers['content-length']);
  if (end > bytes.length) return unfinished;
  if (!isUtf8(bytes.subarray(begin, end))) return null;
  return { path, headers, body: bytes.toString('utf8', begin, end), end };
}

function isPlain(headers: Readonly<Record<string, string>>): boolean {
  const { host, connection = 'keep-alive', 'content-type': type, 'content-length': said = '' } = headers;
  return (
    host !== undefined && connection === 'keep-alive' && type !== undefined && json.test(type) && length.test(said)
  );
}
