// The few words this folder speaks with a running PostgreSQL: is it there, who started it, its database and password.
// Always over the socket.
import { randomBytes } from 'node:crypto';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import pg from 'pg';
import { SUPERUSER } from './cluster.ts';
import { cannot, errno } from './failure.ts';

export const DATABASE = 'punctual';

export interface Place {
  socketDir: string;
  port: number;
}

/** The address of the socket for `pg`; `localhost` is only there because the parsers of URLs want a host. */
export function socketUrl(place: Place, database = DATABASE): string {
  const query = new URLSearchParams({ host: place.socketDir, port: String(place.port) });
  return `postgresql://${SUPERUSER}@localhost/${database}?${query.toString()}`;
}

export function tcpUrl(port: number, password: string): string {
  return `postgresql://${SUPERUSER}:${password}@127.0.0.1:${port}/${DATABASE}`;
}

export interface Session extends AsyncDisposable {
  query(text: string): Promise<Record<string, unknown>[]>;
}

/** A connection to the maintenance database, or null while PostgreSQL does not take any (starting, stopping, gone). */
export async function tryConnect(place: Place): Promise<Session | null> {
  const client = new pg.Client({
    connectionString: socketUrl(place, 'postgres'),
    connectionTimeoutMillis: 10_000,
    query_timeout: 60_000,
    ssl: false,
  });
  client.on('error', () => {});
  try {
    await client.connect();
  } catch (error) {
    await client.end().catch(() => {});
    if (NOT_NOW.has(errno(error)) || !(error instanceof pg.DatabaseError)) return null;
    throw cannot(`connect to PostgreSQL in ${place.socketDir}`, error);
  }
  return {
    query: async (text) => (await client.query<Record<string, unknown>>(text)).rows,
    [Symbol.asyncDispose]: async () => await client.end().catch(() => {}),
  };
}

// cannot_connect_now, admin_shutdown, crash_shutdown, too_many_connections
const NOT_NOW = new Set(['57P03', '57P01', '57P02', '53300']);

/** The process that started this PostgreSQL, or null if it was none of ours. */
export async function launcherOf(session: Session): Promise<number | null> {
  const [row] = await session.query(`select current_setting('punctual.launcher', true) as launcher`);
  return Number(row?.['launcher']) || null;
}

export async function ensureDatabase(session: Session): Promise<void> {
  const there = await session.query(`select 1 from pg_database where datname = '${DATABASE}'`);
  if (there.length > 0) return;
  try {
    await session.query(`create database ${DATABASE}`);
  } catch (error) {
    // Somebody who attached at the same moment was faster: duplicate_database, or unique_violation in the catalog.
    if (errno(error) !== '42P04' && errno(error) !== '23505') throw error;
  }
}

/** The password for TCP. PostgreSQL learns it before the file is written, so the file never holds a wrong one. */
export async function ensurePassword(session: Session, home: string): Promise<string> {
  const file = path.join(home, 'password');
  const known = readPassword(home);
  if (known !== null) return known;
  const password = randomBytes(24).toString('hex');
  await session.query(`alter role ${SUPERUSER} password '${password}'`);
  try {
    writeFileSync(`${file}.new`, `${password}\n`, { mode: 0o600 });
    renameSync(`${file}.new`, file);
  } catch (error) {
    throw cannot(`write ${file}`, error);
  }
  return password;
}

export function readPassword(home: string): string | null {
  try {
    return readFileSync(path.join(home, 'password'), 'utf8').trim() || null;
  } catch (error) {
    if (errno(error) === 'ENOENT') return null;
    throw cannot(`read the password of the embedded PostgreSQL in ${home}`, error);
  }
}
