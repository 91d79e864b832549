// What runs published. A row in the segment of the run says what its file is called; a reference beside the artifact keeps
// that from going. Both are written in one transaction, fenced by the lease of the run, and both go after the run.
import {
  limits,
  type PublishArtifact,
  PunctualError,
  type RetentionPolicy,
  type RunArtifact,
} from '@punctual/contract';
import { segmentOf } from '../base/ids.ts';
import { type ArtifactRef, addRefs, dropRefs, missingArtifact, segmentOfHash } from './artifact_refs.ts';
import { countSegments, getArtifact } from './artifacts.ts';
import type { Database, Queryable } from './database.ts';
import { isThere, type Place } from './history.ts';
import { removing } from './retention.ts';
import { part, sql } from './sql.ts';

interface Row extends Omit<RunArtifact, 'size' | 'published_at'> {
  size: string;
  published_at: Date;
}

const columns = part`
  p.run_id, p.name, p.sha256, p.size, p.attempt as attempt_number, p.published_at,
  exists (select from punctual.artifacts a where a.segment = ${segmentOfHash(part`p.sha256`)} and a.sha256 = p.sha256) as available`;

const toRunArtifact = ({ size, published_at, ...row }: Row): RunArtifact => ({
  ...row,
  size: Number(size),
  published_at: published_at.toISOString(),
});

export async function listRunArtifacts(db: Queryable, runId: string): Promise<RunArtifact[]> {
  const rows = await db.query<Row>(sql`
    select ${columns}
    from punctual.run_artifacts p
    where p.segment = ${segmentOf(runId)}::smallint and p.run_id = ${runId}
    order by p.name`);
  return rows.map(toRunArtifact);
}

/** Publishes a file of a run; one of the same name is replaced. Null when the run is not leased by this lease. */
export async function publishArtifact(
  db: Database,
  runId: string,
  { lease_id, name, sha256 }: PublishArtifact,
  segments: number,
): Promise<RunArtifact | null> {
  const segment = segmentOf(runId);
  return db.transaction(async (tx) => {
    // Held until the commit: the run cannot end meanwhile, nor be granted again.
    const [run] = await tx.query<{ attempt: number }>(sql`
      select attempt
      from punctual.running
      where segment = ${segment}::smallint and run_id = ${runId} and lease_id = ${lease_id}::uuid
      for update`);
    if (run === undefined) return null;
    const before = await listRunArtifacts(tx, runId);
    const replaced = before.find((file) => file.name === name);
    if (replaced === undefined && before.length >= limits.max_run_artifacts)
      throw new PunctualError('too_many_artifacts', {
        detail: `The run has published ${before.length} files already, as many as it may.`,
      });
    await refer(tx, { sha256, owner_id: runId });
    const artifact = await getArtifact(tx, sha256, segments);
    const rows = await tx.query<Row>(sql`
      with written as (
        insert into punctual.run_artifacts (segment, run_id, name, sha256, size, attempt)
        values (${segment}::smallint, ${runId}, ${name}, ${sha256}, ${artifact?.size ?? 0}::bigint, ${run.attempt}::smallint)
        on conflict (segment, run_id, name) do update
        set sha256 = excluded.sha256, size = excluded.size, attempt = excluded.attempt, published_at = now()
        returning *
      )
      select ${columns} from written p`);
    const isLast = !before.some((file) => file !== replaced && file.sha256 === replaced?.sha256);
    if (replaced !== undefined && replaced.sha256 !== sha256 && isLast)
      await dropRefs(tx, [{ sha256: replaced.sha256, owner_id: runId }], segments);
    return toRunArtifact(rows[0] as Row);
  });
}

async function refer(tx: Queryable, ref: ArtifactRef): Promise<void> {
  try {
    await addRefs(tx, [ref]);
  } catch (error) {
    if (missingArtifact(error) === null) throw error;
    throw new PunctualError('artifact_not_found', {
      detail: `No artifact has the sha256 ${ref.sha256}.`,
      cause: error,
    });
  }
}

const pageRows = 1000;
const beyond = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

/** What runs published that are gone, a page of a segment, with the references. */
export async function pruneRunArtifacts(
  db: Database,
  { segment, after }: Place,
  { policy, foreseen }: { policy: RetentionPolicy; foreseen: boolean },
): Promise<{ removed: number; next: Place | null }> {
  const pageEnd = part`
    page_end as materialized (
      select coalesce((
        select e.run_id
        from punctual.run_artifacts e
        where e.segment = ${segment}::smallint and e.run_id > ${after}
        order by e.run_id
        offset ${pageRows - 1}::integer limit 1), ${beyond}) as id
    )`;
  const which = part`p.segment = ${segment}::smallint and p.run_id > ${after} and p.run_id <= (select e.id from page_end e)
          and not ${isThere(part`p`, part`p.run_id`, foreseen ? policy : null)}`;
  const gone = foreseen
    ? part`select p.run_id, p.sha256 from punctual.run_artifacts p where ${which}`
    : part`delete from punctual.run_artifacts p where ${which} returning p.run_id, p.sha256`;
  const work = async (tx: Queryable) => {
    const rows = await tx.query<{ owner_id: string | null; sha256: string; last: string }>(sql`
      with ${pageEnd}, gone as (${gone})
      select e.id as last, g.run_id as owner_id, g.sha256
      from page_end e
      left join gone g on true`);
    const refs = rows.flatMap(({ owner_id, sha256 }) => (owner_id === null ? [] : [{ owner_id, sha256 }]));
    if (!foreseen && refs.length > 0) await dropRefs(tx, refs, await countSegments(tx));
    const last = rows[0]?.last ?? beyond;
    return { removed: refs.length, next: last === beyond ? null : { segment, after: last } };
  };
  return foreseen ? work(db) : removing(db, work);
}
