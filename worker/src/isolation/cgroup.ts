// A cgroup (version 2) for each program: whatever it starts stays in it, so all of it can be killed and counted, and its
// memory and processes are limited as a whole where those controllers may be used. Opened by probe.ts, used by started.ts
// and sweep.ts.
//
//   base/                      the worker's own cgroup, or the one the operator gave it
//     punctual-MARK/           of one worker process
//       run-1, run-2, …        of one program each; removed with it
import { existsSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { mkdir, readFile, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { ownMark } from './mark.ts';

/** A killed process is gone in milliseconds unless the kernel holds it, as with a disk that does not answer. */
const max_wait_ms = 5_000;
const look_every_ms = 5;

/** How many this process has made; two workers in one process share a folder. */
let made = 0;

export type Controller = 'memory' | 'pids';

/** Where this worker's cgroups may be made: where version 2 is mounted, the cgroup this process is in; null if nowhere. */
export function ownCgroup(mountinfo = readProc('mountinfo'), cgroup = readProc('cgroup')): string | null {
  const own = /^0::(\/.*)$/m.exec(cgroup)?.[1];
  const mount = mountinfo.split('\n').find((line) => / - cgroup2 /.test(line));
  const folder = mount?.split(' ')[4];
  // A path that leaves the root belongs to another namespace of cgroups.
  if (own === undefined || folder === undefined || own.startsWith('/..')) return null;
  return join(folder, own);
}

export class Cgroups {
  readonly base: string;
  readonly folder: string;
  readonly controllers: ReadonlySet<Controller>;

  private constructor(base: string, folder: string, controllers: ReadonlySet<Controller>) {
    this.base = base;
    this.folder = folder;
    this.controllers = controllers;
  }

  /** Makes this worker's folder; throws when that is not allowed here, or the kernel cannot kill a cgroup (before 5.14). */
  static async open(base: string): Promise<Cgroups> {
    const folder = join(base, `punctual-${ownMark}`);
    await mkdir(folder).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
    if (!existsSync(join(folder, 'cgroup.kill'))) {
      await rmdir(folder).catch(() => undefined);
      throw new Error('there is no cgroup.kill');
    }
    const controllers = new Set<Controller>();
    for (const controller of ['memory', 'pids'] as const) {
      if ((await enable(base, controller)) && (await enable(folder, controller))) controllers.add(controller);
    }
    return new Cgroups(base, folder, controllers);
  }

  async make(limits: { memoryBytes: number; processes: number }): Promise<RunCgroup> {
    made += 1;
    const path = join(this.folder, `run-${made}`);
    await mkdir(path);
    const set = (file: string, value: string) => writeFile(join(path, file), value);
    if (this.controllers.has('memory') && limits.memoryBytes > 0) {
      await set('memory.max', String(limits.memoryBytes));
      // Not on every machine: without swap there is nothing to limit.
      await set('memory.swap.max', '0').catch(() => undefined);
      await set('memory.oom.group', '1').catch(() => undefined);
    }
    if (this.controllers.has('pids') && limits.processes > 0) await set('pids.max', String(limits.processes));
    return new RunCgroup(path);
  }

  /** When the process ends: kills what is left and removes it. False: something is not dead yet, so call again. */
  close(): boolean {
    try {
      writeFileSync(join(this.folder, 'cgroup.kill'), '1');
      for (const name of subgroups(this.folder)) rmdirSync(join(this.folder, name));
      rmdirSync(this.folder);
      return true;
    } catch {
      return !existsSync(this.folder);
    }
  }
}

export class RunCgroup {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  async add(pid: number): Promise<void> {
    await writeFile(join(this.path, 'cgroup.procs'), String(pid));
  }

  async kill(): Promise<void> {
    await writeFile(join(this.path, 'cgroup.kill'), '1');
    for (let waited = 0; waited < max_wait_ms && this.#isPopulated(); waited += look_every_ms)
      await wait(look_every_ms);
  }

  /** How often something in it was killed for want of memory, or could not be started for want of processes. */
  async refusals(): Promise<{ memory: number; processes: number }> {
    return {
      memory: await this.#count('memory.events', 'oom_kill'),
      processes: await this.#count('pids.events', 'max'),
    };
  }

  /** The bytes of memory its processes use; when that is clearly below `most`, a cheaper number that counts what they share
   *  several times. */
  usedMemory(most: number): number {
    try {
      const pids = readFileSync(join(this.path, 'cgroup.procs'), 'utf8')
        .split('\n')
        .filter((pid) => pid !== '');
      const sum = (file: string, pattern: RegExp) =>
        pids.reduce((total, pid) => total + kilobytes(`/proc/${pid}/${file}`, pattern) * 1024, 0);
      const atMost = sum('status', /^VmRSS:\s+(\d+) kB$/m);
      return atMost <= most ? atMost : sum('smaps_rollup', /^Pss:\s+(\d+) kB$/m);
    } catch {
      return 0; // it has been removed
    }
  }

  async remove(): Promise<void> {
    if (!existsSync(this.path)) return;
    for (const name of subgroups(this.path)) await new RunCgroup(join(this.path, name)).remove();
    await rmdir(this.path).catch(() => undefined);
  }

  #isPopulated(): boolean {
    return /^populated 1$/m.test(readFileSync(join(this.path, 'cgroup.events'), 'utf8'));
  }

  async #count(file: string, name: string): Promise<number> {
    const text = await readFile(join(this.path, file), 'utf8').catch(() => '');
    return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1] ?? 0);
  }
}

export function subgroups(path: string): string[] {
  return readdirSync(path, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name);
}

/** Lets the cgroups below use a controller; false where the cgroup above does not offer it or has processes of its own. */
async function enable(folder: string, controller: Controller): Promise<boolean> {
  const file = join(folder, 'cgroup.subtree_control');
  try {
    if ((await readFile(file, 'utf8')).split(/\s+/).includes(controller)) return true;
    await writeFile(file, `+${controller}`);
    return true;
  } catch {
    return false;
  }
}

function kilobytes(file: string, pattern: RegExp): number {
  try {
    return Number(pattern.exec(readFileSync(file, 'utf8'))?.[1] ?? 0);
  } catch {
    return 0; // the process has ended
  }
}

function readProc(name: string): string {
  try {
    return readFileSync(`/proc/self/${name}`, 'utf8');
  } catch {
    return '';
  }
}
