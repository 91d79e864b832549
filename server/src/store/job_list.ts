// Searching jobs, newest first, in bounded steps (see pages.ts). Jobs that still have
// something to do are found from their live runs, which are few, not from all jobs ever made.
import type { Job, JobQuery } from '@punctual/contract';
import { firstRunId, lowestIdAt, segmentOf } from '../base/ids.ts';
import { segmentOfUserKey } from '../rules/segment.ts';
import { holds } from '../rules/unique.ts';
import type { Queryable } from './database.ts';
import { jobConditions, laneConditions, textInJob } from './filters.ts';
import { type JobRow, jobColumns, toJob } from './jobs.ts';
import { lower, type Page, type PageRequest, readPage, rowsPerSegment } from './pages.ts';
import { type Fragment, join, part } from './sql.ts';
import { namedJob, readHolders } from './uniques.ts';

export type JobFilter = Omit<JobQuery, 'limit' | 'cursor'>;

export async function listJobs(db: Queryable, filter: JobFilter, page: PageRequest): Promise<Page<Job>> {
  const filters = filtersOf(filter);
  const top = filter.created_before === undefined ? null : lowestIdAt(Date.parse(filter.created_before));
  const from = lowestIdAt(filter.created_after === undefined ? 0 : Date.parse(filter.created_after));
  // Of the candidates of this list nearly all fit: to look at more of them only costs.
  const fitAnyway = filter.status === 'pending' && filter.recurring === true ? 2 : 0;
  const live = filter.status === 'pending' || filter.status === 'SCHEDULED' || filter.status === 'PAUSED';
  const holder = filter.unique_key === undefined ? undefined : await findHolder(db, filter, page.segments.length);
  if (holder === null) return { items: [], below: null };
  return readPage<JobRow, Job>(db, page, (step) => {
    const perSegment = rowsPerSegment(step, filters.length > fitAnyway);
    const span = { below: lower(step.below, top), from, perSegment };
    return {
      id: 'job_id',
      perSegment,
      candidates: holder !== undefined ? oneJob(span, holder) : live ? liveJobs(span, filter.recurring) : allJobs(span),
      fitting: part`
        select *
        from (
          select ${jobColumns}
          from (select l.segment, l.job_id from looked_at l order by l.job_id desc) newest_first
          join punctual.jobs j using (segment, job_id)
          where ${marked(filter.status)}
        ) j
        where ${join(filters, ' and ', part`true`)}`,
      toItem: (row) => toJob(row),
    };
  });
}

/** The job that holds the key now. */
async function findHolder(db: Queryable, filter: JobFilter, segments: number): Promise<string | null> {
  const owned = { user_id: filter.user_id ?? '', key: filter.unique_key ?? '' };
  const jobId = await namedJob(db, { ...owned, segment: segmentOfUserKey(owned, segments) });
  if (jobId === null) return null;
  const holder = (await readHolders(db, [jobId])).get(jobId);
  return holder !== undefined && holds(holder) ? jobId : null;
}

function oneJob({ below, from }: Span, jobId: string): Fragment {
  return part`
    select s.segment, o.job_id
    from (select ${jobId}::uuid as job_id) o
    where s.segment = ${segmentOf(jobId)}::smallint and o.job_id < ${below} and o.job_id >= ${from}`;
}

interface Span {
  below: string;
  from: string;
  perSegment: number;
}

function allJobs({ below, from, perSegment }: Span): Fragment {
  return part`
    select j.segment, j.job_id
    from punctual.jobs j
    where j.segment = s.segment and j.job_id < ${below} and j.job_id >= ${from}
    order by j.job_id desc
    limit ${perSegment}`;
}

/**
 * Jobs with a run that has not ended, or with times to come. First runs sort like their jobs; the other runs have an index by
 * job. What was submitted to run once need not be looked at for recurring jobs, nor schedules for the others.
 */
function liveJobs({ below, from, perSegment }: Span, recurring: boolean | undefined): Fragment {
  const runBelow = firstRunId(below);
  const pieces = [part`punctual.waiting`, part`punctual.ready`, part`punctual.running`].flatMap((table) => [
    ...(recurring === true
      ? []
      : [
          part`(select r.job_id from ${table} r
          where r.segment = s.segment and r.run_id < ${runBelow} and r.run_id >= ${from} and r.cause = 'submit'
          order by r.run_id desc limit ${perSegment})`,
        ]),
    part`(select r.job_id from ${table} r
          where r.segment = s.segment and r.job_id < ${below} and r.job_id >= ${from} and r.cause <> 'submit'
          order by r.job_id desc limit ${perSegment})`,
  ]);
  if (recurring !== false)
    pieces.push(part`(select r.job_id from punctual.schedules r
          where r.segment = s.segment and r.job_id < ${below} and r.job_id >= ${from} and not r.ended
          order by r.job_id desc limit ${perSegment})`);
  return part`
    select distinct s.segment, u.job_id
    from (${join(pieces, ' union all ', part``)}) u
    order by u.job_id desc
    limit ${perSegment}`;
}

/** What the row of the job says of its status, before its runs are asked for the rest. */
function marked(status: JobFilter['status']): Fragment {
  if (status === undefined) return part`true`;
  if (status === 'CANCELLED') return part`j.cancelled_at is not null`;
  return part`j.cancelled_at is null ${status === 'PAUSED' ? part`and j.paused_at is not null` : part``}`;
}

function filtersOf(filter: JobFilter): Fragment[] {
  const { status } = filter;
  return [
    ...(status === undefined
      ? []
      : [status === 'pending' ? part`j.status in ('SCHEDULED', 'PAUSED')` : part`j.status = ${status}`]),
    ...(filter.recurring === undefined
      ? []
      : [part`(j.schedule_type in ('CRON', 'INTERVAL')) = ${filter.recurring}::boolean`]),
    ...laneConditions(filter, 'j'),
    ...jobConditions(filter),
    ...textInJob(filter.q),
  ];
}
