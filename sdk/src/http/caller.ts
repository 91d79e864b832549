// JSON over HTTP/1.1 with keep-alive: one request, one answer, every failure a PunctualError. Client and the worker's
// protocol thread call it. It promises that nothing is sent twice unless that is safe. The layers below it speak HTTP on
// plain sockets because fetch and node:http cost three to eight times the CPU for each small request.
import { setTimeout as sleep } from 'node:timers/promises';
import { PunctualError } from '@punctual/contract/plain';
import { headerOf, type RawAnswer } from './answer.ts';
import { answerError, connectionError, fateOf, timeoutError, type Where } from './failure.ts';
import { DeadlineError, Pool } from './pool.ts';
import { ServerClock } from './server-clock.ts';

/** Which requests are sent again, how often, and with what pauses. Only those that are safe to repeat ever are. */
export interface RetryOptions {
  /** How often one is sent again; 3 unless given. */
  retries?: number | undefined;
  /** The pause before the second try; each further one is twice as long, spread by half. 100 ms unless given. */
  firstPauseMs?: number | undefined;
  /** The longest pause; 2 seconds unless given. */
  maxPauseMs?: number | undefined;
  /** A server that asks for a longer pause (Retry-After) gets its error passed on at once; 30 seconds unless given. */
  maxRetryAfterMs?: number | undefined;
}

export interface RetryPolicy {
  retries: number;
  firstPauseMs: number;
  maxPauseMs: number;
  maxRetryAfterMs: number;
}

const default_retry: RetryPolicy = { retries: 3, firstPauseMs: 100, maxPauseMs: 2_000, maxRetryAfterMs: 30_000 };

export function retryPolicy(given: RetryOptions | false | undefined, base: RetryPolicy = default_retry): RetryPolicy {
  if (given === false) return { ...base, retries: 0 };
  if (given === undefined) return base;
  return {
    retries: given.retries ?? base.retries,
    firstPauseMs: given.firstPauseMs ?? base.firstPauseMs,
    maxPauseMs: given.maxPauseMs ?? base.maxPauseMs,
    maxRetryAfterMs: given.maxRetryAfterMs ?? base.maxRetryAfterMs,
  };
}

export interface CallerOptions {
  url: string;
  /** The longest one request may take, from the call to the end of the answer. */
  timeoutMs: number;
  /** When a request that is safe to repeat is sent again. */
  retry: RetryPolicy;
  maxSockets: number;
  /** Sent as a bearer, instead of what the URL says about who calls. */
  apiKey?: string | undefined;
  /** Which kinds of answers it can read; JSON unless given. */
  accept?: string | undefined;
}

export interface Request {
  method: string;
  /** Path and query, beginning with a slash. */
  path: string;
  headers?: Record<string, string | undefined> | undefined;
  body?: unknown;
  /** The body as JSON text already; instead of `body`. */
  json?: string | undefined;
  signal?: AbortSignal | undefined;
  /** Overrides the caller's timeout. */
  timeoutMs?: number | undefined;
  /** Overrides when the caller sends it again. */
  retry?: RetryPolicy | undefined;
  /** Small, and soon answered: if it is safe to repeat it may leave together with others, on one connection. */
  pipelined?: boolean | undefined;
}

export class HttpCaller {
  readonly url: string;
  /** Who calls, as a header; '' when nothing says so. */
  readonly authorization: string;
  readonly #options: CallerOptions;
  readonly #pool: Pool;
  readonly #prefix: string;
  /** The headers that are the same for every request. */
  readonly #headers: string;
  readonly #clock = new ServerClock();
  #closed = false;

  constructor(options: CallerOptions) {
    const url = parseUrl(options.url);
    const secure = url.protocol === 'https:';
    this.url = `${url.protocol}//${url.host}${url.pathname}`.replace(/\/$/, '');
    this.#options = options;
    this.#prefix = url.pathname.replace(/\/$/, '');
    this.authorization = options.apiKey === undefined ? authorization(url) : `Bearer ${options.apiKey}`;
    this.#headers = `host: ${url.host}\r\naccept: ${options.accept ?? 'application/json'}\r\n${this.authorization === '' ? '' : `authorization: ${this.authorization}\r\n`}`;
    const host = url.hostname.replace(/^\[|\]$/g, '');
    this.#pool = new Pool({ secure, host, port: Number(url.port) || (secure ? 443 : 80) }, options.maxSockets);
  }

  /** Sends a request and returns the parsed body of a 2xx answer. */
  async send(request: Request): Promise<unknown> {
    const { body } = await this.sendForAnswer(request);
    if (body.length === 0) return undefined;
    try {
      return JSON.parse(body.toString());
    } catch (cause) {
      throw answerError(this.#where(request), { status: 200, value: undefined, retryAfter: undefined, cause });
    }
  }

  /** Sends a request, again if that is safe and worth it, and returns a 2xx answer as it came. */
  async sendForAnswer(request: Request): Promise<RawAnswer> {
    const repeatable = request.method === 'GET' || request.headers?.['idempotency-key'] !== undefined;
    const message = this.#write(request);
    const policy = request.retry ?? this.#options.retry;
    const pipelined = request.pipelined === true && repeatable;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.#sendOnce(request, message, pipelined);
      } catch (error) {
        const pause = pauseBefore(attempt, error, { repeatable, policy });
        if (pause === null || attempt > policy.retries || this.#closed) throw error;
        await pauseFor(pause, request.signal);
      }
    }
  }

  /** The server's time in ms since 1970, to a second or two; null before its first answer. */
  serverTime(): number | null {
    return this.#clock.now();
  }

  /** Ends every connection; requests in flight fail. */
  close(): void {
    this.#closed = true;
    this.#pool.close(new PunctualError('unreachable', { detail: `The client of ${this.url} was closed.` }));
  }

  async #sendOnce(
    request: Request,
    { text, isAscii }: { text: string; isAscii: boolean },
    pipelined: boolean,
  ): Promise<RawAnswer> {
    if (this.#closed) throw new PunctualError('unreachable', { detail: `The client of ${this.url} was closed.` });
    const timeoutMs = request.timeoutMs ?? this.#options.timeoutMs;
    let answer: RawAnswer;
    try {
      answer = await this.#pool.request({ text, isAscii, timeoutMs, signal: request.signal, pipelined });
    } catch (error) {
      if (error instanceof PunctualError || request.signal?.aborted) throw error;
      const where = this.#where(request);
      throw error instanceof DeadlineError ? timeoutError(where, timeoutMs) : connectionError(where, error as Error);
    }
    const { status, head, body } = answer;
    this.#clock.heard(head);
    if (status >= 200 && status < 300) return answer;
    throw answerError(this.#where(request), { status, value: parsed(body), retryAfter: headerOf(head, 'retry-after') });
  }

  #where({ method, path }: Request): Where {
    return { url: this.url, call: `${method} ${path.split('?', 1)[0]}` };
  }

  #write({ method, path, headers, body, json = body === undefined ? undefined : JSON.stringify(body) }: Request): {
    text: string;
    isAscii: boolean;
  } {
    let text = `${method} ${this.#prefix}${path} HTTP/1.1\r\n${this.#headers}`;
    for (const name in headers) {
      const value = headers[name];
      if (value !== undefined) text += `${name}: ${checkedValue(name, value)}\r\n`;
    }
    if (json === undefined)
      return { text: `${text}${method === 'GET' ? '' : 'content-length: 0\r\n'}\r\n`, isAscii: true };
    const bytes = Buffer.byteLength(json);
    text += `content-type: application/json\r\ncontent-length: ${bytes}\r\n\r\n${json}`;
    return { text, isAscii: bytes === json.length };
  }
}

/** How long to wait before sending again, or null when it must not or need not be sent again. */
function pauseBefore(
  attempt: number,
  error: unknown,
  { repeatable, policy }: { repeatable: boolean; policy: RetryPolicy },
): number | null {
  if (!(error instanceof PunctualError) || (error.status !== 503 && error.status !== 429)) return null;
  const fate = fateOf(error);
  if (fate === 'timed_out' || (!repeatable && fate !== 'unsent')) return null;
  if (error.retryAfterSeconds !== undefined) {
    const askedMs = error.retryAfterSeconds * 1000;
    return askedMs > policy.maxRetryAfterMs ? null : askedMs + Math.random() * policy.firstPauseMs;
  }
  return Math.min(policy.maxPauseMs, policy.firstPauseMs * 2 ** (attempt - 1)) * (0.5 + Math.random() / 2);
}

/** Rejects with the reason of the signal, as the request itself would. */
async function pauseFor(ms: number, signal: AbortSignal | undefined): Promise<void> {
  if (signal === undefined) return sleep(ms);
  await sleep(ms, undefined, { signal }).catch(() => signal.throwIfAborted());
}

function parsed(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString());
  } catch {
    return undefined;
  }
}

/** A line break in a value would begin another header, or another request. */
function checkedValue(name: string, value: string): string {
  if (/[^\x20-\x7e]/.test(value)) throw new TypeError(`The header ${name} may hold printable ASCII only.`);
  return value;
}

function authorization(url: URL): string {
  if (url.username === '') return '';
  const pair = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
  return `Basic ${Buffer.from(pair).toString('base64')}`;
}

function parseUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw new TypeError(
      `${JSON.stringify(text)} is not the URL of a Punctual server; it must look like http://127.0.0.1:7600.`,
    );
  }
  return url;
}
