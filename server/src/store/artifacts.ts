// Artifacts in the book: read, listed, and the ways out: deleted by a person, or removed because nobody refers to them any
// more. Their content is kept by a store (artifacts/store.ts); what leaves here goes to artifact_uploads as content that is
// to be removed, so that a server that dies in between leaves nothing behind. How they come is in artifact_uploads.ts.
import { type Artifact, PunctualError } from '@punctual/contract';
import { groupBySegment, kindOf } from '../base/ids.ts';
import { segmentOfKey } from '../rules/segment.ts';
import { texts, uuids } from './arrays.ts';
import { segmentCount } from './artifact_refs.ts';
import type { Database, Queryable } from './database.ts';
import { jobIsLive } from './jobs.ts';
import { removing } from './retention.ts';
import { part, sql } from './sql.ts';

export interface StoredArtifact extends Artifact {
  /** With the hash it names the content. */
  upload_id: string;
}

interface Row extends Omit<StoredArtifact, 'size' | 'created_at' | 'used_at'> {
  size: string;
  created_at: Date;
  used_at: Date;
}

export const artifactColumns = part`a.sha256, a.upload_id, a.size, a.name, a.content_type, a.created_at, a.used_at`;

export function toArtifact(row: Row): StoredArtifact {
  const { size, created_at, used_at, ...rest } = row;
  return { ...rest, size: Number(size), created_at: created_at.toISOString(), used_at: used_at.toISOString() };
}

export async function getArtifact(db: Queryable, sha256: string, segments: number): Promise<StoredArtifact | null> {
  const rows = await db.query<Row>(sql`
    select ${artifactColumns}
    from punctual.artifacts a
    where a.segment = ${segmentOfKey(sha256, segments)}::smallint and a.sha256 = ${sha256}`);
  return rows[0] === undefined ? null : toArtifact(rows[0]);
}

/** The same for whoever is about to refer to it: it is kept for a while from now on. */
export async function touchArtifact(db: Queryable, sha256: string, segments: number): Promise<StoredArtifact | null> {
  const rows = await db.query<Row>(sql`
    update punctual.artifacts a
    set used_at = now()
    where a.segment = ${segmentOfKey(sha256, segments)}::smallint and a.sha256 = ${sha256}
    returning ${artifactColumns}`);
  return rows[0] === undefined ? null : toArtifact(rows[0]);
}

export interface ArtifactPlace {
  /** Microseconds since 1970. */
  created: string;
  sha256: string;
}

/** Newest first, those after a place. */
export async function listArtifacts(
  db: Queryable,
  { after, limit, segments }: { after: ArtifactPlace | null; limit: number; segments: readonly number[] },
): Promise<(StoredArtifact & { created: string })[]> {
  const below =
    after === null
      ? part``
      : part`and (a.created_at, a.sha256) < (to_timestamp(0) + ${after.created}::bigint * interval '1 microsecond', ${after.sha256})`;
  const rows = await db.query<Row & { created: string }>(sql`
    select ${artifactColumns}, (extract(epoch from a.created_at) * 1000000)::bigint::text as created
    from unnest(${segments}::smallint[]) s (segment)
    cross join lateral (
      select *
      from punctual.artifacts a
      where a.segment = s.segment ${below}
      order by a.created_at desc, a.sha256 desc
      limit ${limit}::integer
    ) a
    order by a.created_at desc, a.sha256 desc
    limit ${limit}::integer`);
  return rows.map(({ created, ...row }) => ({ ...toArtifact(row), created }));
}

/** Many jobs may run the same program. */
const pageOwners = 1000;
const lowestId = '00000000-0000-0000-0000-000000000000';

/**
 * Deletes an artifact unless a live or recurring job or a workflow needs it. First its row is locked, then the rows of the
 * jobs that refer to it: whoever gives a job another run locks that row too.
 */
export async function deleteArtifact(db: Database, sha256: string, segments: number): Promise<boolean> {
  const segment = segmentOfKey(sha256, segments);
  return db.transaction(async (tx) => {
    const locked = await tx.query(sql`
      select 1
      from punctual.artifacts
      where segment = ${segment}::smallint and sha256 = ${sha256}
      for update`);
    if (locked.length === 0) return false;
    for (let after = lowestId, more = true; more; ) {
      const owners = await tx.query<{ owner_id: string }>(sql`
        select owner_id
        from punctual.artifact_refs
        where segment = ${segment}::smallint and sha256 = ${sha256} and owner_id > ${after}::uuid
        order by owner_id
        limit ${pageOwners}::integer`);
      const ids = owners.map(({ owner_id }) => owner_id);
      await requireIdle(tx, ids);
      after = ids.at(-1) ?? after;
      more = ids.length === pageOwners;
    }
    await tx.query(sql`
      delete from punctual.artifact_refs
      where segment = ${segment}::smallint and sha256 = ${sha256}`);
    await moveOut(tx, segment, [sha256]);
    return true;
  });
}

async function requireIdle(tx: Queryable, owners: readonly string[]): Promise<void> {
  const workflow = owners.find((id) => kindOf(id) === 'workflow');
  if (workflow !== undefined)
    throw new PunctualError('artifact_in_use', { detail: `Workflow ${workflow} needs this artifact.` });
  const jobs = owners.filter((id) => kindOf(id) === 'job');
  for (const [segment, ids] of groupBySegment(jobs, (id) => id)) {
    const these = part`j.segment = ${segment}::smallint and j.job_id = any (${uuids(ids, (id) => id)}::uuid[])`;
    await tx.query(sql`select 1 from punctual.jobs j where ${these} order by j.job_id for update`);
    const live = await tx.query<{ job_id: string }>(sql`
      select j.job_id
      from punctual.jobs j
      where ${these} and ${jobIsLive}
      limit 1`);
    const job = live[0]?.job_id;
    if (job !== undefined)
      throw new PunctualError('artifact_in_use', {
        detail: `Job ${job} is not done and needs this artifact; cancel it first.`,
        jobId: job,
      });
  }
}

/** Artifacts of a segment go; their content is to be removed. */
async function moveOut(tx: Queryable, segment: number, hashes: readonly string[]): Promise<void> {
  await tx.query(sql`
    with gone as (
      delete from punctual.artifacts
      where segment = ${segment}::smallint and sha256 = any (${texts(hashes, (hash) => hash)}::text[])
      returning *
    )
    insert into punctual.artifact_uploads (segment, sha256, upload_id, size, part_bytes, expires_at, over_at)
    select segment, sha256, upload_id, size, 1, now(), now()
    from gone`);
}

const pageRows = 100;

/** Removes artifacts of a page that nobody has referred to for so many days; `next` is the hash to go on from. */
export async function pruneArtifacts(
  db: Database,
  { segment, after }: { segment: number; after: string },
  { days, foreseen }: { days: number; foreseen: boolean },
): Promise<{ removed: number; next: string | null }> {
  const unneeded = part`
    a.used_at < now() - ${days}::integer * interval '1 day'
    and not exists (select from punctual.artifact_refs r where r.segment = a.segment and r.sha256 = a.sha256)`;
  const page = await db.query<{ sha256: string; goes: boolean }>(sql`
    select a.sha256, ${unneeded} as goes
    from punctual.artifacts a
    where a.segment = ${segment}::smallint and a.sha256 > ${after}
    order by a.sha256
    limit ${pageRows}::integer`);
  const going = page.filter(({ goes }) => goes).map(({ sha256 }) => sha256);
  const last = page.at(-1)?.sha256;
  const next = page.length < pageRows || last === undefined ? null : last;
  if (foreseen || going.length === 0) return { removed: going.length, next };
  const these = part`a.segment = ${segment}::smallint and a.sha256 = any (${texts(going, (hash) => hash)}::text[])`;
  const removed = await removing(db, async (tx) => {
    // Whoever refers to one of them right now has locked it, and is left alone. The second look sees all that were before.
    const locked = await tx.query<{ sha256: string }>(sql`
      select a.sha256 from punctual.artifacts a where ${these} order by a.sha256 for update skip locked`);
    const mine = part`${texts(locked, ({ sha256 }) => sha256)}::text[]`;
    const gone = await tx.query<{ sha256: string }>(sql`
      select a.sha256 from punctual.artifacts a where ${these} and a.sha256 = any (${mine}) and ${unneeded}`);
    await moveOut(
      tx,
      segment,
      gone.map(({ sha256 }) => sha256),
    );
    return gone.length;
  });
  return { removed, next };
}

/** How many segments there are, for what has no server around it. */
export async function countSegments(db: Queryable): Promise<number> {
  const rows = await db.query<{ segments: number }>(sql`select ${segmentCount}::integer as segments`);
  return rows[0]?.segments ?? 1;
}
