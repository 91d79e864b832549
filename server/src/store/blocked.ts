// Blocked runs as the safety net looks at them (scheduler/unblock.ts): where there are any, what they wait for, and which
// of those runs have ended without anybody having told. Nothing is locked or changed here.
import { uuids } from './arrays.ts';
import type { Queryable } from './database.ts';
import { type Fragment, part, sql, theOne } from './sql.ts';

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

/** Runs of a segment after one of them that somebody depends on and was not told of, in the order of their ids. */
export async function readUntold(db: Queryable, segment: number, after: string, limit: number): Promise<string[]> {
  const rows = await db.query<{ run_id: string }>(sql`
    select run_id
    from punctual.dependents
    where segment = ${segment}::smallint and not told and was is null and run_id > ${after}
    order by run_id
    limit ${limit}::integer`);
  return rows.map((row) => row.run_id);
}

/**
 * Blocked runs of a segment after one of them, in the order of their ids; `astray`: there is nothing they wait for, or
 * nothing to wait for any more.
 */
export async function readBlocked(
  db: Queryable,
  segment: number,
  after: string,
  limit: number,
): Promise<{ run_id: string; job_id: string; astray: boolean }[]> {
  const has = (state: 'pending' | 'failed') => part`(
      select true
      from punctual.needs n
      where n.segment = ${segment}::smallint and n.job_id = w.job_id and n.state = ${state}::punctual.need_state
      limit 1)`;
  return db.query(sql`
    select w.run_id, w.job_id, ${has('pending')} is null or ${has('failed')} is not null as astray
    from punctual.waiting w
    where w.segment = ${segment}::smallint and w.reason = 'dependency' and w.run_id > ${after}
    order by w.run_id
    limit ${limit}::integer`);
}

/** Those of the runs of a segment that are neither waiting nor ready nor running. */
export async function findEnded(db: Queryable, segment: number, runIds: readonly string[]): Promise<string[]> {
  const isNotIn = (table: Fragment) =>
    part`(select 1 from ${table} r where r.segment = ${segment}::smallint and ${theOne(part`r.run_id`, part`p.run_id`)}) is null`;
  const rows = await db.query<{ run_id: string }>(sql`
    select p.run_id
    from unnest(${uuids(runIds, (id) => id)}::uuid[]) p (run_id)
    where ${isNotIn(part`punctual.waiting`)}
      and ${isNotIn(part`punctual.ready`)}
      and ${isNotIn(part`punctual.running`)}`);
  return rows.map((row) => row.run_id);
}
