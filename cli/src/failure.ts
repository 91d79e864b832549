// What the CLI says when something went wrong, and with which exit code: 1 for failures, 2 for wrong usage. Foreseeable
// trouble is a sentence that says how to mend it; the rest is called a bug, with the stack only on request.
import type { ErrorCode, PunctualError } from '@punctual/contract';
import { harmless, type Output } from './output.ts';

export interface Failure {
  lines: string[];
  /** What --json prints to standard error. */
  problem: object;
  exitCode: number;
}

/** Foreseeable trouble of the CLI itself: the message alone is enough to act on. */
export class CliError extends Error {
  override name = 'CliError';
}

/** The command was not used as it must be. */
export class UsageError extends CliError {
  override name = 'UsageError';
}

/** Errors whose message is a sentence for people; by name, because their modules are loaded only when needed. */
const speaking = new Set([
  'CliError',
  'UsageError',
  'TimeError',
  'ConfigError',
  'StartError',
  'IsolationError',
  'EmbeddedPostgresError',
  'WaitTimeoutError',
]);

/** Exit code 2: wrong usage, and `--wait` without success. */
const twos = new Set(['UsageError', 'WaitTimeoutError']);

/** What to do next, where the meaning of the code does not say it already. */
const hints: Partial<Record<ErrorCode, string>> = {
  invalid_input: 'Correct what is named above and try again; nothing was changed.',
  bulk_refused: 'Correct what is named above and try again; nothing was created.',
  invalid_id: 'Copy the id whole: `punctual jobs list` and `punctual runs list` show them.',
  job_not_found: '`punctual jobs list` shows the jobs there are.',
  run_not_found: '`punctual runs list` shows the runs there are.',
  dead_letter_not_found: '`punctual dead-letters list` shows the dead letters there are.',
  operation_not_found: '`punctual operations list` shows the operations there are.',
  too_many_operations: '`punctual operations list --state RUNNING` shows them.',
  invalid_schedule:
    'Correct what is named above and try again; `punctual schedule preview` shows the times of a schedule.',
  calendar_not_found: '`punctual calendars list` shows the calendars there are.',
  calendar_in_use:
    '`punctual jobs update ID --calendar none` takes it from a job; `punctual calendars show` says how many use it.',
  key_missing:
    'Give it with PUNCTUAL_API_KEY or --api-key; `punctual keys create --role admin` with DATABASE_URL makes the first.',
  key_invalid: 'PUNCTUAL_API_KEY or --api-key holds another one; `punctual keys list` shows the keys there are.',
  key_not_found: '`punctual keys list` shows the keys there are.',
  run_ended: '`punctual runs show` shows its outcome.',
  job_running: 'Wait for it, or stop it with `punctual jobs cancel`.',
  job_ended: '`punctual jobs run-now` gives a completed job a new run.',
  unique_key_taken: '`punctual jobs show` with its id shows that job.',
  version_conflict: '`punctual jobs show` shows the present version.',
  unavailable: 'Try again in a moment; `punctual doctor` says what is wrong.',
};

/** Says it on standard error and gives the exit code. */
export async function reportFailure(
  output: Output,
  error: unknown,
  context: { url: string; verbose: boolean },
): Promise<number> {
  const { lines, problem, exitCode } = await describeFailure(error, context);
  output.remark(output.asJson ? JSON.stringify(problem) : lines.join('\n'));
  return exitCode;
}

export async function describeFailure(error: unknown, context: { url: string; verbose: boolean }): Promise<Failure> {
  if (!(error instanceof Error)) return bug(new Error(String(error)), context.verbose);
  if (error.name === 'PunctualError') return await describeAnswer(error as PunctualError, context.url);
  if (error.name === 'TypeError' && /is not the URL of a Punctual server|\bPUNCTUAL_[A-Z_]+/.test(error.message))
    return sentence(error.message);
  if (speaking.has(error.name)) return sentence(error.message, error.name);
  return bug(error, context.verbose);
}

function sentence(message: string, code = 'CliError'): Failure {
  const lines = message.split('\n').map((line, index) => (index === 0 ? `punctual: ${line}` : `  ${line}`));
  return {
    lines: lines.map(harmless),
    problem: { code: snake(code), title: message },
    exitCode: twos.has(code) ? 2 : 1,
  };
}

function snake(name: string): string {
  return name
    .replace(/Error$/, '')
    .replace(/(?!^)[A-Z]/g, (letter) => `_${letter}`)
    .toLowerCase();
}

async function describeAnswer(error: PunctualError, url: string): Promise<Failure> {
  const { errorTable, toProblem } = await import('@punctual/contract');
  const problem = toProblem(error, error.requestId);
  if (error.code === 'unreachable' && (error.detail ?? '').startsWith('No Punctual server answers')) {
    return { lines: [`punctual: ${unreachable(url, reasonOf(error))}`], problem, exitCode: 1 };
  }
  // The wire's `errors` are the lines below.
  const meaning = errorTable[error.code].meaning.replace(/; `errors` (names|says) [^.]*/, '');
  const lines = [`punctual: ${meaning}`];
  const isRepeated = error.errors?.some(({ path, message }) => error.detail === `${path} ${message}`) === true;
  if (error.detail !== undefined && error.detail !== meaning && !isRepeated) lines.push(`  ${error.detail}`);
  for (const { path, message } of error.errors ?? []) lines.push(`  ${path === '' ? '' : `${path}: `}${message}`);
  if (error.retryAfterSeconds !== undefined) lines.push(`  Try again in ${Math.ceil(error.retryAfterSeconds)} s.`);
  if (error.requestId !== undefined && error.status >= 500) lines.push(`  request id: ${error.requestId}`);
  const hint = hints[error.code];
  if (hint !== undefined) lines.push(`  ${hint}`);
  return { lines: lines.map(harmless), problem, exitCode: 1 };
}

export function unreachable(url: string, reason = ''): string {
  return `no Punctual server answers at ${url}${reason}; start one with \`punctual start\` or set PUNCTUAL_URL.`;
}

function reasonOf(error: PunctualError): string {
  const reason = /\(([^)]*)\)/.exec(error.detail ?? '')?.[1];
  return reason === undefined ? '' : ` (${reason})`;
}

function bug(error: Error, verbose: boolean): Failure {
  const lines = [`punctual: ${error.message || error.name}`];
  lines.push(verbose ? (error.stack ?? '') : '  This is a bug of Punctual; --verbose shows where it happened.');
  return { lines: lines.map(harmless), problem: { code: 'bug', title: error.message }, exitCode: 1 };
}
