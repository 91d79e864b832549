// What an operation acts on: the jobs or runs of one segment that fit its filter, in the order of their ids, so the
// oldest first. A look costs at most `limit` rows; the next one begins after the last id of this one.
//
// Only what existed when the operation began is meant. Ids tell when a thing was made, by the clock of whoever made it:
// the walk ends a minute beyond the begin, and the database's own times then decide, where it has written them.
import { firstRunId, lowestIdAt } from '../base/ids.ts';
import { actsOn, type PreparedOperation } from '../rules/operation.ts';
import type { Queryable } from './database.ts';
import { jobConditions, laneConditions, textIn, textInJob } from './filters.ts';
import { type Fragment, join, part, sql } from './sql.ts';

export interface Search extends Pick<PreparedOperation, 'action' | 'filter'> {
  /** When the operation began, as the database wrote it, and in ms since 1970. */
  started_at: string;
  started_ms: number;
}

export interface Look {
  looked_at: number;
  /** The last id that was looked at; null when there is nothing more in this segment. */
  last: string | null;
  /** Those that fit. */
  ids: string[];
}

/** How far ids may be ahead of the database's clock; the API refuses chosen ones that are further. */
const aheadMs = 60_000;

interface Span {
  segment: number;
  after: string;
  from: string;
  below: string;
  limit: number;
}

export async function findItems(
  db: Queryable,
  search: Search,
  { segment, after, limit }: { segment: number; after: string; limit: number },
): Promise<Look> {
  const { created_after, created_before } = search.filter;
  const until = search.started_ms + aheadMs;
  const from = lowestIdAt(created_after === undefined ? 0 : Date.parse(created_after));
  const below = lowestIdAt(created_before === undefined ? until : Math.min(until, Date.parse(created_before)));
  const span = { segment, after, from, below, limit };
  const ofJobs = actsOn(search.action, search.filter) === 'jobs';
  const rows = await db.query<{ looked_at: number; last: string | null; ids: string[] }>(sql`
    with looked_at as materialized (
      select c.*
      from (${ofJobs ? liveJobs(span) : runs(search, span)}) c
      order by c.id
      limit ${limit}::integer
    ),
    fitting as (${ofJobs ? fittingJobs(search, segment) : fittingRuns(search, segment)})
    select (select count(*)::integer from looked_at) as looked_at,
           (select k.id from looked_at k order by k.id desc limit 1) as last,
           array(select f.id::text from fitting f order by f.id) as ids`);
  const { looked_at = 0, last = null, ids = [] } = rows[0] ?? {};
  return { looked_at, last: looked_at < limit ? null : last, ids };
}

/** Jobs with a run that has not ended, or with times to come. First runs sort like their jobs; the others have an index by job. */
function liveJobs({ segment, after, from, below, limit }: Span): Fragment {
  const pieces = [part`punctual.waiting`, part`punctual.ready`, part`punctual.running`].flatMap((table) => [
    part`(select r.job_id from ${table} r
          where r.segment = ${segment}::smallint and r.run_id > ${firstRunId(after)} and r.run_id >= ${from} and r.run_id < ${below}
            and r.cause = 'submit'
          order by r.run_id limit ${limit}::integer)`,
    part`(select r.job_id from ${table} r
          where r.segment = ${segment}::smallint and r.job_id > ${after} and r.job_id >= ${from} and r.job_id < ${below}
            and r.cause <> 'submit'
          order by r.job_id limit ${limit}::integer)`,
  ]);
  pieces.push(part`(select r.job_id from punctual.schedules r
          where r.segment = ${segment}::smallint and r.job_id > ${after} and r.job_id >= ${from} and r.job_id < ${below} and not r.ended
          order by r.job_id limit ${limit}::integer)`);
  return part`select distinct u.job_id as id from (${join(pieces, ' union all ', part``)}) u`;
}

function fittingJobs({ filter, started_at }: Search, segment: number): Fragment {
  const conditions = [
    ...laneConditions(filter, 'j'),
    ...jobConditions(filter),
    ...textInJob(filter.q),
    ...(filter.status === undefined
      ? []
      : [filter.status === 'PAUSED' ? part`j.paused_at is not null` : part`j.paused_at is null`]),
  ];
  return part`
      select j.job_id as id
      from looked_at k
      join punctual.jobs j on j.segment = ${segment}::smallint and j.job_id = k.id
      where j.cancelled_at is null and j.created_at <= ${started_at}::timestamptz and ${join(conditions, ' and ', part`true`)}`;
}

/** Runs in the states that the action can do something to, each under the same names. */
function runs({ action, filter: { status }, started_at, started_ms }: Search, span: Span): Fragment {
  const { segment, after, from, below, limit } = span;
  // A further run is no older than its id; the first one is as old as its job.
  const existed = part`(r.cause = 'submit' or r.run_id < ${lowestIdAt(started_ms + 1)}) as existed`;
  const walk = part`r.segment = ${segment}::smallint and r.run_id > ${after} and r.run_id >= ${from} and r.run_id < ${below}`;
  const next = part`order by r.run_id limit ${limit}::integer`;
  const waiting = part`(select r.run_id as id, r.job_id, r.lane_id, r.reason::text as reason, null::text as error, false as failed, ${existed}
    from punctual.waiting r where ${walk} ${next})`;
  const ready = part`(select r.run_id as id, r.job_id, r.lane_id, null::text as reason, null::text as error, false as failed, ${existed}
    from punctual.ready r where ${walk} ${next})`;
  const running = part`(select r.run_id as id, r.job_id, r.lane_id, null::text as reason, null::text as error, false as failed, ${existed}
    from punctual.running r where ${walk} ${next})`;
  const letters = part`(select r.run_id as id, r.job_id, r.lane_id, r.reason, r.error, true as failed, r.failed_at <= ${started_at}::timestamptz as existed
    from punctual.dead_letters r where ${walk} and r.redriven_at is null ${next})`;
  if (action === 'cancel') return status === 'RUNNING' ? running : join([waiting, ready], ' union all ', part``);
  const some = [
    ...(status === 'FAILED' || action === 'redrive' ? [] : [waiting]),
    ...(status === 'QUEUED' ? [] : [letters]),
  ];
  return join(some, ' union all ', part``);
}

function fittingRuns({ action, filter, started_at }: Search, segment: number): Fragment {
  const conditions = [
    ...laneConditions(filter, 'l'),
    ...jobConditions(filter),
    ...(action === 'cancel' ? textInJob(filter.q) : textIn(lastError(segment), filter.q)),
    ...(filter.reason === undefined ? [] : [part`k.reason = ${filter.reason}`]),
    // Of those that wait, only the ones that wait for their next attempt.
    ...(action === 'cancel' ? [] : [part`(k.failed or k.reason = 'retry')`]),
  ];
  return part`
      select k.id
      from looked_at k
      join punctual.jobs j on j.segment = ${segment}::smallint and j.job_id = k.job_id
      join punctual.lanes l on l.lane_id = k.lane_id
      where k.existed and j.created_at <= ${started_at}::timestamptz and ${join(conditions, ' and ', part`true`)}`;
}

/** Of a dead letter its own; of a run that waits, that of its last attempt. */
function lastError(segment: number): Fragment {
  return part`coalesce(k.error, (
        select a.error
        from punctual.attempts a
        where a.segment = ${segment}::smallint and a.run_id = k.id
        order by a.ended_at desc
        limit 1))`;
}
