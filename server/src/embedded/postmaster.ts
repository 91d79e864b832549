// Reads the lock files PostgreSQL leaves in its folders and tells a living postmaster from a dead one's remains, also
// when the dead one's number now belongs to another process. index.ts asks before every start.
import { readFileSync, readlinkSync, realpathSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { cannot, errno } from './failure.ts';
import { socketFile } from './socket.ts';

export interface PidFile {
  pid: number;
  port: number;
  socketDir: string;
  /** The address listened on, empty without TCP. */
  listens: string;
  status: 'starting' | 'stopping' | 'ready';
}

export type Found = { state: 'none' } | { state: 'stale'; text: string } | ({ state: 'live' } & PidFile);

/** The content of postmaster.pid, or null when it is not one. A file just created lacks its later lines. */
export function parsePidFile(text: string): PidFile | null {
  const [pid = '', , , port = '', socketDir = '', listens = '', , status = ''] = text.split('\n');
  if (!/^\d{1,10}$/.test(pid) || Number(pid) < 1) return null;
  const word = status.trim();
  return {
    pid: Number(pid),
    port: Number(port) || 0,
    socketDir,
    listens,
    status: word === 'stopping' ? 'stopping' : word === 'ready' || word === 'standby' ? 'ready' : 'starting',
  };
}

export async function inspect(cluster: string): Promise<Found> {
  const file = path.join(cluster, 'postmaster.pid');
  let text = readIfThere(file);
  if (text === '') {
    // A postmaster that starts right now creates the file first and fills it a moment later.
    await sleep(200);
    text = readIfThere(file);
  }
  if (text === null) return { state: 'none' };
  const found = parsePidFile(text);
  if (found === null) return { state: 'stale', text };
  const live = isPostmasterOf(found.pid, cluster) || (await answers(found));
  return live ? { state: 'live', ...found } : { state: 'stale', text };
}

/** Whether the process is a PostgreSQL that works in this cluster. */
export function isPostmasterOf(pid: number, cluster: string): boolean {
  if (process.platform !== 'linux') return isAlive(pid);
  const stat = readIfThere(`/proc/${pid}/stat`);
  if (stat === null || /^[ZX]/.test(stat.slice(stat.lastIndexOf(')') + 2))) return false;
  try {
    const program = path.basename(readlinkSync(`/proc/${pid}/exe`));
    return program.startsWith('postgres') && readlinkSync(`/proc/${pid}/cwd`) === realpathSync(cluster);
  } catch (error) {
    // Not allowed to look closer: then its name decides.
    return (errno(error) === 'EACCES' || errno(error) === 'EPERM') && stat.includes('(postgres)');
  }
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return errno(error) === 'EPERM';
  }
}

/** Whether the process that started this postmaster is gone; PostgreSQL is then stopping, or about to. */
export function isOrphan(pid: number, launcher: number): boolean {
  if (process.platform !== 'linux') return !isAlive(launcher);
  const stat = readIfThere(`/proc/${pid}/stat`);
  if (stat === null) return false;
  const parent = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1];
  return Number(parent) !== launcher;
}

// A postmaster in another container is no process of ours, yet it can be reached through a shared folder.
async function answers(found: PidFile): Promise<boolean> {
  if (!path.isAbsolute(found.socketDir) || found.port === 0) return false;
  const socket = net.connect(socketFile(found.socketDir, found.port));
  return await new Promise((resolve) => {
    socket.once('connect', () => resolve(true));
    socket.once('error', () => resolve(false));
  }).then((answer) => {
    socket.destroy();
    return answer === true;
  });
}

/**
 * Removes the lock file of a dead postmaster. PostgreSQL only does so itself when no process has that number. The file
 * is moved first and looked at again: if a new postmaster wrote its own in between, it gets it back.
 */
export function removeStale(file: string, text: string): void {
  const aside = `${file}.stale-${process.pid}`;
  try {
    renameSync(file, aside);
    const moved = readFileSync(aside, 'utf8');
    if (moved !== text) writeFileSync(file, moved, { mode: 0o600, flag: 'wx' });
    rmSync(aside);
  } catch (error) {
    if (errno(error) !== 'ENOENT') throw cannot(`remove the lock file ${file} of a dead PostgreSQL`, error);
  }
}

/** The socket has a lock file of its own, with the same trouble. */
export function removeStaleSocketLock(socketDir: string, port: number, cluster: string): void {
  const file = `${socketFile(socketDir, port)}.lock`;
  const text = readIfThere(file);
  if (text === null) return;
  const found = parsePidFile(text);
  if (found === null || !isPostmasterOf(found.pid, cluster)) removeStale(file, text);
}

function readIfThere(file: string): string | null {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (errno(error) === 'ENOENT' || errno(error) === 'ESRCH') return null;
    throw cannot(`read ${file}`, error);
  }
}
