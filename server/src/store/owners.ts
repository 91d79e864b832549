// Whose something is. Asked before a key that belongs to a user may read or change it: what is another's is not there for
// that key. An owner never changes, so what was asked once holds.
import { jobIdOfFirstRun, kindOf, segmentOf } from '../base/ids.ts';
import type { Queryable } from './database.ts';
import { type Fragment, join, part, sql } from './sql.ts';

export type OwnedNoun = 'job' | 'run' | 'workflow' | 'operation' | 'backfill';

/** Does it exist, and belong to the user? */
export async function owns(db: Queryable, userId: string, noun: OwnedNoun, id: string): Promise<boolean> {
  const rows = await db.query(sql`select where exists (${ownedBy(userId, noun, id)})`);
  return rows.length > 0;
}

function ownedBy(userId: string, noun: OwnedNoun, id: string): Fragment {
  const segment = segmentOf(id);
  const job = (jobId: Fragment): Fragment => part`
    select from punctual.jobs j
    where j.segment = ${segment}::smallint and j.job_id = ${jobId} and j.user_id = ${userId}`;
  if (noun === 'job') return job(part`${id}::uuid`);
  if (noun === 'run')
    return job(kindOf(id) === 'first_run' ? part`${jobIdOfFirstRun(id)}::uuid` : jobOfRun(segment, id));
  if (noun === 'operation')
    return part`select from punctual.operations where operation_id = ${id}::uuid and user_id = ${userId}`;
  if (noun === 'workflow')
    return part`
      select from punctual.workflows
      where segment = ${segment}::smallint and workflow_id = ${id}::uuid and user_id = ${userId}`;
  return job(part`(
    select b.job_id from punctual.backfills b where b.segment = ${segment}::smallint and b.backfill_id = ${id}::uuid)`);
}

/** A dead letter may outlive its run. */
function jobOfRun(segment: number, runId: string): Fragment {
  const tables = [part`waiting`, part`ready`, part`running`, part`ended_runs`, part`dead_letters`].map(
    (table) => part`
      (select r.job_id from punctual.${table} r where r.segment = ${segment}::smallint and r.run_id = ${runId}::uuid)`,
  );
  return part`(select u.job_id from (${join(tables, ' union all ', part``)}) u limit 1)`;
}

/** Those of the runs that belong to the user. */
export async function ownRuns(db: Queryable, userId: string, runIds: readonly string[]): Promise<Set<string>> {
  const owned = new Set<string>();
  for (const id of new Set(runIds)) if (await owns(db, userId, 'run', id)) owned.add(id);
  return owned;
}
