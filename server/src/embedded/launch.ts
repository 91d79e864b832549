// One running postmaster that is our child: its start, its log, its end. index.ts decides when; this file only does.
//
// Its log comes through a pipe. PostgreSQL ignores SIGPIPE and the failure of a log line, so when we are killed it still
// shuts down in order with nobody listening.
import type { ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { EmbeddedPostgresError } from './failure.ts';
import { type Identity, start } from './identity.ts';
import type { Native } from './native.ts';

export interface Ending {
  code: number | null;
  signal: string | null;
  /** The last lines of its log. */
  tail: string;
}

export interface Postmaster {
  pid: number;
  exited: Promise<Ending>;
  stop(mode: 'fast' | 'immediate'): Promise<void>;
}

export interface LaunchOptions {
  cluster: string;
  socketDir: string;
  port: number;
  listens: string;
  settings: Record<string, string>;
  native: Native;
  identity: Identity;
  log: (line: string) => void;
}

const TAIL_LINES = 40;
const MAX_LINE_CHARS = 4096;
// A fast stop that hangs becomes an immediate one, which loses nothing but time at the next start; then the end.
const FAST_STOP_MS = 45_000;
const IMMEDIATE_STOP_MS = 10_000;

export function launch(options: LaunchOptions): Postmaster {
  const child = start(options.identity, postgresWords(options), 'INT');
  const { pid } = child;
  const exited = collect(child, options.log);
  if (pid === undefined) return { pid: 0, exited, stop: async () => {} };
  return { pid, exited, stop: async (mode) => await stopChild(child, exited, mode) };
}

function postgresWords({ cluster, socketDir, port, listens, settings, native }: LaunchOptions): string[] {
  const all = {
    ...settings,
    listen_addresses: listens,
    unix_socket_directories: socketDir,
    unix_socket_permissions: '0700',
    // Whose child it is; who attaches later can tell whether the owner still lives.
    'punctual.launcher': String(process.pid),
  };
  const words = Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  return [native.postgres, '-D', cluster, '-p', String(port), ...words];
}

function collect(child: ChildProcess, log: (line: string) => void): Promise<Ending> {
  const tail: string[] = [];
  const take = (line: string) => {
    const short = line.slice(0, MAX_LINE_CHARS);
    tail.push(short);
    if (tail.length > TAIL_LINES) tail.shift();
    log(short);
  };
  for (const stream of [child.stdout, child.stderr]) {
    if (stream) createInterface({ input: stream, crlfDelay: Number.POSITIVE_INFINITY }).on('line', take);
  }
  return new Promise((resolve) => {
    const closed = new Promise((done) => child.once('close', done));
    child.once('error', (error) => resolve({ code: null, signal: null, tail: error.message }));
    child.once('exit', async (code, signal) => {
      // Its last words may still be in the pipe; a backend that outlives it could hold the pipe open for long.
      await Promise.race([closed, sleep(1000)]);
      resolve({ code, signal, tail: tail.join('\n') });
    });
  });
}

async function stopChild(child: ChildProcess, exited: Promise<Ending>, mode: 'fast' | 'immediate'): Promise<void> {
  if (mode === 'fast') {
    child.kill('SIGINT');
    if (await endsWithin(exited, FAST_STOP_MS)) return;
  }
  child.kill('SIGQUIT');
  if (await endsWithin(exited, IMMEDIATE_STOP_MS)) return;
  child.kill('SIGKILL');
  if (await endsWithin(exited, IMMEDIATE_STOP_MS)) return;
  throw new EmbeddedPostgresError(`PostgreSQL ${child.pid} does not end.`);
}

async function endsWithin(exited: Promise<Ending>, milliseconds: number): Promise<boolean> {
  const patience = new AbortController();
  const late = sleep(milliseconds, false, { signal: patience.signal }).catch(() => false);
  const ended = await Promise.race([exited.then(() => true), late]);
  patience.abort();
  return ended;
}
