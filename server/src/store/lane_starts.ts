// How many runs of each lane have started lately: every server adds what it granted, a few rows every few seconds.
import { int4s } from './arrays.ts';
import type { Queryable } from './database.ts';
import { sql } from './sql.ts';

/** So long counts are kept; rates are of this time. */
export const rateWindowMs = 60_000;

/** Adds to the slice of ten seconds that it is now, and lets go of slices that are over. */
export async function addStarts(db: Queryable, starts: ReadonlyMap<number, number>): Promise<void> {
  const rows = [...starts];
  await db.query(sql`
    with old as (
      delete from punctual.lane_starts
      where bucket < now() - ${rateWindowMs * 2}::integer * interval '1 millisecond'
    )
    insert into punctual.lane_starts as s (lane_id, bucket, started)
    select n.lane_id, date_bin('10 seconds', now(), 'epoch'::timestamptz), n.started
    from unnest(${int4s(rows, ([lane]) => lane)}::integer[], ${int4s(rows, ([, started]) => started)}::integer[]) as n (lane_id, started)
    order by n.lane_id
    on conflict (bucket, lane_id) do update
    set started = s.started + excluded.started`);
}

/** Runs of these lanes that started within the last minute. */
export async function countStarts(db: Queryable, laneIds: readonly number[]): Promise<number> {
  const rows = await db.query<{ started: number }>(sql`
    select coalesce(sum(started), 0)::integer as started
    from punctual.lane_starts
    where bucket > now() - ${rateWindowMs}::integer * interval '1 millisecond' and lane_id = any (${int4s(laneIds, (id) => id)}::integer[])`);
  return rows[0]?.started ?? 0;
}
