// running.json in the data folder: where the `punctual start` of this folder answers. Written when everything is up,
// removed at the end; one that was left behind is not believed, because the claim of the folder names no such process.
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { holderOf } from './claim.ts';

export interface Running {
  pid: number;
  url: string;
  started_at: string;
}

export function publishRunning(folder: string, running: Running): void {
  const making = path.join(folder, `.running-${running.pid}.tmp`);
  writeFileSync(making, `${JSON.stringify(running)}\n`, { mode: 0o600 });
  renameSync(making, runningFile(folder));
}

export function removeRunning(folder: string): void {
  rmSync(runningFile(folder), { force: true });
}

/** What runs in the folder now; null when nothing does, or when it is not up yet. */
export function readRunning(folder: string): Running | null {
  const holder = holderOf(folder);
  const running = parse(folder);
  return running !== null && running.pid === holder?.pid ? running : null;
}

function parse(folder: string): Running | null {
  try {
    const { pid, url, started_at } = JSON.parse(readFileSync(runningFile(folder), 'utf8')) as Partial<Running>;
    if (typeof pid !== 'number' || typeof url !== 'string' || typeof started_at !== 'string') return null;
    return { pid, url, started_at };
  } catch {
    return null;
  }
}

function runningFile(folder: string): string {
  return path.join(folder, 'running.json');
}
