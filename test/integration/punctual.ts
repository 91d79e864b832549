// Runs the real `punctual` program for the tests of the CLI: as a command that ends, or as one that stays.
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../..');
export const program = path.join(root, 'cli/bin/punctual.js');

export interface Ended {
  code: number;
  stdout: string;
  stderr: string;
}

type Env = Record<string, string>;

/** Nothing of whoever runs the tests reaches the program. */
export function cleanEnvironment(env: Env): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(PUNCTUAL_|DATABASE_URL$|PG|NO_COLOR$|NODE_TEST_CONTEXT$)/.test(name),
  );
  return { ...Object.fromEntries(kept), ...env };
}

export function punctual(
  words: string[],
  { env = {}, input = '', cwd = root }: { env?: Env; input?: string; cwd?: string } = {},
): Promise<Ended> {
  return new Promise((resolve) => {
    const options = { env: cleanEnvironment(env), cwd, timeout: 60_000, maxBuffer: 16 * 1024 * 1024 };
    const child = execFile(process.execPath, [program, ...words], options, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : typeof error.code === 'number' ? error.code : -1, stdout, stderr });
    });
    child.stdin?.on('error', () => {}); // it may have ended without reading
    child.stdin?.end(input);
  });
}

export interface Staying {
  process: ChildProcess;
  stdout(): string;
  stderr(): string;
  /** The whole process group, as Ctrl-C in a terminal does. */
  signal(name: NodeJS.Signals): void;
  ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
}

/** A command that stays until it is told to end, in a process group of its own. */
export function stay(words: string[], env: Env): Staying {
  const child = spawn(process.execPath, [program, ...words], {
    env: cleanEnvironment(env),
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const ended = once(child, 'exit').then(([code, signal]) => ({
    code: code as number | null,
    signal: signal as NodeJS.Signals | null,
  }));
  return {
    process: child,
    stdout: () => stdout,
    stderr: () => stderr,
    signal: (name) => void process.kill(-(child.pid ?? 0), name),
    ended,
  };
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
