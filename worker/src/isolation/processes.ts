// Finds processes by what stands in their environment, and ends them all: for programs that leave their process group where
// there are no cgroups. Linux only; elsewhere nothing is found. Used by started.ts and sweep.ts.
//
// A program can hide from this by clearing its environment and its parent; from a cgroup it cannot.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';

/** The name of the variable by which a run's processes are found: its value is a path that only this attempt has. */
export const marking_variable = 'PUNCTUAL_RESULT_FILE';

/** Each round ends what was there when it began; what forks faster than that for so long has no limit of processes. */
const max_rounds = 200;
const round_ms = 5;

export interface MarkedProcess {
  pid: number;
  value: string;
}

/** All living processes, other than this one, that have the variable. */
export function markedProcesses(): MarkedProcess[] {
  if (process.platform !== 'linux') return [];
  const found: MarkedProcess[] = [];
  for (const name of readdirSync('/proc')) {
    const pid = Number(name);
    if (!Number.isInteger(pid) || pid === process.pid) continue;
    try {
      const environ = `\0${readFileSync(`/proc/${name}/environ`, 'latin1')}`;
      const at = environ.indexOf(`\0${marking_variable}=`);
      if (at === -1) continue;
      const from = at + marking_variable.length + 2;
      found.push({ pid, value: environ.slice(from, environ.indexOf('\0', from)) });
    } catch {
      continue; // it ended meanwhile, or belongs to somebody else
    }
  }
  return found;
}

/** Kills all whose variable fits, until there are none. */
export async function killMarked(fits: (value: string) => boolean): Promise<void> {
  for (let round = 0; round < max_rounds; round += 1) {
    const doomed = markedProcesses().filter(({ value }) => fits(value));
    if (doomed.length === 0) return;
    for (const { pid } of doomed) kill(pid, 'SIGKILL');
    await wait(round_ms);
  }
}

/** Sends a signal to a process, or to a group when the number is negative; one that has ended is no failure. */
export function kill(target: number, signal: NodeJS.Signals): void {
  try {
    process.kill(target, signal);
  } catch {
    return;
  }
}

/** How many tasks, processes and their threads, a user has now: what RLIMIT_NPROC counts. */
export function tasksOf(uid: number): number {
  let tasks = 0;
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      if (statSync(`/proc/${name}`).uid !== uid) continue;
      tasks += Number(/^Threads:\s*(\d+)/m.exec(readFileSync(`/proc/${name}/status`, 'utf8'))?.[1] ?? 1);
    } catch {
      continue; // it ended meanwhile
    }
  }
  return tasks;
}
