// What jobs wait for: written with the job, looked up by whoever creates one, and read for people. How needs are settled
// is in unblock.ts.
//
// A need has two rows. `needs`, in the child's segment, says how the condition stands: it is the truth by which the child
// is judged. `dependents`, in the parent's segment, says whom the end of that run concerns: it is how they are found.
import { type Dependency, limits, type NeedCondition, type NeedState, type RunStatus } from '@punctual/contract';
import { groupBySegment, kindOf, segmentOf } from '../base/ids.ts';
import type { FoundParent } from '../rules/dependency.ts';
import { int2s, texts, uuids } from './arrays.ts';
import type { Queryable } from './database.ts';
import { firstRunOfJob } from './jobs.ts';
import { type Fragment, part, sql } from './sql.ts';

export interface NewNeed {
  job_id: string;
  parent_run_id: string;
  on: NeedCondition;
  place: number;
}

/** Parts of the statement that creates jobs: what the jobs of `input` need. Rows that do not fit `which` are left out. */
export function insertNeeds(needs: readonly (NewNeed & { submission: string | null })[], which: Fragment): Fragment {
  return part`
    need as materialized (
      select i.*
      from unnest(
        ${int2s(needs, (need) => segmentOf(need.job_id))}::smallint[], ${uuids(needs, (need) => need.job_id)}::uuid[],
        ${int2s(needs, (need) => segmentOf(need.parent_run_id))}::smallint[], ${uuids(needs, (need) => need.parent_run_id)}::uuid[],
        ${texts(needs, (need) => need.on)}::text[], ${int2s(needs, (need) => need.place)}::smallint[],
        ${uuids(needs, (need) => need.submission)}::uuid[])
        as i (segment, job_id, parent_segment, parent_run_id, on_condition, place, submission)
      ${which}
    ),
    needed as (
      insert into punctual.needs (segment, job_id, parent_run_id, place, on_condition)
      select segment, job_id, parent_run_id, place, on_condition::punctual.need_condition
      from need
    ),
    concerned as (
      insert into punctual.dependents (segment, run_id, job_id, on_condition)
      select parent_segment, parent_run_id, job_id, on_condition::punctual.need_condition
      from need
    ),
    blocked as (
      insert into punctual.waiting (segment, run_id, job_id, lane_id, attempts, cause, reason, scheduled_for, due_at, wake_at)
      select segment, run_id, job_id, lane_id, 0, 'submit', 'dependency', due_at, due_at, 'infinity'
      from input
      where blocked = 1
    ),`;
}

/** Jobs and runs by the ids they were asked for under; of a job its latest run. Those that do not exist are left out. */
export async function findParents(
  db: Queryable,
  named: { jobs: ReadonlySet<string>; runs: ReadonlySet<string> },
  segments: number,
): Promise<Map<string, FoundParent>> {
  const found = new Map<string, FoundParent>();
  const jobIds = [...named.jobs].filter((id) => kindOf(id) === 'job' && segmentOf(id) < segments);
  const runIds = [...named.runs].filter((id) => kindOf(id)?.endsWith('run') && segmentOf(id) < segments);
  for (const [segment, ids] of groupBySegment(jobIds, (id) => id))
    for (const { id, ...parent } of await findJobParents(db, segment, ids)) found.set(id, parent);
  // Retention may have removed all runs of a job that it keeps for another reason.
  for (const [segment, parents] of groupBySegment([...found], ([, parent]) => parent.run_id)) {
    const there = new Set(
      (
        await runsById(
          db,
          segment,
          parents.map(([, parent]) => parent.run_id),
        )
      ).map((run) => run.run_id),
    );
    for (const [id, parent] of parents) if (!there.has(parent.run_id)) found.delete(id);
  }
  for (const [segment, ids] of groupBySegment(runIds, (id) => id))
    for (const { id, ...parent } of await findRunParents(db, segment, ids)) found.set(id, parent);
  return found;
}

type FoundRow = FoundParent & { id: string };

const isRecurring = part`j.schedule_type in ('CRON', 'INTERVAL') as recurring`;

async function findJobParents(db: Queryable, segment: number, ids: readonly string[]): Promise<FoundRow[]> {
  return db.query<FoundRow>(sql`
    select j.job_id as id, j.user_id, ${isRecurring}, greatest(
      ${firstRunOfJob}::text,
      (select r.run_id::text from punctual.waiting r where r.segment = j.segment and r.job_id = j.job_id and r.cause <> 'submit' order by r.run_id desc limit 1),
      (select r.run_id::text from punctual.ready r where r.segment = j.segment and r.job_id = j.job_id and r.cause <> 'submit' order by r.run_id desc limit 1),
      (select r.run_id::text from punctual.running r where r.segment = j.segment and r.job_id = j.job_id and r.cause <> 'submit' order by r.run_id desc limit 1),
      (select r.run_id::text from punctual.ended_runs r where r.segment = j.segment and r.job_id = j.job_id and r.cause <> 'submit' order by r.run_id desc limit 1)
    ) as run_id
    from punctual.jobs j
    where j.segment = ${segment}::smallint and j.job_id = any (${uuids(ids, (id) => id)}::uuid[])`);
}

async function findRunParents(db: Queryable, segment: number, ids: readonly string[]): Promise<FoundRow[]> {
  const runs = await runsById(db, segment, ids);
  const jobs = await db.query<{ job_id: string; user_id: string | null; recurring: boolean }>(sql`
    select j.job_id, j.user_id, ${isRecurring}
    from punctual.jobs j
    where j.segment = ${segment}::smallint and j.job_id = any (${uuids(runs, (run) => run.job_id)}::uuid[])`);
  const byId = new Map(jobs.map((job) => [job.job_id, job]));
  return runs.flatMap(({ run_id, job_id }) => {
    const job = byId.get(job_id);
    return job === undefined ? [] : [{ id: run_id, run_id, user_id: job.user_id, recurring: job.recurring }];
  });
}

async function runsById(
  db: Queryable,
  segment: number,
  ids: readonly string[],
): Promise<{ run_id: string; job_id: string; status: RunStatus }[]> {
  const these = part`r.segment = ${segment}::smallint and r.run_id = any (${uuids(ids, (id) => id)}::uuid[])`;
  return db.query(sql`
    select r.run_id, r.job_id, case when r.reason = 'dependency' then 'BLOCKED' else 'QUEUED' end as status from punctual.waiting r where ${these}
    union all select r.run_id, r.job_id, 'QUEUED' from punctual.ready r where ${these}
    union all select r.run_id, r.job_id, 'RUNNING' from punctual.running r where ${these}
    union all select r.run_id, r.job_id, r.status::text from punctual.ended_runs r where ${these}`);
}

interface NeedRow {
  parent_run_id: string;
  on: NeedCondition;
  state: NeedState;
}

/** What a job depends on, in the order in which it was given. */
export async function listNeeds(db: Queryable, jobId: string): Promise<Dependency[]> {
  const rows = await db.query<NeedRow>(sql`
    select parent_run_id, on_condition::text as on, state::text as state
    from punctual.needs
    where segment = ${segmentOf(jobId)}::smallint and job_id = ${jobId}
    order by place`);
  const parents = new Map<string, { job_id: string; status: RunStatus }>();
  for (const [segment, ids] of groupBySegment(new Set(rows.map((row) => row.parent_run_id)), (id) => id))
    for (const { run_id, ...parent } of await runsById(db, segment, ids)) parents.set(run_id, parent);
  return rows.map(({ parent_run_id, on, state }) => {
    const { job_id = null, status = null } = parents.get(parent_run_id) ?? {};
    return { run_id: parent_run_id, job_id, on, state, status };
  });
}

/** Some of the runs that a blocked run of this job waits for. */
export async function listPendingNeeds(db: Queryable, jobId: string): Promise<{ run_id: string; on: NeedCondition }[]> {
  return db.query(sql`
    select parent_run_id as run_id, on_condition::text as on
    from punctual.needs
    where segment = ${segmentOf(jobId)}::smallint and job_id = ${jobId} and state = 'pending'
    order by place
    limit ${limits.max_waits_for}`);
}
