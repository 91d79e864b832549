// Removes what killed workers of this machine have left of their programs: processes, cgroups and folders. Called once when a
// worker starts. Only what bears the mark of a dead process is touched (mark.ts), so workers may start side by side.
import { lstat, readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { RunCgroup, subgroups } from './cgroup.ts';
import { removeFolder, run_folder_prefix } from './folder.ts';
import { isDeadMark, markIn } from './mark.ts';
import type { Isolation } from './probe.ts';
import { killMarked } from './processes.ts';

export async function sweepLeftovers({ cgroups }: Pick<Isolation, 'cgroups'>): Promise<void> {
  if (cgroups !== null) await sweepCgroups(cgroups.base);
  await killMarked((value) => value.includes(run_folder_prefix) && isDeadMark(markIn(value)));
  await sweepFolders(tmpdir());
}

async function sweepCgroups(base: string): Promise<void> {
  for (const name of subgroups(base)) {
    if (!name.startsWith('punctual-') || !isDeadMark(markIn(name))) continue;
    const left = new RunCgroup(join(base, name));
    await left.kill().catch(() => undefined);
    await left.remove();
  }
}

async function sweepFolders(parent: string): Promise<void> {
  for (const name of await readdir(parent)) {
    if (!name.startsWith(run_folder_prefix) || !isDeadMark(markIn(name))) continue;
    const folder = join(parent, name);
    const found = await lstat(folder).catch(() => null);
    // Others may write there too: only a folder of our own is ours to remove.
    if (found?.isDirectory() === true && found.uid === process.getuid?.()) await removeFolder(folder);
  }
}
