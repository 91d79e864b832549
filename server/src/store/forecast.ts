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
  planned_until_ms: string;
  runs_left: number | null;
  queue: string;
  type: string;
}

const at = (timeMs: number): Fragment => part`to_timestamp(${timeMs}::double precision / 1000)`;

/**
 * Schedules of a segment that may have a time up to `untilMs`, by id. Not by their next time: many may share one, and a
 * page of those would cost as much as all of them.
 */
export async function readForecast(
  db: Queryable,
  segment: number,
  { after, untilMs, limit, filter }: { after: string; untilMs: number; limit: number; filter: ForecastFilter },
): Promise<ForecastRow[]> {
  return db.query<ForecastRow>(sql`
    select s.job_id, s.rule, s.fixed_delay, ${epochMs(part`s.next_fire_at`)} as next_ms, ${epochMs(part`s.planned_until`)} as planned_until_ms,
           s.max_runs - s.runs_made as runs_left, j.queue, j.type
    from punctual.schedules s
    join punctual.jobs j using (segment, job_id)
    where s.segment = ${segment}::smallint and s.job_id > ${after} and s.next_fire_at <= ${at(untilMs)} ${matching(filter)}
    order by s.job_id
    limit ${limit}::integer`);
}

export interface WaitingCount {
  minute_ms: string;
  queue: string;
  type: string;
  runs: number;
}

/** Runs of a segment that wait for a time in [fromMs, toMs), by minute, from the first `limit` of them. */
export async function countWaiting(
  db: Queryable,
  segment: number,
  { fromMs, toMs, limit, user_id }: { fromMs: number; toMs: number; limit: number; user_id?: string | undefined },
): Promise<WaitingCount[]> {
  return db.query<WaitingCount>(sql`
    select ${epochMs(part`w.minute`)} as minute_ms, l.queue, l.type, w.runs
    from (
      select lane_id, date_trunc('minute', wake_at) as minute, count(*)::integer as runs
      from (
        select w.lane_id, w.wake_at, w.segment, w.job_id
        from punctual.waiting w
        where w.segment = ${segment}::smallint and w.wake_at >= ${at(fromMs)} and w.wake_at < ${at(toMs)}
        order by w.wake_at
        limit ${limit}::integer
      ) first
      ${user_id === undefined ? part`` : part`join punctual.jobs j using (segment, job_id) where j.user_id = ${user_id}`}
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

function matching({ queue, type, user_id }: ForecastFilter): Fragment {
  return part`${user_id === undefined ? part`` : part`and j.user_id = ${user_id}`} ${queue === undefined ? part`` : part`and j.queue = ${queue}`} ${type === undefined ? part`` : part`and j.type = ${type}`}`;
}
