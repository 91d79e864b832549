// What a worker and a child process that runs a handler say to each other over their channel. A child has one run at a time,
// which bears a number; what comes under another number is late and does not count.
import type { Grant, LogLine } from '@punctual/contract';
import type { AbortReason } from '../messages.ts';

export type ToChild =
  | { kind: 'run'; n: number; run: Grant }
  | { kind: 'abort'; n: number; reason: AbortReason; message: string }
  /** The answer to an `ask`: a value, or why there is none. */
  | { kind: 'answer'; n: number; ask: number; value?: string | undefined; error?: ChildError };

export type FromChild = { n: number } & (
  | { kind: 'log'; level: LogLine['level']; message: string; fields?: Record<string, unknown> | undefined }
  | { kind: 'output'; stream: 'stdout' | 'stderr'; line: string }
  | { kind: 'redact'; values: string[] }
  | { kind: 'progress'; percent: number; message?: string | undefined }
  /** The handler settles the run itself, in a transaction. */
  | { kind: 'completing' }
  /** `value`: the checkpoint as JSON, the name of the secret, or the name and path of a file as JSON. */
  | { kind: 'ask'; ask: number; what: 'checkpoint' | 'secret' | 'publish'; value: string }
  /** The result as JSON. */
  | { kind: 'done'; result?: string | undefined }
  /** `ends`: the process ends with it. */
  | { kind: 'failed'; error: ChildError; ends?: boolean | undefined }
);

type WithoutNumber<T> = T extends unknown ? Omit<T, 'n'> : never;
export type Said = WithoutNumber<FromChild>;

/** An error on its way through the channel: what it means for the run, and its words. */
export interface ChildError {
  type: 'fatal' | 'retry' | 'snooze' | 'aborted' | 'error';
  message: string;
  retryAfterMs?: number | undefined;
  snoozeMs?: number | undefined;
}
