// The folder of the embedded PostgreSQL and the cluster in it. A cluster is made in a folder beside its place and moved
// there when it is complete, so whoever dies half-way leaves nothing that a later start could take for a cluster.
//
//   <home>/data/     the cluster     <home>/socket/    its socket (see socket.ts)
//   <home>/password  for TCP         <home>/init-…/    a cluster in the making

import { randomBytes } from 'node:crypto';
import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { cannot, EmbeddedPostgresError, errno } from './failure.ts';
import { type Identity, runToEnd } from './identity.ts';
import type { Native } from './native.ts';
import { isAlive } from './postmaster.ts';

export const SUPERUSER = 'punctual';

// Access to the socket is decided by the folder it lies in: `peer` cannot see through a user namespace. Over TCP
// everybody needs the password, and there is none until TCP is asked for.
const ACCESS_RULES = `local all all trust
host all all 127.0.0.1/32 scram-sha-256
host all all ::1/128 scram-sha-256
`;

/** Makes the folder and gives its true path. */
export function openHome(folder: string): string {
  try {
    mkdirSync(path.dirname(path.resolve(folder)), { recursive: true });
    if (!existsSync(folder)) mkdirSync(folder, { recursive: true, mode: 0o700 });
    accessSync(folder, constants.W_OK | constants.X_OK);
    return realpathSync(folder);
  } catch (error) {
    throw cannot(`write to the folder ${path.resolve(folder)} of the embedded PostgreSQL`, error);
  }
}

export interface Maker {
  native: Native;
  identity: Identity;
  /** The major version of PostgreSQL we ship. */
  major: string;
  durable: boolean;
}

/** The path of the cluster, made when missing. */
export async function ensureCluster(home: string, maker: Maker): Promise<string> {
  const cluster = path.join(home, 'data');
  removeLeftovers(home);
  if (!existsSync(path.join(cluster, 'PG_VERSION'))) await createCluster(home, cluster, maker);
  checkVersion(cluster, maker.major);
  if (lstatSync(cluster).uid !== maker.identity.owner.uid) giveTo(home, maker.identity.owner);
  return cluster;
}

// Names of this process, so that they are not taken for the remains of an earlier one with the same number.
const inTheMaking = new Set<string>();

async function createCluster(home: string, cluster: string, maker: Maker): Promise<void> {
  const { native, identity, durable } = maker;
  const name = `init-${process.pid}-${randomBytes(4).toString('hex')}`;
  const making = path.join(home, name);
  inTheMaking.add(name);
  try {
    mkdirSync(making, { mode: 0o700 });
    if (identity.as !== undefined) lchownSync(making, identity.as.uid, identity.as.gid);
    const made = await runToEnd(identity, initdbWords(native, making, durable));
    if (made.code !== 0) throw initdbFailure(home, made);
    writeFileSync(path.join(making, 'pg_hba.conf'), ACCESS_RULES);
    if (durable) sync(path.join(making, 'pg_hba.conf'));
    moveIntoPlace(making, cluster);
    if (durable) sync(home);
  } catch (error) {
    throw error instanceof EmbeddedPostgresError ? error : cannot(`create a PostgreSQL cluster in ${home}`, error);
  } finally {
    rmSync(making, { recursive: true, force: true });
    inTheMaking.delete(name);
  }
}

function initdbWords(native: Native, folder: string, durable: boolean): string[] {
  const locale = ['-E', 'UTF8', '--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--locale=C'];
  const words = [native.initdb, '-D', folder, '-U', SUPERUSER, ...locale, '-A', 'trust', '--no-instructions'];
  return durable ? words : [...words, '--no-sync'];
}

function initdbFailure(home: string, made: { code: number | null; output: string }): EmbeddedPostgresError {
  if (/no space left on device|disk quota exceeded/i.test(made.output)) {
    return new EmbeddedPostgresError(`The disk is full: PostgreSQL needs about 50 MB in ${home} to begin with.`);
  }
  const lines = made.output.trim().split('\n');
  const said = lines.findLast((line) => /error|fatal/i.test(line)) ?? lines.at(-1) ?? '';
  return new EmbeddedPostgresError(`PostgreSQL could not create a cluster in ${home}: ${said}`, { cause: made.output });
}

// Somebody else may have been faster with the same folder; theirs is as good as ours.
function moveIntoPlace(making: string, cluster: string): void {
  try {
    renameSync(making, cluster);
  } catch (error) {
    if (!existsSync(path.join(cluster, 'PG_VERSION'))) {
      if (errno(error) !== 'ENOTEMPTY' && errno(error) !== 'EEXIST') throw error;
      throw new EmbeddedPostgresError(`${cluster} holds files that are no PostgreSQL cluster; move them away.`);
    }
  }
}

function removeLeftovers(home: string): void {
  for (const name of readdirSync(home)) {
    const pid = /^init-(\d+)-[0-9a-f]+$/.exec(name)?.[1];
    if (pid === undefined || inTheMaking.has(name)) continue;
    if (Number(pid) !== process.pid && isAlive(Number(pid))) continue;
    // The last writes of a killed initdb may still arrive; what cannot be removed now is removed at the next start.
    try {
      rmSync(path.join(home, name), { recursive: true, force: true, maxRetries: 3, retryDelay: 100 });
    } catch (error) {
      if (errno(error) !== 'ENOTEMPTY') throw cannot(`remove ${name} in ${home}`, error);
    }
  }
}

function checkVersion(cluster: string, ships: string): void {
  const holds = readFileSync(path.join(cluster, 'PG_VERSION'), 'utf8').trim();
  if (holds !== ships) {
    throw new EmbeddedPostgresError(
      `${cluster} was made by PostgreSQL ${holds}, but this version of Punctual ships PostgreSQL ${ships}; ` +
        'move the data with pg_dump, or set DATABASE_URL to a PostgreSQL server that can read it.',
    );
  }
}

function giveTo(folder: string, owner: { uid: number; gid: number }): void {
  try {
    for (const name of ['', ...readdirSync(folder, { recursive: true, encoding: 'utf8' })]) {
      lchownSync(path.join(folder, name), owner.uid, owner.gid);
    }
  } catch (error) {
    throw cannot(`give ${folder} to the user PostgreSQL runs as`, error);
  }
}

function sync(file: string): void {
  const handle = openSync(file, 'r');
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}
