// Punctual as real processes, for tests in which something is killed, frozen or cut off.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../..');
const bin = path.join(root, 'cli/bin/punctual.js');

export interface Punctual extends AsyncDisposable {
  child: ChildProcess;
  pid: number;
  /** Everything it wrote. */
  output(): string;
  /** The first match of a pattern in its output. */
  said(pattern: RegExp, withinMs?: number): Promise<RegExpExecArray>;
  kill(signal: NodeJS.Signals): Promise<void>;
  exited: Promise<number | null>;
}

/** Starts a program and watches it; it is killed when the test ends. */
export function startProcess(command: string, args: readonly string[], env: Record<string, string>): Punctual {
  const child = spawn(command, args, {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '/', ...env },
  });
  let text = '';
  const watchers = new Set<() => void>();
  const hear = (data: Buffer): void => {
    text += data.toString();
    for (const watch of watchers) watch();
  };
  child.stdout.on('data', hear);
  child.stderr.on('data', hear);
  const exited = once(child, 'exit').then(([code]) => code as number | null);
  return {
    child,
    pid: child.pid ?? 0,
    output: () => text,
    exited,
    said: (pattern, withinMs = 20_000) =>
      new Promise((resolve, reject) => {
        const timer = setTimeout(
          () => done(new Error(`it did not say ${pattern} within ${withinMs} ms; it said:\n${text.slice(-4000)}`)),
          withinMs,
        );
        const watch = (): void => {
          const match = pattern.exec(text);
          if (match !== null) done(null, match);
        };
        const done = (error: Error | null, match?: RegExpExecArray): void => {
          clearTimeout(timer);
          watchers.delete(watch);
          if (match === undefined) reject(error ?? new Error('no match'));
          else resolve(match);
        };
        watchers.add(watch);
        child.once('exit', (code) => {
          done(new Error(`it ended with ${code} before it said ${pattern}; it said:\n${text.slice(-4000)}`));
        });
        watch();
      }),
    async kill(signal) {
      child.kill(signal);
      if (signal !== 'SIGSTOP' && signal !== 'SIGCONT') await exited;
    },
    async [Symbol.asyncDispose]() {
      child.kill('SIGCONT');
      child.kill('SIGKILL');
      await exited;
    },
  };
}

export function startPunctual(args: readonly string[], env: Record<string, string>): Punctual {
  return startProcess(process.execPath, [bin, ...args], env);
}

/** A server process and the URL it listens on. */
export async function startServerProcess(
  databaseUrl: string,
  env: Record<string, string> = {},
): Promise<Punctual & { url: string }> {
  const server = startPunctual(['server'], {
    DATABASE_URL: databaseUrl,
    PUNCTUAL_PORT: '0',
    PUNCTUAL_LOG_LEVEL: 'info',
    ...env,
  });
  const [, url = ''] = await server.said(/"url":"(http[^"]+)"/);
  return Object.assign(server, { url });
}
