// Errors on their way between a worker and a child process that runs a handler: what they mean for the run arrives, their
// class and stack do not. Used on both sides.
import { FatalError, RetryError, RunAbortedError, Snooze } from '../errors.ts';
import { messageOf } from '../outcome.ts';
import type { ChildError } from './messages.ts';

export function toChildError(error: unknown): ChildError {
  const message = messageOf(error);
  if (error instanceof Snooze) return { type: 'snooze', message, snoozeMs: error.ms };
  if (error instanceof FatalError) return { type: 'fatal', message };
  if (error instanceof RetryError) return { type: 'retry', message, retryAfterMs: error.retryAfterMs };
  if (error instanceof RunAbortedError || (error instanceof Error && error.name === 'AbortError'))
    return { type: 'aborted', message };
  return { type: 'error', message };
}

/** `aborted`: why the run was aborted, if it was. */
export function fromChildError(error: ChildError, aborted?: unknown): unknown {
  if (error.type === 'snooze') return new Snooze(error.snoozeMs ?? 0);
  if (error.type === 'fatal') return new FatalError(error.message);
  if (error.type === 'retry') return new RetryError(error.message, { retryAfterMs: error.retryAfterMs });
  return error.type === 'aborted' && aborted !== undefined ? aborted : new Error(error.message);
}
