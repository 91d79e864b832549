// Version 2 of cgroups: one tree for all controllers, and the kernel kills a cgroup as a whole. Opened by probe.ts.
import { existsSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { mkdir, readFile, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import {
  all_controllers,
  type Cgroups,
  type Controller,
  countIn,
  type GroupLimits,
  look_every_ms,
  makeOwnFolder,
  max_wait_ms,
  memoryOf,
  nextName,
  processesOf,
  type RunCgroup,
  readOr,
  subgroups,
  workersIn,
} from './cgroup.ts';

/** Where this worker's cgroups may be made: where version 2 is mounted, the cgroup this process is in; null if nowhere. */
export function ownCgroup(
  mountinfo = readOr('/proc/self/mountinfo'),
  cgroup = readOr('/proc/self/cgroup'),
): string | null {
  const own = /^0::(\/.*)$/m.exec(cgroup)?.[1];
  const mount = mountinfo.split('\n').find((line) => / - cgroup2 /.test(line));
  const folder = mount?.split(' ')[4];
  // A path that leaves the root belongs to another namespace of cgroups.
  if (own === undefined || folder === undefined || own.startsWith('/..')) return null;
  return join(folder, own);
}

export class CgroupsV2 implements Cgroups {
  readonly version = 2;
  readonly folders: readonly [string];
  readonly controllers: ReadonlySet<Controller>;
  readonly looksAtMemory: boolean;
  readonly #base: string;

  private constructor(base: string, folder: string, controllers: ReadonlySet<Controller>) {
    this.#base = base;
    this.folders = [folder];
    this.controllers = controllers;
    this.looksAtMemory = !controllers.has('memory');
  }

  /** Makes this worker's folder; throws when that is not allowed here, or the kernel cannot kill a cgroup (before 5.14). */
  static async open(base: string): Promise<CgroupsV2> {
    const folder = await makeOwnFolder(base);
    if (!existsSync(join(folder, 'cgroup.kill'))) {
      await rmdir(folder).catch(() => undefined);
      throw new Error('there is no cgroup.kill');
    }
    const controllers = new Set<Controller>();
    for (const controller of all_controllers) {
      if ((await enable(base, controller)) && (await enable(folder, controller))) controllers.add(controller);
    }
    return new CgroupsV2(base, folder, controllers);
  }

  async make(limits: GroupLimits): Promise<RunCgroupV2> {
    const path = join(this.folders[0], nextName());
    await mkdir(path);
    const set = (file: string, value: string) => writeFile(join(path, file), value);
    if (this.controllers.has('memory') && limits.memoryBytes > 0) {
      await set('memory.max', String(limits.memoryBytes));
      // Not on every machine: without swap there is nothing to limit.
      await set('memory.swap.max', '0').catch(() => undefined);
      await set('memory.oom.group', '1').catch(() => undefined);
    }
    if (this.controllers.has('pids') && limits.processes > 0) await set('pids.max', String(limits.processes));
    return new RunCgroupV2(path);
  }

  ofWorkers(): Map<string, RunCgroup> {
    return new Map(workersIn(this.#base).map((name) => [name, new RunCgroupV2(join(this.#base, name))]));
  }

  close(): boolean {
    const [folder] = this.folders;
    try {
      writeFileSync(join(folder, 'cgroup.kill'), '1');
      for (const name of subgroups(folder)) rmdirSync(join(folder, name));
      rmdirSync(folder);
      return true;
    } catch {
      return !existsSync(folder);
    }
  }
}

class RunCgroupV2 implements RunCgroup {
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

  async refusals(): Promise<{ memory: number; processes: number }> {
    return {
      memory: countIn(join(this.path, 'memory.events'), 'oom_kill') ?? 0,
      processes: countIn(join(this.path, 'pids.events'), 'max') ?? 0,
    };
  }

  exceeds(bytes: number): boolean {
    return memoryOf(processesOf(this.path), bytes) > bytes;
  }

  async remove(): Promise<void> {
    if (!existsSync(this.path)) return;
    for (const name of subgroups(this.path)) await new RunCgroupV2(join(this.path, name)).remove();
    await rmdir(this.path).catch(() => undefined);
  }

  #isPopulated(): boolean {
    return /^populated 1$/m.test(readFileSync(join(this.path, 'cgroup.events'), 'utf8'));
  }
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
