// How an attempt ended, as the JSON that goes over the wire. Pure. A result that cannot be sent and an error of any shape
// both become an outcome that says clearly what is wrong.
import type { Outcome } from '@punctual/contract';
import { limits } from '@punctual/contract/plain';
import { FatalError, RetryError, RunAbortedError } from './errors.ts';

export interface Leased {
  run_id: string;
  lease_id: string;
}

export function successText({ run_id, lease_id }: Leased, value: unknown): string {
  const head = `{"run_id":"${run_id}","lease_id":"${lease_id}","status":"SUCCESS"`;
  try {
    const json = resultText(value);
    return json === undefined ? `${head}}` : `${head},"result":${json}}`;
  } catch (error) {
    return failureText({ run_id, lease_id }, error);
  }
}

/** The result as JSON; undefined when there is none. Throws when it cannot be sent: trying again would not help. */
export function resultText(value: unknown): string | undefined {
  if (value === undefined) return undefined;
  let json: string | undefined;
  try {
    json = JSON.stringify(value);
  } catch (error) {
    throw new FatalError(`The handler returned a value that is not JSON: ${messageOf(error)}.`);
  }
  if (json === undefined) throw new FatalError(`The handler returned a ${typeof value}, which is not JSON.`);
  const bytes = Buffer.byteLength(json);
  if (bytes > limits.max_result_bytes) {
    throw new FatalError(
      `The handler returned a result of ${bytes} bytes; at most ${limits.max_result_bytes} are kept. Store it elsewhere and return where.`,
    );
  }
  return json;
}

export function failureText({ run_id, lease_id }: Leased, error: unknown, more: { timed_out?: true } = {}): string {
  const outcome: Outcome = {
    run_id,
    lease_id,
    status: 'FAILED',
    error_message: messageOf(error),
    retryable: !(error instanceof FatalError),
    ...more,
  };
  if (error instanceof RetryError && error.retryAfterMs !== undefined) {
    outcome.retry_after_ms = Math.round(Math.min(Math.max(0, error.retryAfterMs), limits.max_backoff_ms)) || 0;
  }
  return JSON.stringify(outcome);
}

export function cancelledText({ run_id, lease_id }: Leased, error: unknown): string {
  return JSON.stringify({ run_id, lease_id, status: 'CANCELLED', error_message: messageOf(error) } satisfies Outcome);
}

/** Gives back a run that was never started. */
export function releasedText({ run_id, lease_id }: Leased): string {
  return JSON.stringify({ run_id, lease_id, status: 'RELEASED' } satisfies Outcome);
}

export function messageOf(error: unknown): string {
  let text: string;
  if (error instanceof Error) {
    const isOurs = error instanceof FatalError || error instanceof RetryError || error instanceof RunAbortedError;
    const name = isOurs || error.name === 'Error' ? '' : `${error.name}: `;
    const cause = error.cause instanceof Error ? ` (caused by ${error.cause.message})` : '';
    text = `${name}${error.message}${cause}` || 'The handler threw an error without a message.';
  } else {
    text = `The handler threw something that is not an Error: ${shown(error)}`;
  }
  return storable(text, limits.max_error_message_chars);
}

/** Text that a database can keep: no NUL, no half characters, not longer than allowed. */
export function storable(text: string, maxChars: number): string {
  const short = text.length > maxChars ? `${text.slice(0, maxChars - 1)}…` : text;
  return short.replace(/[\0\p{Cs}]/gu, '\ufffd');
}

function shown(value: unknown): string {
  try {
    return typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value));
  } catch {
    return Object.prototype.toString.call(value);
  }
}
