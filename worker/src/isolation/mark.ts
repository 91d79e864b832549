// The mark of this worker process: part of the names of everything it makes on the machine for its programs, so that a
// later worker can tell what a killed one has left (sweep.ts) from what a living one uses.
//
// It names the boot and the process namespace, the process, and when that started: process ids are used again, and folders
// may be shared with containers that count them from 1.
import { createHash } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

const pattern = /^([0-9a-f]{8})-(\d+)-(\d+)$/;

export const ownMark: string = `${place()}-${process.pid}-${startOf(process.pid) ?? 0}`;

/** Whether the text is the mark of a process of this machine that is no more; false for what is no mark. */
export function isDeadMark(mark: string): boolean {
  const [, where, pid, start] = pattern.exec(mark) ?? [];
  if (where !== place()) return false;
  return process.platform === 'linux' ? startOf(Number(pid)) !== Number(start) : !answers(Number(pid));
}

/** The mark within a name such as `punctual-run-MARK-x7Kq2P`; empty when there is none. */
export function markIn(name: string): string {
  return /[0-9a-f]{8}-\d+-\d+/.exec(name)?.[0] ?? '';
}

function place(): string {
  const parts = [hostname()];
  try {
    parts.push(readFileSync('/proc/sys/kernel/random/boot_id', 'utf8'), readlinkSync('/proc/self/ns/pid'));
  } catch {
    // Not Linux: the name of the machine has to do.
  }
  return createHash('sha256').update(parts.join('\n')).digest('hex').slice(0, 8);
}

/** When a process started, in ticks since boot; null when it is not there, or dead and not yet buried. */
function startOf(pid: number): number | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' || fields[0] === 'X' ? null : Number(fields[19]);
  } catch {
    return null;
  }
}

function answers(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
