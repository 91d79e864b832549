// The executor `shell`: runs a program in a process group of its own, the payload on its standard input, its output in the
// run's log. Exit code 0 is success. Checkpoints, progress, a result and a snooze go through files (run-files.ts). Made by
// index.ts when the operator allows it.
//
// It promises that nothing in the group survives the run: SIGTERM, then SIGKILL after the grace, on cancel, timeout and
// stop; SIGKILL at once when the lease is lost; and SIGKILL for whatever is left when the program has ended. If the worker
// process itself is killed, the kernel kills the program (setpriv --pdeathsig, Linux). Not covered then: processes the
// program has started itself, programs that gain privileges by being executed (set-user-ID), and systems without setpriv.
// Never covered: processes that leave the group (setsid).
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import type { ShellExecutor } from '@punctual/contract';
import { FatalError, type Grant, type Handler, isSecretName, RunAbortedError, type RunContext } from '@punctual/sdk';
import { followOutput } from './output.ts';
import { findProgram } from './program.ts';
import { RunFiles } from './run-files.ts';

/** How long output may still come when the program has ended but something holds its pipes. */
const leftover_ms = 200;
/** Shorter values, such as `true` or a number, stand everywhere. */
const min_secret_chars = 6;
const max_quoted_chars = 8 * 1024;

export interface ShellExecutorOptions {
  /** What every program gets of the worker's environment. */
  baseEnv: Record<string, string>;
  /** Between SIGTERM and SIGKILL. */
  stopGraceMs: number;
  /** Put in front of every command, to have it killed when the worker dies; see program.ts. */
  prefix: readonly string[];
}

export function shellExecutor(options: ShellExecutorOptions): Handler {
  return async (run, ctx) => {
    const executor = run.executor;
    if (executor?.kind !== 'shell') throw new FatalError('The run has no shell executor.');
    ctx.signal.throwIfAborted();
    const files = await RunFiles.open(ctx);
    try {
      return await runProgram(executor, ctx, { ...options, files });
    } finally {
      await files.remove();
    }
  };
}

async function runProgram(
  executor: ShellExecutor,
  ctx: RunContext,
  { baseEnv, stopGraceMs, prefix, files }: ShellExecutorOptions & { files: RunFiles },
): Promise<unknown> {
  const { run } = ctx;
  const env = {
    ...baseEnv,
    PUNCTUAL_RUN_ID: run.run_id,
    PUNCTUAL_JOB_ID: run.job_id,
    PUNCTUAL_ATTEMPT: String(run.attempt_number),
    PUNCTUAL_FENCE: String(run.fence),
    PUNCTUAL_SCHEDULED_FOR: run.scheduled_for,
    ...files.env,
    ...executor.env,
  };
  ctx.redact(...secretsOf(env));
  const child = await start(executor, env, prefix);
  const [stdoutEnd, stderrEnd] = [
    followOutput(child.stdout, ctx.redactor, (line) => ctx.log.output('stdout', line)),
    followOutput(child.stderr, ctx.redactor, (line) => ctx.log.output('stderr', line)),
  ];
  givePayload(child, run);
  const { code, signal } = await ended(child, ctx, stopGraceMs);
  const [stdoutTail, stderrTail] = [stdoutEnd(), stderrEnd()];
  await files.finish();
  if (ctx.signal.aborted) throw ctx.signal.reason;
  if (code === 0) {
    const snooze = await files.snooze();
    if (snooze !== null) throw snooze;
    const result = await files.result();
    return result === undefined ? { exit_code: 0, stdout_tail: stdoutTail } : result;
  }
  const how = code === null ? `was killed by ${signal}` : `exited with code ${code}`;
  const said = stderrTail.trim().slice(-max_quoted_chars);
  throw new Error(`The program ${executor.command[0]} ${how}${said === '' ? '.' : `: ${said}`}`);
}

/** What the program gets under a name such as API_TOKEN must not be found in its output. */
function secretsOf(env: Record<string, string>): string[] {
  return Object.entries(env).flatMap(([name, value]) =>
    isSecretName(name) && value.length >= min_secret_chars ? [value] : [],
  );
}

async function start(
  executor: ShellExecutor,
  env: Record<string, string>,
  prefix: readonly string[],
): Promise<ChildProcess> {
  const program = await findProgram(executor.command[0] as string, executor.cwd, env['PATH']);
  const [command, ...args] = [...prefix, program, ...executor.command.slice(1)] as [string, ...string[]];
  try {
    const child = spawn(command, args, { cwd: executor.cwd, env, detached: true, stdio: ['pipe', 'pipe', 'pipe'] });
    if (child.pid === undefined) await once(child, 'spawn');
    child.on('error', () => undefined);
    return child;
  } catch (error) {
    throw new FatalError(`The program ${executor.command[0]} could not be started: ${(error as Error).message}.`);
  }
}

function givePayload(child: ChildProcess, run: Grant): void {
  // A program that does not read its input closes the pipe; that is no failure.
  child.stdin?.on('error', () => undefined);
  child.stdin?.end(JSON.stringify(run.payload ?? null));
}

/** Waits for the program, stops it when the signal comes, and leaves nothing of its group behind. */
async function ended(
  child: ChildProcess,
  ctx: RunContext,
  graceMs: number,
): Promise<{ code: number | null; signal: string | null }> {
  const closed = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const exited = new Promise<{ code: number | null; signal: string | null }>((resolve) => {
    child.once('exit', (code, signal) => resolve({ code, signal }));
  });
  let killTimer: NodeJS.Timeout | undefined;
  const stop = (): void => {
    const reason: unknown = ctx.signal.reason;
    // Another worker may begin this run any moment: there is no time for a grace.
    if (reason instanceof RunAbortedError && reason.reason === 'lease_lost') return signalGroup(child, 'SIGKILL');
    signalGroup(child, 'SIGTERM');
    killTimer = setTimeout(() => signalGroup(child, 'SIGKILL'), graceMs);
  };
  ctx.signal.addEventListener('abort', stop, { once: true });
  if (ctx.signal.aborted) stop();
  const exit = await exited;
  const leftover = new AbortController();
  const patience = wait(ctx.signal.aborted ? graceMs : leftover_ms, undefined, { signal: leftover.signal }).catch(
    () => undefined,
  );
  await Promise.race([closed, patience]);
  leftover.abort();
  clearTimeout(killTimer);
  ctx.signal.removeEventListener('abort', stop);
  signalGroup(child, 'SIGKILL');
  child.stdout?.destroy();
  child.stderr?.destroy();
  return exit;
}

function signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, signal);
  } catch {
    // The group has ended already.
  }
}
