// The executor `http`: calls a URL and reports its answer. 2xx, or what the job expects, is success; 408, 425, 429, 5xx and
// network errors are tried again; every other answer is fatal. It calls only addresses the rules allow and follows no redirects
// (outgoing/call.ts of the contract). Made by index.ts.
import type { HttpExecutor } from '@punctual/contract';
import {
  addressRules,
  allowedAddresses,
  type HttpAnswer,
  type Lookup,
  OutgoingError,
  orAbort,
  type ResolvedAddress,
  type Sign,
  send,
  shownUrl,
  signer,
} from '@punctual/contract/outgoing';
import { FatalError, type Grant, type Handler, RetryError } from '@punctual/sdk';
import { judge, withoutSecrets } from './http-answer.ts';
import { type FoundSecrets, fillSecrets, findSecrets } from './secrets.ts';
import { fillTemplate } from './template.ts';
import { traceparentOf } from './trace.ts';

export interface HttpExecutorOptions {
  /** Hosts and CIDRs that may be called although they are not public. */
  allow: readonly string[];
  version: string;
  /** Signs every call, see signature.ts; null: none. */
  webhookSecret?: string | null;
  /** Resolves a host name; the system's resolver unless given. */
  lookup?: Lookup | undefined;
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
  const { allow, version, webhookSecret = null, lookup } = options;
  const rules = addressRules(allow);
  const sign = signer(webhookSecret);
  return async (run, ctx) => {
    const executor = run.executor;
    if (executor?.kind !== 'http') throw new FatalError('The run has no http executor.');
    const secrets = await findSecrets(executor, 'executor', ctx);
    const url = parseUrl(fillSecrets(executor.url, secrets));
    const { signal, traceparent } = ctx;
    const answer = await orAbort(allowedAddresses(url.hostname, { rules, lookup, whose: 'worker' }), signal)
      .then((addresses) => call({ url, addresses, executor, run, version, sign, secrets, signal, traceparent }))
      .catch(explain);
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

function explain(error: unknown): never {
  if (!(error instanceof OutgoingError)) throw error;
  throw error.final ? new FatalError(error.message) : new RetryError(error.message, { cause: error.cause });
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
  traceparent: string | undefined;
}

function call(options: CallOptions): Promise<HttpAnswer> {
  const { url, addresses, executor, run, sign, secrets, signal } = options;
  const method = executor.method ?? 'POST';
  const body = bodyOf(method, executor, run, secrets);
  // The id of the message is the same for every attempt: a target that has it already need not take it again.
  const headers = {
    ...headersOf(options, body),
    ...sign(run.run_id, body ?? '', Date.now()),
  };
  return send({ url, addresses, method, headers, body, signal });
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
  { executor, run, secrets, version, traceparent }: CallOptions,
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
  headers['traceparent'] = traceparentOf(run, headers['traceparent'], { traceparent });
  headers['idempotency-key'] = run.run_id;
  headers['punctual-run-id'] = run.run_id;
  headers['punctual-attempt'] = String(run.attempt_number);
  headers['punctual-fence'] = String(run.fence);
  headers['punctual-scheduled-for'] = run.scheduled_for;
  if (body !== undefined) headers['content-length'] = String(Buffer.byteLength(body));
  return headers;
}
