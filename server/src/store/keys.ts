// API keys in the book, and the sessions of the dashboard that were opened with them. Whatever ends the right of a secret
// also makes `access_version` grow, in the same transaction: that is how every server learns of it (access/keyring.ts).
import { type ApiKey, type CreateKey, limits, PunctualError, type Role } from '@punctual/contract';
import { newToken } from '../base/ids.ts';
import { hashSecret, newSecret, type SecretKind } from '../base/secrets.ts';
import type { Database, Queryable } from './database.ts';
import { part, sql } from './sql.ts';

interface KeyRow {
  key_id: string;
  name: string;
  role: Role;
  user_id: string | null;
  hint: string;
  state: ApiKey['state'];
  created_at: Date;
  created_by: string | null;
  expires_at: Date | null;
  revoked_at: Date | null;
  last_used_at: Date | null;
  rate_per_second: number | null;
  rate_burst: number | null;
}

const columns = part`
  k.key_id, k.name, k.role, k.user_id, k.hint,
  case when k.revoked_at is not null then 'revoked' when k.expires_at <= now() then 'expired' else 'active' end as state,
  k.created_at, k.created_by, k.expires_at, k.revoked_at, k.last_used_at, k.rate_per_second, k.rate_burst`;

const bump = sql`update punctual.access_version set version = version + 1`;

export type SecretKey = ApiKey & { secret: string };

/** The row of the version is locked first: of two servers that make the first key, the second sees that of the first. */
export async function createKey(db: Database, wanted: CreateKey, createdBy: string | null): Promise<SecretKey> {
  return db.transaction(async (tx) => {
    await tx.query(bump);
    const [count] = await tx.query<{ n: number }>(sql`select count(*)::integer as n from punctual.api_keys`);
    if ((count?.n ?? 0) >= limits.max_keys) throw new PunctualError('too_many_keys');
    return insertKey(tx, wanted, createdBy);
  });
}

/** A key for whoever starts the first server; null when there has ever been a key. */
export async function createFirstKey(db: Database, name: string): Promise<SecretKey | null> {
  return db.transaction(async (tx) => {
    await tx.query(bump);
    const known = await tx.query(sql`select key_id from punctual.api_keys limit 1`);
    return known.length > 0 ? null : insertKey(tx, { name, role: 'admin' }, null);
  });
}

async function insertKey(tx: Queryable, wanted: CreateKey, createdBy: string | null): Promise<SecretKey> {
  const secret = newSecret('key');
  const rows = await tx.query<KeyRow>(sql`
    insert into punctual.api_keys as k (key_id, name, role, user_id, hash, hint, created_by, expires_at, rate_per_second, rate_burst)
    values (${newToken()}::uuid, ${wanted.name}, ${wanted.role}, ${wanted.user_id ?? null}, ${hashSecret(secret)}, ${secret.slice(-4)},
            ${createdBy}, ${wanted.expires_at ?? null}::timestamptz, ${wanted.rate_per_second ?? null}::integer, ${wanted.rate_burst ?? null}::integer)
    returning ${columns}`);
  return { ...toKey(rows[0] as KeyRow), secret };
}

export async function listKeys(db: Queryable): Promise<ApiKey[]> {
  const rows = await db.query<KeyRow>(sql`
    select ${columns}
    from punctual.api_keys k
    order by k.created_at desc, k.key_id`);
  return rows.map(toKey);
}

export async function getKey(db: Queryable, keyId: string): Promise<ApiKey | null> {
  const rows = await db.query<KeyRow>(sql`select ${columns} from punctual.api_keys k where k.key_id = ${keyId}`);
  return rows[0] === undefined ? null : toKey(rows[0]);
}

/** Revoking twice is revoking once; null when there is no such key. */
export async function revokeKey(db: Database, keyId: string): Promise<ApiKey | null> {
  return db.transaction(async (tx) => {
    await tx.query(bump);
    await tx.query(sql`delete from punctual.key_sessions where key_id = ${keyId}`);
    const rows = await tx.query<KeyRow>(sql`
      update punctual.api_keys k
      set revoked_at = coalesce(k.revoked_at, now()), old_hash = null, old_until = null
      where k.key_id = ${keyId}
      returning ${columns}`);
    return rows[0] === undefined ? null : toKey(rows[0]);
  });
}

/** A new secret; the old one is good for some seconds more. */
export async function rotateKey(
  db: Database,
  keyId: string,
  overlapSeconds: number,
): Promise<SecretKey | 'ended' | null> {
  return db.transaction(async (tx) => {
    await tx.query(bump);
    const before = await getKey(tx, keyId);
    if (before === null) return null;
    if (before.state !== 'active') return 'ended';
    const secret = newSecret('key');
    if (overlapSeconds === 0) await tx.query(sql`delete from punctual.key_sessions where key_id = ${keyId}`);
    const rows = await tx.query<KeyRow>(sql`
      update punctual.api_keys k
      set hash = ${hashSecret(secret)}, hint = ${secret.slice(-4)},
          old_hash = case when ${overlapSeconds}::integer > 0 then k.hash end,
          old_until = case when ${overlapSeconds}::integer > 0 then now() + ${overlapSeconds}::integer * interval '1 second' end
      where k.key_id = ${keyId}
      returning ${columns}`);
    return { ...toKey(rows[0] as KeyRow), secret };
  });
}

/** What a secret entitles to. */
export interface FoundSecret {
  key_id: string;
  name: string;
  role: Role;
  user_id: string | null;
  rate_per_second: number | null;
  rate_burst: number | null;
  expires_at: Date | null;
  /** For how many ms more; null for ever. */
  left_ms: number | null;
}

const entitled = part`k.revoked_at is null and (k.expires_at is null or k.expires_at > now())`;

export async function findSecret(db: Queryable, kind: SecretKind, hash: string): Promise<FoundSecret | null> {
  const until =
    kind === 'key'
      ? part`least(k.expires_at, case when k.hash <> ${hash} then k.old_until end)`
      : part`least(k.expires_at, s.expires_at)`;
  const from =
    kind === 'key'
      ? part`(
          select * from punctual.api_keys where hash = ${hash}
          union all
          select * from punctual.api_keys where old_hash = ${hash} and old_until > now()
        ) k where ${entitled}`
      : part`punctual.key_sessions s
        join punctual.api_keys k using (key_id)
        where s.hash = ${hash} and s.expires_at > now() and ${entitled}`;
  const rows = await db.query<FoundSecret>(sql`
    select k.key_id, k.name, k.role, k.user_id, k.rate_per_second, k.rate_burst, ${until} as expires_at,
           (extract(epoch from ${until} - now()) * 1000)::double precision as left_ms
    from ${from}`);
  return rows[0] ?? null;
}

/** Signs a browser in; those of a key that were first end when there are too many. */
export async function createSession(
  db: Database,
  keyId: string,
  hours: number,
): Promise<{ secret: string; expires_at: Date }> {
  const secret = newSecret('session');
  return db.transaction(async (tx) => {
    await tx.query(sql`
      delete from punctual.key_sessions
      where key_id = ${keyId} and (expires_at <= now() or hash not in (
        select hash from punctual.key_sessions where key_id = ${keyId}
        order by created_at desc limit ${limits.max_sessions - 1}::integer))`);
    const rows = await tx.query<{ expires_at: Date }>(sql`
      insert into punctual.key_sessions (hash, key_id, expires_at)
      select ${hashSecret(secret)}, k.key_id, least(k.expires_at, now() + ${hours}::integer * interval '1 hour')
      from punctual.api_keys k
      where k.key_id = ${keyId} and ${entitled}
      returning expires_at`);
    if (rows[0] === undefined) throw new PunctualError('key_invalid');
    return { secret, expires_at: rows[0].expires_at };
  });
}

export async function deleteSession(db: Database, hash: string): Promise<boolean> {
  return db.transaction(async (tx) => {
    await tx.query(bump);
    const gone = await tx.query(sql`delete from punctual.key_sessions where hash = ${hash} returning hash`);
    return gone.length > 0;
  });
}

export interface AccessVersion {
  version: string;
  /** Has there ever been a key? */
  has_keys: boolean;
}

export async function accessVersion(db: Queryable): Promise<AccessVersion> {
  const rows = await db.query<AccessVersion>(sql`
    select version, exists (select from punctual.api_keys) as has_keys
    from punctual.access_version`);
  return rows[0] ?? { version: '0', has_keys: true };
}

/** Notes that these keys were used lately. */
export async function touchKeys(db: Queryable, keyIds: readonly string[]): Promise<void> {
  await db.query(sql`
    update punctual.api_keys
    set last_used_at = now()
    where key_id = any (${keyIds}::uuid[]) and (last_used_at is null or last_used_at < now() - interval '30 seconds')`);
}

/**
 * Keys that ended so many days ago, and sessions that are over. The newest key stays whatever became of it: a server whose
 * keys have all ended must not be open to everybody again.
 */
export async function pruneKeys(db: Queryable, days: number): Promise<number> {
  await db.query(sql`delete from punctual.key_sessions where expires_at <= now()`);
  const rows = await db.query(sql`
    delete from punctual.api_keys k
    where least(k.revoked_at, k.expires_at) < now() - ${days}::integer * interval '1 day'
      and exists (select from punctual.api_keys newer where newer.created_at > k.created_at)
    returning key_id`);
  return rows.length;
}

function toKey(row: KeyRow): ApiKey {
  return {
    ...row,
    created_at: row.created_at.toISOString(),
    expires_at: row.expires_at?.toISOString() ?? null,
    revoked_at: row.revoked_at?.toISOString() ?? null,
    last_used_at: row.last_used_at?.toISOString() ?? null,
  };
}
