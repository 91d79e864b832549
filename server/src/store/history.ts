// What goes of the history and what stays: runs that have ended, their attempts and log lines, a page of one segment at a
// time. Days that are over as a whole are dropped by history_days.ts, with the same judgement of what stays.
//
// A run goes when its time is over by the rule of its queue and type, unless something still needs it: its dead letter, a job
// that was not told of its end, a backfill that has not noted it, a workflow that has not ended. Nothing of that can come to an ended run later, but for a
// job that is made to depend on it in that very moment: such a job finds it gone (unblock.ts).
// Attempts go after their run. Log lines have a time of their own, but those of a run that is not over stay.
import type { RetentionPolicy } from '@punctual/contract';
import type { Database, Queryable } from './database.ts';
import { logsOver, removing, runsOver } from './retention.ts';
import { type Fragment, part, sql } from './sql.ts';

export type HistoryTable = 'log_chunks' | 'ended_runs' | 'attempts';

/** Rows of a day, or of those that have no partition of a day. */
export interface Stretch {
  table: HistoryTable;
  /** Null: the rest. */
  day: { from: string; to: string } | null;
}

/** Those of a run are never parted: a page may have more. */
const pageRows = 1000;
const lowestId = '00000000-0000-0000-0000-000000000000';
const beyond = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

export interface Place {
  segment: number;
  /** Runs up to this one have been dealt with. */
  after: string;
}

export const startOf = (segment: number): Place => ({ segment, after: lowestId });

export interface Look {
  going: number;
  /** The runs whose rows stay, at most a page of them. */
  staying: string[];
  /** Where to go on; null at the end. */
  next: Place | null;
}

export interface Judgement {
  policy: RetentionPolicy;
  /** Judge as if everything that goes had gone already. */
  foreseen: boolean;
  /** The time of all of it is over by every rule. */
  over: boolean;
}

/** Counts what would go of a page. */
export async function lookAt(db: Queryable, stretch: Stretch, place: Place, judgement: Judgement): Promise<Look> {
  const rows = await db.query<{ going: number; staying: string[]; last: string }>(sql`
    with ${pageEnd(stretch, place)},
    page as materialized (
      select r.run_id, ${goes(stretch.table, judgement)} as goes
      from ${rowsOf(stretch)} r
      where ${inPage(stretch, place)}
    )
    select count(*) filter (where goes)::integer as going,
           coalesce(array_agg(distinct run_id::text) filter (where not goes), '{}') as staying,
           (select p.id from page_end p) as last
    from page`);
  const { going = 0, staying = [], last = beyond } = rows[0] ?? {};
  return { going, staying, next: after(place, last) };
}

/** Removes what goes of a page; answers how many rows. */
export async function removeFrom(
  db: Database,
  stretch: Stretch,
  place: Place,
  policy: RetentionPolicy,
): Promise<{ removed: number; next: Place | null }> {
  const rows = await removing(db, (tx) =>
    tx.query<{ removed: number; last: string }>(sql`
      with ${pageEnd(stretch, place)},
      removed as (
        delete from ${rowsOf(stretch)} r
        where ${inPage(stretch, place)} and ${goes(stretch.table, { policy, foreseen: false, over: false })}
        returning 1
      )
      select (select count(*) from removed)::integer as removed, p.id as last
      from page_end p`),
  );
  const { removed = 0, last = beyond } = rows[0] ?? {};
  return { removed, next: after(place, last) };
}

function after({ segment }: Place, last: string): Place | null {
  return last === beyond ? null : { segment, after: last };
}

const wholes = {
  log_chunks: part`punctual.log_chunks`,
  ended_runs: part`punctual.ended_runs`,
  attempts: part`punctual.attempts`,
};
const rests = {
  log_chunks: part`punctual.log_chunks_rest`,
  ended_runs: part`punctual.ended_runs_rest`,
  attempts: part`punctual.attempts_rest`,
};

function rowsOf({ table, day }: Stretch): Fragment {
  return day === null ? rests[table] : wholes[table];
}

/** Said of the table's own column, so that only the partition of the day is touched. */
function within({ table, day }: Stretch, row: Fragment): Fragment {
  if (day === null) return part`true`;
  const at = table === 'log_chunks' ? part`${row}.created_at` : part`${row}.ended_at`;
  return part`${at} >= ${day.from}::timestamptz and ${at} < ${day.to}::timestamptz`;
}

function pageEnd(stretch: Stretch, { segment, after: from }: Place): Fragment {
  return part`
    page_end as materialized (
      select coalesce((
        select e.run_id
        from ${rowsOf(stretch)} e
        where e.segment = ${segment}::smallint and e.run_id > ${from} and ${within(stretch, part`e`)}
        order by e.run_id
        offset ${pageRows - 1}::integer limit 1), ${beyond}) as id
    )`;
}

function inPage(stretch: Stretch, { segment, after: from }: Place): Fragment {
  return part`r.segment = ${segment}::smallint and r.run_id > ${from} and r.run_id <= (select p.id from page_end p)
          and ${within(stretch, part`r`)}`;
}

/** Does the row `r` go? */
function goes(table: HistoryTable, { policy, foreseen, over }: Judgement): Fragment {
  if (table === 'ended_runs')
    return over ? part`not ${isNeeded(part`r`)}` : part`(not ${isNeeded(part`r`)} and ${isOver(part`r`, policy)})`;
  const live = isLive(part`r.segment`, part`r.run_id`);
  const itsRun = (at: Fragment): Fragment =>
    part`ended.segment = r.segment and ended.run_id = r.run_id and ended.ended_at >= ${at}`;
  if (table === 'attempts')
    return part`not (${live} or ${hasEnded(itsRun(part`r.ended_at`), foreseen ? policy : null)})`;
  if (over) return part`not ${live}`;
  return part`not (${live} or ${found(part`
    from punctual.ended_runs ended
    join punctual.lanes l using (lane_id)
    where ${itsRun(part`r.created_at`)} and not ${logsOver(part`l`, part`r.created_at`, policy)}`)})`;
}

/** Is there such a row? Said so that it is looked up for each row, whatever the planner believes of new tables. */
export function found(from: Fragment): Fragment {
  return part`((select 1 ${from} limit 1) is not null)`;
}

/** Is the time of the ended run `e` over? */
function isOver(e: Fragment, policy: RetentionPolicy): Fragment {
  return found(part`
    from punctual.lanes l where l.lane_id = ${e}.lane_id and ${runsOver(part`l`, part`${e}.ended_at`, policy)}`);
}

/** Does something need the ended run `e`, however old it is? */
function isNeeded(e: Fragment): Fragment {
  return part`(
    ${found(part`from punctual.dead_letters d where d.segment = ${e}.segment and d.run_id = ${e}.run_id`)}
    or ${found(part`
      from punctual.dependents d
      where d.segment = ${e}.segment and d.run_id = ${e}.run_id and (not d.told or d.was is not null)`)}
    or (${e}.cause = 'backfill' and ${found(part`
      from punctual.backfill_times t
      where t.segment = ${e}.segment and t.run_id = ${e}.run_id and t.run_id is not null and t.outcome is null`)})
    or (${e}.cause = 'workflow' and ${found(part`
      from punctual.jobs j
      join punctual.workflows w on ${isWorkflowOf(part`j`)}
      where j.segment = ${e}.segment and j.job_id = ${e}.job_id and w.ended_at is null`)}))`;
}

/** Is `w` the workflow of which the job is a step? */
export function isWorkflowOf(job: Fragment): Fragment {
  return part`w.segment = ('x' || right(${job}.workflow_id::text, 3))::bit(12)::integer and w.workflow_id = ${job}.workflow_id`;
}

/** Has the run not ended? One snapshot shows each run in exactly one table. */
export function isLive(segment: Fragment, runId: Fragment): Fragment {
  const of = (table: Fragment): Fragment =>
    found(part`from ${table} live where live.segment = ${segment} and live.run_id = ${runId}`);
  return part`(${of(part`punctual.running`)} or ${of(part`punctual.ready`)} or ${of(part`punctual.waiting`)})`;
}

/** Is the run anywhere? With a policy, those that it lets go count as gone. */
export function isThere(row: Fragment, runId: Fragment, policy: RetentionPolicy | null): Fragment {
  return part`(${isLive(part`${row}.segment`, runId)} or ${hasEnded(part`ended.segment = ${row}.segment and ended.run_id = ${runId}`, policy)})`;
}

/** Is there an ended run for which this is so? With a policy, those that it lets go count as gone. */
export function hasEnded(which: Fragment, policy: RetentionPolicy | null): Fragment {
  return found(part`from punctual.ended_runs ended where ${which} ${stays(part`ended`, policy)}`);
}

/** The rest of a condition: the ended run stays. Without a policy every one does. */
export function stays(e: Fragment, policy: RetentionPolicy | null): Fragment {
  return policy === null ? part`` : part`and (${isNeeded(e)} or not ${isOver(e, policy)})`;
}
