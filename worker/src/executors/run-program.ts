// Runs a program for a run, apart from the worker (isolation/), the payload on its standard input, its output in the run's
// log. What its end means is decided in outcome.ts. Checkpoints, progress, a result, an outcome and a snooze go through files
// (run-files.ts), and so do files to publish (published.ts). Used by shell.ts and binary.ts.
//
// It promises that nothing the program started survives the run: SIGTERM to its group, then SIGKILL to everything after the
// grace, on cancel, timeout and stop; SIGKILL at once, whatever grace is under way, when the lease is lost or a limit is exceeded;
// and SIGKILL for whatever is left when the program has ended. If the worker process itself is killed, the kernel kills the
// program, and the next worker on the machine the rest (isolation/sweep.ts). Without cgroups, processes that leave the group
// and clear their environment are not found.
import type { ChildProcess } from 'node:child_process';
import { setTimeout as wait } from 'node:timers/promises';
import type { ShellExecutor } from '@punctual/contract';
import { FatalError, type Grant, isSecretName, type RunContext } from '@punctual/sdk';
import { type Limits, limitsFor, mb } from '../isolation/limits.ts';
import type { Isolation } from '../isolation/probe.ts';
import { StartedProgram } from '../isolation/started.ts';
import { failureOf } from './outcome.ts';
import { followOutput } from './output.ts';
import { findProgram } from './program.ts';
import { publishFiles } from './published.ts';
import { RunFiles } from './run-files.ts';
import { fillSecrets, findSecrets, redactJson, refuseSecrets } from './secrets.ts';

/** How long output may still come when the program has ended but something holds its pipes. */
const leftover_ms = 200;
/** And when all that could be found was killed: what was written until then is read however busy the worker is. */
const unread_ms = 1_000;
/** Shorter values, such as `true` or a number, stand everywhere. */
const min_secret_chars = 6;

export interface ProgramOptions {
  /** What every program gets of the worker's environment. */
  baseEnv: Record<string, string>;
  /** Between SIGTERM and SIGKILL. */
  stopGraceMs: number;
  isolation: Isolation;
  /** How much a program may publish. */
  publishBytes: number;
}

/** A program with all that a job says about it. */
export interface Program extends Omit<ShellExecutor, 'kind'> {
  /** What people call it; the first word of its command unless given. */
  name?: string;
}

export async function runProgram(program: Program, ctx: RunContext, options: ProgramOptions): Promise<unknown> {
  ctx.signal.throwIfAborted();
  const files = await RunFiles.open(ctx, options.isolation.user);
  try {
    return await runWithFiles(program, ctx, { ...options, files });
  } finally {
    await files.remove();
  }
}

type WithFiles = ProgramOptions & { files: RunFiles };

async function runWithFiles(given: Program, ctx: RunContext, options: WithFiles): Promise<unknown> {
  const { files, stopGraceMs, isolation } = options;
  const executor = await withSecrets(given, ctx);
  const limits = limitsFor(executor.limits, isolation.limits, (words) => ctx.log.warn(words));
  ctx.redact(...secretsOf({ ...options.baseEnv, ...executor.env }));
  const started = await start(executor, ctx, { ...options, limits });
  try {
    const output = follow(started, ctx, limits);
    givePayload(started.child, ctx.run);
    const exit = await ended(started, ctx, stopGraceMs);
    await files.finish();
    if (ctx.signal.aborted) throw ctx.signal.reason;
    const end = {
      ...exit,
      ...output(),
      name: nameOf(executor),
      limits,
      refused: await started.refusals(),
      fatalCodes: executor.fatal_exit_codes,
    };
    const failure = failureOf(end, exit.code === null ? null : await files.outcome());
    await publishFiles(ctx, files, { maxBytes: options.publishBytes, required: failure === null });
    if (failure !== null) throw failure;
    const snooze = await files.snooze();
    if (snooze !== null) throw snooze;
    const result = await files.result();
    return result === undefined
      ? { exit_code: exit.code, stdout_tail: end.stdoutTail }
      : redactJson(result, ctx.redactor);
  } finally {
    await started.remove();
  }
}

/** Secrets reach a program by its environment only: its arguments can be read by everybody on the machine. */
async function withSecrets(program: Program, ctx: RunContext): Promise<Program> {
  refuseSecrets(program.command, 'executor.command');
  refuseSecrets(program.cwd, 'executor.cwd');
  if (program.env === undefined) return program;
  const secrets = await findSecrets(program.env, 'executor.env', ctx);
  const env = Object.entries(program.env).map(([name, value]) => [name, fillSecrets(value, secrets)]);
  return { ...program, env: Object.fromEntries(env) as Record<string, string> };
}

async function start(
  executor: Program,
  { run, traceparent }: Pick<RunContext, 'run' | 'traceparent'>,
  { baseEnv, isolation, files, limits }: WithFiles & { limits: Limits },
): Promise<StartedProgram> {
  const { work } = files.folder;
  const noNetwork = executor.sandbox === 'no_network';
  if (noNetwork && isolation.noNetwork === null) {
    throw new FatalError(
      'The job wants the sandbox no_network, which this worker cannot give: it takes Linux with unshare (util-linux) and user namespaces. `punctual doctor` says more.',
    );
  }
  if (executor.limits !== undefined && isolation.prlimit === null) {
    throw new FatalError('The job has limits, which this worker cannot keep: prlimit (util-linux) is not here.');
  }
  const env: Record<string, string> = {
    ...baseEnv,
    // The home of the worker's user is nothing to another one.
    ...(isolation.user === null ? {} : { HOME: work, USER: isolation.user.name, LOGNAME: isolation.user.name }),
    TMPDIR: work,
    ...(traceparent === undefined ? {} : { TRACEPARENT: traceparent }),
    ...executor.env,
    PUNCTUAL_RUN_ID: run.run_id,
    PUNCTUAL_JOB_ID: run.job_id,
    PUNCTUAL_ATTEMPT: String(run.attempt_number),
    PUNCTUAL_FENCE: String(run.fence),
    PUNCTUAL_SCHEDULED_FOR: run.scheduled_for,
    ...files.env,
  };
  const program = await findProgram(executor.command[0] as string, {
    cwd: executor.cwd,
    path: env['PATH'],
    user: isolation.user,
  });
  const command = [program, ...executor.command.slice(1)];
  try {
    return await StartedProgram.start({ command, cwd: executor.cwd ?? work, env, limits, noNetwork }, isolation);
  } catch (error) {
    const message = `The program ${nameOf(executor)} could not be started: ${(error as Error).message}.`;
    // For want of processes or memory now: later there may be more.
    throw /EAGAIN|ENOMEM|EMFILE/.test(message) ? new Error(message) : new FatalError(message);
  }
}

function nameOf({ name, command }: Program): string {
  return name ?? (command[0] as string);
}

/** Follows its output, and ends it when that is too much. */
function follow(started: StartedProgram, { log, redactor }: RunContext, { output_mb }: Limits) {
  const { child } = started;
  let bytes = 0;
  let wroteTooMuch = false;
  const count = (more: number): void => {
    bytes += more;
    if (wroteTooMuch || output_mb === 0 || bytes <= output_mb * mb) return;
    wroteTooMuch = true;
    child.stdout?.destroy();
    child.stderr?.destroy();
    void started.killAll();
  };
  const stdoutTail = followOutput(child.stdout, redactor, (line) => log.output('stdout', line), count);
  const stderrTail = followOutput(child.stderr, redactor, (line) => log.output('stderr', line), count);
  return () => ({ wroteTooMuch, stdoutTail: stdoutTail(), said: stderrTail() });
}

/** What the program gets under a name such as API_TOKEN must not be found in its output. */
function secretsOf(env: Record<string, string>): string[] {
  return Object.entries(env).flatMap(([name, value]) =>
    isSecretName(name) && value.length >= min_secret_chars ? [value] : [],
  );
}

function givePayload(child: ChildProcess, run: Grant): void {
  // A program that does not read its input closes the pipe; that is no failure.
  child.stdin?.on('error', () => undefined);
  child.stdin?.end(JSON.stringify(run.payload ?? null));
}

/** Waits for the program, stops it when the signal comes, and leaves nothing of it behind. */
async function ended(
  started: StartedProgram,
  ctx: RunContext,
  graceMs: number,
): Promise<{ code: number | null; signal: string | null }> {
  const { child } = started;
  const closed = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const exited = new Promise<{ code: number | null; signal: string | null }>((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null)
      resolve({ code: child.exitCode, signal: child.signalCode });
    else child.once('exit', (code, signal) => resolve({ code, signal }));
  });
  let killTimer: NodeJS.Timeout | undefined;
  const kill = (): void => void started.killAll();
  const stop = (): void => {
    started.signal('SIGTERM');
    killTimer = setTimeout(kill, graceMs);
  };
  // When the lease is lost, another worker may begin this run any moment: there is no time for a grace, also not for one that
  // has begun.
  ctx.lost.addEventListener('abort', kill, { once: true });
  ctx.signal.addEventListener('abort', stop, { once: true });
  if (ctx.lost.aborted) kill();
  if (ctx.signal.aborted) stop();
  const exit = await exited;
  await endsWithin(closed, ctx.signal.aborted ? graceMs : leftover_ms);
  clearTimeout(killTimer);
  ctx.lost.removeEventListener('abort', kill);
  ctx.signal.removeEventListener('abort', stop);
  await started.killAll();
  await endsWithin(closed, unread_ms);
  child.stdout?.destroy();
  child.stderr?.destroy();
  return exit;
}

async function endsWithin(work: Promise<void>, ms: number): Promise<void> {
  const over = new AbortController();
  await Promise.race([work, wait(ms, undefined, { signal: over.signal }).catch(() => undefined)]);
  over.abort();
}
