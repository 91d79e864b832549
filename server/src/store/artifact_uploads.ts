// Uploads in the book: content on its way. At most one of a hash is under way, and whoever sends the same file takes part in
// it. It becomes an artifact (complete), or is over: expired, refused, or the content of an artifact that was deleted. What
// is over is removed from the store by the upkeep, twice: at once and again some minutes later, since a server that was
// frozen may still have written something in between. Every upload has an id of its own in the names of its files.
import { type CreateArtifact, limits, PunctualError } from '@punctual/contract';
import { newToken } from '../base/ids.ts';
import { segmentOfKey } from '../rules/segment.ts';
import { artifactColumns, type StoredArtifact, toArtifact } from './artifacts.ts';
import type { Queryable } from './database.ts';
import { part, sql } from './sql.ts';

export interface StoredUpload {
  segment: number;
  sha256: string;
  upload_id: string;
  size: number;
  part_bytes: number;
  /** What the store calls it, where that gives it a name. */
  multipart: string | null;
  expires_at: string;
  /** Seconds since 1970, by the clock of the database. */
  now_seconds: number;
}

type Row = Omit<StoredUpload, 'size' | 'part_bytes' | 'expires_at'> & {
  size: string;
  part_bytes: string;
  expires_at: Date;
};

const columns = part`u.segment, u.sha256, u.upload_id, u.size, u.part_bytes, u.multipart, u.expires_at, floor(extract(epoch from now()))::float8 as now_seconds`;

const toUpload = ({ size, part_bytes, expires_at, ...row }: Row): StoredUpload => ({
  ...row,
  size: Number(size),
  part_bytes: Number(part_bytes),
  expires_at: expires_at.toISOString(),
});

/** Begins an upload or joins the one under way, which then expires later. One of another size is given up: somebody was wrong. */
export async function beginUpload(
  db: Queryable,
  wanted: CreateArtifact,
  { segments, partBytes, hours }: { segments: number; partBytes: number; hours: number },
): Promise<StoredUpload> {
  const segment = segmentOfKey(wanted.sha256, segments);
  await db.query(sql`
    update punctual.artifact_uploads
    set over_at = now()
    where segment = ${segment}::smallint and sha256 = ${wanted.sha256} and over_at is null
      and (size <> ${wanted.size}::bigint or expires_at < now())`);
  const rows = await db.query<Row>(sql`
    insert into punctual.artifact_uploads as u (segment, sha256, upload_id, size, part_bytes, name, content_type, expires_at)
    select ${segment}::smallint, ${wanted.sha256}, ${newToken()}::uuid, ${wanted.size}::bigint, ${partBytes}::bigint, ${wanted.name ?? null}::text,
           ${wanted.content_type ?? null}::text, now() + ${hours}::integer * interval '1 hour'
    where (select count(*) from punctual.artifact_uploads o where o.segment = ${segment}::smallint and o.over_at is null) < ${limits.max_open_uploads}
       or exists (select from punctual.artifact_uploads o where o.segment = ${segment}::smallint and o.sha256 = ${wanted.sha256} and o.over_at is null)
    on conflict (segment, sha256) where over_at is null do update
    set expires_at = excluded.expires_at
    returning ${columns}`);
  if (rows[0] === undefined) throw new PunctualError('too_many_uploads', { retryAfterSeconds: 60 });
  return toUpload(rows[0]);
}

/** The upload under way. */
export async function getUpload(db: Queryable, sha256: string, segments: number): Promise<StoredUpload | null> {
  const rows = await db.query<Row>(sql`
    select ${columns}
    from punctual.artifact_uploads u
    where u.segment = ${segmentOfKey(sha256, segments)}::smallint and u.sha256 = ${sha256} and u.over_at is null`);
  return rows[0] === undefined ? null : toUpload(rows[0]);
}

/** Notes what the store calls the upload; answers what was noted first. */
export async function nameUpload(db: Queryable, upload: StoredUpload, multipart: string): Promise<string> {
  const rows = await db.query<{ multipart: string }>(sql`
    update punctual.artifact_uploads
    set multipart = coalesce(multipart, ${multipart})
    where segment = ${upload.segment}::smallint and sha256 = ${upload.sha256} and upload_id = ${upload.upload_id}::uuid
    returning multipart`);
  if (rows[0] === undefined) throw new PunctualError('upload_not_found');
  return rows[0].multipart;
}

/** Verified content becomes an artifact; null when the upload is over, or another was completed first. */
export async function completeUpload(db: Queryable, upload: StoredUpload): Promise<StoredArtifact | null> {
  const rows = await db.query<Parameters<typeof toArtifact>[0]>(sql`
    with taken as (
      select *
      from punctual.artifact_uploads
      where segment = ${upload.segment}::smallint and sha256 = ${upload.sha256} and upload_id = ${upload.upload_id}::uuid and over_at is null
      for update
    ),
    made as (
      insert into punctual.artifacts as a (segment, sha256, upload_id, size, name, content_type)
      select segment, sha256, upload_id, size, name, content_type
      from taken
      on conflict do nothing
      returning a.segment, ${artifactColumns}
    ),
    moved as (
      delete from punctual.artifact_uploads u
      using made m
      where u.segment = ${upload.segment}::smallint and u.sha256 = m.sha256 and u.upload_id = m.upload_id
    )
    select ${artifactColumns} from made a`);
  return rows[0] === undefined ? null : toArtifact(rows[0]);
}

/** Nothing comes of the upload any more. */
export async function endUpload(db: Queryable, upload: StoredUpload): Promise<void> {
  await db.query(sql`
    update punctual.artifact_uploads
    set over_at = now()
    where segment = ${upload.segment}::smallint and sha256 = ${upload.sha256} and upload_id = ${upload.upload_id}::uuid and over_at is null`);
}

export interface OverUpload {
  segment: number;
  sha256: string;
  upload_id: string;
  /** Long enough that nobody writes to it any more. */
  is_final: boolean;
}

const sweptRows = 100;
const finalAfter = part`interval '10 minutes'`;

/** Ends uploads of a segment that have expired; answers those whose content is to be removed, the oldest first. */
export async function overUploads(db: Queryable, segment: number): Promise<OverUpload[]> {
  await db.query(sql`
    update punctual.artifact_uploads
    set over_at = now()
    where segment = ${segment}::smallint and over_at is null and expires_at < now()`);
  return db.query<OverUpload>(sql`
    select segment, sha256, upload_id, over_at < now() - ${finalAfter} as is_final
    from punctual.artifact_uploads
    where segment = ${segment}::smallint and over_at is not null
    order by over_at
    limit ${sweptRows}::integer`);
}

/** Its content is gone for good. */
export async function forgetUpload(db: Queryable, { segment, sha256, upload_id }: OverUpload): Promise<void> {
  await db.query(sql`
    delete from punctual.artifact_uploads
    where segment = ${segment}::smallint and sha256 = ${sha256} and upload_id = ${upload_id}::uuid and over_at < now() - ${finalAfter}`);
}
