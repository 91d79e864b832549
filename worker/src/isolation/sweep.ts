// Removes what is left of programs, processes, cgroups and folders: when a worker starts, that of killed workers of this
// machine; when it ends at once, in the middle of its runs, its own. Only what bears the mark of a dead process, or its own,
// is touched (mark.ts), so workers may start side by side. Called by index.ts.
import { readdirSync, rmSync } from 'node:fs';
import { lstat, readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Cgroups } from './cgroup.ts';
import { binaries_folder_prefix, removeFolder, run_folder_prefix } from './folder.ts';
import { isDeadMark, markIn, ownMark } from './mark.ts';
import type { Isolation } from './probe.ts';
import { kill, killMarked, markedProcesses } from './processes.ts';

/** A tenth of a second: killed processes are gone in less. */
const last_tries = 20;
const prefixes = [run_folder_prefix, binaries_folder_prefix];

export async function sweepLeftovers({ cgroups }: Pick<Isolation, 'cgroups'>): Promise<void> {
  if (cgroups !== null) await sweepCgroups(cgroups);
  await killMarked((value) => value.includes(run_folder_prefix) && isDeadMark(markIn(value)));
  await sweepFolders(tmpdir());
}

/** As the last thing a process does: nothing here waits for others longer than a moment. */
export function leaveNothing({ cgroups }: Pick<Isolation, 'cgroups'>): void {
  for (const { pid, value } of markedProcesses()) if (markIn(value) === ownMark) kill(pid, 'SIGKILL');
  for (let tries = 0; tries < last_tries && cgroups?.close() === false; tries += 1) pauseThread(5);
  const own = readdirSync(tmpdir()).filter((name) =>
    prefixes.some((prefix) => name.startsWith(`${prefix}${ownMark}-`)),
  );
  for (const name of own) {
    try {
      rmSync(join(tmpdir(), name), { recursive: true, force: true });
    } catch {
      continue; // the next worker tries again
    }
  }
}

function pauseThread(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

async function sweepCgroups(cgroups: Cgroups): Promise<void> {
  for (const [name, left] of cgroups.ofWorkers()) {
    if (!isDeadMark(markIn(name))) continue;
    await left.kill().catch(() => undefined);
    await left.remove();
  }
}

async function sweepFolders(parent: string): Promise<void> {
  for (const name of await readdir(parent)) {
    if (!prefixes.some((prefix) => name.startsWith(prefix)) || !isDeadMark(markIn(name))) continue;
    const folder = join(parent, name);
    const found = await lstat(folder).catch(() => null);
    // Others may write there too: only a folder of our own is ours to remove.
    if (found?.isDirectory() === true && found.uid === process.getuid?.()) await removeFolder(folder);
  }
}
