// What piles up around recurring jobs and dependencies goes after the runs it speaks of: times in the ledger, backfills and
// workflows that have ended, and the memory of ends that jobs were told of. A page of one segment at a time. With `foreseen`, nothing is
// removed but counted, as if all runs that go had gone.
import type { RetentionPolicy } from '@punctual/contract';
import { artifactsOf } from '../rules/artifacts.ts';
import { uuids } from './arrays.ts';
import { dropRefs } from './artifact_refs.ts';
import { countSegments } from './artifacts.ts';
import type { Database, Queryable } from './database.ts';
import { found, hasEnded, isThere, type Place } from './history.ts';
import { keptFrom, removing, runsDays, runsOver } from './retention.ts';
import { type Fragment, part, sql } from './sql.ts';

export interface PageOptions {
  policy: RetentionPolicy;
  /** Count only. */
  foreseen: boolean;
}

export interface RemovedPage {
  removed: number;
  next: Place | null;
}

const pageJobs = 50;
/** Of one job in one page; a job with more is looked at again. */
const maxTimes = 1000;
const pageRows = 1000;

const inTransaction = <T>(db: Database, foreseen: boolean, work: (db: Queryable) => Promise<T>): Promise<T> =>
  foreseen ? work(db) : removing(db, work);

/** Times of the ledger that are over and whose run is gone, or that made none. */
export async function pruneLedger(
  db: Database,
  { segment, after }: Place,
  { policy, foreseen }: PageOptions,
): Promise<RemovedPage> {
  const limit = foreseen ? part`` : part`limit ${maxTimes}::integer`;
  const rows = await inTransaction(db, foreseen, (tx) =>
    tx.query<{ removed: number; jobs: number; most: number; last: string | null }>(sql`
      with page as materialized (
        select j.segment, j.job_id, ${keptFrom(runsDays(part`j`, policy))} as kept_from
        from punctual.jobs j
        where j.segment = ${segment}::smallint and j.schedule_type in ('CRON', 'INTERVAL') and j.job_id > ${after}
        order by j.job_id
        limit ${pageJobs}::integer
      ),
      over as materialized (
        select o.*
        from page p
        cross join lateral (
          select t.segment, t.job_id, t.scheduled_for, p.kept_from
          from punctual.occurrences t
          where t.segment = p.segment and t.job_id = p.job_id and t.scheduled_for < p.kept_from and t.through < p.kept_from
            and (t.run_id is null or not ${isThere(part`t`, part`t.run_id`, foreseen ? policy : null)})
          order by t.scheduled_for
          ${limit}
        ) o
      ),
      ${foreseen ? part`removed as (select 1 from over)` : removeTimes(segment)}
      select (select count(*) from removed)::integer as removed, count(*)::integer as jobs, max(job_id::text) as last,
             coalesce((select max(n) from (select count(*) as n from over group by job_id) c), 0)::integer as most
      from page`),
  );
  const { removed = 0, jobs = 0, most = 0, last = null } = rows[0] ?? {};
  if (!foreseen && most >= maxTimes) return { removed, next: { segment, after } };
  return { removed, next: jobs < pageJobs || last === null ? null : { segment, after: last } };
}

/** The ledger of their jobs is complete from there on only. */
function removeTimes(segment: number): Fragment {
  return part`
      removed as (
        delete from punctual.occurrences t
        using over o
        where t.segment = ${segment}::smallint and t.job_id = o.job_id and t.scheduled_for = o.scheduled_for
        returning 1
      ),
      shortened as (
        update punctual.schedules s
        set ledger_from = greatest(s.ledger_from, o.kept_from)
        from (select distinct job_id, kept_from from over) o
        where s.segment = ${segment}::smallint and s.job_id = o.job_id
      )`;
}

/** Backfills that have ended, once none of their runs is left. Their times go with them. */
export async function pruneBackfills(
  db: Database,
  { segment, after }: Place,
  { policy, foreseen }: PageOptions,
): Promise<RemovedPage> {
  const runs = part`ended.segment = b.segment and ended.job_id = b.job_id and ended.cause <> 'submit' and ended.cause = 'backfill'
            and exists (select from punctual.backfill_times t where t.segment = b.segment and t.run_id = ended.run_id and t.backfill_id = b.backfill_id)`;
  return inTransaction(db, foreseen, async (tx) => {
    const page = await tx.query<{ backfill_id: string; goes: boolean }>(sql`
      select b.backfill_id, b.ended_at is not null and ${runsOver(part`j`, part`b.ended_at`, policy)}
             and not ${hasEnded(runs, foreseen ? policy : null)} as goes
      from (
        select *
        from punctual.backfills
        where segment = ${segment}::smallint and backfill_id > ${after}
        order by backfill_id
        limit ${pageJobs}::integer
      ) b
      join punctual.jobs j using (segment, job_id)
      order by b.backfill_id`);
    const going = page.filter(({ goes }) => goes);
    if (!foreseen && going.length > 0)
      await tx.query(sql`
        with gone as (
          delete from punctual.backfills
          where segment = ${segment}::smallint and backfill_id = any (${uuids(going, (row) => row.backfill_id)}::uuid[])
          returning backfill_id
        )
        delete from punctual.backfill_times
        where segment = ${segment}::smallint and backfill_id = any (array(select backfill_id from gone))`);
    const last = page.at(-1)?.backfill_id;
    return {
      removed: going.length,
      next: page.length < pageJobs || last === undefined ? null : { segment, after: last },
    };
  });
}

/** What is remembered of jobs that were told of the end of runs that are gone. */
export async function pruneDependents(
  db: Database,
  { segment, after }: Place,
  { policy, foreseen }: PageOptions,
): Promise<RemovedPage> {
  const beyond = 'ffffffff-ffff-ffff-ffff-ffffffffffff';
  const which = part`d.segment = ${segment}::smallint and d.run_id > ${after} and d.run_id <= (select p.id from page_end p)
          and d.told and d.was is null and not ${isThere(part`d`, part`d.run_id`, foreseen ? policy : null)}`;
  const gone = foreseen
    ? part`select 1 from punctual.dependents d where ${which}`
    : part`delete from punctual.dependents d where ${which} returning 1`;
  const rows = await inTransaction(db, foreseen, (tx) =>
    tx.query<{ removed: number; last: string }>(sql`
      with page_end as materialized (
        select coalesce((
          select e.run_id
          from punctual.dependents e
          where e.segment = ${segment}::smallint and e.run_id > ${after}
          order by e.run_id
          offset ${pageRows - 1}::integer limit 1), ${beyond}) as id
      ),
      gone as (${gone})
      select (select count(*) from gone)::integer as removed, p.id as last
      from page_end p`),
  );
  const { removed = 0, last = beyond } = rows[0] ?? {};
  return { removed, next: last === beyond ? null : { segment, after: last } };
}

/**
 * Workflows that have ended longer ago than runs are kept, with their steps. One within another goes after that one. Whoever
 * retries one locks its row, so either it is passed by here, or they find none.
 */
export async function pruneWorkflows(
  db: Database,
  { segment, after }: Place,
  { policy, foreseen }: PageOptions,
): Promise<RemovedPage> {
  if (policy.runs_days === 0) return { removed: 0, next: null };
  const rows = await inTransaction(db, foreseen, async (tx) => {
    const pages = await tx.query<RemovedWorkflows>(sql`
      with page as materialized (
        select w.workflow_id, w.parent_id, w.ended_at
        from punctual.workflows w
        where w.segment = ${segment}::smallint and w.workflow_id > ${after}
        order by w.workflow_id
        limit ${pageRows}::integer
      ),
      over as materialized (
        select w.workflow_id
        from punctual.workflows w
        join page p using (workflow_id)
        where w.segment = ${segment}::smallint and p.ended_at < now() - ${policy.runs_days}::integer * interval '1 day'
          and not ${found(part`from punctual.workflows o where o.segment = ${segment}::smallint and o.workflow_id = p.parent_id`)}
        ${foreseen ? part`` : part`for update of w skip locked`}
      )
      ${foreseen ? part`` : removeWorkflows(segment)}
      select (select count(*) from over)::integer as removed, count(*)::integer as looked, max(workflow_id::text) as last,
             ${foreseen ? part`'[]'::jsonb` : part`(select coalesce(jsonb_agg(jsonb_build_object('owner_id', r.workflow_id, 'definition', r.definition)), '[]') from removed r where strpos(r.definition, '"binary"') > 0)`} as binaries
      from page`);
    const refs = (pages[0]?.binaries ?? []).flatMap(({ owner_id, definition }) =>
      artifactsOf(definition).map((sha256) => ({ owner_id, sha256 })),
    );
    if (refs.length > 0) await dropRefs(tx, refs, await countSegments(tx));
    return pages;
  });
  const { removed = 0, looked = 0, last = null } = rows[0] ?? {};
  return { removed, next: looked < pageRows || last === null ? null : { segment, after: last } };
}

interface RemovedWorkflows {
  removed: number;
  looked: number;
  last: string | null;
  /** Those that may have needed artifacts. */
  binaries: { owner_id: string; definition: string }[];
}

function removeWorkflows(segment: number): Fragment {
  return part`,
      steps as (
        delete from punctual.workflow_steps
        where segment = ${segment}::smallint and workflow_id in (select o.workflow_id from over o)
      ),
      removed as (
        delete from punctual.workflows
        where segment = ${segment}::smallint and workflow_id in (select o.workflow_id from over o)
        returning workflow_id, definition
      )`;
}
