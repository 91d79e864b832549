// Version 1 of cgroups: a tree for each controller, of which memory and pids are used, each where it may be. The kernel
// neither kills such a cgroup as a whole nor ends all of a run that is out of memory, so the worker does both: first nothing
// in it may be started any more (pids.max is 0), then everything is killed until nothing is there. Opened by probe.ts.
import { existsSync, rmdirSync, writeFileSync } from 'node:fs';
import { mkdir, rmdir, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
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
import { kill } from './processes.ts';

/** A folder for each controller there is. */
export type Places = Partial<Record<Controller, string>>;

const limit_files = { memory: 'memory.limit_in_bytes', pids: 'pids.max' } as const;

/** Where this worker's cgroups may be made. `wanted`: a folder in one of the trees; the folders at the same place of the
 *  others count too. Otherwise the cgroup this process is in, but only the root of what it sees: any other was made by
 *  somebody, and this version has no way to see whether it was made for the worker to divide. */
export function placesV1(
  wanted: string | null,
  mountinfo = readOr('/proc/self/mountinfo'),
  cgroup = readOr('/proc/self/cgroup'),
): Places {
  const mounts = all_controllers.flatMap((controller) => {
    const line = mountinfo.split('\n').find((text) => isTreeOf(controller, text));
    const [root = '', point = ''] = line?.split(' ').slice(3, 5) ?? [];
    return line === undefined ? [] : [{ controller, root, point }];
  });
  if (wanted !== null) {
    const tree = mounts.find(({ point }) => `${wanted}/`.startsWith(`${point}/`));
    if (tree === undefined) return {};
    const found = mounts.map(
      ({ controller, point }) => [controller, join(point, relative(tree.point, wanted))] as const,
    );
    return Object.fromEntries(found.filter(([, folder]) => existsSync(folder)));
  }
  const own = (controller: Controller) =>
    new RegExp(`^\\d+:(?:.*,)?${controller}(?:,.*)?:(/.*)$`, 'm').exec(cgroup)?.[1];
  return Object.fromEntries(
    mounts
      .filter(({ controller, root }) => own(controller) === root)
      .map(({ controller, point }) => [controller, point]),
  );
}

function isTreeOf(controller: Controller, mount: string): boolean {
  return / - cgroup /.test(mount) && (mount.split(' ').at(-1) ?? '').split(',').includes(controller);
}

export class CgroupsV1 implements Cgroups {
  readonly version = 1;
  readonly folders: readonly string[];
  readonly controllers: ReadonlySet<Controller>;
  readonly looksAtMemory = true;
  readonly #bases: Places;
  readonly #own: Places;

  private constructor(bases: Places, own: Places) {
    this.#bases = bases;
    this.#own = own;
    this.folders = Object.values(own);
    this.controllers = new Set(Object.keys(own) as Controller[]);
  }

  /** Makes this worker's folders; throws when not even one is allowed here. */
  static async open(bases: Places): Promise<CgroupsV1> {
    const own: Places = {};
    let why = new Error('neither the memory nor the pids controller is there');
    for (const [controller, base] of Object.entries(bases) as [Controller, string][]) {
      try {
        own[controller] = await openFolder(controller, base);
      } catch (error) {
        why = error as Error;
      }
    }
    if (Object.keys(own).length === 0) throw why;
    return new CgroupsV1(bases, own);
  }

  async make(limits: GroupLimits): Promise<RunCgroupV1> {
    const run = new RunCgroupV1(below(this.#own, nextName()));
    try {
      await this.#limit(run, limits);
      return run;
    } catch (error) {
      await run.remove();
      throw error;
    }
  }

  async #limit({ places }: RunCgroupV1, limits: GroupLimits): Promise<void> {
    const { memory, pids } = places;
    for (const path of Object.values(places)) await mkdir(path);
    if (memory !== undefined && limits.memoryBytes > 0) {
      await writeFile(join(memory, 'memory.limit_in_bytes'), String(limits.memoryBytes));
      // With swap, and not on every machine. After the other: it may not be the smaller one.
      await writeFile(join(memory, 'memory.memsw.limit_in_bytes'), String(limits.memoryBytes), { flag: 'r+' }).catch(
        () => undefined,
      );
    }
    if (pids !== undefined && limits.processes > 0) await writeFile(join(pids, 'pids.max'), String(limits.processes));
  }

  ofWorkers(): Map<string, RunCgroup> {
    const names = Object.values(this.#bases).flatMap(workersIn);
    return new Map(names.map((name) => [name, new RunCgroupV1(below(this.#bases, name))]));
  }

  close(): boolean {
    for (const folder of this.folders) {
      try {
        for (const name of subgroups(folder)) closeRun(join(folder, name));
        rmdirSync(folder);
      } catch {
        continue; // not dead yet, or another has removed it
      }
    }
    return !this.folders.some((folder) => existsSync(folder));
  }
}

class RunCgroupV1 implements RunCgroup {
  readonly places: Places;
  #refused: { memory: number; processes: number } | undefined;

  constructor(places: Places) {
    this.places = places;
  }

  async add(pid: number): Promise<void> {
    for (const path of Object.values(this.places)) await writeFile(join(path, 'cgroup.procs'), String(pid));
  }

  async kill(): Promise<void> {
    // What is refused from here on is the doing of the worker.
    this.#refused ??= this.#countRefusals();
    const { pids } = this.places;
    if (pids !== undefined) forbidForks(pids);
    for (let waited = 0; waited < max_wait_ms && this.#killThose() > 0; waited += look_every_ms)
      await wait(look_every_ms);
  }

  async refusals(): Promise<{ memory: number; processes: number }> {
    return this.#refused ?? this.#countRefusals();
  }

  exceeds(bytes: number): boolean {
    const { memory } = this.places;
    if (memory !== undefined) return (oomKills(memory) ?? 0) > 0;
    return memoryOf(Object.values(this.places).flatMap(processesOf), bytes) > bytes;
  }

  async remove(): Promise<void> {
    for (const path of Object.values(this.places)) await removeTree(path);
  }

  #killThose(): number {
    const pids = new Set(Object.values(this.places).flatMap(processesBelow));
    for (const pid of pids) kill(pid, 'SIGKILL');
    return pids.size;
  }

  #countRefusals(): { memory: number; processes: number } {
    const { memory, pids } = this.places;
    return {
      // Without a count of kills that of times the limit was reached: the kernel may have freed enough each time.
      memory: memory === undefined ? 0 : (oomKills(memory) ?? Number(readOr(join(memory, 'memory.failcnt')))),
      processes: pids === undefined ? 0 : (countIn(join(pids, 'pids.events'), 'max') ?? 0),
    };
  }
}

/** Null on kernels before 4.13, which do not count them. */
function oomKills(path: string): number | null {
  return countIn(join(path, 'memory.oom_control'), 'oom_kill');
}

async function openFolder(controller: Controller, base: string): Promise<string> {
  const folder = await makeOwnFolder(base);
  const file = limit_files[controller];
  if (existsSync(join(folder, file))) return folder;
  await rmdir(folder).catch(() => undefined);
  throw new Error(`there is no ${file}`);
}

function below(places: Places, name: string): Places {
  return Object.fromEntries(Object.entries(places).map(([controller, path]) => [controller, join(path, name)]));
}

function processesBelow(path: string): number[] {
  if (!existsSync(path)) return [];
  return [...processesOf(path), ...subgroups(path).flatMap((name) => processesBelow(join(path, name)))];
}

function forbidForks(path: string): void {
  try {
    writeFileSync(join(path, 'pids.max'), '0', { flag: 'r+' });
  } catch {
    return; // it has been removed, or is of another controller
  }
}

function closeRun(path: string): void {
  forbidForks(path);
  for (const pid of processesBelow(path)) kill(pid, 'SIGKILL');
  rmdirSync(path);
}

/** The kernel lets it go a moment after its last process. */
async function removeTree(path: string): Promise<void> {
  for (let waited = 0; waited < max_wait_ms && existsSync(path); waited += look_every_ms) {
    for (const name of subgroups(path)) await removeTree(join(path, name));
    const error = await rmdir(path).catch(({ code }: NodeJS.ErrnoException) => code);
    if (error !== 'EBUSY') return;
    await wait(look_every_ms);
  }
}
