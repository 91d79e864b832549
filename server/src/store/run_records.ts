// What a run leaves behind besides its outcome: attempts that did not succeed, and log lines.
import type { Attempt, LogChunk, LogLine } from '@punctual/contract';
import { segmentOf } from '../base/ids.ts';
import type { Queryable } from './database.ts';
import { sql } from './sql.ts';

export async function listAttempts(db: Queryable, runId: string): Promise<Attempt[]> {
  const rows = await db.query<Omit<Attempt, 'start_time' | 'end_time'> & { started_at: Date; ended_at: Date }>(sql`
    select attempt as attempt_number, outcome::text as outcome, worker_id as executor_id, started_at, ended_at, error as error_message
    from punctual.attempts
    where segment = ${segmentOf(runId)}::smallint and run_id = ${runId}
    order by ended_at, attempt
    limit 1000`);
  return rows.map(({ started_at, ended_at, ...row }) => ({
    ...row,
    start_time: started_at.toISOString(),
    end_time: ended_at.toISOString(),
  }));
}

/** Stores the chunks whose lease still holds and answers their leases; the others came from a worker that lost the run. */
export async function appendLogs(db: Queryable, segment: number, chunks: readonly LogChunk[]): Promise<Set<string>> {
  const rows = await db.query<{ lease_id: string; run_id: string }>(sql`
    with chunk as (
      select *
      from unnest(${chunks.map((chunk) => chunk.run_id)}::uuid[], ${chunks.map((chunk) => chunk.lease_id)}::uuid[],
                  ${chunks.map((chunk) => JSON.stringify(chunk.lines))}::text[]) as c (run_id, lease_id, lines)
    ),
    held as (
      select r.segment, r.run_id, r.lease_id, r.attempt, c.lines
      from chunk c
      join punctual.running r on r.segment = ${segment}::smallint and r.run_id = c.run_id and r.lease_id = c.lease_id
      for share of r
    ),
    stored as (
      insert into punctual.log_chunks (segment, run_id, attempt, lines)
      select segment, run_id, attempt, lines
      from held
    )
    select distinct run_id, lease_id
    from held`);
  return new Set(rows.map((row) => row.run_id + row.lease_id));
}

export interface LogRows {
  lines: (LogLine & { attempt_number: number })[];
  /** The last chunk read, when there may be more. */
  after: string | null;
}

export async function listLogs(
  db: Queryable,
  runId: string,
  page: { after: string | null; limit: number },
): Promise<LogRows> {
  const rows = await db.query<{ chunk: string; attempt: number; lines: string }>(sql`
    select chunk, attempt, lines
    from punctual.log_chunks
    where segment = ${segmentOf(runId)}::smallint and run_id = ${runId} and chunk > ${page.after ?? '0'}::bigint
    order by chunk
    limit ${page.limit}`);
  return {
    lines: rows.flatMap((row) =>
      (JSON.parse(row.lines) as LogLine[]).map((line) => ({ ...line, attempt_number: row.attempt })),
    ),
    after: rows.length === page.limit ? (rows.at(-1)?.chunk ?? null) : null,
  };
}
