// What has ended since one last looked, read by time from `ended_runs`. Its index by time (BRIN) knows ranges of blocks, so a
// look costs what ended in between, not what history holds.
//
// A row bears the time at which its transaction began and can be seen when that has committed. Who reads up to now would
// miss those that commit a moment later with an earlier time, for ever. So a look goes up to the horizon: before the
// begin of every transaction of ours that is open, and some time before now for those of applications that settle with
// punctual.complete, which bear the time just before their commit.
import type { Database, Queryable } from './database.ts';
import { type Fragment, part, sql } from './sql.ts';

/** For transactions that cannot be seen: between the time a row bears and its commit there is hardly more than a write. */
const marginMs = 300;
/** No transaction of ours is open longer; what is, does not end runs (an index is being built). */
const longestMs = 60_000;
/** Summarizing waits for vacuum otherwise, which may take minutes. */
const lockWaitMs = 50;

/**
 * The rows `e` of ended_runs that ended after a time and until another. The day chooses the partitions, the rest the index. The
 * day has no end here: a planner without statistics would take a whole day for next to nothing, and read it by the primary key.
 */
export function endedWithin(from: string, to: string): Fragment {
  return part`
    e.ended_at >= date_trunc('day', ${from}::timestamptz)
    and (e.ended_at at time zone 'UTC') > (${from}::timestamptz at time zone 'UTC')
    and (e.ended_at at time zone 'UTC') <= (${to}::timestamptz at time zone 'UTC')`;
}

/** Everything that ended until then can be seen. */
export async function endedHorizon(db: Queryable): Promise<string> {
  const rows = await db.query<{ horizon: string }>(sql`
    select least(
             now() - ${marginMs}::integer * interval '1 millisecond',
             greatest(
               coalesce(min(a.xact_start) - interval '1 millisecond', 'infinity'),
               now() - ${longestMs}::integer * interval '1 millisecond'))::text as horizon
    from pg_stat_activity a
    where a.datname = current_database() and a.pid <> pg_backend_pid() and a.backend_type = 'client backend'
      and a.xact_start is not null
      and (a.application_name = 'punctual' or a.backend_xid is not null)`);
  return rows[0]?.horizon ?? '-infinity';
}

/**
 * Lets the index know the blocks that were filled lately; those it does not know are read by every look. Autovacuum does it
 * too, but only once a minute. Of no consequence when it cannot be done now.
 */
export async function summarizeEnds(db: Database): Promise<void> {
  try {
    await db.transaction(async (tx) => {
      await tx.query({ name: '', text: `set local lock_timeout = ${lockWaitMs}`, values: [] });
      await tx.query(sql`
        select brin_summarize_new_values(n.indexrelid)
        from pg_inherits i
        join pg_index n on n.indexrelid = i.inhrelid
        where i.inhparent = 'punctual.ended_runs_by_end'::regclass
          and n.indrelid = to_regclass('punctual.ended_runs_' || to_char(now(), 'YYYYMMDD'))`);
    });
  } catch (error) {
    if ((error as { code?: string }).code !== '55P03') throw error;
  }
}
