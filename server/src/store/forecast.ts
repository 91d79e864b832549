// What the forecast reads: schedules that have a time before its end, runs that wait for theirs, and how long runs took
// lately. Every statement looks at a bounded number of rows; the forecaster goes from page to page until its time is up.
import { segmentOf } from '../base/ids.ts';
import { int2s, uuids } from './arrays.ts';
import type { Queryable } from './database.ts';
import { epochMs, type Fragment, part, sql } from './sql.ts';

export interface ForecastFilter {
  queue?: string | undefined;
  type?: string | undefined;
  user_id?: string | undefined;
}

export interface ForecastRow {
  job_id: string;
  rule: string;
  fixed_delay: boolean;
  next_ms: string;
  runs_left: number | null;
  queue: string;
  type: string;
  user_id: string | null;
}

const at = (timeMs: number): Fragment => part`to_timestamp(${timeMs}::double precision / 1000)`;

/**
 * Schedules of a segment that have a next time, by id. Not by that time: many may share one. A page is chosen before jobs are
 * joined: else all schedules of the segment are joined for each page of them.
 */
export async function readForecast(
  db: Queryable,
  segment: number,
  { after, limit }: { after: string; limit: number },
): Promise<ForecastRow[]> {
  return db.query<ForecastRow>(sql`
    select s.job_id, s.rule, s.fixed_delay, ${epochMs(part`s.next_fire_at`)} as next_ms,
           s.max_runs - s.runs_made as runs_left, j.queue, j.type, j.user_id
    from (
      select *
      from punctual.schedules
      where segment = ${segment}::smallint and job_id > ${after} and next_fire_at is not null
      order by job_id
      limit ${limit}::integer
    ) s
    join punctual.jobs j using (segment, job_id)
    order by s.job_id`);
}

export interface WaitingCount {
  minute_ms: string;
  queue: string;
  type: string;
  runs: number;
  /** Of all these counts: the time after which there may be more; null when there are no more. */
  next_after: string | null;
}

/** Before a time in ms, with nothing between them: times are kept by the microsecond. */
export function justBefore(timeMs: number): string {
  return new Date(timeMs - 1).toISOString().replace('Z', '999Z');
}

/**
 * Runs of a segment that wait for a time after `after` and before `toMs`, by minute: the first `limit` of them, and all of the
 * last instant among these. Minutes in which the user has none are told too, so that the caller knows how far this came.
 */
export async function countWaiting(
  db: Queryable,
  segment: number,
  { after, toMs, limit, user_id }: { after: string; toMs: number; limit: number; user_id?: string | undefined },
): Promise<WaitingCount[]> {
  const isTheirs =
    user_id === undefined
      ? part`true`
      : part`(select j.user_id from punctual.jobs j where j.segment = f.segment and j.job_id = f.job_id) is not distinct from ${user_id}`;
  return db.query<WaitingCount>(sql`
    with first as materialized (
      select w.lane_id, w.wake_at, w.segment, w.job_id
      from punctual.waiting w
      where w.segment = ${segment}::smallint and w.wake_at > ${after}::timestamptz and w.wake_at < ${at(toMs)}
      order by w.wake_at
      fetch first (${limit}::integer) rows with ties
    )
    select ${epochMs(part`w.minute`)} as minute_ms, l.queue, l.type, w.runs,
           (select case when count(*) >= ${limit}::integer then max(wake_at)::text end from first) as next_after
    from (
      select lane_id, date_trunc('minute', wake_at) as minute, count(*) filter (where ${isTheirs})::integer as runs
      from first f
      group by lane_id, minute
    ) w
    join punctual.lanes l using (lane_id)`);
}

export interface Duration {
  type: string;
  took_ms: string;
}

const took = part`extract(epoch from e.ended_at - e.started_at) * 1000 as took_ms`;

/** How long the newest runs took that have ended, so many of each segment. */
export async function recentDurations(
  db: Queryable,
  segments: readonly number[],
  perSegment: number,
): Promise<Duration[]> {
  return db.query<Duration>(sql`
    select l.type, ${took}
    from unnest(${segments}::smallint[]) s (segment)
    cross join lateral (
      select r.lane_id, r.started_at, r.ended_at
      from punctual.ended_runs r
      where r.segment = s.segment
      order by r.run_id desc
      limit ${perSegment}::integer
    ) e
    join punctual.lanes l using (lane_id)
    where e.started_at is not null`);
}

/** How long the last runs of these recurring jobs took, so many of each. */
export async function jobDurations(db: Queryable, jobIds: readonly string[], perJob: number): Promise<Duration[]> {
  return db.query<Duration>(sql`
    select l.type, ${took}
    from unnest(${int2s(jobIds, segmentOf)}::smallint[], ${uuids(jobIds, (id) => id)}::uuid[]) j (segment, job_id)
    cross join lateral (
      select r.lane_id, r.started_at, r.ended_at
      from punctual.ended_runs r
      where r.segment = j.segment and r.job_id = j.job_id and r.cause <> 'submit'
      order by r.run_id desc
      limit ${perJob}::integer
    ) e
    join punctual.lanes l using (lane_id)
    where e.started_at is not null`);
}

/** Names of jobs, by id. */
export async function jobNames(db: Queryable, jobIds: readonly string[]): Promise<Map<string, string>> {
  if (jobIds.length === 0) return new Map();
  const rows = await db.query<{ job_id: string; name: string }>(sql`
    select j.job_id, j.name
    from unnest(${int2s(jobIds, segmentOf)}::smallint[], ${uuids(jobIds, (id) => id)}::uuid[]) a (segment, job_id)
    join punctual.jobs j using (segment, job_id)`);
  return new Map(rows.map(({ job_id, name }) => [job_id, name]));
}
