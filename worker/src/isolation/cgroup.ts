// A cgroup for each program: whatever it starts stays in it, so all of it can be killed and counted, and its memory and
// processes are limited as a whole where those controllers may be used. The interface, which both versions of the kernel's
// cgroups keep (cgroup-v1.ts, cgroup-v2.ts), and what they share. Opened by probe.ts, used by started.ts and sweep.ts.
//
//   base/                      the worker's own cgroup, or the one the operator gave it
//     punctual-MARK/           of one worker process
//       run-1, run-2, …        of one program each; removed with it
//
// Version 1 has such a tree for each controller.
import { readdirSync, readFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { ownMark } from './mark.ts';

/** A killed process is gone in milliseconds unless the kernel holds it, as with a disk that does not answer. */
export const max_wait_ms = 5_000;
export const look_every_ms = 5;

export type Controller = 'memory' | 'pids';
export const all_controllers: readonly Controller[] = ['memory', 'pids'];

export interface GroupLimits {
  /** 0: no limit. */
  memoryBytes: number;
  processes: number;
}

export interface Cgroups {
  readonly version: 1 | 2;
  /** Of this worker process, one in each tree. */
  readonly folders: readonly string[];
  readonly controllers: ReadonlySet<Controller>;
  /** Whether `exceeds` has to be asked now and then, because the kernel does not end a run as a whole. */
  readonly looksAtMemory: boolean;
  make(limits: GroupLimits): Promise<RunCgroup>;
  /** Those of worker processes, by the name of their folder. */
  ofWorkers(): Map<string, RunCgroup>;
  /** When the process ends: kills what is left and removes it. False: something is not dead yet, so call again. */
  close(): boolean;
}

export interface RunCgroup {
  /** Puts a process into it; what that starts is in it too. */
  add(pid: number): Promise<void>;
  /** Kills everything in it, and waits until it is gone. */
  kill(): Promise<void>;
  /** How often something in it was killed for want of memory, or could not be started for want of processes. */
  refusals(): Promise<{ memory: number; processes: number }>;
  /** Whether it has used too much memory; for runs the kernel does not end by itself. */
  exceeds(bytes: number): boolean;
  remove(): Promise<void>;
}

let made = 0;

/** The name of the next one; two workers in one process share a folder. */
export function nextName(): string {
  made += 1;
  return `run-${made}`;
}

/** The folder of this worker process in a cgroup; throws when it may not be made. */
export async function makeOwnFolder(base: string): Promise<string> {
  const folder = join(base, `punctual-${ownMark}`);
  await mkdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
  });
  return folder;
}

export function subgroups(path: string): string[] {
  return readdirSync(path, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name);
}

/** Those of worker processes in a cgroup. */
export function workersIn(base: string): string[] {
  return subgroups(base).filter((name) => name.startsWith('punctual-'));
}

/** The ids of the processes in a cgroup itself; one of another namespace has none. */
export function processesOf(path: string): number[] {
  return readOr(join(path, 'cgroup.procs'))
    .split('\n')
    .map(Number)
    .filter((pid) => pid > 0);
}

/** The bytes of memory that processes use; when that is clearly below `most`, a cheaper number that counts what they share
 *  several times. */
export function memoryOf(pids: readonly number[], most: number): number {
  const sum = (file: string, pattern: RegExp) =>
    pids.reduce((total, pid) => total + Number(pattern.exec(readOr(`/proc/${pid}/${file}`))?.[1] ?? 0) * 1024, 0);
  const atMost = sum('status', /^VmRSS:\s+(\d+) kB$/m);
  return atMost <= most ? atMost : sum('smaps_rollup', /^Pss:\s+(\d+) kB$/m);
}

/** The number after a name in a file of the kernel; null when it is not there. */
export function countIn(file: string, name: string): number | null {
  const found = new RegExp(`^${name} (\\d+)$`, 'm').exec(readOr(file))?.[1];
  return found === undefined ? null : Number(found);
}

/** Empty when it cannot be read: a process has ended, a cgroup has been removed, or this is not Linux. */
export function readOr(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
