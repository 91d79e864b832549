// One HTTP call to somewhere else. It promises to connect only to addresses the rules allow: it resolves the name itself and
// connects to the very address it checked; it follows no redirects and reads no more of an answer than a bound. Used by the
// http executor of the worker and by the deliveries of the server.
import { lookup as systemLookup } from 'node:dns/promises';
import * as http from 'node:http';
import * as https from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import type { AddressRules } from './addresses.ts';

/** An answer is for people and next steps, not a download. */
const max_answer_bytes = 64 * 1024;

export interface ResolvedAddress {
  address: string;
  family: number;
}

export type Lookup = (host: string) => Promise<ResolvedAddress[]>;

/** Why a call was not made or not answered; `final`: trying again is of no use. */
export class OutgoingError extends Error {
  override name = 'OutgoingError';
  readonly final: boolean;
  constructor(message: string, options: { final: boolean; cause?: unknown }) {
    super(message, { cause: options.cause });
    this.final = options.final;
  }
}

export interface HttpAnswer {
  status: number;
  contentType: string | undefined;
  location: string | undefined;
  retryAfter: string | undefined;
  body: string;
  truncated: boolean;
}

/** The addresses of a host that may be called; at least one. `whose`: whose setting it is. */
export async function allowedAddresses(
  hostname: string,
  {
    rules,
    lookup = lookupAll,
    whose,
  }: { rules: AddressRules; lookup?: Lookup | undefined; whose: 'worker' | 'server' },
): Promise<ResolvedAddress[]> {
  const host = hostname.replace(/^\[|\]$/g, '');
  const family = isIP(host);
  const resolved = family === 0 ? await resolve(host, lookup) : [{ address: host, family }];
  const allowed = rules.allowsHost(host) ? resolved : resolved.filter(({ address }) => rules.allowsAddress(address));
  if (allowed.length > 0) return allowed;
  const where = family === 0 ? `${host} resolves to ${resolved.map(({ address }) => address).join(', ')}, which` : host;
  throw new OutgoingError(
    `${where} is not a public address, so it is not called. If that is wanted, add the host or its network to PUNCTUAL_HTTP_ALLOW of the ${whose}.`,
    { final: true },
  );
}

async function resolve(host: string, lookup: Lookup): Promise<ResolvedAddress[]> {
  let found: ResolvedAddress[];
  try {
    found = await lookup(host);
  } catch (cause) {
    throw new OutgoingError(`The host name ${host} could not be resolved`, { final: false, cause });
  }
  if (found.length > 0) return found;
  throw new OutgoingError(`The host name ${host} has no address.`, { final: false });
}

function lookupAll(host: string): Promise<ResolvedAddress[]> {
  return systemLookup(host, { all: true });
}

export interface OutgoingCall {
  url: URL;
  /** Those that were checked. */
  addresses: ResolvedAddress[];
  method: string;
  headers: Record<string, string>;
  body: string | undefined;
  signal: AbortSignal;
}

/** Rejects with the signal's reason when it is aborted, else with an OutgoingError. */
export function send({ url, addresses, method, headers, body, signal }: OutgoingCall): Promise<HttpAnswer> {
  return new Promise((resolveAnswer, reject) => {
    const fail = (error: Error & { code?: string }): void => {
      const why = error.message || error.code || 'the connection failed';
      reject(
        signal.aborted
          ? signal.reason
          : new OutgoingError(`${method} ${shownUrl(url)} failed: ${why}`, { final: false }),
      );
    };
    // A connection for each call: a kept one would outlive the check of its address.
    const options = { method, headers, agent: false as const, lookup: pinned(addresses), signal };
    const request = url.protocol === 'https:' ? https.request(url, options) : http.request(url, options);
    request.on('error', fail);
    request.on('response', (response) => readAnswer(response).then(resolveAnswer, fail));
    request.end(body);
  });
}

/** Answers every question for an address with those that were checked. */
function pinned(addresses: ResolvedAddress[]): LookupFunction {
  return (_host, options, callback) => {
    const wanted = addresses.filter(
      ({ family }) => options.family === 0 || options.family === undefined || family === options.family,
    );
    const usable = wanted.length > 0 ? wanted : addresses;
    if (options.all === true) callback(null, usable);
    else callback(null, usable[0]?.address ?? '', usable[0]?.family);
  };
}

async function readAnswer(response: http.IncomingMessage): Promise<HttpAnswer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    bytes += chunk.length;
    // Leaving the loop destroys the response and its connection.
    if (bytes > max_answer_bytes) break;
  }
  const { headers } = response;
  return {
    status: response.statusCode ?? 0,
    contentType: headers['content-type'],
    location: headers.location,
    retryAfter: headers['retry-after'],
    body: Buffer.concat(chunks).subarray(0, max_answer_bytes).toString(),
    truncated: bytes > max_answer_bytes,
  };
}

/** Retry-After as a duration; it comes as seconds or as a date. */
export function retryAfterMs(text: string | undefined, now: number): number | undefined {
  if (text === undefined) return undefined;
  if (/^\s*\d+\s*$/.test(text)) return Number(text) * 1000;
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : Math.max(0, at - now);
}

/** Without user, password and query, which may be secrets. */
export function shownUrl(url: URL): string {
  return `${url.origin}${url.pathname}`;
}

/** The promise, unless the signal comes first: looking up a name cannot be aborted. */
export function orAbort<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  return new Promise((resolvePromise, reject) => {
    const onAbort = (): void => reject(signal.reason as Error);
    signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolvePromise, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}
