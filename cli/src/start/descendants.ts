// Ends every process a worker has started, when the worker itself must end at once. Programs of jobs may have started
// others, and those would go on without anybody who knows of them.
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

export function killDescendants(pid: number = process.pid): void {
  const parents = listParents();
  const doomed = [pid];
  for (const parent of doomed) {
    for (const [child, itsParent] of parents) if (itsParent === parent && !doomed.includes(child)) doomed.push(child);
  }
  for (const child of doomed.slice(1)) {
    kill(-child); // the group it leads, if it leads one: also those whose parent has ended
    kill(child);
  }
}

function kill(target: number): void {
  try {
    process.kill(target, 'SIGKILL');
  } catch {
    return; // it has ended, or leads no group
  }
}

/** Of every process its parent. */
function listParents(): Map<number, number> {
  return process.platform === 'linux' ? parentsFromProc() : parentsFromPs();
}

function parentsFromProc(): Map<number, number> {
  const parents = new Map<number, number>();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
      parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]));
    } catch {
      continue; // it ended meanwhile
    }
  }
  return parents;
}

function parentsFromPs(): Map<number, number> {
  const table = execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' });
  const rows = table
    .trim()
    .split('\n')
    .map((row) => row.trim().split(/\s+/).map(Number));
  return new Map(rows.map(([pid = 0, parent = 0]) => [pid, parent]));
}
