// Punctual as real processes, for tests of the CLI and for those in which something is killed, frozen or cut off: one way
// to start a process that stays, one way to run a command that ends.
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../..');
export const program = path.join(root, 'cli/bin/punctual.js');

type Env = Record<string, string>;

/** Nothing of whoever runs the tests reaches the program. */
export function cleanEnvironment(env: Env): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(PUNCTUAL_|DATABASE_URL$|PG|NO_COLOR$|NODE_TEST_CONTEXT$)/.test(name),
  );
  return { ...Object.fromEntries(kept), ...env };
}

export interface Ended {
  code: number;
  stdout: string;
  stderr: string;
}

/** A command of punctual that ends by itself. */
export function runPunctual(
  words: readonly string[],
  { env = {}, input = '' }: { env?: Env; input?: string } = {},
): Promise<Ended> {
  return new Promise((resolve) => {
    const options = { env: cleanEnvironment(env), cwd: root, timeout: 120_000, maxBuffer: 16 * 1024 * 1024 };
    const child = execFile(process.execPath, [program, ...words], options, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : typeof error.code === 'number' ? error.code : -1, stdout, stderr });
    });
    child.stdin?.on('error', () => {}); // it may have ended without reading
    child.stdin?.end(input);
  });
}

export interface Started extends AsyncDisposable {
  child: ChildProcess;
  pid: number;
  stdout(): string;
  stderr(): string;
  /** The first match of a pattern in what it wrote. */
  said(pattern: RegExp, withinMs?: number): Promise<RegExpExecArray>;
  /** The process alone; waits for its end unless the signal only stops or continues it. */
  kill(signal: NodeJS.Signals): Promise<void>;
  /** Its whole process group, as Ctrl-C in a terminal does; only with `ownGroup`. */
  signalGroup(signal: NodeJS.Signals): void;
  ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
}

export interface StartOptions {
  /** A process group of its own. */
  ownGroup?: boolean;
}

/** Starts a program that stays, and watches it; it is killed when its scope ends. */
export function startProcess(command: string, args: readonly string[], env: Env, options: StartOptions = {}): Started {
  const { ownGroup = false } = options;
  const child = spawn(command, args, {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: cleanEnvironment(env),
    detached: ownGroup,
  });
  const { stdout, stderr, said } = hear(child);
  const ended = once(child, 'exit').then(([code, signal]) => ({
    code: code as number | null,
    signal: signal as NodeJS.Signals | null,
  }));
  return {
    child,
    pid: child.pid ?? 0,
    stdout,
    stderr,
    said,
    ended,
    async kill(signal) {
      child.kill(signal);
      if (signal !== 'SIGSTOP' && signal !== 'SIGCONT') await ended;
    },
    signalGroup(signal) {
      // Without a group of its own this would be the group of the tests.
      if (!ownGroup || child.pid === undefined) throw new Error('it has no process group of its own');
      process.kill(-child.pid, signal);
    },
    async [Symbol.asyncDispose]() {
      child.kill('SIGCONT');
      child.kill('SIGKILL');
      await ended;
    },
  };
}

/** Collects what a process writes, and finds patterns in it as soon as they are there. */
function hear(child: ChildProcess): Pick<Started, 'stdout' | 'stderr' | 'said'> {
  const text = { stdout: '', stderr: '', both: '' };
  const watchers = new Set<() => void>();
  for (const name of ['stdout', 'stderr'] as const) {
    child[name]?.on('data', (data: Buffer) => {
      text[name] += data.toString();
      text.both += data.toString();
      for (const watch of watchers) watch();
    });
  }
  const said: Started['said'] = (pattern, withinMs = 60_000) =>
    new Promise((resolve, reject) => {
      const fail = (what: string) => done(new Error(`it ${what}; it said:\n${text.both.slice(-4000)}`));
      const timer = setTimeout(() => fail(`did not say ${pattern} within ${withinMs} ms`), withinMs);
      const watch = (): void => {
        const match = pattern.exec(text.both);
        if (match !== null) done(match);
      };
      const done = (result: RegExpExecArray | Error): void => {
        clearTimeout(timer);
        watchers.delete(watch);
        if (result instanceof Error) reject(result);
        else resolve(result);
      };
      watchers.add(watch);
      // What it wrote last may be read after its end.
      child.once('exit', (code) => setTimeout(fail, 2_000, `ended with ${code} before it said ${pattern}`).unref());
      watch();
    });
  return { stdout: () => text.stdout, stderr: () => text.stderr, said };
}

export function startPunctual(words: readonly string[], env: Env, options: StartOptions = {}): Started {
  return startProcess(process.execPath, [program, ...words], env, options);
}

/** A server process and the URL it listens on. */
export async function startServerProcess(databaseUrl: string, env: Env = {}): Promise<Started & { url: string }> {
  const server = startPunctual(['server'], {
    DATABASE_URL: databaseUrl,
    PUNCTUAL_PORT: '0',
    PUNCTUAL_LOG_LEVEL: 'info',
    ...env,
  });
  const [, url = ''] = await server.said(/"url":"(http[^"]+)"/);
  return Object.assign(server, { url });
}

/** All living processes that have this text in their command line or environment, other than this one. */
export function processesWith(text: string): string[] {
  const found: string[] = [];
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)) {
    try {
      if (/^\d+ \(.*\) [ZX]/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))) continue;
      const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
      if (words.includes(text) || readFileSync(`/proc/${pid}/environ`, 'utf8').includes(text))
        found.push(`${pid} ${words.replaceAll('\0', ' ')}`);
    } catch {
      continue; // it ended meanwhile
    }
  }
  return found;
}
