// Finds out, once at the start of a worker, how far this machine lets programs be separated from it and from each other.
// `punctual worker` says it when it starts, `punctual doctor` when it is asked. Throws an IsolationError when the operator
// wants what cannot be done.
import { execFile } from 'node:child_process';
import { constants, readdirSync } from 'node:fs';
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { all_controllers, type Cgroups, readOr } from './cgroup.ts';
import { CgroupsV1, placesV1 } from './cgroup-v1.ts';
import { CgroupsV2, ownCgroup } from './cgroup-v2.ts';
import { type HardLimits, type Limits, readHardLimits } from './limits.ts';

const run = promisify(execFile);
const probe_ms = 5_000;
/** Not from PATH: these run before the program does. */
const toolFolders = ['/usr/bin', '/bin', '/usr/sbin', '/sbin', '/usr/local/bin'];

/** Wrong or impossible configuration of shell jobs: the message says what to do. */
export class IsolationError extends Error {
  override name = 'IsolationError';
}

export interface ShellSettings {
  /** Whose rights programs have when the worker is root; null for nobody. */
  user: string | null;
  /** The cgroup in which those of programs are made; null for the worker's own, `none` for no cgroups. */
  cgroup: string | null;
  limits: Limits;
}

export interface Isolation {
  /** Who programs run as, when that is not the worker's own user. */
  user: { name: string; uid: number; gid: number } | null;
  cgroups: Cgroups | null;
  /** Put before a command, so that the kernel kills it when the worker dies; empty where that is not possible. */
  deathSignal: readonly string[];
  /** The path of prlimit. */
  prlimit: string | null;
  /** Put before a command, so that it has no network; null where that is not possible. */
  noNetwork: readonly string[] | null;
  limits: Limits;
  hardLimits: HardLimits;
  /** Descriptors the worker was started with and would hand on. */
  inherited: readonly number[];
}

/** `keep`: make what programs need; without it, as for `punctual doctor`, nothing is left. */
export async function probeIsolation(settings: ShellSettings, keep = true): Promise<Isolation> {
  const user = await userFor(settings.user);
  const [setpriv, prlimit, unshare] = [await findTool('setpriv'), await findTool('prlimit'), await findTool('unshare')];
  const as = user === null ? {} : { uid: user.uid, gid: user.gid };
  const works = async ([command, ...args]: string[]): Promise<boolean> =>
    run(command as string, [...args, '/bin/true'], { ...as, cwd: '/', timeout: probe_ms }).then(
      () => true,
      () => false,
    );
  if (user !== null && !(await works(['/usr/bin/env']))) {
    throw new IsolationError(
      `This worker runs as root but may not become ${user.name}, so it cannot take root's rights from programs. Start it as another user, or set PUNCTUAL_SHELL_USER=root to let programs run as root.`,
    );
  }
  const death = [setpriv ?? '', '--pdeathsig', 'KILL', ...(user === null ? [] : ['--no-new-privs']), '--'];
  const noNetwork = [unshare ?? '', '--user', '--map-current-user', '--net', '--'];
  const cgroups = await openCgroups(settings.cgroup);
  if (!keep) cgroups?.close();
  return {
    user,
    cgroups,
    deathSignal: setpriv !== null && (await works(death)) ? death : [],
    prlimit: prlimit !== null && (await works([prlimit, '--core=0'])) ? prlimit : null,
    noNetwork: unshare !== null && (await works(noNetwork)) ? noNetwork : null,
    limits: settings.limits,
    hardLimits: readHardLimits(readOr('/proc/self/limits')),
    inherited: inheritedDescriptors(),
  };
}

async function userFor(name: string | null): Promise<Isolation['user']> {
  const isRoot = process.getuid?.() === 0;
  if (!isRoot) {
    if (name === null || (await idOf(name, '-u')) === process.getuid?.()) return null;
    throw new IsolationError(
      `PUNCTUAL_SHELL_USER is ${name}, but only a worker that runs as root can run programs as another user.`,
    );
  }
  const wanted = name ?? 'nobody';
  const [uid, gid] = [await idOf(wanted, '-u'), await idOf(wanted, '-g')];
  if (uid === null || gid === null) {
    throw new IsolationError(
      `This worker runs as root, and there is no user ${wanted} to run programs as. Set PUNCTUAL_SHELL_USER to one there is; root is possible, but then jobs may do everything on this machine.`,
    );
  }
  return uid === 0 ? null : { name: wanted, uid, gid };
}

async function idOf(name: string, which: '-u' | '-g'): Promise<number | null> {
  try {
    return Number((await run('id', [which, '--', name], { timeout: probe_ms })).stdout);
  } catch {
    return null;
  }
}

async function openCgroups(wanted: string | null): Promise<Cgroups | null> {
  if (wanted === 'none') return null;
  if (wanted === null) return openOwnCgroups();
  try {
    const places = placesV1(wanted);
    return await (Object.keys(places).length > 0 ? CgroupsV1.open(places) : CgroupsV2.open(wanted));
  } catch (error) {
    throw new IsolationError(
      `No cgroups can be made in ${wanted} (PUNCTUAL_SHELL_CGROUP): ${(error as Error).message}. Delegate it to the worker's user, or leave the setting out.`,
    );
  }
}

/** Version 2, unless version 1 can limit more, as on machines that have both. */
async function openOwnCgroups(): Promise<Cgroups | null> {
  const base = ownCgroup();
  const second = base === null ? null : await CgroupsV2.open(base).catch(() => null);
  if (second?.controllers.size === all_controllers.length) return second;
  const first = await CgroupsV1.open(placesV1(null)).catch(() => null);
  const firstIsBetter = first !== null && first.controllers.size > (second?.controllers.size ?? 0);
  (firstIsBetter ? second : first)?.close();
  return firstIsBetter ? first : second;
}

/** Those beside input and output that are not closed when a program is executed; Node closes its own. */
function inheritedDescriptors(): number[] {
  const closeOnExec = 0o2000000;
  const listed = process.platform === 'linux' ? readdirSync('/proc/self/fdinfo').map(Number) : [];
  return listed.filter((fd) => {
    const flags = /^flags:\s*(\d+)$/m.exec(readOr(`/proc/self/fdinfo/${fd}`))?.[1];
    return fd > 2 && flags !== undefined && (Number.parseInt(flags, 8) & closeOnExec) === 0;
  });
}

async function findTool(name: string): Promise<string | null> {
  if (process.platform !== 'linux') return null;
  for (const folder of toolFolders) {
    const file = join(folder, name);
    if (
      await access(file, constants.X_OK).then(
        () => true,
        () => false,
      )
    )
      return file;
  }
  return null;
}
