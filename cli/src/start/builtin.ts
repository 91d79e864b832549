// The worker built into `punctual start`: a child process, so that a job can neither slow the server nor take it down.
// It is started again when it dies. Its channel to us is its life line: when we are gone, however, it stops at once.
import { type ChildProcess, fork } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { workerEnvironment } from '../environment.ts';

export interface BuiltinWorker {
  /** Settles when it takes runs for the first time. */
  ready: Promise<void>;
  /** It finishes what it runs, within its grace, and ends. */
  stop(): Promise<void>;
  /** It drops what it runs and ends. */
  stopAtOnce(): Promise<void>;
}

export interface BuiltinOptions {
  url: string;
  /** What it sends to the server. */
  apiKey?: string;
  /** Said when it died and is started again. */
  say: (text: string) => void;
  program?: string;
  /** How long it has to end once its channel is cut; then it is killed. */
  atOnceMs?: number;
}

/** What we say to each other through the channel. */
export const drainMessage = 'drain';
export const readyMessage = 'ready';
const first_pause_ms = 500;
const max_pause_ms = 30_000;
/** Whoever lived this long was well: the next pause is the first one again. */
const well_after_ms = 60_000;
/** Killing its programs is quick, and a child that hangs must not keep us. */
const at_once_ms = 3_000;

const ownProgram = fileURLToPath(new URL('../../bin/punctual.js', import.meta.url));

export function startBuiltin({
  url,
  apiKey,
  say,
  program = ownProgram,
  atOnceMs = at_once_ms,
}: BuiltinOptions): BuiltinWorker {
  const stopping = new AbortController();
  let child: ChildProcess | null = null;
  let becomeReady = (): void => {};
  const ready = new Promise<void>((resolve) => {
    becomeReady = resolve;
  });

  const keep = async (): Promise<void> => {
    let pause = first_pause_ms;
    while (!stopping.signal.aborted) {
      const began = performance.now();
      child = fork(program, ['worker', '--builtin', '--url', url], {
        env: { ...workerEnvironment(), ...(apiKey === undefined ? {} : { PUNCTUAL_API_KEY: apiKey }) },
        stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
        detached: true, // Ctrl-C in a terminal is for us; we then tell it in order
      });
      child.on('message', (message) => {
        if (message === readyMessage) becomeReady();
      });
      const ending = await endOf(child);
      if (stopping.signal.aborted) return;
      if (performance.now() - began > well_after_ms) pause = first_pause_ms;
      say(`the built-in worker ended (${ending}); it is started again in ${pause / 1000} s`);
      await sleep(pause, undefined, { signal: stopping.signal }).catch(() => {});
      pause = Math.min(pause * 2, max_pause_ms);
    }
  };
  const kept = keep();

  return {
    ready,
    stop: async () => {
      stopping.abort();
      if (child?.connected) child.send(drainMessage, () => {});
      await kept;
    },
    stopAtOnce: async () => {
      stopping.abort();
      if (child?.connected) child.disconnect();
      const late = sleep(atOnceMs, 'late', { ref: false });
      if ((await Promise.race([kept, late])) === 'late') child?.kill('SIGKILL');
      await kept;
    },
  };
}

function endOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('exit', (code, signal) => resolve(signal === null ? `exit code ${code}` : signal));
  });
}
