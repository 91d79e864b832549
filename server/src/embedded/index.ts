// PostgreSQL shipped through npm, started and stopped for whoever has none. main.ts calls startEmbedded when no
// DATABASE_URL is given; tests start theirs the same way.
//
// One postmaster per folder. Whoever starts it owns it: it stops when the owner stops it or dies, even by kill -9. A
// second start on the same folder attaches to the first one's and leaves it alone; one whose owner has just died is
// waited for, then replaced. The database is reached through a socket in a folder only we can enter.
import { rmdirSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ensureCluster, openHome } from './cluster.ts';
import { EmbeddedPostgresError } from './failure.ts';
import { findIdentity, type Identity } from './identity.ts';
import { type Ending, launch, type Postmaster } from './launch.ts';
import { findNative, type Native } from './native.ts';
import { inspect, isOrphan, type PidFile, removeStale, removeStaleSocketLock } from './postmaster.ts';
import { ensureDatabase, ensurePassword, launcherOf, readPassword, socketUrl, tcpUrl, tryConnect } from './session.ts';
import { checkSettings, settingsFor } from './settings.ts';
import { makePrivateFolder, socketFolderFor } from './socket.ts';

export { EmbeddedPostgresError } from './failure.ts';

export interface EmbeddedOptions {
  /** The folder that holds everything, such as `.punctual/postgres`; made when missing. */
  dataDir: string;
  /** Settings of PostgreSQL that win over ours. Ignored when attached. */
  settings?: Record<string, string>;
  /** Also listen on 127.0.0.1 at this port, with a password. Without it there is no TCP at all. */
  tcpPort?: number;
  /** Gets each line PostgreSQL logs, and a few of ours. */
  log?: (line: string) => void;
  /** false: nothing is forced to disk. For tests. */
  durable?: boolean;
}

export interface EmbeddedPostgres extends AsyncDisposable {
  /** For `pg`, over the socket. */
  url: string;
  /** The same database over TCP, with its password; null without TCP. */
  tcpUrl: string | null;
  pid: number;
  /** The TCP port, null without TCP. */
  port: number | null;
  socketDir: string;
  /** It was already running and belongs to another process: stop() leaves it running. */
  attached: boolean;
  /** Settles when PostgreSQL ends, wanted or not. Attached: code and signal are unknown, and after stop() never. */
  exited: Promise<Ending>;
  /** fast: sessions are cut and all is written; immediate: as if by a power cut, recovered at the next start. */
  stop(mode?: 'fast' | 'immediate'): Promise<void>;
}

interface Setup {
  home: string;
  cluster: string;
  socketDir: string;
  /** The number in the socket's name; also the TCP port if there is one. */
  port: number;
  tcp: boolean;
  settings: Record<string, string>;
  native: Native;
  identity: Identity;
  log: (line: string) => void;
}

const DEFAULT_PORT = 5432;
const STEP_MS = 25;
// A clean shutdown writes all of shared_buffers, which slow disks take a while for; recovery after a crash reads up to
// max_wal_size back. Both say in the log how far they are.
const MAX_WAIT_SHUTDOWN_MS = 60_000;
const MAX_WAIT_RECOVERY_MS = 600_000;

export async function startEmbedded(options: EmbeddedOptions): Promise<EmbeddedPostgres> {
  const setup = await prepare(options);
  let patience = MAX_WAIT_SHUTDOWN_MS;
  for (let waited = 0; waited < patience; waited += STEP_MS) {
    const found = await inspect(setup.cluster);
    if (found.state === 'stale') removeStale(path.join(setup.cluster, 'postmaster.pid'), found.text);
    if (found.state === 'live' && found.status === 'starting') patience = MAX_WAIT_RECOVERY_MS;
    const got = found.state === 'live' ? await tryAttach(setup, found) : await tryStart(setup);
    if (got !== null) return got;
    await sleep(STEP_MS);
  }
  throw new EmbeddedPostgresError(
    `Another PostgreSQL still works in ${setup.cluster} and neither takes connections nor ends; its process number ` +
      'is in postmaster.pid there.',
  );
}

async function prepare(options: EmbeddedOptions): Promise<Setup> {
  const { settings = {}, durable = true, tcpPort, log = () => {} } = options;
  checkSettings(settings);
  if (tcpPort !== undefined && !(Number.isInteger(tcpPort) && tcpPort > 0 && tcpPort < 65_536)) {
    throw new EmbeddedPostgresError(`${tcpPort} is not a TCP port.`);
  }
  const native = findNative();
  const home = openHome(options.dataDir);
  const identity = await findIdentity(native.postgres, home);
  if (identity.note !== undefined) log(identity.note);
  const cluster = await ensureCluster(home, { native, identity, major: identity.major, durable });
  const tuned = { ...settingsFor(availableMemory(), durable), ...settings };
  const socketDir = socketFolderFor(home, identity.owner.uid);
  const port = tcpPort ?? DEFAULT_PORT;
  return { home, cluster, socketDir, port, tcp: tcpPort !== undefined, settings: tuned, native, identity, log };
}

// In a container the limit of the container counts, not the memory of the machine.
function availableMemory(): number {
  const limit = process.constrainedMemory();
  return limit > 0 ? Math.min(limit, os.totalmem()) : os.totalmem();
}

/** Null: not now; look again. */
async function tryAttach(setup: Setup, found: PidFile): Promise<EmbeddedPostgres | null> {
  if (found.status !== 'ready') return null;
  await using session = await tryConnect(found);
  if (session === null) return null;
  const launcher = await launcherOf(session);
  if (launcher !== null && isOrphan(found.pid, launcher)) {
    setup.log(`PostgreSQL ${found.pid} lost the process that started it; it is stopped and started anew`);
    signal(found.pid, 'SIGINT');
    return null;
  }
  await ensureDatabase(session);
  const port = found.listens === '' ? null : found.port;
  const password = port === null ? null : readPassword(setup.home);
  setup.log(`attached to PostgreSQL ${found.pid}, which already runs in ${setup.cluster}`);
  const detached = new AbortController();
  const stop = async () => detached.abort();
  return {
    url: socketUrl(found),
    tcpUrl: port === null || password === null ? null : tcpUrl(port, password),
    pid: found.pid,
    port,
    socketDir: found.socketDir,
    attached: true,
    exited: watch(setup.cluster, found.pid, detached.signal),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

const WATCH_MS = 500;

// We are not its parent, so we can only look from time to time; looking must not keep the process alive.
async function watch(cluster: string, pid: number, detached: AbortSignal): Promise<Ending> {
  while (!detached.aborted) {
    const found = await inspect(cluster).catch(() => null);
    if (found !== null && (found.state !== 'live' || found.pid !== pid)) return { code: null, signal: null, tail: '' };
    await sleep(WATCH_MS, undefined, { ref: false });
  }
  return await new Promise<never>(() => {});
}

/** Null: another process started one on this folder at the same moment, or remains of the last one are still busy. */
async function tryStart(setup: Setup): Promise<EmbeddedPostgres | null> {
  const { cluster, socketDir, port, tcp, home, identity } = setup;
  makePrivateFolder(socketDir, identity.owner);
  removeStaleSocketLock(socketDir, port, cluster);
  const postmaster = launch({ ...setup, listens: tcp ? '127.0.0.1' : '' });
  try {
    const session = await firstSession(setup, postmaster);
    if (session === null) return null;
    await using _ = session;
    await ensureDatabase(session);
    const password = tcp ? await ensurePassword(session, home) : null;
    return owned(setup, postmaster, password);
  } catch (error) {
    await postmaster.stop('fast');
    throw error;
  }
}

async function firstSession(setup: Setup, postmaster: Postmaster) {
  for (let waited = 0; waited < MAX_WAIT_RECOVERY_MS; waited += STEP_MS) {
    const ending = await Promise.race([postmaster.exited, sleep(STEP_MS)]);
    if (ending !== undefined) {
      if (/lock file .* already exists|pre-existing shared memory block/.test(ending.tail)) return null;
      throw startFailure(setup, ending);
    }
    const found = await inspect(setup.cluster);
    const session = found.state === 'live' && found.status === 'ready' ? await tryConnect(setup) : null;
    if (session !== null) return session;
  }
  throw new EmbeddedPostgresError(`PostgreSQL in ${setup.cluster} started but takes no connections; see its log.`);
}

function startFailure(setup: Setup, ending: Ending): EmbeddedPostgresError {
  if (/could not bind .*in use/i.test(ending.tail)) {
    return new EmbeddedPostgresError(`PostgreSQL cannot listen on 127.0.0.1:${setup.port}: the port is in use.`);
  }
  if (/no space left on device/i.test(ending.tail)) {
    return new EmbeddedPostgresError(`The disk is full: PostgreSQL cannot start in ${setup.cluster}.`);
  }
  const how = ending.signal === null ? `with code ${ending.code}` : `by ${ending.signal}`;
  const said = ending.tail.split('\n').slice(-8).join('\n');
  return new EmbeddedPostgresError(`PostgreSQL ended ${how} at its start in ${setup.cluster}:\n${said}`);
}

function owned(setup: Setup, postmaster: Postmaster, password: string | null): EmbeddedPostgres {
  const stop = async (mode: 'fast' | 'immediate' = 'fast') => {
    await postmaster.stop(mode);
    removeTemporary(setup);
  };
  return {
    url: socketUrl(setup),
    tcpUrl: password === null ? null : tcpUrl(setup.port, password),
    pid: postmaster.pid,
    port: setup.tcp ? setup.port : null,
    socketDir: setup.socketDir,
    attached: false,
    exited: postmaster.exited,
    stop,
    [Symbol.asyncDispose]: async () => await stop(),
  };
}

// A socket folder outside of home would stay for ever; rmdir spares one that is in use again.
function removeTemporary({ home, socketDir }: Setup): void {
  if (socketDir.startsWith(home + path.sep)) return;
  try {
    rmdirSync(socketDir);
  } catch {
    return;
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    return; // it ended meanwhile, which is what we want
  }
}
