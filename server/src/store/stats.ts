// What the stats read. Nothing here goes through all of a large table: counts stop at a bound, the newest runs are found by
// their ids, and totals are those that PostgreSQL keeps for each table anyway (they lag by some seconds, are the same for all
// servers, and begin anew after a crash).
import type { StatsChange, StatsQueue } from '@punctual/contract';
import type { MinuteFacts } from '../rules/stats.ts';
import type { Queryable } from './database.ts';
import { rateWindowMs } from './lane_starts.ts';
import { epochMs, part, sql } from './sql.ts';

export interface Counters {
  now_ms: number;
  ended: number;
  failed: number;
  /** Grows with every change of what other calls answer. */
  moved: string;
}

/** Tables whose rows are what people look at; heartbeats and counts are not among them. */
const watched = [
  ...['jobs', 'waiting', 'ready', 'running', 'schedules', 'dead_letters', 'workflows', 'workflow_steps'],
  ...[
    'gates',
    'queues',
    'lane_limits',
    'key_limits',
    'fair_queues',
    'breakers',
    'calendars',
    'retention',
    'operations',
  ],
].map((table) => `punctual.${table}`);

export async function readCounters(db: Queryable): Promise<Counters> {
  const [row] = await db.query<{ now_ms: string; ended: string; failed: string; moved: string }>(sql`
    select ${epochMs(part`now()`)} as now_ms,
           (select coalesce(sum(pg_stat_get_tuples_inserted(i.inhrelid)), 0)
            from pg_catalog.pg_inherits i
            where i.inhparent = 'punctual.ended_runs'::regclass)::bigint as ended,
           pg_stat_get_tuples_inserted('punctual.dead_letters'::regclass) as failed,
           (select sum(pg_stat_get_tuples_inserted(t.id) + pg_stat_get_tuples_updated(t.id) + pg_stat_get_tuples_deleted(t.id))
            from (select to_regclass(name)::oid as id from unnest(${watched}::text[]) name) t)::text as moved`);
  if (row === undefined) throw new Error('a select without from has one row');
  return { now_ms: Number(row.now_ms), ended: Number(row.ended), failed: Number(row.failed), moved: row.moved };
}

/** Starts by minute, as far as they are kept; the first minute may not be whole. */
export async function startsByMinute(db: Queryable): Promise<{ minute_ms: number; started: number }[]> {
  const rows = await db.query<{ minute_ms: string; started: number }>(sql`
    select ${epochMs(part`date_trunc('minute', bucket)`)} as minute_ms, sum(started)::integer as started
    from punctual.lane_starts
    where bucket >= date_trunc('minute', now() - ${rateWindowMs}::integer * interval '1 millisecond')
    group by 1`);
  return rows.map(({ minute_ms, started }) => ({ minute_ms: Number(minute_ms), started }));
}

/** Runs of all lanes that started within the last minute. */
export async function countAllStarts(db: Queryable): Promise<number> {
  const rows = await db.query<{ started: number }>(sql`
    select coalesce(sum(started), 0)::integer as started
    from punctual.lane_starts
    where bucket > now() - ${rateWindowMs}::integer * interval '1 millisecond'`);
  return rows[0]?.started ?? 0;
}

interface MinuteRow extends Omit<MinuteFacts, 'minute_ms'> {
  minute_ms: string;
  /** Some segment was not read down to here: the minute is not whole. */
  whole: boolean;
}

/** What the newest runs tell of the minutes since `sinceMs`: so many of each segment, and those that run. */
export async function newestByMinute(
  db: Queryable,
  segments: readonly number[],
  { sinceMs, perSegment }: { sinceMs: number; perSegment: number },
): Promise<(MinuteFacts & { whole: boolean })[]> {
  const rows = await db.query<MinuteRow>(sql`
    with newest as materialized (
      select s.segment, e.status, e.due_at, e.started_at, e.ended_at
      from unnest(${segments}::smallint[]) s (segment)
      cross join lateral (
        select r.status, r.due_at, r.started_at, r.ended_at
        from punctual.ended_runs r
        where r.segment = s.segment and r.ended_at >= to_timestamp(${sinceMs}::double precision / 1000)
        order by r.run_id desc
        limit ${perSegment}::integer
      ) e
    ),
    horizon as (
      select coalesce(max(oldest), '-infinity') as at
      from (select min(ended_at) as oldest from newest group by segment having count(*) >= ${perSegment}::integer) stopped
    ),
    facts as (
      select date_trunc('minute', ended_at) as minute, 0 as started, 1 as ended, (status = 'FAILED')::integer as failed, null::float8 as late
      from newest
      union all
      select date_trunc('minute', started_at), 1, 0, 0, greatest(0, extract(epoch from started_at - due_at) * 1000)
      from newest
      where started_at is not null
      union all
      select date_trunc('minute', started_at), 1, 0, 0, greatest(0, extract(epoch from started_at - due_at) * 1000)
      from (select started_at, due_at from punctual.running limit ${maxRunning}::integer) r
    )
    select ${epochMs(part`minute`)} as minute_ms, sum(started)::integer as started, sum(ended)::integer as ended, sum(failed)::integer as failed,
           percentile_disc(0.5) within group (order by late) as late_p50_ms,
           percentile_disc(0.99) within group (order by late) as late_p99_ms,
           minute > (select at from horizon) as whole
    from facts
    where minute >= to_timestamp(${sinceMs}::double precision / 1000)
    group by minute`);
  return rows.map((row) => ({ ...row, minute_ms: Number(row.minute_ms) }));
}

const maxRunning = 5_000;
/** Ready runs that are counted in all; they are shared among the lanes that hold some. */
const maxCounted = 100_000;
const minCounted = 20;
/** Lanes of a segment that are looked at. */
const maxLanes = 300;
const maxQueues = 20;

/** What waits and runs, the queues with most of it first. Lanes that hold nothing cost nothing. */
export async function busiestQueues(
  db: Queryable,
  segments: readonly number[],
): Promise<{ queues: StatsQueue[]; ready: number; exact: boolean; running: number }> {
  type Row = Omit<StatsQueue, 'oldest_due_at'> & { oldest: Date | null };
  const rows = await db.query<Row & { all_ready: number; all_exact: boolean; all_running: number }>(sql`
    with recursive held as (
      select s.segment, 1 as place,
             (select r.lane_id from punctual.ready r where r.segment = s.segment order by r.lane_id, r.seq limit 1) as lane_id
      from unnest(${segments}::smallint[]) s (segment)
      union all
      select h.segment, h.place + 1,
             (select r.lane_id from punctual.ready r where r.segment = h.segment and r.lane_id > h.lane_id order by r.lane_id, r.seq limit 1)
      from held h
      where h.lane_id is not null and h.place <= ${maxLanes}::integer
    ),
    bound as (
      select greatest(${minCounted}::integer, ${maxCounted}::integer / greatest(1, count(lane_id)))::integer as rows
      from held
    ),
    counts as (
      select l.queue as name, sum(c.ready)::integer as ready, bool_and(c.ready < b.rows) as exact, min(f.due_at) as oldest
      from held h
      cross join bound b
      cross join lateral (
        select count(*) as ready
        from (
          select from punctual.ready r where r.segment = h.segment and r.lane_id = h.lane_id limit (select rows from bound)
        ) counted
      ) c
      cross join lateral (
        select r.due_at from punctual.ready r where r.segment = h.segment and r.lane_id = h.lane_id order by r.seq limit 1
      ) f
      join punctual.lanes l on l.lane_id = h.lane_id
      group by l.queue
    ),
    busy as (
      select l.queue as name, count(*)::integer as running
      from punctual.running r
      join punctual.lanes l using (lane_id)
      group by l.queue
    ),
    named as (
      select name from counts
      union select name from busy
      union select name from punctual.gates where kind = 'queue' and state <> 'open'
    ),
    queues as (
      select n.name, coalesce(g.state, 'open') as state, coalesce(c.ready, 0) as ready, coalesce(c.exact, true) as exact,
             coalesce(b.running, 0) as running, c.oldest
      from named n
      left join punctual.gates g on g.kind = 'queue' and g.name = n.name
      left join counts c on c.name = n.name
      left join busy b on b.name = n.name
    )
    select q.*, (sum(ready) over ())::integer as all_ready, bool_and(exact) over () as all_exact,
           (sum(running) over ())::integer as all_running
    from queues q
    order by ready desc, running desc, name
    limit ${maxQueues}::integer`);
  const [first] = rows;
  return {
    queues: rows.map(({ name, state, ready, exact, running, oldest }) => ({
      ...{ name, state, ready, exact, running },
      oldest_due_at: oldest?.toISOString() ?? null,
    })),
    ready: first?.all_ready ?? 0,
    exact: first?.all_exact ?? true,
    running: first?.all_running ?? 0,
  };
}

export interface WorkerCounts {
  alive: number;
  draining: number;
  lost: number;
  slots: number;
}

export async function countWorkers(db: Queryable): Promise<WorkerCounts> {
  const [row] = await db.query<WorkerCounts>(sql`
    select count(*) filter (where here and not draining)::integer as alive,
           count(*) filter (where here and draining)::integer as draining,
           count(*) filter (where lost or (ended_at is null and not here))::integer as lost,
           coalesce(sum(slots) filter (where here and not draining), 0)::integer as slots
    from (
      select *, ended_at is null and lease_until >= now() as here
      from punctual.workers
      where seen_at > now() - interval '1 hour'
    ) w`);
  return row ?? { alive: 0, draining: 0, lost: 0, slots: 0 };
}

const maxDeadLetters = 1_000;

export async function countDeadLetters(db: Queryable, segments: readonly number[]): Promise<number> {
  const [row] = await db.query<{ open: number }>(sql`
    select least(${maxDeadLetters}::integer, sum(c.open))::integer as open
    from unnest(${segments}::smallint[]) s (segment)
    cross join lateral (
      select count(*) as open
      from (select from punctual.dead_letters d where d.segment = s.segment and d.redriven_at is null limit ${maxDeadLetters}::integer) counted
    ) c`);
  return row?.open ?? 0;
}

const maxChanges = 12;

/** What happened within the last day: failures, workers that came and went, gates, operations. */
export async function latestChanges(db: Queryable, segments: readonly number[]): Promise<StatsChange[]> {
  const rows = await db.query<Omit<StatsChange, 'at'> & { at: Date }>(sql`
    with failed as (
      select e.ended_at as at, 'run_failed' as kind, coalesce(split_part(e.error, E'\n', 1), e.reason, 'failed') as text,
             coalesce(j.name, '') as name, e.run_id as id
      from unnest(${segments}::smallint[]) s (segment)
      cross join lateral (
        select r.segment, r.run_id, r.job_id, r.status, r.reason, left(r.error, 300) as error, r.ended_at
        from punctual.ended_runs r
        where r.segment = s.segment and r.status <> 'SUCCESS' and r.ended_at > now() - interval '1 day'
        order by r.run_id desc
        limit ${maxChanges}::integer
      ) e
      left join punctual.jobs j on j.segment = e.segment and j.job_id = e.job_id
      where e.status = 'FAILED'
    ),
    seen as (
      select worker_id, started_at, ended_at, lost, slots
      from punctual.workers
      where seen_at > now() - interval '1 day'
    ),
    changes as (
      select * from failed
      union all
      select started_at, 'worker_joined', 'with ' || slots || ' slots', worker_id, null from seen
      union all
      select ended_at, case when lost then 'worker_lost' else 'worker_left' end,
             case when lost then 'its lease ran out' else 'said goodbye' end, worker_id, null
      from seen
      where ended_at is not null
      union all
      select changed_at, 'gate_set', kind || ' ' || state || coalesce(': ' || note, ''), name, null
      from punctual.gates
      where changed_at > now() - interval '1 day'
      union all
      (select started_at, 'operation_begun', coalesce(note, lower(state)), action, operation_id
       from punctual.operations
       order by operation_id desc
       limit ${maxChanges}::integer)
    )
    select *
    from changes
    where at > now() - interval '1 day'
    order by at desc
    limit ${maxChanges}::integer`);
  return rows.map((row) => ({ ...row, at: row.at.toISOString() }));
}
