// The options of calls that make something, and the Idempotency-Key such a call always carries: a request whose answer was lost
// is sent again with the same key and never makes two. Used by jobs.ts, workflows.ts, backfills.ts and operations.ts.
import { randomUUID } from 'node:crypto';
import { newJobKey } from './job-id.ts';

/** How one call is made. */
export interface RequestOptions {
  /** Ends the call, also between two tries. */
  signal?: AbortSignal | undefined;
  /** The longest one try may take; that of the client unless given. */
  timeoutMs?: number | undefined;
}

/** How something is submitted. */
export interface SubmitOptions extends RequestOptions {
  /** The same key and body never make a second one; a random key unless given. */
  idempotencyKey?: string | undefined;
}

/** What the call is sent with. A job's key is its id, once the server's clock is known. */
export function keyed(
  { idempotencyKey, signal, timeoutMs }: SubmitOptions,
  serverNowMs: number | null = null,
): RequestOptions & { headers: { 'idempotency-key': string } } {
  const key = idempotencyKey ?? (serverNowMs === null ? randomUUID() : newJobKey(serverNowMs));
  return { headers: { 'idempotency-key': key }, signal, timeoutMs };
}
