// Blocked runs as the safety net looks at them (scheduler/unblock.ts): where there are any, what they wait for, and which
// of those runs have ended without anybody having told. Nothing is locked or changed here.
import { uuids } from './arrays.ts';
import type { Queryable } from './database.ts';
import { sql } from './sql.ts';

export interface SegmentFacts {
  segment: number;
  /** Runs of the segment have dependents that wait for their end. */
  parents: boolean;
  /** Runs of the segment are blocked. */
  blocked: boolean;
  /** Parents of the segment were redriven, and not all that depends on them knows. */
  moved: boolean;
}

/** Three looks at the beginning of an index for each segment: cheap enough to be asked every second. */
export async function readFacts(db: Queryable, segments: readonly number[]): Promise<SegmentFacts[]> {
  return db.query<SegmentFacts>(sql`
    select s.segment,
           exists (select from punctual.dependents d where d.segment = s.segment and not d.told) as parents,
           exists (select from punctual.waiting w where w.segment = s.segment and w.reason = 'dependency') as blocked,
           exists (select from punctual.dependents d where d.segment = s.segment and d.was is not null) as moved
    from unnest(${segments}::smallint[]) s (segment)`);
}

export interface BlockedRun {
  run_id: string;
  job_id: string;
  /** A run it waits for; null: there is none, and it should not be blocked. */
  parent_run_id: string | null;
}

/** Blocked runs of a segment after one of them, in the order of their ids, with each run they wait for. */
export async function readBlocked(db: Queryable, segment: number, after: string, limit: number): Promise<BlockedRun[]> {
  return db.query<BlockedRun>(sql`
    select w.run_id, w.job_id, n.parent_run_id
    from punctual.waiting w
    left join punctual.needs n on n.segment = ${segment}::smallint and n.job_id = w.job_id and n.state = 'pending'
    where w.segment = ${segment}::smallint and w.reason = 'dependency' and w.run_id > ${after}
    order by w.run_id
    limit ${limit}::integer`);
}

/** Those of the runs of a segment that are neither waiting nor ready nor running. */
export async function findEnded(db: Queryable, segment: number, runIds: readonly string[]): Promise<string[]> {
  const rows = await db.query<{ run_id: string }>(sql`
    select p.run_id
    from unnest(${uuids(runIds, (id) => id)}::uuid[]) p (run_id)
    where not exists (select from punctual.waiting r where r.segment = ${segment}::smallint and r.run_id = p.run_id)
      and not exists (select from punctual.ready r where r.segment = ${segment}::smallint and r.run_id = p.run_id)
      and not exists (select from punctual.running r where r.segment = ${segment}::smallint and r.run_id = p.run_id)`);
  return rows.map((row) => row.run_id);
}
