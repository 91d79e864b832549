// What is needed to say why a run waits: where it stands, who is before it, who holds the places under the limits of its
// queue and type. Read for one run at a time; every count is bounded.
import type { GateKind } from '@punctual/contract';
import { segmentOf } from '../base/ids.ts';
import { int4s } from './arrays.ts';
import type { Queryable } from './database.ts';
import { sql } from './sql.ts';

export interface Standing {
  state: 'waiting' | 'ready';
  lane_id: number;
  /** Of a run that waits for a place: the key it is filed under. */
  key: string | null;
  /** Of a ready run: its place in the lane. */
  seq: string | null;
}

/** Where a run that has not started stands; null when it has moved on. */
export async function getStanding(db: Queryable, runId: string): Promise<Standing | null> {
  const rows = await db.query<Standing>(sql`
    select 'waiting' as state, lane_id, key, null::bigint as seq
    from punctual.waiting
    where segment = ${segmentOf(runId)}::smallint and run_id = ${runId}
    union all
    select 'ready', lane_id, null, seq
    from punctual.ready
    where segment = ${segmentOf(runId)}::smallint and run_id = ${runId}`);
  return rows[0] ?? null;
}

/** More runs of one lane in one segment are not counted. */
const maxCounted = 10_000;

/** How many ready runs stand in better lanes, and before this one in lanes as good as its own. */
export async function countAhead(
  db: Queryable,
  segments: readonly number[],
  { better, same, seq }: { better: readonly number[]; same: readonly number[]; seq: string },
): Promise<{ better: number; before: number }> {
  const rows = await db.query<{ better: number; before: number }>(sql`
    select coalesce(sum(c.runs) filter (where l.better), 0)::integer as better,
           coalesce(sum(c.runs) filter (where not l.better), 0)::integer as before
    from unnest(${segments}::smallint[]) s (segment)
    cross join (
      select unnest(${int4s(better, (id) => id)}::integer[]) as lane_id, true as better
      union all
      select unnest(${int4s(same, (id) => id)}::integer[]), false
    ) l
    cross join lateral (
      select count(*) as runs
      from (
        select
        from punctual.ready r
        where r.segment = s.segment and r.lane_id = l.lane_id and (l.better or r.seq < ${seq}::bigint)
        order by r.seq
        limit ${maxCounted}::integer
      ) counted
    ) c`);
  return rows[0] ?? { better: 0, before: 0 };
}

/** Runs that hold a place under the limit of a queue or a type, some of them. */
export async function holdersOf(db: Queryable, kind: GateKind, name: string, limit: number): Promise<string[]> {
  const rows = await db.query<{ run_id: string }>(sql`
    select h.run_id
    from punctual.lane_holds h
    join punctual.running r using (segment, run_id)
    where h.kind = ${kind} and h.name = ${name}
    order by h.run_id
    limit ${limit}::integer`);
  return rows.map((row) => row.run_id);
}
