// Finds programs before they are started, so that a missing one is a clear error. Used by shell.ts.
import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { delimiter, isAbsolute, join, resolve } from 'node:path';
import { FatalError } from '@punctual/sdk';

/** The full path of a program, found as a shell would find it. */
export async function findProgram(name: string, cwd: string | undefined, path: string | undefined): Promise<string> {
  const folder = resolve(cwd ?? '.');
  if (cwd !== undefined && !(await isDirectory(folder)))
    throw new FatalError(`The folder ${cwd} does not exist on this worker.`);
  const places = name.includes('/') ? [folder] : (path ?? '').split(delimiter).filter((place) => place !== '');
  for (const place of places) {
    const file = isAbsolute(name) ? name : join(resolve(folder, place), name);
    if (await isProgram(file)) return file;
  }
  const where = name.includes('/') ? `at ${resolve(folder, name)}` : `in PATH (${path ?? 'which is not set'})`;
  throw new FatalError(`There is no program ${name} on this worker: looked for an executable file ${where}.`);
}

async function isDirectory(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}

async function isProgram(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK);
    return (await stat(file)).isFile();
  } catch {
    return false;
  }
}
