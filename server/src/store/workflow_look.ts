// The safety net of workflows: ends of which nobody was told, because a server died, a worker was lost, a run was cancelled or
// dropped. Steps that are live are looked at in turn, so many of each segment a pass, wherever the last pass stopped.
import { segmentOf } from '../base/ids.ts';
import { int2s, uuids } from './arrays.ts';
import type { Queryable } from './database.ts';
import { type Fragment, part, sql } from './sql.ts';
import type { StepOfJob } from './workflow_steps.ts';

/** The run and the workflow within at which a pass stopped, of a segment. */
export interface LookedAt {
  segment: number;
  run_id: string;
  child_id: string;
}

export interface Untold {
  ends: StepOfJob[];
  /** Workflows of which one within has ended. */
  parents: string[];
  /** Where to go on; a segment that was read to its end starts anew. */
  next: LookedAt[];
}

interface LiveRow {
  segment: number;
  workflow_id: string;
  step: string;
  item: number;
  job_id: string;
  id: string;
}

export async function findUntold(db: Queryable, from: readonly LookedAt[], perSegment: number): Promise<Untold> {
  const live = await liveSteps(db, from, perSegment, part`run_id`);
  const within = await liveSteps(db, from, perSegment, part`child_id`);
  const runs = await endedRuns(
    db,
    live.map(({ id }) => id),
  );
  const workflows = await endedWorkflows(
    db,
    within.map(({ id }) => id),
  );
  const stoppedAt = (rows: readonly LiveRow[], segment: number): string => {
    const mine = rows.filter((row) => row.segment === segment);
    return mine.length < perSegment ? lowest : (mine.at(-1)?.id ?? lowest);
  };
  return {
    ends: live.filter(({ id }) => runs.has(id)),
    parents: within.filter(({ id }) => workflows.has(id)).map(({ workflow_id }) => workflow_id),
    next: from.map(({ segment }) => ({
      segment,
      run_id: stoppedAt(live, segment),
      child_id: stoppedAt(within, segment),
    })),
  };
}

const lowest = '00000000-0000-0000-0000-000000000000';

export function startOf(segment: number): LookedAt {
  return { segment, run_id: lowest, child_id: lowest };
}

/** The next live steps of each segment by the id of their run or of the workflow within. */
function liveSteps(db: Queryable, from: readonly LookedAt[], perSegment: number, id: Fragment): Promise<LiveRow[]> {
  return db.query<LiveRow>(sql`
    select l.*
    from unnest(
      ${int2s(from, (at) => at.segment)}::smallint[], ${uuids(from, (at) => at.run_id)}::uuid[],
      ${uuids(from, (at) => at.child_id)}::uuid[]) f (segment, run_id, child_id)
    cross join lateral (
      select s.segment, s.workflow_id, s.step, s.item, s.job_id, s.${id} as id
      from punctual.workflow_steps s
      where s.segment = f.segment and s.${id} is not null and s.outcome is null and s.${id} > f.${id}
      order by s.${id}
      limit ${perSegment}::integer
    ) l
    order by l.segment, l.id`);
}

async function endedRuns(db: Queryable, ids: readonly string[]): Promise<Set<string>> {
  if (ids.length === 0) return new Set();
  const rows = await db.query<{ run_id: string }>(sql`
    select i.run_id
    from unnest(${int2s(ids, segmentOf)}::smallint[], ${uuids(ids, (id) => id)}::uuid[]) i (segment, run_id)
    cross join lateral (
      select from punctual.ended_runs r where r.segment = i.segment and r.run_id = i.run_id limit 1
    ) ended`);
  return new Set(rows.map((row) => row.run_id));
}

async function endedWorkflows(db: Queryable, ids: readonly string[]): Promise<Set<string>> {
  if (ids.length === 0) return new Set();
  const rows = await db.query<{ workflow_id: string }>(sql`
    select i.workflow_id
    from unnest(${int2s(ids, segmentOf)}::smallint[], ${uuids(ids, (id) => id)}::uuid[]) i (segment, workflow_id)
    cross join lateral (
      select from punctual.workflows w
      where w.segment = i.segment and w.workflow_id = i.workflow_id and w.ended_at is not null
      limit 1
    ) ended`);
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
