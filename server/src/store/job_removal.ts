// Removes jobs that have nothing left: one-time jobs all of whose runs retention has removed. A recurring job is never
// removed, nor one that is paused, has a dead letter, is a step of a workflow that is there, or whose unique key names it.
//
// Candidates are found by their ids, which are in the order of time, and looked at without a lock. Then their rows are
// locked and looked at once more: whoever gives a job another run (run now, redrive, revive) locks its row first, so either
// it is passed by here, or they find no job.
import type { RetentionPolicy } from '@punctual/contract';
import { groupBySegment } from '../base/ids.ts';
import { artifactsOf } from '../rules/artifacts.ts';
import { uuids } from './arrays.ts';
import { dropRefs } from './artifact_refs.ts';
import { countSegments } from './artifacts.ts';
import type { Database, Queryable } from './database.ts';
import { found, hasEnded, isLive, isWorkflowOf, type Place, stays } from './history.ts';
import { firstRunOf, firstRunOfJob } from './jobs.ts';
import { removing, runsOver } from './retention.ts';
import { type Fragment, join, part, sql } from './sql.ts';

/** A page looks at so many jobs. */
const pageJobs = 1000;

export interface SpentJobs {
  job_ids: string[];
  next: Place | null;
}

/** Jobs of a page, all below an id, that have nothing left. With `foreseen`, runs that are about to go count as gone. */
export async function findSpent(
  db: Queryable,
  { segment, after }: Place,
  below: string,
  { policy, foreseen }: { policy: RetentionPolicy; foreseen: boolean },
): Promise<SpentJobs> {
  const counts = foreseen ? policy : null;
  const rows = await db.query<{ job_ids: string[]; last: string }>(sql`
    with page_end as materialized (
      select coalesce((
        select e.job_id
        from punctual.jobs e
        where e.segment = ${segment}::smallint and e.job_id > ${after} and e.job_id < ${below}
        order by e.job_id
        offset ${pageJobs - 1}::integer limit 1), ${below}) as id
    ),
    page as materialized (
      select j.*
      from punctual.jobs j
      where j.segment = ${segment}::smallint and j.job_id > ${after} and j.job_id < ${below} and j.job_id <= (select p.id from page_end p)
        and ${isOneTime} and ${runsOver(part`j`, part`j.created_at`, policy)}
    ),
    -- Ids of first runs lie among those of their jobs: one range of each day, instead of a look for each job.
    first as materialized (
      select ended.run_id
      from punctual.ended_runs ended
      where ended.segment = ${segment}::smallint and ended.run_id > ${after} and ended.run_id <= ${firstRunOf(part`(select p.id from page_end p)`)}
        ${stays(part`ended`, counts)}
    )
    select coalesce(array_agg(j.job_id::text order by j.job_id), '{}') as job_ids, (select p.id from page_end p) as last
    from page j
    where ${firstRunOfJob} not in (select f.run_id from first f)
      and not ${hasEnded(part`ended.segment = j.segment and ended.job_id = j.job_id and ended.cause <> 'submit'`, counts)}
      and not ${isBound}`);
  const { job_ids = [], last = below } = rows[0] ?? {};
  return { job_ids, next: last === below ? null : { segment, after: last } };
}

/** Removes those of the jobs of one segment that still have nothing left, with what they depended on; answers how many. */
export async function removeSpent(db: Database, segment: number, jobIds: readonly string[]): Promise<number> {
  return removing(db, async (tx) => {
    const locked = await tx.query<{ job_id: string }>(sql`
      select job_id
      from punctual.jobs
      where segment = ${segment}::smallint and job_id = any (${uuids(jobIds, (id) => id)}::uuid[])
      order by job_id
      for update skip locked`);
    const spent = await tx.query<{ job_id: string }>(sql`
      select j.job_id
      from punctual.jobs j
      where j.segment = ${segment}::smallint and j.job_id = any (${uuids(locked, (row) => row.job_id)}::uuid[])
        and ${isOneTime} and not ${isBound} and not ${hasEndedLately}`);
    if (spent.length === 0) return 0;
    const these = part`${uuids(spent, (row) => row.job_id)}::uuid[]`;
    const needs = await tx.query<{ job_id: string; parent_run_id: string }>(sql`
      delete from punctual.needs
      where segment = ${segment}::smallint and job_id = any (${these})
      returning job_id, parent_run_id`);
    for (const [parents, some] of groupBySegment(needs, (need) => need.parent_run_id))
      await tx.query(sql`
        delete from punctual.dependents d
        using unnest(${uuids(some, (need) => need.parent_run_id)}::uuid[], ${uuids(some, (need) => need.job_id)}::uuid[]) n (run_id, job_id)
        where d.segment = ${parents}::smallint and d.run_id = n.run_id and d.job_id = n.job_id`);
    const executors = await tx.query<{ owner_id: string; executor: string }>(sql`
      with gone as (
        delete from punctual.jobs
        where segment = ${segment}::smallint and job_id = any (${these})
        returning job_id, executor
      )
      select job_id as owner_id, executor from gone where strpos(executor, '"binary"') > 0`);
    const refs = executors.flatMap(({ owner_id, executor }) =>
      artifactsOf(executor).map((sha256) => ({ owner_id, sha256 })),
    );
    if (refs.length > 0) await dropRefs(tx, refs, await countSegments(tx));
    return spent.length;
  });
}

const isOneTime = part`(j.schedule_type in ('IMMEDIATE', 'FUTURE') and (j.paused_at is null or j.cancelled_at is not null))`;

/** Is there something but ended runs that keeps the job `j`? */
const isBound = part`(
    ${isLive(part`j.segment`, firstRunOfJob)}
    or ${join([part`punctual.waiting`, part`punctual.ready`, part`punctual.running`].map(hasFurther), ' or ', part``)}
    or ${found(part`from punctual.dead_letters d where d.segment = j.segment and d.job_id = j.job_id`)}
    or (j.workflow_id is not null and ${found(part`from punctual.workflows w where ${isWorkflowOf(part`j`)}`)})
    or ${found(part`from punctual.schedules s where s.segment = j.segment and s.job_id = j.job_id`)}
    or (j.unique_key is not null and ${found(part`
      from punctual.uniques u
      where u.segment = punctual.segment_of_key(coalesce(j.user_id, '') || ' ' || j.unique_key, (select i.segments from punctual.installation i))
        and u.user_id = coalesce(j.user_id, '') and u.key = j.unique_key and u.job_id = j.job_id`)}))`;

/** Has it a run in the table, other than its first? */
function hasFurther(table: Fragment): Fragment {
  return found(part`from ${table} r where r.segment = j.segment and r.job_id = j.job_id and r.cause <> 'submit'`);
}

/** Has it a run that ended so lately that it may have been made since it was found? */
const hasEndedLately = part`(
    ${hasEnded(part`ended.segment = j.segment and ended.run_id = ${firstRunOfJob} and ended.ended_at > now() - interval '1 day'`, null)}
    or ${hasEnded(part`ended.segment = j.segment and ended.job_id = j.job_id and ended.cause <> 'submit' and ended.ended_at > now() - interval '1 day'`, null)})`;
