// Finds programs before they are started, so that a missing one is a clear error. Used by run-program.ts.
import { constants } from 'node:fs';
import { access, realpath, stat } from 'node:fs/promises';
import { delimiter, dirname, isAbsolute, join, resolve } from 'node:path';
import { FatalError } from '@punctual/sdk';
import type { Isolation } from '../isolation/probe.ts';

type User = Isolation['user'];

export interface Where {
  cwd: string | undefined;
  path: string | undefined;
  /** Who is to run it, if not the worker's own user. */
  user: User;
}

/** The full path of a program, found as a shell of its user would find it. */
export async function findProgram(name: string, { cwd, path, user }: Where): Promise<string> {
  const folder = resolve(cwd ?? '.');
  if (cwd !== undefined && !(await isDirectory(folder)))
    throw new FatalError(`The folder ${cwd} does not exist on this worker.`);
  const places = name.includes('/') ? [folder] : (path ?? '').split(delimiter).filter((place) => place !== '');
  for (const place of places) {
    const file = isAbsolute(name) ? name : join(resolve(folder, place), name);
    if (await isProgram(file, user)) return file;
  }
  const where = name.includes('/') ? `at ${resolve(folder, name)}` : `in PATH (${path ?? 'which is not set'})`;
  const whose = user === null ? '' : ` that ${user.name} may run`;
  throw new FatalError(`There is no program ${name} on this worker: looked for an executable file${whose} ${where}.`);
}

async function isDirectory(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}

async function isProgram(file: string, user: User): Promise<boolean> {
  try {
    if (user === null) await access(file, constants.X_OK);
    else if (!(await mayExecute(file, user))) return false;
    return (await stat(file)).isFile();
  } catch {
    return false;
  }
}

/** Whether another user may: it must be able to pass through every folder above, too. */
async function mayExecute(file: string, user: NonNullable<User>): Promise<boolean> {
  for (let path = await realpath(file); ; path = dirname(path)) {
    const { mode, uid, gid } = await stat(path);
    const bit = uid === user.uid ? 0o100 : gid === user.gid ? 0o010 : 0o001;
    if ((mode & bit) === 0) return false;
    if (path === dirname(path)) return true;
  }
}
