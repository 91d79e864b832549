// The executor `http`: calls a URL and reports its answer. 2xx, or what the job expects, is success; 408, 425, 429, 5xx and
// network errors are tried again; every other answer is fatal. It promises to call only addresses the rules allow: it resolves the name itself and
// connects to the very address it checked, and it follows no redirects. Made by index.ts.
import { lookup as systemLookup } from 'node:dns/promises';
import * as http from 'node:http';
import * as https from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import type { HttpExecutor } from '@punctual/contract';
import { FatalError, type Grant, type Handler, RetryError } from '@punctual/sdk';
import { type AddressRules, addressRules } from './addresses.ts';
import { type HttpAnswer, judge, readAnswer, withoutSecrets } from './http-answer.ts';
import { type FoundSecrets, fillSecrets, findSecrets } from './secrets.ts';
import { type Sign, signer } from './signature.ts';
import { fillTemplate } from './template.ts';
import { traceparentOf } from './trace.ts';

export interface ResolvedAddress {
  address: string;
  family: number;
}

export interface HttpExecutorOptions {
  /** Hosts and CIDRs that may be called although they are not public. */
  allow: readonly string[];
  version: string;
  /** Signs every call, see signature.ts; null: none. */
  webhookSecret?: string | null;
  /** Resolves a host name; the system's resolver unless given. */
  lookup?: (host: string) => Promise<ResolvedAddress[]>;
}

/** Headers that belong to the connection or that tell the target which run calls: the worker sets them. */
const ownHeaders = new Set([
  'host',
  'content-length',
  'transfer-encoding',
  'connection',
  'keep-alive',
  'te',
  'trailer',
  'upgrade',
  'expect',
  'idempotency-key',
  'punctual-run-id',
  'punctual-attempt',
  'punctual-fence',
  'punctual-scheduled-for',
  'webhook-id',
  'webhook-timestamp',
  'webhook-signature',
]);

export function httpExecutor(options: HttpExecutorOptions): Handler {
  const { allow, version, webhookSecret = null, lookup = lookupAll } = options;
  const rules = addressRules(allow);
  const sign = signer(webhookSecret);
  return async (run, ctx) => {
    const executor = run.executor;
    if (executor?.kind !== 'http') throw new FatalError('The run has no http executor.');
    const secrets = await findSecrets(executor, 'executor', ctx);
    const url = parseUrl(fillSecrets(executor.url, secrets));
    const addresses = await orAbort(allowedAddresses(url, rules, lookup), ctx.signal);
    const answer = await call({ url, addresses, executor, run, version, sign, secrets, signal: ctx.signal });
    // Before anything is cut off: a part of a secret would not be recognized.
    return judge(
      withoutSecrets(answer, ctx.redactor),
      `${executor.method ?? 'POST'} ${shownUrl(url)}`,
      executor.expect,
    );
  };
}

function parseUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw new FatalError('The url of the executor is not a valid http or https URL.');
  }
  return url;
}

/** The addresses of the URL's host that may be called; at least one. */
async function allowedAddresses(
  url: URL,
  rules: AddressRules,
  lookup: (host: string) => Promise<ResolvedAddress[]>,
): Promise<ResolvedAddress[]> {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const family = isIP(host);
  const resolved = family === 0 ? await resolve(host, lookup) : [{ address: host, family }];
  const allowed = rules.allowsHost(host) ? resolved : resolved.filter(({ address }) => rules.allowsAddress(address));
  if (allowed.length > 0) return allowed;
  const where = family === 0 ? `${host} resolves to ${resolved.map(({ address }) => address).join(', ')}, which` : host;
  throw new FatalError(
    `${where} is not a public address, so it is not called. If that is wanted, add the host or its network to PUNCTUAL_HTTP_ALLOW of the worker.`,
  );
}

async function resolve(host: string, lookup: (host: string) => Promise<ResolvedAddress[]>): Promise<ResolvedAddress[]> {
  try {
    const found = await lookup(host);
    if (found.length > 0) return found;
  } catch (cause) {
    throw new RetryError(`The host name ${host} could not be resolved`, { cause });
  }
  throw new RetryError(`The host name ${host} has no address.`);
}

function lookupAll(host: string): Promise<ResolvedAddress[]> {
  return systemLookup(host, { all: true });
}

interface CallOptions {
  url: URL;
  addresses: ResolvedAddress[];
  executor: HttpExecutor;
  run: Grant;
  version: string;
  sign: Sign;
  secrets: FoundSecrets;
  signal: AbortSignal;
}

function call({ url, addresses, executor, run, version, sign, secrets, signal }: CallOptions): Promise<HttpAnswer> {
  const method = executor.method ?? 'POST';
  const body = bodyOf(method, executor, run, secrets);
  // The id of the message is the same for every attempt: a target that has it already need not take it again.
  const headers = {
    ...headersOf({ executor, run, secrets, version }, body),
    ...sign(run.run_id, body ?? '', Date.now()),
  };
  return new Promise((resolveAnswer, reject) => {
    const fail = (error: Error): void =>
      reject(signal.aborted ? signal.reason : networkError(`${method} ${shownUrl(url)}`, error));
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

function bodyOf(method: string, executor: HttpExecutor, run: Grant, secrets: FoundSecrets): string | undefined {
  const isBodyless = method === 'GET' || method === 'HEAD';
  const template = executor.body ?? undefined;
  const body =
    template === undefined ? (isBodyless ? undefined : run.payload) : fillTemplate(template, run.payload, secrets);
  if (body === undefined || body === null) return undefined;
  const type = Object.entries(executor.headers ?? {}).find(([name]) => name.toLowerCase() === 'content-type')?.[1];
  return typeof body === 'string' && type !== undefined && !type.includes('json') ? body : JSON.stringify(body);
}

function headersOf(
  { executor, run, secrets, version }: Pick<CallOptions, 'executor' | 'run' | 'secrets' | 'version'>,
  body: string | undefined,
): Record<string, string> {
  const headers: Record<string, string> = {
    'user-agent': `Punctual/${version}`,
    accept: '*/*',
    'accept-encoding': 'identity',
  };
  if (body !== undefined) headers['content-type'] = 'application/json';
  for (const [given, value] of Object.entries(executor.headers ?? {})) {
    const name = given.toLowerCase();
    if (ownHeaders.has(name))
      throw new FatalError(`The header ${given} is set by Punctual; leave it out of the executor.`);
    headers[name] = fillSecrets(value, secrets);
    if (/\p{Cc}/u.test(headers[name]))
      throw new FatalError(`The header ${given} gets a secret with line breaks or other control characters.`);
  }
  headers['traceparent'] = traceparentOf(run, headers['traceparent']);
  headers['idempotency-key'] = run.run_id;
  headers['punctual-run-id'] = run.run_id;
  headers['punctual-attempt'] = String(run.attempt_number);
  headers['punctual-fence'] = String(run.fence);
  headers['punctual-scheduled-for'] = run.scheduled_for;
  if (body !== undefined) headers['content-length'] = String(Buffer.byteLength(body));
  return headers;
}

function networkError(what: string, error: Error & { code?: string }): Error {
  return new RetryError(`${what} failed: ${error.message || error.code || 'the connection failed'}`);
}

/** Without user, password and query, which may be secrets. */
function shownUrl(url: URL): string {
  return `${url.origin}${url.pathname}`;
}

/** The promise, unless the signal comes first: looking up a name cannot be aborted. */
function orAbort<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  return new Promise((resolvePromise, reject) => {
    const onAbort = (): void => reject(signal.reason as Error);
    signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolvePromise, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}
