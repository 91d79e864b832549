// Chooses the folder of PostgreSQL's socket. Whoever can enter it can log in, so it is always ours and closed to others;
// and its path is short, because the kernel cuts socket paths at 107 bytes.
import { createHash } from 'node:crypto';
import { chmodSync, lchownSync, lstatSync, mkdirSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { cannot, EmbeddedPostgresError, errno } from './failure.ts';

const MAX_SOCKET_PATH_BYTES = 99;

export function socketFile(folder: string, port: number): string {
  return path.join(folder, `.s.PGSQL.${port}`);
}

/** Where the socket goes: beside the cluster if that fits, else under the folder for temporary files. */
export function socketFolderFor(home: string, uid: number): string {
  const beside = path.join(home, 'socket');
  if (fits(beside)) return beside;
  const name = `punctual-${uid}-${createHash('sha256').update(home).digest('hex').slice(0, 16)}`;
  const temporary = path.join(os.tmpdir(), name);
  return fits(temporary) ? temporary : path.join('/tmp', name);
}

// PostgreSQL reads a list of folders here: a comma or a quote in the name would be taken for punctuation.
function fits(folder: string): boolean {
  return Buffer.byteLength(socketFile(folder, 65_535)) <= MAX_SOCKET_PATH_BYTES && !/[,"'\\]/.test(folder);
}

/** Makes the folder, or accepts one that is there only if it is a real folder, ours, and closed to everybody else. */
export function makePrivateFolder(folder: string, owner: { uid: number; gid: number }): void {
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    if (errno(error) !== 'EEXIST') throw cannot(`create the folder ${folder}`, error);
  }
  const found = lstatSync(folder);
  if (!found.isDirectory() || (found.uid !== owner.uid && found.uid !== process.getuid?.())) {
    throw new EmbeddedPostgresError(
      `${folder} belongs to somebody else, so PostgreSQL's socket cannot be put there; remove it and start again.`,
    );
  }
  if ((found.mode & 0o777) !== 0o700) chmodSync(folder, 0o700);
  if (found.uid !== owner.uid) lchownSync(folder, owner.uid, owner.gid);
}
