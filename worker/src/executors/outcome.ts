// What the end of a program means: success, a failure to try again, or a final one, with the reason in words. Used by
// run-program.ts; docs/executors.md has the table.
import { constants } from 'node:os';
import { defaults, limits } from '@punctual/contract/plain';
import { FatalError, RetryError } from '@punctual/sdk';
import type { Limits } from '../isolation/limits.ts';

/** What a program writes into PUNCTUAL_OUTCOME_FILE. */
export interface ProgramOutcome {
  status: 'success' | 'retryable' | 'fatal';
  message?: string;
  retry_after_ms?: number;
}

export interface ProgramEnd {
  name: string;
  code: number | null;
  signal: string | null;
  /** The last part of what it wrote to standard error. */
  said: string;
  limits: Limits;
  wroteTooMuch: boolean;
  refused: { memory: boolean; processes: boolean; machine: boolean };
  fatalCodes: readonly number[] | undefined;
}

const max_quoted_chars = 8 * 1024;

/** Words of programs that were refused something by the kernel. */
const complaints: [RegExp, (limits: Limits) => string | null][] = [
  [
    /out of memory|cannot allocate memory|memory exhausted|MemoryError|bad_alloc|ENOMEM/i,
    ({ memory_mb }) => (memory_mb > 0 ? `${memory_mb} MB of memory` : null),
  ],
  [
    /cannot fork|can't fork|fork: |Resource temporarily unavailable|EAGAIN/i,
    ({ processes }) => (processes > 0 ? `${processes} processes` : null),
  ],
  [/too many open files|EMFILE/i, ({ open_files }) => (open_files > 0 ? `${open_files} open files` : null)],
  [/file too large|EFBIG/i, ({ file_mb }) => (file_mb > 0 ? `${file_mb} MB a file` : null)],
];

export function readOutcome(text: string): ProgramOutcome {
  const wrong = (what: string): Error =>
    new Error(
      `What the program wrote into PUNCTUAL_OUTCOME_FILE ${what}; it takes {"status": "success", "retryable" or "fatal", "message": …, "retry_after_ms": …}.`,
    );
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw wrong('is not JSON');
  }
  const { status, message, retry_after_ms: after } = (value ?? {}) as Record<string, unknown>;
  if (status !== 'success' && status !== 'retryable' && status !== 'fatal')
    throw wrong(`has the status ${JSON.stringify(status)}`);
  if (message !== undefined && typeof message !== 'string') throw wrong('has a message that is no text');
  if (after !== undefined && !(Number.isInteger(after) && Number(after) >= 0 && Number(after) <= limits.max_backoff_ms))
    throw wrong(`has a retry_after_ms that is not a whole number from 0 to ${limits.max_backoff_ms}`);
  return {
    status,
    ...(message === undefined ? {} : { message }),
    ...(after === undefined ? {} : { retry_after_ms: Number(after) }),
  };
}

/** Why the program did not succeed; null when it did. What it says itself counts if it ended by itself. */
export function failureOf(end: ProgramEnd, outcome: ProgramOutcome | null): Error | null {
  const wasStopped = end.wroteTooMuch || end.code === null || (end.refused.memory && end.code !== 0);
  if (wasStopped) return new Error(`The program ${end.name} ${stopWords(end)}${quote(end.said)}`);
  if (outcome === null) return end.code === 0 ? null : failureByCode(end);
  if (outcome.status === 'success') return null;
  const message = outcome.message ?? `The program ${end.name} says that it failed${quote(end.said)}`;
  return outcome.status === 'fatal'
    ? new FatalError(message)
    : new RetryError(message, { retryAfterMs: outcome.retry_after_ms });
}

function failureByCode(end: ProgramEnd): Error {
  const { name, code, said } = end;
  const launcher = /^(?:prlimit|setpriv|unshare|sh): (?:failed to execute|exec:?) .*/m.exec(said)?.[0];
  if ((code === 126 || code === 127) && launcher !== undefined) {
    const why = launcher.split(': ').at(-1) ?? launcher;
    return new FatalError(`The program ${name} could not be started: ${why}. Its user may not be allowed to run it.`);
  }
  const message = `The program ${name} exited with code ${code}${shellWords(code)}${hint(end)}${quote(said)}`;
  return (end.fatalCodes ?? defaults.fatal_exit_codes).includes(code ?? 0)
    ? new FatalError(message)
    : new Error(message);
}

function stopWords({
  code,
  signal,
  limits: { output_mb, memory_mb, cpu_seconds, file_mb },
  ...end
}: ProgramEnd): string {
  if (end.wroteTooMuch) return `was killed: it wrote more than its limit of ${output_mb} MB of output`;
  if (end.refused.memory) return `ran out of memory: its limit is ${memory_mb} MB`;
  if (signal === 'SIGXCPU' && cpu_seconds > 0)
    return `was killed: it used its limit of ${cpu_seconds} s of processor time`;
  if (signal === 'SIGXFSZ' && file_mb > 0) return `was killed: it wrote a file larger than its limit of ${file_mb} MB`;
  if (signal === 'SIGKILL' && end.refused.machine)
    return 'was killed by SIGKILL, most likely because the machine ran out of memory';
  return code === null ? `was killed by ${signal}` : `exited with code ${code}`;
}

/** A shell says with 128 + n that what it ran was killed by signal n. */
function shellWords(code: number | null): string {
  const name = Object.entries(constants.signals).find(([, number]) => number + 128 === code)?.[0];
  return name === undefined ? '' : ` (what it ran was killed by ${name})`;
}

function hint({ said, limits: allowed, refused }: ProgramEnd): string {
  if (refused.processes) return `, after it had reached its limit of ${allowed.processes} processes`;
  const reached = complaints.filter(([pattern]) => pattern.test(said)).map(([, limit]) => limit(allowed));
  const found = reached.find((limit) => limit !== null);
  return found === undefined ? '' : ` (it may have reached its limit of ${found})`;
}

function quote(said: string): string {
  const text = said.trim().slice(-max_quoted_chars);
  return text === '' ? '.' : `: ${text}`;
}
