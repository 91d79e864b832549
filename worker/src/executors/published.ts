// Files that a program left in PUNCTUAL_OUTPUT_DIR are published as artifacts of its run when it has ended, well or not. So
// many and so large as may be; what is more is passed over, and the run's log says so. Used by run-program.ts.
//
// A program may put anything there. Links are not followed, neither to files nor to folders, and nothing but plain files that
// belong to the program is read: otherwise it could publish what only the worker may read. What is opened is looked at once
// more, and then hashed and sent through that same descriptor.
import { constants } from 'node:fs';
import { type FileHandle, open, readdir, readlink, realpath } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { limits } from '@punctual/contract/plain';
import { PunctualError, RetryError, type RunContext } from '@punctual/sdk';
import type { RunFiles } from './run-files.ts';

const max_depth = 10;
/** Of a folder with more, so many are looked at. */
const max_entries = 10_000;

export interface PublishOptions {
  maxBytes: number;
  /** The run fails when a file cannot be stored. */
  required: boolean;
}

export async function publishFiles(
  ctx: RunContext,
  { folder, owner }: Pick<RunFiles, 'folder' | 'owner'>,
  { maxBytes, required }: PublishOptions,
): Promise<void> {
  const root = await realpath(folder.output).catch(() => null);
  if (root === null) return;
  const names = await namesIn(root, (words) => ctx.log.warn(words));
  let left = maxBytes;
  for (const name of names.slice(0, limits.max_run_artifacts)) {
    const file = await openInside(root, name, owner).catch((error: Error) => {
      ctx.log.warn(`The file ${name} in PUNCTUAL_OUTPUT_DIR is not published: ${error.message}.`);
      return null;
    });
    if (file === null) continue;
    try {
      const { size } = await file.stat();
      if (size > left) {
        ctx.log.warn(
          `The file ${name} in PUNCTUAL_OUTPUT_DIR is not published: all files together may have ${maxBytes} bytes (PUNCTUAL_SHELL_PUBLISH_MB).`,
        );
        continue;
      }
      left -= size;
      await publish(ctx, name, file, required);
    } finally {
      await file.close();
    }
  }
  if (names.length > limits.max_run_artifacts)
    ctx.log.warn(
      `PUNCTUAL_OUTPUT_DIR holds ${names.length} files; the first ${limits.max_run_artifacts} by name are published.`,
    );
}

async function publish(ctx: RunContext, name: string, file: FileHandle, required: boolean): Promise<void> {
  try {
    await ctx.publish(name, file);
  } catch (error) {
    if (ctx.signal.aborted) throw ctx.signal.reason;
    const message = `The file ${name} in PUNCTUAL_OUTPUT_DIR could not be published: ${(error as Error).message}`;
    // What is wrong with the file itself will be wrong again, and the work is done.
    const isRefused = error instanceof PunctualError && error.status < 500 && error.code !== 'overloaded';
    if (required && !isRefused) throw new RetryError(message, { cause: error });
    ctx.log.warn(message);
  }
}

/** The paths of all entries that are no folders, in order. */
async function namesIn(root: string, say: (words: string) => void): Promise<string[]> {
  const names: string[] = [];
  let looked = 0;
  const walk = async (inside: string, depth: number): Promise<void> => {
    for (const entry of await readdir(join(root, inside), { withFileTypes: true })) {
      if (++looked > max_entries) return;
      const name = inside === '' ? entry.name : `${inside}/${entry.name}`;
      if (!entry.isDirectory()) names.push(name);
      else if (depth < max_depth) await walk(name, depth + 1);
      else say(`The folder ${name} in PUNCTUAL_OUTPUT_DIR is nested too deeply and is passed over.`);
    }
  };
  await walk('', 1).catch((error: Error) => say(`PUNCTUAL_OUTPUT_DIR cannot be read: ${error.message}.`));
  return names.sort();
}

async function openInside(root: string, name: string, owner: RunFiles['owner']): Promise<FileHandle> {
  // Without O_NONBLOCK opening a pipe would wait for somebody who writes into it.
  const file = await open(join(root, name), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(
    (error: NodeJS.ErrnoException) => {
      throw new Error(error.code === 'ELOOP' ? 'it is a link' : error.message);
    },
  );
  try {
    const found = await file.stat();
    if (!found.isFile()) throw new Error('it is no plain file');
    // A hard link to what only the worker may read.
    if (owner !== null && found.uid !== owner.uid) throw new Error('it does not belong to the program');
    // A folder on the way may have become a link since it was looked at.
    const real =
      process.platform === 'linux' ? await readlink(`/proc/self/fd/${file.fd}`) : await realpath(join(root, name));
    if (!real.startsWith(root + sep)) throw new Error('it lies outside of the folder');
    return file;
  } catch (error) {
    await file.close();
    throw error;
  }
}
