// Starts a program apart from the worker and from other programs, and ends it with everything it has started. Used by
// executors/run-program.ts.
//
// The command is a chain, each part of which becomes the next: a shell that waits until the worker has put it into its
// cgroup, then unshare (no network), setpriv (dies with the worker), prlimit (limits), the program. All of them run with the
// rights of the program, never with those of root: its environment comes from the job and can make any of them do anything.
import { type ChildProcess, type IOType, type StdioOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync, readFileSync } from 'node:fs';
import type { Writable } from 'node:stream';
import type { RunCgroup } from './cgroup.ts';
import { type Limits, mb, prlimitArguments } from './limits.ts';
import type { Isolation } from './probe.ts';
import { kill, killMarked, marking_variable, tasksOf } from './processes.ts';

const gate = 'read -r go <&3 || exit 125; exec 3<&-; exec "$@"';
const look_at_memory_ms = 250;

export interface Program {
  command: readonly string[];
  cwd: string;
  env: Record<string, string>;
  limits: Limits;
  noNetwork: boolean;
}

export class StartedProgram {
  readonly child: ChildProcess;
  readonly #cgroup: RunCgroup | null;
  readonly #mark: string;
  readonly #memoryTimer: NodeJS.Timeout | undefined;
  readonly #oomBefore = oomKills();
  /** It was killed because all its processes together used more memory than it may. */
  usedTooMuchMemory = false;

  private constructor(child: ChildProcess, cgroup: RunCgroup | null, program: Program, watchMemory: boolean) {
    this.child = child;
    this.#cgroup = cgroup;
    this.#mark = program.env[marking_variable] ?? '';
    if (watchMemory)
      this.#memoryTimer = setInterval(() => this.#lookAtMemory(program.limits.memory_mb * mb), look_at_memory_ms);
  }

  static async start(program: Program, isolation: Isolation): Promise<StartedProgram> {
    const { cgroups, user } = isolation;
    const { memory_mb, processes } = program.limits;
    const cgroup = cgroups === null ? null : await cgroups.make({ memoryBytes: memory_mb * mb, processes });
    try {
      const [command, ...args] = chain(program, isolation) as [string, ...string[]];
      const child = spawn(command, args, {
        cwd: program.cwd,
        env: program.env,
        detached: true,
        stdio: descriptors(cgroup !== null, isolation.inherited),
        ...(user === null ? {} : { uid: user.uid, gid: user.gid }),
      });
      if (child.pid === undefined) await once(child, 'spawn');
      child.on('error', () => undefined);
      const watchMemory = cgroup !== null && memory_mb > 0 && cgroups?.looksAtMemory === true;
      const started = new StartedProgram(child, cgroup, program, watchMemory);
      if (cgroup !== null) await started.#openGate(cgroup);
      return started;
    } catch (error) {
      await cgroup?.remove();
      throw error;
    }
  }

  /** A signal to its process group. */
  signal(signal: NodeJS.Signals): void {
    if (this.child.pid !== undefined) kill(-this.child.pid, signal);
  }

  /** Kills everything it has started, wherever that has gone. */
  async killAll(): Promise<void> {
    this.signal('SIGKILL');
    if (this.#cgroup !== null) await this.#cgroup.kill().catch(() => undefined);
    else await killMarked((value) => value === this.#mark);
  }

  /** What the kernel refused it; `machine`: something on this machine was killed for want of memory meanwhile. */
  async refusals(): Promise<{ memory: boolean; processes: boolean; machine: boolean }> {
    const { memory, processes } = (await this.#cgroup?.refusals()) ?? { memory: 0, processes: 0 };
    return {
      memory: memory > 0 || this.usedTooMuchMemory,
      processes: processes > 0,
      machine: oomKills() > this.#oomBefore,
    };
  }

  /** When everything has been killed. */
  async remove(): Promise<void> {
    clearInterval(this.#memoryTimer);
    await this.#cgroup?.remove();
  }

  async #openGate(cgroup: RunCgroup): Promise<void> {
    const handle = this.child.stdio[3] as Writable;
    handle.on('error', () => undefined);
    try {
      await cgroup.add(this.child.pid as number);
    } catch (error) {
      this.signal('SIGKILL');
      await this.remove();
      throw error;
    }
    handle.end('go\n');
  }

  /** Where the kernel does not end all its processes when they use too much together: looks now and then. */
  #lookAtMemory(most: number): void {
    if (this.#cgroup === null || this.usedTooMuchMemory || !this.#cgroup.exceeds(most)) return;
    this.usedTooMuchMemory = true;
    this.#cgroup.kill().catch(() => undefined);
  }
}

/** Input, output, the gate; and nothing behind the descriptors that the worker itself was left with. */
function descriptors(hasGate: boolean, inherited: readonly number[]): StdioOptions {
  const stdio: (IOType | number)[] = ['pipe', 'pipe', 'pipe'];
  for (const fd of inherited) stdio[fd] = nothing();
  if (hasGate) stdio[3] = 'pipe';
  return Array.from(stdio, (given) => given ?? 'ignore');
}

let openedNothing: number | undefined;
function nothing(): number {
  openedNothing ??= openSync('/dev/null', 'r+');
  return openedNothing;
}

function chain({ command, limits, noNetwork }: Program, isolation: Isolation): string[] {
  const { cgroups, deathSignal, prlimit, user, hardLimits } = isolation;
  const uid = user?.uid ?? process.getuid?.() ?? 0;
  const [memoryByCgroup, processesByCgroup] = (['memory', 'pids'] as const).map(
    (controller) => cgroups?.controllers.has(controller) === true,
  ) as [boolean, boolean];
  const tasks = uid === 0 || processesByCgroup || limits.processes === 0 ? null : tasksOf(uid);
  const limiting =
    prlimit === null
      ? []
      : [prlimit, ...prlimitArguments(limits, { memoryByCgroup, processesByCgroup, hard: hardLimits, tasks }), '--'];
  return [
    ...(cgroups === null ? [] : ['/bin/sh', '-c', gate, 'sh']),
    ...(noNetwork ? (isolation.noNetwork ?? []) : []),
    ...deathSignal,
    ...limiting,
    ...command,
  ];
}

/** How often the kernel has killed something for want of memory, in a cgroup or on the whole machine. */
function oomKills(): number {
  try {
    return Number(/^oom_kill (\d+)$/m.exec(readFileSync('/proc/vmstat', 'utf8'))?.[1] ?? 0);
  } catch {
    return 0;
  }
}
