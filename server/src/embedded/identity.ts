// Decides as whom PostgreSQL's programs run, and starts them. PostgreSQL refuses root: as root we enter a user namespace
// in which we have another number, so files stay ours and no account is needed; where that is refused, we change to
// another user. Every program started here dies with us, also when we are killed with -9.
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { lchownSync, statSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { EmbeddedPostgresError } from './failure.ts';
import { environment, findProgram } from './native.ts';

export interface Identity {
  /** Words in front of the program's own. */
  prefix: string[];
  /** The user and group to change to before the program starts; absent: stay who we are. */
  as?: { uid: number; gid: number };
  /** Who must own the files, seen from outside. */
  owner: { uid: number; gid: number };
  /** A line for the log when something unusual had to be done. */
  note?: string;
}

const NOBODY = 65534;

// initdb looks its user up in the password file, so a user who is not listed there needs the namespace as well.
function needsOtherNumber(): boolean {
  if (process.getuid?.() === 0) return true;
  try {
    os.userInfo();
    return false;
  } catch {
    return true;
  }
}

/** Finds an identity that can run `postgres` and write to the folder its files live in, by trying. */
export async function findIdentity(postgres: string, folder: string): Promise<Identity & { major: string }> {
  const owner = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
  const refusals: string[] = [];
  for (const candidate of candidates(owner, folder)) {
    const before = statSync(folder);
    if (candidate.as !== undefined) lchownSync(folder, candidate.as.uid, candidate.as.gid);
    const { code, output } = await runToEnd(candidate, ['/bin/sh', '-c', TRY, postgres, folder]);
    if (code === 0) return { ...candidate, major: /(\d+)\.\d+/.exec(output)?.[1] ?? '' };
    if (candidate.as !== undefined) lchownSync(folder, before.uid, before.gid);
    refusals.push(output.trim().split('\n').at(-1) ?? '');
  }
  const why = [...new Set(refusals)].filter(Boolean).join('; ') || 'it cannot be executed';
  const root = owner.uid === 0 ? ' PostgreSQL does not run as root: start as an ordinary user.' : '';
  throw new EmbeddedPostgresError(`The embedded PostgreSQL does not start on this machine: ${why}.${root}`);
}

const TRY = '[ -w "$1" ] || { echo "it cannot write to $1"; exit 1; }; exec "$0" --version';

function candidates(owner: { uid: number; gid: number }, folder: string): Identity[] {
  if (!needsOtherNumber()) return [{ prefix: [], owner }];
  const list: Identity[] = [];
  const unshare = findProgram('unshare');
  if (unshare !== null) {
    list.push({ prefix: [unshare, '-U', `--map-user=${NOBODY}`, `--map-group=${NOBODY}`, '--'], owner });
  }
  if (owner.uid !== 0) return [...list, { prefix: [], owner }];
  const as = nearestUser(folder);
  const note =
    `PostgreSQL runs as user ${as.uid}, who owns ${folder}: it refuses root, and a user namespace is not ` +
    'possible here or cannot write to that folder';
  return [...list, { prefix: [], as, owner: as, note }];
}

// With sudo in somebody's home, that somebody can reach all of it and nobody else may.
function nearestUser(folder: string): { uid: number; gid: number } {
  const { uid, gid } = statSync(folder);
  if (uid !== 0) return { uid, gid };
  const parent = path.dirname(folder);
  return parent === folder ? { uid: NOBODY, gid: NOBODY } : nearestUser(parent);
}

// The death signal only counts from the moment it is asked for: if we died before, the program sees another parent and
// must not start.
const ONLY_UNDER_US = '[ "$PPID" = "$0" ] || exit 75; exec "$@"';

/** Starts a program in a session of its own: Ctrl-C in a terminal is for us, and we then stop PostgreSQL in order. */
export function start(identity: Identity, argv: string[], death: 'INT' | 'KILL'): ChildProcess {
  const setpriv = findProgram('setpriv');
  const words = [
    ...identity.prefix,
    ...(setpriv === null ? [] : [setpriv, '--pdeathsig', death, '--']),
    '/bin/sh',
    '-c',
    ONLY_UNDER_US,
    String(process.pid),
    ...argv,
  ];
  const options: SpawnOptions = { stdio: ['ignore', 'pipe', 'pipe'], env: environment(), detached: true };
  const child = spawn(words[0] ?? '', words.slice(1), { ...options, cwd: '/', ...identity.as });
  if (setpriv === null && child.pid !== undefined) watchOver(child, child.pid, death);
  return child;
}

// Without death signals (macOS, bare systems) a shell waits for the end of a pipe that only we hold open.
function watchOver(child: ChildProcess, pid: number, death: string): void {
  const script = `read -r _; kill -${death} "$0"`;
  const options: SpawnOptions = { stdio: ['pipe', 'ignore', 'ignore'], env: environment(), detached: true, cwd: '/' };
  const guard = spawn('/bin/sh', ['-c', script, String(pid)], options);
  guard.on('error', () => {});
  guard.unref();
  child.once('exit', () => guard.kill('SIGKILL'));
}

/** Runs a short program to its end and gives its exit code and the last of what it printed. */
export async function runToEnd(identity: Identity, argv: string[]): Promise<{ code: number | null; output: string }> {
  const child = start(identity, argv, 'KILL');
  let output = '';
  const keep = (chunk: Buffer) => {
    output = (output + chunk.toString()).slice(-MAX_OUTPUT_CHARS);
  };
  child.stdout?.on('data', keep);
  child.stderr?.on('data', keep);
  return await new Promise((resolve) => {
    child.once('error', (error) => resolve({ code: null, output: error.message }));
    child.once('close', (code) => resolve({ code, output }));
  });
}

// Enough for every message of initdb; a bound, so that nothing can fill our memory.
const MAX_OUTPUT_CHARS = 16_384;
