// How an attempt ended and what it says on the way, as the JSON that goes over the wire. Pure. A result that cannot be sent
// and an error of any shape both become an outcome that says clearly what is wrong.
import type { NewProgress, Outcome } from '@punctual/contract';
import { deeperThan, limits } from '@punctual/contract/plain';
import { FatalError, RetryError, RunAbortedError, type Snooze } from './errors.ts';

/** Takes secrets out of a text. */
export type Hide = (text: string) => string;
const asItIs: Hide = (text) => text;

export interface Leased {
  run_id: string;
  lease_id: string;
}

/** A success without a result needs no words: whoever knows the lease can say it. */
export const plainSuccess = '';

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
  return value === undefined ? undefined : jsonOf(value, limits.max_result_bytes, resultWords);
}

/** Throws a FatalError when the value cannot be saved. */
export function checkpointText({ run_id, lease_id }: Leased, version: number, value: unknown): string {
  const json = jsonOf(value, limits.max_checkpoint_bytes, checkpointWords);
  if (deeperThan(value, limits.max_payload_depth))
    throw new FatalError(`The handler gave a checkpoint nested deeper than ${limits.max_payload_depth} levels.`);
  return `{"run_id":"${run_id}","lease_id":"${lease_id}","version":${version},"value":${json}}`;
}

/** Throws a RangeError when the number is none from 0 to 100. */
export function progressText(
  { run_id, lease_id }: Leased,
  percent: number,
  message: string | undefined,
  hide: Hide = asItIs,
): string {
  if (!(typeof percent === 'number' && percent >= 0 && percent <= 100))
    throw new RangeError(`Progress is a number from 0 to 100, not ${percent}.`);
  const words = message === undefined ? undefined : oneLine(hide(message));
  return JSON.stringify({
    run_id,
    lease_id,
    percent,
    ...(words === undefined ? {} : { message: words }),
  } satisfies NewProgress);
}

export function snoozedText({ run_id, lease_id }: Leased, { ms }: Snooze): string {
  return JSON.stringify({ run_id, lease_id, status: 'SNOOZED', snooze_ms: ms } satisfies Outcome);
}

export function failureText(
  { run_id, lease_id }: Leased,
  error: unknown,
  more: { timed_out?: true } = {},
  hide: Hide = asItIs,
): string {
  const outcome: Outcome = {
    run_id,
    lease_id,
    status: 'FAILED',
    error_message: messageOf(error, hide),
    retryable: !(error instanceof FatalError),
    ...more,
  };
  if (error instanceof RetryError && error.retryAfterMs !== undefined) {
    outcome.retry_after_ms = Math.round(Math.min(Math.max(0, error.retryAfterMs), limits.max_backoff_ms)) || 0;
  }
  return JSON.stringify(outcome);
}

export function cancelledText({ run_id, lease_id }: Leased, error: unknown, hide: Hide = asItIs): string {
  return JSON.stringify({
    run_id,
    lease_id,
    status: 'CANCELLED',
    error_message: messageOf(error, hide),
  } satisfies Outcome);
}

/** Gives back a run that was never started. */
export function releasedText({ run_id, lease_id }: Leased): string {
  return JSON.stringify({ run_id, lease_id, status: 'RELEASED' } satisfies Outcome);
}

export function messageOf(error: unknown, hide: Hide = asItIs): string {
  let text: string;
  if (error instanceof Error) {
    const isOurs = error instanceof FatalError || error instanceof RetryError || error instanceof RunAbortedError;
    const name = isOurs || error.name === 'Error' ? '' : `${error.name}: `;
    const cause = error.cause instanceof Error ? ` (caused by ${error.cause.message})` : '';
    text = `${name}${error.message}${cause}` || 'The handler threw an error without a message.';
  } else {
    text = `The handler threw something that is not an Error: ${shown(error)}`;
  }
  return storable(hide(text), limits.max_error_message_chars);
}

/** Text that a database can keep: no NUL, no half characters, not longer than allowed. */
export function storable(text: string, maxChars: number): string {
  const short = text.length > maxChars ? `${text.slice(0, maxChars - 1)}…` : text;
  return short.replace(/[\0\p{Cs}]/gu, '\ufffd');
}

const resultWords = {
  value: 'The handler returned a value',
  tooLarge: (bytes: number, most: number) =>
    `The handler returned a result of ${bytes} bytes; at most ${most} are kept. Store it elsewhere and return where.`,
};
const checkpointWords = {
  value: 'The handler gave a checkpoint',
  tooLarge: (bytes: number, most: number) =>
    `The handler gave a checkpoint of ${bytes} bytes; at most ${most} are kept. Store it elsewhere and save where.`,
};

/** The value as JSON; a FatalError when it is none or too large, since trying again would not change that. */
function jsonOf(value: unknown, maxBytes: number, words: typeof resultWords): string {
  let json: string | undefined;
  try {
    json = JSON.stringify(value);
  } catch (error) {
    throw new FatalError(`${words.value} that is not JSON: ${messageOf(error)}.`);
  }
  if (json === undefined) throw new FatalError(`${words.value} of type ${typeof value}, which is not JSON.`);
  const bytes = Buffer.byteLength(json);
  if (bytes > maxBytes) throw new FatalError(words.tooLarge(bytes, maxBytes));
  return json;
}

/** Control characters would break the line it is shown on. */
function oneLine(text: string): string {
  return storable(text.replace(/\p{Cc}+/gu, ' '), limits.max_progress_chars);
}

function shown(value: unknown): string {
  try {
    return typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value));
  } catch {
    return Object.prototype.toString.call(value);
  }
}
