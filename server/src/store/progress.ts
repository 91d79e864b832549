// How far running runs say they are. It stands in the run's own row of `running` and goes with it.
//
// It must never make a settle or a renewal wait, so rows that somebody else holds are passed over: the next report follows
// within seconds. Which leases still hold is read without locks.
import type { NewProgress } from '@punctual/contract';
import { texts, uuids } from './arrays.ts';
import type { Queryable } from './database.ts';
import { sqlPlannedOnce } from './sql.ts';

/** Writes it where the lease holds and answers those leases. */
export async function noteProgress(
  db: Queryable,
  segment: number,
  progress: readonly NewProgress[],
): Promise<Set<string>> {
  const rows = await db.query<{ run_id: string; lease_id: string }>(sqlPlannedOnce`
    with given as materialized (
      select *
      from unnest(
        ${uuids(progress, (p) => p.run_id)}::uuid[], ${uuids(progress, (p) => p.lease_id)}::uuid[],
        ${progress.map((p) => p.percent)}::real[], ${texts(progress, (p) => p.message ?? null)}::text[])
        as g (run_id, lease_id, percent, message)
    ),
    free as (
      select r.run_id, g.percent, g.message
      from given g
      join punctual.running r on r.segment = ${segment}::smallint and r.run_id = g.run_id and r.lease_id = g.lease_id
      for no key update of r skip locked
    ),
    noted as (
      update punctual.running r
      set progress_percent = f.percent, progress_message = f.message, progress_at = now()
      from free f
      where r.segment = ${segment}::smallint and r.run_id = f.run_id
    )
    select r.run_id, r.lease_id
    from given g
    join punctual.running r on r.segment = ${segment}::smallint and r.run_id = g.run_id and r.lease_id = g.lease_id`);
  return new Set(rows.map((row) => row.run_id + row.lease_id));
}
