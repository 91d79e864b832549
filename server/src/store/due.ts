// Time becomes work: runs whose time has come move from `waiting` to `ready`, one segment a statement. Any number of
// servers may do it at once: rows that one of them moves are skipped by the others.
import type { Queryable } from './database.ts';
import { ofSegment, part, sql } from './sql.ts';

/** For each segment with something waiting: milliseconds until its earliest wake, negative when overdue. */
export async function nextWakes(
  db: Queryable,
  segments: readonly number[],
): Promise<{ segment: number; in_ms: number }[]> {
  const rows = await db.query<{ segment: number; in_ms: string }>(sql`
    select s.segment, extract(epoch from next.wake_at - now()) * 1000 as in_ms
    from unnest(${segments}::smallint[]) s (segment)
    cross join lateral (
      select w.wake_at
      from punctual.waiting w
      where w.segment = s.segment
      order by w.wake_at
      limit 1
    ) next
    where next.wake_at < 'infinity'`);
  return rows.map((row) => ({ segment: row.segment, in_ms: Number(row.in_ms) }));
}

export async function moveDue(db: Queryable, segment: number, limit: number): Promise<number> {
  const rows = await db.query<{ moved: number }>(sql`
    with due as (
      delete from punctual.waiting
      where ${ofSegment(part`segment`, segment)}
        and ctid = any (array(
          select w.ctid
          from punctual.waiting w
          where w.segment = ${segment}::smallint and w.wake_at <= now()
          order by w.wake_at
          limit ${limit}::integer
          for update skip locked
        ))
      returning segment, run_id, job_id, lane_id, attempts, cause, scheduled_for, due_at
    ),
    moved as (
      insert into punctual.ready (segment, run_id, job_id, lane_id, attempts, cause, scheduled_for, due_at)
      select segment, run_id, job_id, lane_id, attempts, cause, scheduled_for, due_at
      from due
      order by due_at
      returning 1
    )
    select count(*)::integer as moved
    from moved`);
  return rows[0]?.moved ?? 0;
}
