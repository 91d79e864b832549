// What a run leaves behind besides its outcome: attempts that did not succeed. Its log lines are in logs.ts.
import type { Attempt } from '@punctual/contract';
import { segmentOf } from '../base/ids.ts';
import { hidden, isSealed, type Show, shown } from '../base/vault.ts';
import type { Queryable } from './database.ts';
import { sql } from './sql.ts';

export async function listAttempts(
  db: Queryable,
  { run_id, job_id }: { run_id: string; job_id: string },
  show: Show = hidden,
): Promise<Attempt[]> {
  const rows = await db.query<Omit<Attempt, 'start_time' | 'end_time'> & { started_at: Date; ended_at: Date }>(sql`
    select attempt as attempt_number, outcome::text as outcome, worker_id as executor_id, started_at, ended_at, error as error_message
    from punctual.attempts
    where segment = ${segmentOf(run_id)}::smallint and run_id = ${run_id}
    order by ended_at, attempt
    limit 1000`);
  return rows.map(({ started_at, ended_at, error_message, ...row }) => ({
    ...row,
    error_message: shown(error_message, { kind: 'error', job_id, run_id }, show),
    ...(isSealed(error_message) ? { encrypted: true } : {}),
    start_time: started_at.toISOString(),
    end_time: ended_at.toISOString(),
  }));
}
