// Removes jobs that have nothing left: one-time jobs all of whose runs retention has removed. A recurring job is never
// removed, nor one that is paused, has a dead letter, or whose unique key names it.
//
// Candidates are found by their ids, which are in the order of time, and looked at without a lock. Then their rows are
// locked and looked at once more: whoever gives a job another run (run now, redrive, revive) locks its row first, so either
// it is passed by here, or they find no job.
import type { RetentionPolicy } from '@punctual/contract';
import { groupBySegment } from '../base/ids.ts';
import { uuids } from './arrays.ts';
import type { Database, Queryable } from './database.ts';
import { hasEnded, type Place } from './history.ts';
import { firstRunOfJob, jobHasLiveRun } from './jobs.ts';
import { removing, runsOver } from './retention.ts';
import { type Fragment, part, sql } from './sql.ts';

/** A page looks at so many jobs. */
const pageJobs = 1000;
const beyond = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

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
  const rows = await db.query<{ job_ids: string[]; last: string }>(sql`
    with page_end as materialized (
      select coalesce((
        select e.job_id
        from punctual.jobs e
        where e.segment = ${segment}::smallint and e.job_id > ${after} and e.job_id < ${below}
        order by e.job_id
        offset ${pageJobs - 1}::integer limit 1), ${beyond}) as id
    )
    select coalesce(array_agg(j.job_id::text), '{}') as job_ids, (select p.id from page_end p) as last
    from punctual.jobs j
    where j.segment = ${segment}::smallint and j.job_id > ${after} and j.job_id < ${below} and j.job_id <= (select p.id from page_end p)
      and ${runsOver(part`j`, part`j.created_at`, policy)} and ${isSpent(foreseen ? policy : null)}`);
  const { job_ids = [], last = beyond } = rows[0] ?? {};
  return { job_ids, next: last === beyond ? null : { segment, after: last } };
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
      where j.segment = ${segment}::smallint and j.job_id = any (${uuids(locked, (row) => row.job_id)}::uuid[]) and ${isSpent(null)}`);
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
    await tx.query(sql`
      delete from punctual.jobs
      where segment = ${segment}::smallint and job_id = any (${these})`);
    return spent.length;
  });
}

/** Has the job `j` nothing left? */
function isSpent(policy: RetentionPolicy | null): Fragment {
  return part`(
    j.schedule_type in ('IMMEDIATE', 'FUTURE') and (j.paused_at is null or j.cancelled_at is not null)
    and not ${jobHasLiveRun}
    and not ${hasEnded(part`ended.segment = j.segment and ended.run_id = ${firstRunOfJob}`, policy)}
    and not ${hasEnded(part`ended.segment = j.segment and ended.job_id = j.job_id and ended.cause <> 'submit'`, policy)}
    and not exists (select from punctual.dead_letters d where d.segment = j.segment and d.job_id = j.job_id)
    and not exists (select from punctual.schedules s where s.segment = j.segment and s.job_id = j.job_id)
    and (j.unique_key is null or not exists (
      select from punctual.uniques u
      where u.segment = punctual.segment_of_key(coalesce(j.user_id, '') || ' ' || j.unique_key, (select i.segments from punctual.installation i))
        and u.user_id = coalesce(j.user_id, '') and u.key = j.unique_key and u.job_id = j.job_id)))`;
}
