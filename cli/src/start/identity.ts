// Tells one process from another that later got the same number. claim.ts asks whether a holder still lives.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** Something that no other process has had or will have: when it started. Null when there is no such process. */
export function markOf(pid: number): string | null {
  return process.platform === 'linux' ? markFromProc(pid) : markFromPs(pid);
}

function markFromProc(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name, in parentheses, may hold anything; after it come the state and, 19 fields later, the time of its start.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (fields[0] === 'Z' || fields[0] === 'X') return null;
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return `${boot} ${fields[19]}`;
  } catch {
    return null;
  }
}

function markFromPs(pid: number): string | null {
  try {
    const words = ['-o', 'lstart=', '-p', String(pid)];
    return execFileSync('ps', words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim() || null;
  } catch {
    return null;
  }
}
