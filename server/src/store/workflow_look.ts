// The safety net of workflows: ends of which nobody was told, because a server died, a worker was lost, a run was cancelled or
// dropped. Steps that are live are looked at in turn, so many of each segment a pass, wherever the last pass stopped.
import { segmentOf } from '../base/ids.ts';
import { int2s, int4s, texts, uuids } from './arrays.ts';
import type { Queryable } from './database.ts';
import { sql } from './sql.ts';
import type { StepOfJob } from './workflow_steps.ts';

/** The step at which a pass stopped. */
export interface LookedAt {
  segment: number;
  workflow_id: string;
  step: string;
  item: number;
}

export interface Untold {
  ends: StepOfJob[];
  /** Workflows of which one within has ended. */
  parents: string[];
  /** Where to go on; a segment that was read to its end starts anew. */
  next: LookedAt[];
}

interface LiveRow extends LookedAt {
  job_id: string | null;
  run_id: string | null;
  child_id: string | null;
  place: number;
}

export async function findUntold(db: Queryable, from: readonly LookedAt[], perSegment: number): Promise<Untold> {
  const live = await db.query<LiveRow>(sql`
    select l.*
    from unnest(
      ${int2s(from, (at) => at.segment)}::smallint[], ${uuids(from, (at) => at.workflow_id)}::uuid[],
      ${texts(from, (at) => at.step)}::text[], ${int4s(from, (at) => at.item)}::integer[]) f (segment, workflow_id, step, item)
    cross join lateral (
      select s.segment, s.workflow_id, s.step, s.item, s.job_id, s.run_id, s.child_id,
             row_number() over (order by s.workflow_id, s.step, s.item)::integer as place
      from punctual.workflow_steps s
      where s.segment = f.segment and (s.run_id is not null or s.child_id is not null) and s.outcome is null
        and (s.workflow_id, s.step, s.item) > (f.workflow_id, f.step, f.item)
      order by s.workflow_id, s.step, s.item
      limit ${perSegment}::integer
    ) l`);
  const runs = await endedRuns(
    db,
    live.flatMap(({ run_id }) => (run_id === null ? [] : [run_id])),
  );
  const within = await endedWorkflows(
    db,
    live.flatMap(({ child_id }) => (child_id === null ? [] : [child_id])),
  );
  return {
    ends: live.flatMap(({ workflow_id, step, item, job_id, run_id }) =>
      job_id !== null && runs.has(run_id ?? '') ? [{ workflow_id, step, item, job_id }] : [],
    ),
    parents: live.flatMap(({ workflow_id, child_id }) => (within.has(child_id ?? '') ? [workflow_id] : [])),
    next: from.map(
      ({ segment }) => live.find((row) => row.segment === segment && row.place === perSegment) ?? startOf(segment),
    ),
  };
}

export function startOf(segment: number): LookedAt {
  return { segment, workflow_id: '00000000-0000-0000-0000-000000000000', step: '', item: -1 };
}

async function endedRuns(db: Queryable, ids: readonly string[]): Promise<Set<string>> {
  if (ids.length === 0) return new Set();
  const rows = await db.query<{ run_id: string }>(sql`
    select e.run_id
    from unnest(${int2s(ids, segmentOf)}::smallint[], ${uuids(ids, (id) => id)}::uuid[]) i (segment, run_id)
    join punctual.ended_runs e using (segment, run_id)`);
  return new Set(rows.map((row) => row.run_id));
}

async function endedWorkflows(db: Queryable, ids: readonly string[]): Promise<Set<string>> {
  if (ids.length === 0) return new Set();
  const rows = await db.query<{ workflow_id: string }>(sql`
    select w.workflow_id
    from unnest(${int2s(ids, segmentOf)}::smallint[], ${uuids(ids, (id) => id)}::uuid[]) i (segment, workflow_id)
    join punctual.workflows w using (segment, workflow_id)
    where w.ended_at is not null`);
  return new Set(rows.map((row) => row.workflow_id));
}

/** Workflows with a wait whose time is over, so many of each segment. */
export async function findExpired(db: Queryable, segments: readonly number[], perSegment: number): Promise<string[]> {
  const rows = await db.query<{ workflow_id: string }>(sql`
    select distinct e.workflow_id
    from unnest(${segments}::smallint[]) g (segment)
    cross join lateral (
      select s.workflow_id
      from punctual.workflow_steps s
      where s.segment = g.segment and s.expires_at is not null and s.outcome is null and s.expires_at <= now()
      order by s.expires_at
      limit ${perSegment}::integer
    ) e`);
  return rows.map((row) => row.workflow_id);
}
