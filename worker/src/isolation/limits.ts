// What a program may use: the limits of the worker, lowered by those of its job, and the command that sets those the kernel
// keeps for each process (prlimit). Memory and processes are limited by a cgroup instead where there is one that can.
import type { ShellLimits } from '@punctual/contract';

/** 0: no limit. */
export type Limits = Required<ShellLimits>;

const names = ['memory_mb', 'cpu_seconds', 'processes', 'open_files', 'file_mb', 'output_mb'] as const;
export const mb = 1024 * 1024;

/** The smaller of what the job asks for and the worker allows; `say` is told when that is less than was asked for. */
export function limitsFor(asked: ShellLimits | undefined, allowed: Limits, say: (words: string) => void): Limits {
  const entries = names.map((name) => {
    const [wanted = 0, most] = [asked?.[name], allowed[name]];
    if (most > 0 && wanted > most)
      say(`The limit ${name} is ${most} on this worker, not ${wanted} as the job asks for.`);
    return [name, wanted > 0 && most > 0 ? Math.min(wanted, most) : Math.max(wanted, most)];
  });
  return Object.fromEntries(entries) as Limits;
}

/** Limits of the worker itself that no program of it can exceed, by the names of prlimit. */
export type HardLimits = Partial<Record<'cpu' | 'data' | 'nproc' | 'nofile' | 'fsize', number>>;

const procNames = {
  cpu: 'Max cpu time',
  data: 'Max data size',
  nproc: 'Max processes',
  nofile: 'Max open files',
  fsize: 'Max file size',
} as const;

/** From the text of /proc/self/limits. */
export function readHardLimits(text: string): HardLimits {
  const found: HardLimits = {};
  for (const [name, title] of Object.entries(procNames) as [keyof HardLimits, string][]) {
    const hard = new RegExp(`^${title}\\s+\\S+\\s+(\\d+)`, 'm').exec(text)?.[1];
    if (hard !== undefined) found[name] = Number(hard);
  }
  return found;
}

export interface LimitWays {
  memoryByCgroup: boolean;
  processesByCgroup: boolean;
  hard: HardLimits;
  /** How many tasks the program's user has already; null when it is root, which the kernel does not limit. */
  tasks: number | null;
}

/** The arguments of prlimit. */
export function prlimitArguments(
  limits: Limits,
  { memoryByCgroup, processesByCgroup, hard, tasks }: LimitWays,
): string[] {
  const args = ['--core=0'];
  const set = (name: keyof HardLimits, value: number, grace = 0): void => {
    const most = hard[name] ?? Number.POSITIVE_INFINITY;
    if (value > 0) args.push(`--${name}=${Math.min(value, most)}:${Math.min(value + grace, most)}`);
  };
  // A second more until SIGKILL: the signal before it, SIGXCPU, says why.
  set('cpu', limits.cpu_seconds, 1);
  set('nofile', limits.open_files);
  set('fsize', limits.file_mb * mb);
  // Data, not addresses: many programs reserve far more addresses than they ever use.
  if (!memoryByCgroup) set('data', limits.memory_mb * mb);
  if (!processesByCgroup && tasks !== null && limits.processes > 0) set('nproc', tasks + limits.processes);
  return args;
}
