// Sealed values in the book (base/vault.ts): which jobs have them. Read where a server does not know it by itself.
import { uuids } from './arrays.ts';
import type { Queryable } from './database.ts';
import { type Fragment, part, sql } from './sql.ts';

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
    join punctual.jobs j on j.segment = ${segment}::smallint and j.job_id = r.job_id
    where r.segment = ${segment}::smallint and r.run_id = any (${uuids(runIds, (id) => id)}::uuid[]) and ${isSealedIn(part`j.payload`)}`);
  return new Map(rows.map(({ run_id, job_id }) => [run_id, job_id]));
}
