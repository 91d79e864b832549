// Log lines in the book: kept in chunks, in the order in which they came, under the lease of their run.
//
// The log of an attempt is bounded. Every row says how much the attempt has logged up to it, so the last one is all that
// needs to be looked at; what comes after the bound is counted in one further row, which stands for it when it is read.
import { type LogLine, limits, type StoredLogLine } from '@punctual/contract';
import { segmentOf } from '../base/ids.ts';
import { readLines, type StoredLines } from '../rules/log_lines.ts';
import type { LogRow, Packed } from '../rules/log_rows.ts';
import { byteas, int4s, texts, uuids } from './arrays.ts';
import type { Queryable } from './database.ts';
import { fileChunks } from './log_filters.ts';
import { type Fragment, joinJob, part, sql, sqlPlannedOnce, theOne } from './sql.ts';

/**
 * Chunks `c` of a run, to be read in the order of `run_id, chunk`. Every day begins without any, where each index seems as good as
 * the others; the plan that is then cached may go through all of the day. Only the index by run has that order (see theOne).
 */
export function ofRun(segment: Fragment, runId: Fragment): Fragment {
  return part`c.segment = ${segment} and c.run_id >= ${runId} and c.run_id <= ${runId}`;
}

/** Stores the rows whose lease still holds and answers their leases; the others came from a worker that lost the run. */
export async function appendLogs(
  db: Queryable,
  segment: number,
  { rows, filters }: Packed<LogRow>,
): Promise<Set<string>> {
  const held = await db.query<{ lease_id: string; run_id: string }>(sqlPlannedOnce`
    with given as (
      select *
      from unnest(${uuids(rows, (row) => row.run_id)}::uuid[], ${uuids(rows, (row) => row.lease_id)}::uuid[],
                  ${texts(rows, (row) => row.lines)}::text[], ${byteas(rows, (row) => row.packed)}::bytea[],
                  ${int4s(rows, (row) => row.pack)}::integer[],
                  ${int4s(rows, (row) => row.weight)}::integer[], ${int4s(rows, (row) => row.count)}::integer[])
           with ordinality as g (run_id, lease_id, lines, packed, pack, weight, count, place)
    ),
    held as (
      select r.segment, r.run_id, r.lease_id, r.job_id, r.lane_id, r.worker_id, r.attempt, r.started_at,
             g.lines, g.packed, g.pack, g.weight, g.count, g.place
      from given g
      join punctual.running r on r.segment = ${segment}::smallint and r.run_id = g.run_id and r.lease_id = g.lease_id
      for share of r
    ),
    placed as (
      select h.*, j.user_id, coalesce(last.weight, 0) as before, last.chunk as last_chunk, last.dropped, last.created_at as last_at
      from held h
      ${joinJob(segment, part`h.job_id`, part`j.user_id`)}
      left join lateral (
        select c.chunk, c.weight, c.dropped, c.created_at
        from punctual.log_chunks c
        where ${ofRun(part`${segment}::smallint`, part`h.run_id`)} and c.attempt = h.attempt
          -- None is older than the attempt; nearly all are of today.
          and c.created_at > greatest(h.started_at - interval '10 minutes', now() - interval '2 days')
          and c.created_at < now() + interval '1 minute'
        order by c.run_id desc, c.chunk desc
        limit 1
      ) last on true
      order by h.place
    ),
    numbered as materialized (
      select *, case when before < ${limits.max_attempt_log_chars} then nextval('punctual.log_order') end as chunk
      from placed
    ),
    stored as (
      insert into punctual.log_chunks (segment, run_id, chunk, attempt, lines, packed, job_id, lane_id, worker_id, weight)
      select segment, run_id, chunk, attempt, lines, packed, job_id, lane_id, worker_id,
             before + sum(weight) over (partition by run_id order by place)
      from numbered
      where chunk is not null
    ),
    filed as (${fileChunks(part`numbered`, filters)}
    ),
    over as (
      select segment, run_id, attempt, before, last_chunk, last_at, dropped, sum(count)::integer as count
      from numbered
      where chunk is null
      group by segment, run_id, attempt, before, last_chunk, last_at, dropped
    ),
    marked as (
      insert into punctual.log_chunks (segment, run_id, attempt, lines, weight, dropped)
      select segment, run_id, attempt, '[]', before, count
      from over
      where dropped is null
    ),
    counted as (
      update punctual.log_chunks c
      set dropped = c.dropped + o.count
      from over o
      -- The array is known before: rows are looked up by it, however few there were when this was planned.
      where c.chunk = any (array(select m.last_chunk from over m)) and c.dropped is not null
        and c.segment = ${segment}::smallint and c.run_id = o.run_id and c.chunk = o.last_chunk and c.created_at = o.last_at
    )
    select distinct run_id, lease_id
    from held`);
  return new Set(held.map((row) => row.run_id + row.lease_id));
}

export interface LogLines {
  lines: StoredLogLine[];
  /** The last chunk read; null when there was none. */
  last: string | null;
  /** There may be more after it. */
  more: boolean;
}

/** Lines of a run after a chunk, oldest first; `limit` counts chunks. */
export async function listLogs(
  db: Queryable,
  runId: string,
  page: { after: string | null; limit: number },
): Promise<LogLines> {
  const rows = await db.query<ChunkRow>(sql`
    select chunk, attempt, lines, packed, dropped, created_at
    from punctual.log_chunks c
    where ${ofRun(part`${segmentOf(runId)}::smallint`, part`${runId}::uuid`)} and c.chunk > ${page.after ?? '0'}::bigint and c.is_error is null
    order by c.run_id, c.chunk
    limit ${page.limit}`);
  return { lines: rows.flatMap(linesOf), last: rows.at(-1)?.chunk ?? null, more: rows.length === page.limit };
}

interface ChunkRow extends StoredLines {
  chunk: string;
  attempt: number;
  dropped: number | null;
  created_at: Date;
}

function linesOf({ attempt, dropped, created_at, ...stored }: ChunkRow): StoredLogLine[] {
  const kept = dropped === null ? readLines(stored) : [notKept(dropped, created_at)];
  return kept.map((line) => ({
    ...line,
    at: line.at ?? created_at.toISOString(),
    stream: line.stream ?? 'log',
    attempt_number: attempt,
  }));
}

function notKept(count: number, at: Date): LogLine {
  const most = `${limits.max_attempt_log_chars / 1024 / 1024} million characters`;
  const message = `… ${count} lines were not kept: of the log of an attempt at most ${most} are.`;
  return { at: at.toISOString(), level: 'warn', message };
}

export interface Watched {
  run_id: string;
  /** The last chunk that was seen. */
  after: string;
}

/** Runs that have stored something since, or have ended. Looks at the last minutes only, so that it stays cheap. */
export async function newsOf(
  db: Queryable,
  watched: readonly Watched[],
): Promise<{ run_id: string; fresh: boolean; ended: boolean }[]> {
  return db.query(sql`
    select *
    from (
      select w.run_id,
             (
               select true
               from punctual.log_chunks c
               where ${ofRun(part`w.segment`, part`w.run_id`)} and c.chunk > w.after and c.is_error is null
                 and c.created_at > now() - interval '10 minutes'
               order by c.run_id, c.chunk
               limit 1
             ) is not null as fresh,
             (
               select true
               from punctual.ended_runs e
               where e.segment = w.segment and e.ended_at > now() - interval '10 minutes' and ${theOne(part`e.run_id`, part`w.run_id`)}
             ) is not null as ended
      from unnest(${watched.map(({ run_id }) => segmentOf(run_id))}::smallint[], ${watched.map(({ run_id }) => run_id)}::uuid[],
                  ${watched.map(({ after }) => after)}::bigint[]) as w (segment, run_id, after)
    ) n
    where fresh or ended`);
}
