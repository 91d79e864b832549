// The folder of a run on this machine: made before its program starts, removed with everything in it when it has ended.
//
//   punctual-run-MARK-x7Kq2P/   the worker's: the program may pass through, but not rename or replace what is in it
//     files/                    the program's: checkpoint, progress, result, …; see executors/run-files.ts
//     output/                   the program's: what it publishes; see executors/published.ts
//     work/                     the program's: where it runs, and its temporary files
import { execFile } from 'node:child_process';
import { chmod, chown, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ownMark } from './mark.ts';

export const run_folder_prefix = 'punctual-run-';
/** Of the folder in which a worker keeps programs that it fetched; see executors/binary-cache.ts. */
export const binaries_folder_prefix = 'punctual-binaries-';

export interface Owner {
  uid: number;
  gid: number;
}

export interface RunFolder {
  path: string;
  files: string;
  output: string;
  work: string;
}

/** `owner`: whom the program runs as, if not the worker's own user. `fill` may write into `files` before that one gets it. */
export async function makeRunFolder(
  owner: Owner | null,
  fill: (files: string) => Promise<void> = async () => undefined,
): Promise<RunFolder> {
  const path = await mkdtemp(join(tmpdir(), `${run_folder_prefix}${ownMark}-`));
  const [files, output, work] = [join(path, 'files'), join(path, 'output'), join(path, 'work')];
  for (const folder of [files, output, work]) await mkdir(folder, { mode: 0o700 });
  await fill(files);
  if (owner !== null) {
    for (const folder of [files, output, work]) await chown(folder, owner.uid, owner.gid);
    await chmod(path, 0o711);
  }
  return { path, files, output, work };
}

/** Removes it whatever rights a program has taken from what is in it. */
export async function removeFolder(path: string): Promise<void> {
  const remove = () => rm(path, { recursive: true, force: true, maxRetries: 3 });
  await remove().catch(async () => {
    await promisify(execFile)('chmod', ['-R', 'u+rwX', path]).catch(() => undefined);
    await remove().catch(() => undefined);
  });
}
