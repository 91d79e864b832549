// Figures of the whole house for those who watch it: what waits in which queue and since when, and how far the due mover is
// behind. Nothing here goes through a large table: lanes that hold nothing cost nothing, counts stop at a bound, ages come from
// the first entry of an index. Read by dispatch/figures.ts.
import type { Queryable } from './database.ts';
import { sql } from './sql.ts';

export interface QueueFigures {
  queue: string;
  ready: number;
  running: number;
  oldest_seconds: number;
}

/** Ready runs that are counted in all; they are shared among the lanes that hold some. */
const maxCounted = 50_000;
const minCounted = 20;
/** Lanes of a segment that are looked at. */
const maxLanes = 300;

/** The queues with most first; those after `most` are summed up under `other`. */
export async function queueFigures(
  db: Queryable,
  segments: readonly number[],
  { most, other }: { most: number; other: string },
): Promise<QueueFigures[]> {
  return db.query<QueueFigures>(sql`
    with recursive held as (
      select s.segment, 1 as place, first.lane_id, first.due_at
      from unnest(${segments}::smallint[]) s (segment)
      cross join lateral (
        select r.lane_id, r.due_at from punctual.ready r where r.segment = s.segment order by r.lane_id, r.seq limit 1
      ) first
      union all
      select h.segment, h.place + 1, next.lane_id, next.due_at
      from held h
      cross join lateral (
        select r.lane_id, r.due_at
        from punctual.ready r
        where r.segment = h.segment and r.lane_id > h.lane_id
        order by r.lane_id, r.seq
        limit 1
      ) next
      where h.place <= ${maxLanes}::integer
    ),
    bound as (
      select greatest(${minCounted}::integer, ${maxCounted}::integer / greatest(1, count(*)))::integer as rows
      from held
    ),
    counts as (
      select l.queue, sum(c.ready) as ready, min(h.due_at) as oldest
      from held h
      cross join lateral (
        select count(*) as ready
        from (
          select from punctual.ready r where r.segment = h.segment and r.lane_id = h.lane_id limit (select rows from bound)
        ) counted
      ) c
      join punctual.lanes l on l.lane_id = h.lane_id
      group by l.queue
    ),
    busy as (
      select l.queue, count(*) as running
      from punctual.running r
      join punctual.lanes l using (lane_id)
      group by l.queue
    ),
    ranked as (
      select coalesce(c.queue, b.queue) as queue, coalesce(c.ready, 0) as ready, coalesce(b.running, 0) as running, c.oldest,
             row_number() over (order by coalesce(c.ready, 0) desc, coalesce(b.running, 0) desc, coalesce(c.queue, b.queue)) as rank
      from counts c
      full join busy b on b.queue = c.queue
    )
    select case when rank <= ${most}::integer then queue else ${other}::text end as queue, sum(ready)::integer as ready,
           sum(running)::integer as running,
           greatest(0, coalesce(extract(epoch from now() - min(oldest)), 0))::float8 as oldest_seconds
    from ranked
    group by 1`);
}
