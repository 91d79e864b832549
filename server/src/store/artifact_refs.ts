// Who needs an artifact: jobs whose executor names it, workflows that have such jobs among their steps, runs that published
// it.
//
// The race with removal is decided by the row of the artifact. Writing a reference locks it (the foreign key does), removing
// the artifact locks it too: either the reference is there when the removal looks, or the artifact is gone when the reference
// is written, which is then refused.
import { PunctualError } from '@punctual/contract';
import { segmentOfKey } from '../rules/segment.ts';
import { int2s, texts, uuids } from './arrays.ts';
import type { Queryable } from './database.ts';
import { type Fragment, part, sql } from './sql.ts';

export interface ArtifactRef {
  sha256: string;
  owner_id: string;
}

/** In how many segments the installation is divided; written into statements that need it. */
export const segmentCount = part`(select i.segments from punctual.installation i)`;

/** The segment of the artifact with this hash. */
export const segmentOfHash = (sha256: Fragment): Fragment =>
  part`punctual.segment_of_key(${sha256}, ${segmentCount}::integer)`;

/** A part of the statement that creates jobs. Rows that do not fit `which` are left out. */
export function insertRefs(refs: readonly (ArtifactRef & { submission: string | null })[], which: Fragment): Fragment {
  return part`
    referred as (
      insert into punctual.artifact_refs (segment, sha256, owner_id)
      select ${segmentOfHash(part`i.sha256`)}, i.sha256, i.owner_id
      from unnest(${texts(refs, (ref) => ref.sha256)}::text[], ${uuids(refs, (ref) => ref.owner_id)}::uuid[],
                  ${uuids(refs, (ref) => ref.submission)}::uuid[]) as i (sha256, owner_id, submission)
      ${which}
    ),`;
}

/** Refers to artifacts; throws when one is not there. */
export async function addRefs(tx: Queryable, refs: readonly ArtifactRef[]): Promise<void> {
  if (refs.length === 0) return;
  await tx.query(sql`
    insert into punctual.artifact_refs (segment, sha256, owner_id)
    select ${segmentOfHash(part`i.sha256`)}, i.sha256, i.owner_id
    from unnest(${texts(refs, (ref) => ref.sha256)}::text[], ${uuids(refs, (ref) => ref.owner_id)}::uuid[]) as i (sha256, owner_id)
    on conflict do nothing`);
}

/** Forgets references; what nobody refers to any more is kept for a while from now on. */
export async function dropRefs(tx: Queryable, refs: readonly ArtifactRef[], segments: number): Promise<void> {
  if (refs.length === 0) return;
  await tx.query(sql`
    with dropped as (
      delete from punctual.artifact_refs r
      using unnest(${int2s(refs, (ref) => segmentOfKey(ref.sha256, segments))}::smallint[], ${texts(refs, (ref) => ref.sha256)}::text[],
                   ${uuids(refs, (ref) => ref.owner_id)}::uuid[]) as i (segment, sha256, owner_id)
      where (r.segment, r.sha256, r.owner_id) = (i.segment, i.sha256, i.owner_id)
      returning r.segment, r.sha256
    )
    update punctual.artifacts a
    set used_at = now()
    from (select distinct segment, sha256 from dropped) d
    where (a.segment, a.sha256) = (d.segment, d.sha256)`);
}

/** A reference to an artifact that is not there, as an error for whoever wanted it; null for any other error. */
export function missingArtifact(error: unknown): PunctualError | null {
  const { code, constraint, detail } = error as { code?: unknown; constraint?: unknown; detail?: unknown };
  if (code !== '23503' || constraint !== 'artifact_refs_artifact') return null;
  const sha256 = /[0-9a-f]{64}/.exec(String(detail))?.[0] ?? '';
  return new PunctualError('artifact_missing', {
    detail: `No artifact has the sha256 ${sha256}; upload it first, then submit the job.`,
    cause: error,
  });
}
