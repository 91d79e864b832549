// Searching jobs, newest first, in bounded steps (see runs.ts for how a page ends at a horizon). Jobs that still have
// something to do are found from their live runs, which are few, not from all jobs ever made.
import { type Job, type JobQuery, limits } from '@punctual/contract';
import { firstRunId, lowestIdAt } from '../base/ids.ts';
import type { Queryable } from './database.ts';
import { type JobRow, jobColumns, toJob } from './jobs.ts';
import { lower, type Page, toPage } from './runs.ts';
import { type Fragment, join, part, sql } from './sql.ts';

export type JobFilter = Omit<JobQuery, 'limit' | 'cursor'>;

export async function listJobs(
  db: Queryable,
  filter: JobFilter,
  page: { below: string | null; limit: number; segments: readonly number[] },
): Promise<Page<Job>> {
  const filters = filtersOf(filter);
  const below = lower(
    page.below,
    filter.created_before === undefined ? null : lowestIdAt(Date.parse(filter.created_before)),
  );
  const from = lowestIdAt(filter.created_after === undefined ? 0 : Date.parse(filter.created_after));
  const perSegment =
    filters.length === 0 ? page.limit + 1 : Math.max(page.limit + 1, Math.ceil(limits.max_scan / page.segments.length));
  const live = filter.status === 'pending' || filter.status === 'SCHEDULED' || filter.status === 'PAUSED';
  const candidates = live ? liveJobs({ below, from, perSegment }) : allJobs({ below, from, perSegment });
  const rows = await db.query<JobRow & { horizon: string | null }>(sql`
    with looked_at as materialized (
      select s.segment, c.job_id
      from unnest(${page.segments}::smallint[]) s (segment)
      cross join lateral (${candidates}) c
    ),
    horizon as (
      select max(lowest)::uuid as job_id
      from (
        select min(job_id::text) as lowest
        from looked_at
        group by segment
        having count(*) >= ${perSegment}
      ) stopped
    ),
    matched as (
      select *
      from (
        select ${jobColumns}
        from (select l.segment, l.job_id from looked_at l order by l.job_id desc) newest_first
        join punctual.jobs j using (segment, job_id)
        where j.job_id >= coalesce((select h.job_id from horizon h), '00000000-0000-0000-0000-000000000000')
      ) j
      where ${join(filters, ' and ', part`true`)}
      order by j.job_id desc
      limit ${page.limit + 1}
    )
    select h.job_id as horizon, m.*
    from horizon h
    left join matched m on true
    order by m.job_id desc`);
  const found = rows.filter((row) => row.job_id !== null).map(toJob);
  return toPage(found, { limit: page.limit, horizon: rows[0]?.horizon ?? null, idOf: (job) => job.job_id });
}

interface Span {
  below: string;
  from: string;
  perSegment: number;
}

function allJobs({ below, from, perSegment }: Span): Fragment {
  return part`
    select j.job_id
    from punctual.jobs j
    where j.segment = s.segment and j.job_id < ${below} and j.job_id >= ${from}
    order by j.job_id desc
    limit ${perSegment}`;
}

/** Jobs with a run that has not ended. First runs sort like their jobs; the other runs have an index by job. */
function liveJobs({ below, from, perSegment }: Span): Fragment {
  const runBelow = firstRunId(below);
  const pieces = [part`punctual.waiting`, part`punctual.ready`, part`punctual.running`].flatMap((table) => [
    part`(select r.job_id from ${table} r
          where r.segment = s.segment and r.run_id < ${runBelow} and r.run_id >= ${from} and r.cause = 'submit'
          order by r.run_id desc limit ${perSegment})`,
    part`(select r.job_id from ${table} r
          where r.segment = s.segment and r.job_id < ${below} and r.job_id >= ${from} and r.cause <> 'submit'
          order by r.job_id desc limit ${perSegment})`,
  ]);
  return part`
    select distinct u.job_id
    from (${join(pieces, ' union all ', part``)}) u
    order by u.job_id desc
    limit ${perSegment}`;
}

function filtersOf(filter: JobFilter): Fragment[] {
  const { status, user_id, type, queue, name, tag, q } = filter;
  return [
    ...(status === undefined
      ? []
      : [status === 'pending' ? part`j.status in ('SCHEDULED', 'PAUSED')` : part`j.status = ${status}`]),
    ...(user_id === undefined ? [] : [part`j.user_id = ${user_id}`]),
    ...(type === undefined ? [] : [part`j.type = ${type}`]),
    ...(queue === undefined ? [] : [part`j.queue = ${queue}`]),
    ...(name === undefined ? [] : [part`j.name = ${name}`]),
    ...(tag === undefined ? [] : [part`${tag} = any (j.tags)`]),
    ...(q === undefined
      ? []
      : [part`(strpos(lower(j.name), lower(${q})) > 0 or strpos(lower(j.payload), lower(${q})) > 0)`]),
  ];
}
