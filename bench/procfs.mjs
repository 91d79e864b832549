// What the kernel says about processes: processor time and memory. Linux only, like the bench.
import { readdirSync, readFileSync } from 'node:fs';

const TICKS_PER_SECOND = 100;

/** Processor seconds a process has used. `ended` adds those of its children that have ended and were waited for. */
export function cpuSeconds(pid, { ended = false } = {}) {
  const fields = statOf(pid);
  if (fields === null) return 0;
  const [user, system, endedUser, endedSystem] = fields.slice(11, 15).map(Number);
  return (user + system + (ended ? endedUser + endedSystem : 0)) / TICKS_PER_SECOND;
}

/** A process with all that it started, living and ended: for PostgreSQL, whose sessions are its children. */
export function treeCpuSeconds(pid) {
  const children = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && statOf(name)?.[1] === String(pid));
  return children.reduce((sum, child) => sum + cpuSeconds(child), cpuSeconds(pid, { ended: true }));
}

/** Processor seconds of the whole machine: used by somebody, and taken away by the machine it is a guest of. */
export function machineSeconds() {
  const [, user, nice, system, , , , , steal] = readFileSync('/proc/stat', 'utf8').split(/\s+/).map(Number);
  return { used: (user + nice + system) / TICKS_PER_SECOND, stolen: steal / TICKS_PER_SECOND };
}

/** Resident memory in MB. */
export function residentMb(pid) {
  const [, kilobytes = '0'] = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kilobytes) / 1024;
}

/** The fields after the name: state, parent, … */
function statOf(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return text.slice(text.lastIndexOf(')') + 2).split(' ');
  } catch {
    return null;
  }
}
