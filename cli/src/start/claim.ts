// Who may run in a data folder: one `punctual start` at a time, also when two begin at the same moment and when the
// last one was killed. commands/start.ts claims the folder; doctor asks who holds it.
//
// A claim is a file claim-<n>.json with the holder's process; the highest number counts. Whoever finds that the highest
// one's process is gone places the next number; placing is a hard link, so the content is there from the first moment
// and only one of several can succeed. A single file could not do this: between judging it dead and removing it, another
// may have replaced it, and its living successor would be removed. Numbers never go back, because a released claim
// stays, naming nobody; so whoever looked long ago either fails to place or finds a higher number and withdraws.
import { existsSync, linkSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { CliError } from '../failure.ts';
import { markOf } from './identity.ts';

export interface Holder {
  pid: number;
  mark: string;
}

export type Claimed = { ok: true; release: () => void } | { ok: false; holder: Holder };

/** Each failure means that somebody else moved on meanwhile. */
const max_tries = 100;
const pattern = /^claim-(\d+)\.json$/;

export function claimFolder(folder: string, pid: number = process.pid): Claimed {
  const mark = markOf(pid);
  if (mark === null)
    throw new CliError(`the start time of process ${pid} is unknown, so the folder ${folder} cannot be claimed.`);
  try {
    makeFolder(folder);
    for (let tries = 0; tries < max_tries; tries += 1) {
      const newest = newestClaim(folder);
      if (newest.holder !== null && isAlive(newest.holder)) return { ok: false, holder: newest.holder };
      const number = newest.number + 1;
      if (!place(folder, number, { pid, mark })) continue;
      if (newestClaim(folder).number > number) {
        rmSync(claimFile(folder, number), { force: true });
        continue;
      }
      for (const old of numbersIn(folder)) if (old < number) rmSync(claimFile(folder, old), { force: true });
      return { ok: true, release: () => release(folder, number, mark) };
    }
  } catch (error) {
    throw new CliError(
      `cannot use the data folder ${folder}: ${(error as Error).message}. PUNCTUAL_DATA_DIR chooses another.`,
      { cause: error },
    );
  }
  throw new CliError(`the data folder ${folder} cannot be claimed: others claim and release it all the time.`);
}

// Level by level: Node's own recursive mkdir never ends where a folder exists but takes no entries, as in /proc.
function makeFolder(folder: string): void {
  if (existsSync(folder)) return;
  if (path.dirname(folder) !== folder) makeFolder(path.dirname(folder));
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error; // another start was quicker
  }
}

/** The living process that holds the folder. */
export function holderOf(folder: string): Holder | null {
  try {
    const { holder } = newestClaim(folder);
    return holder !== null && isAlive(holder) ? holder : null;
  } catch {
    return null; // no such folder
  }
}

function isAlive({ pid, mark }: Holder): boolean {
  return markOf(pid) === mark;
}

function claimFile(folder: string, number: number): string {
  return path.join(folder, `claim-${number}.json`);
}

function numbersIn(folder: string): number[] {
  return readdirSync(folder).flatMap((name) => Number(pattern.exec(name)?.[1] ?? []));
}

function newestClaim(folder: string): { number: number; holder: Holder | null } {
  const number = Math.max(0, ...numbersIn(folder));
  return { number, holder: number === 0 ? null : readHolder(claimFile(folder, number)) };
}

function readHolder(file: string): Holder | null {
  try {
    const { pid, mark } = JSON.parse(readFileSync(file, 'utf8')) as Partial<Holder>;
    return typeof pid === 'number' && typeof mark === 'string' ? { pid, mark } : null;
  } catch {
    return null; // removed by a newer holder, or written by nobody of ours
  }
}

function place(folder: string, number: number, holder: Holder): boolean {
  const making = path.join(folder, `.claim-${holder.pid}-${holder.mark.replace(/\W/g, '')}.tmp`);
  writeFileSync(making, JSON.stringify(holder), { mode: 0o600 });
  try {
    linkSync(making, claimFile(folder, number));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    rmSync(making, { force: true });
  }
}

function release(folder: string, number: number, mark: string): void {
  const making = path.join(folder, `.released-${process.pid}-${mark.replace(/\W/g, '')}.tmp`);
  try {
    writeFileSync(making, '{}', { mode: 0o600 });
    renameSync(making, claimFile(folder, number));
  } catch {
    return; // the folder is gone, or the disk is full: the claim dies with the process
  }
}
