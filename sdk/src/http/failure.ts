// Turns what can go wrong with a request into a PunctualError that says what happened, where, and how to mend it.
// Called by caller.ts only.
import type { Problem } from '@punctual/contract';
import { fromProblem, PunctualError } from '@punctual/contract/plain';

interface SystemError extends Error {
  code?: string;
  syscall?: string;
  errors?: SystemError[];
}

/** What is known of a request that failed. unsent: not a byte left, so sending it again is always safe. timed_out: the
 *  time the caller was ready to wait is used up, so it is never sent again. */
type Fate = 'unsent' | 'timed_out';
const fates = new WeakMap<PunctualError, Fate>();
const plain: Record<string, string> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'the connection was cut before the answer was complete',
  EPIPE: 'the connection was cut before the answer was complete',
  ENOTFOUND: 'the host name is unknown',
  EAI_AGAIN: 'the host name could not be looked up',
  ETIMEDOUT: 'no answer to the connection attempt',
  EHOSTUNREACH: 'the host cannot be reached',
  ENETUNREACH: 'the network cannot be reached',
};

export function fateOf(error: PunctualError): Fate | undefined {
  return fates.get(error);
}

export interface Where {
  url: string;
  /** Method and path. */
  call: string;
}

export function connectionError({ url, call }: Where, cause: SystemError): PunctualError {
  const inner = cause.errors?.[0] ?? cause;
  const code = cause.code ?? inner.code ?? '';
  const neverConnected = inner.syscall === 'connect' || inner.syscall === 'getaddrinfo';
  const what = plain[code] ?? (cause.message || inner.message || 'connection failed');
  const detail = neverConnected
    ? `No Punctual server answers at ${url} (${what}). Start one with \`punctual start\`, or set the URL to where one runs.`
    : `${call} at ${url} was not answered (${what}). It is not known whether the server acted on it.`;
  const error = new PunctualError('unreachable', { detail, cause });
  if (neverConnected) fates.set(error, 'unsent');
  return error;
}

export function timeoutError({ url, call }: Where, timeoutMs: number): PunctualError {
  const detail = `${call} at ${url} was not answered within ${timeoutMs} ms. It is not known whether the server acted on it.`;
  const error = new PunctualError('unreachable', { detail });
  fates.set(error, 'timed_out');
  return error;
}

export interface FailedAnswer {
  status: number;
  /** The parsed body; undefined when it was not JSON. */
  value: unknown;
  retryAfter: string | undefined;
  cause?: unknown;
}

export function answerError({ url, call }: Where, { status, value, retryAfter, cause }: FailedAnswer): PunctualError {
  const seconds = retryAfterSeconds(retryAfter);
  if (status >= 400 && isProblem(value)) return fromProblem(value, seconds);
  const detail = `${call} at ${url} was answered with status ${status} and no Punctual problem document. Is a Punctual server there, or a proxy in between?`;
  const code = status === 429 ? 'overloaded' : status >= 502 && status <= 504 ? 'unavailable' : 'internal';
  return new PunctualError(code, { detail, retryAfterSeconds: seconds, cause });
}

function isProblem(value: unknown): value is Partial<Problem> {
  return typeof value === 'object' && value !== null && 'code' in value && typeof value.code === 'string';
}

/** Retry-After in seconds; its other form, a date, is turned into seconds from now. */
export function retryAfterSeconds(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d+$/.test(text.trim())) return Number(text);
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : Math.max(0, (at - Date.now()) / 1000);
}
