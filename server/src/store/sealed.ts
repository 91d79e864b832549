// Sealed values in the book (base/vault.ts): jobs as they are written, and which have them, read where a server does not know
// it by itself.
import type { Vault } from '../base/vault.ts';
import type { PreparedJob } from '../rules/job.ts';
import { uuids } from './arrays.ts';
import type { Queryable } from './database.ts';
import { type Fragment, joinJob, part, sql } from './sql.ts';

/** The job as it is written under this id. */
export function sealJob(vault: Vault, job: PreparedJob, job_id: string): PreparedJob {
  return job.encrypted ? { ...job, payload: vault.seal(job.payload ?? 'null', { kind: 'payload', job_id }) } : job;
}

/** Is the text in this column sealed? */
export function isSealedIn(column: Fragment): Fragment {
  return part`coalesce(left(${column}, 4) = 'enc:', false)`;
}

/** The jobs of those of the leased runs whose jobs are encrypted, by run. */
export async function sealedJobsOf(
  db: Queryable,
  segment: number,
  runIds: readonly string[],
): Promise<Map<string, string>> {
  const rows = await db.query<{ run_id: string; job_id: string }>(sql`
    select r.run_id, r.job_id
    from punctual.running r
    ${joinJob(segment, part`r.job_id`, part`j.payload`)}
    where r.segment = ${segment}::smallint and r.run_id = any (${uuids(runIds, (id) => id)}::uuid[]) and ${isSealedIn(part`j.payload`)}`);
  return new Map(rows.map(({ run_id, job_id }) => [run_id, job_id]));
}
