// Searching log lines: filters say which chunks may hold the words (store/log_filters.ts), then the rules judge their lines
// (rules/log_words.ts). Days are read one by one, newest first; within a day what was stored together, by its last chunk,
// and of that chunks in falling order. What is added meanwhile lies above the place a page has come to and never moves it.
//
// A filter is some bits that are looked at: a search through ten million lines reads some ten thousands of them. The chunks of
// one run are found by its id and need no filter.
import type { LogSearchQuery } from '@punctual/contract';
import { segmentOf } from '../base/ids.ts';
import type { Probe } from '../rules/log_filter.ts';
import type { StoredLines } from '../rules/log_lines.ts';
import type { Queryable } from './database.ts';
import { ofRun } from './logs.ts';
import { type Fragment, join, part, sql } from './sql.ts';

type Choice = Pick<LogSearchQuery, 'job_id' | 'type' | 'queue' | 'user_id' | 'worker_id'>;

/** Where to go on within a day. */
export interface ChunkPlace {
  /** Only what was stored together before this chunk, … */
  below: string;
  /** … and of the newest of that only chunks below this one. */
  within: string;
}

export interface ChunkSearch {
  /** What a filter must admit. */
  probes: readonly Probe[];
  choice: Choice;
  /** Stored from then on, and before then, on a day that ends then. */
  from: Date;
  to: Date;
  dayEnd: Date;
  place: ChunkPlace;
  /** How many to read. */
  limit: number;
}

export interface FoundChunk extends StoredLines {
  /** The last of those it was stored with. */
  last_chunk: string;
  chunk: string;
  run_id: string;
  job_id: string;
  attempt: number;
  worker_id: string | null;
  is_error: boolean | null;
  created_at: Date;
  name: string;
  type: string;
  queue: string;
  user_id: string | null;
}

const shown = part`c.chunk, c.run_id, c.job_id, c.attempt, c.worker_id, c.is_error, c.lines, c.packed, c.created_at, j.name, l.type, l.queue, j.user_id`;

const withJob = part`
  join punctual.jobs j on j.segment = c.segment and j.job_id = c.job_id
  join punctual.lanes l on l.lane_id = c.lane_id`;

/** Does the filter of `f` admit all of them, and is something chosen among what it is of? (rules/log_filter.ts) */
function admits(probes: readonly Probe[], { job_id, type, queue, user_id, worker_id }: Choice): Fragment {
  const bits = probes.flatMap(({ hash, bits: of }) =>
    of.map(
      (bit) =>
        part`get_bit(f.filter, (${hash}::bigint % (octet_length(f.filter) / 64) * 512 + ${bit}::integer)::integer) = 1`,
    ),
  );
  const chosen = [
    ...(job_id === undefined ? [] : [part`${job_id}::uuid = any (f.job_ids)`]),
    ...(user_id === undefined ? [] : [part`${user_id}::text = any (f.user_ids)`]),
    ...(worker_id === undefined ? [] : [part`${worker_id}::text = any (f.worker_ids)`]),
    ...(type === undefined && queue === undefined
      ? []
      : [part`f.lane_ids && (select array_agg(l.lane_id) from punctual.lanes l where ${ofLane(type, queue)})`]),
  ];
  return join([...chosen, ...bits], ' and ', part`true`);
}

function ofLane(type: string | undefined, queue: string | undefined): Fragment {
  const chosen = [
    ...(type === undefined ? [] : [part`l.type = ${type}`]),
    ...(queue === undefined ? [] : [part`l.queue = ${queue}`]),
  ];
  return join(chosen, ' and ', part`true`);
}

function isChosen({ job_id, type, queue, user_id, worker_id }: Choice): Fragment {
  const chosen = [
    ...(job_id === undefined ? [] : [part`c.job_id = ${job_id}`]),
    ...(user_id === undefined ? [] : [part`j.user_id = ${user_id}`]),
    ...(worker_id === undefined ? [] : [part`c.worker_id = ${worker_id}`]),
  ];
  return part`${join(chosen, ' and ', part`true`)} and ${ofLane(type, queue)}`;
}

export const highestChunk = '999999999999999999';

/** Where to go on after a chunk. */
export function placeAfter({ last_chunk, chunk }: Pick<FoundChunk, 'last_chunk' | 'chunk'>): ChunkPlace {
  return { below: above(last_chunk), within: chunk };
}

export function above(chunk: string): string {
  return String(BigInt(chunk) + 1n);
}

export interface Found {
  chunks: FoundChunk[];
  /** Null when this was all of the day. */
  next: ChunkPlace | null;
}

/** Looks through the newest filters, `steps` of them, and reads the chunks of those that fit. */
export async function findChunks(
  db: Queryable,
  { probes, choice, from, to, dayEnd, place: { below, within }, limit }: ChunkSearch,
  steps: number,
): Promise<Found> {
  const rows = await db.query<FoundChunk & { chunk: string | null; lowest: string | null; more: boolean }>(sql`
    with newest as materialized (
      select f.segment, f.last_chunk, f.since, f.created_at, f.chunks, ${admits(probes, choice)} as fits
      from punctual.log_filters f
      where f.created_at >= ${from} and f.created_at < ${dayEnd} and f.since < ${to} and f.last_chunk < ${below}::bigint
      order by f.last_chunk desc
      limit ${steps}::integer
    ),
    fitting as materialized (
      select *
      from newest
      where fits
      order by last_chunk desc
      limit ${limit}::integer
    ),
    found as (
      select f.last_chunk, ${shown}
      from fitting f
      cross join lateral unnest(f.chunks) as n (chunk)
      -- One by one, whatever the planner believes of new tables.
      cross join lateral (
        select *
        from punctual.log_chunks c
        where c.chunk = n.chunk and c.segment = f.segment and c.created_at >= f.since and c.created_at <= f.created_at
        order by c.chunk
        limit 1
      ) c
      ${withJob}
      where c.created_at >= ${from} and c.created_at < ${to} and (f.last_chunk < ${below}::bigint - 1 or c.chunk < ${within}::bigint)
        and ${isChosen(choice)}
      order by f.last_chunk desc, c.chunk desc
      limit ${limit}::integer
    )
    select w.*, s.*
    from (
      select case when n.fitting > ${limit}::integer then (select min(last_chunk) from fitting) else n.lowest end as lowest,
             n.fitting > ${limit}::integer or n.walked = ${steps}::integer as more
      from (select min(last_chunk) as lowest, count(*) as walked, count(*) filter (where fits) as fitting from newest) n
    ) w
    left join found s on true
    order by s.last_chunk desc, s.chunk desc`);
  const chunks = rows.filter(({ chunk }) => chunk !== null) as FoundChunk[];
  return { chunks, next: nextOf(chunks, limit, rows[0]?.more === true ? (rows[0].lowest ?? null) : null) };
}

/** The newest chunks of a run. */
export async function findChunksOfRun(
  db: Queryable,
  runId: string,
  { choice, from, to, place: { below, within }, limit }: ChunkSearch,
): Promise<Found> {
  const chunks = await db.query<FoundChunk>(sql`
    select c.chunk as last_chunk, ${shown}
    from punctual.log_chunks c
    ${withJob}
    where ${ofRun(part`${segmentOf(runId)}::smallint`, part`${runId}::uuid`)} and c.chunk < least(${below}::bigint, ${within}::bigint)
      and c.created_at >= ${from} and c.created_at < ${to} and ${isChosen(choice)}
    order by c.run_id desc, c.chunk desc
    limit ${limit}::integer`);
  return { chunks, next: nextOf(chunks, limit, null) };
}

function nextOf(chunks: readonly FoundChunk[], limit: number, below: string | null): ChunkPlace | null {
  const last = chunks.at(-1);
  if (last !== undefined && chunks.length === limit) return placeAfter(last);
  return below === null ? null : { below, within: highestChunk };
}

/** What time it is. */
export async function databaseNow(db: Queryable): Promise<Date> {
  const rows = await db.query<{ now: Date }>(sql`select now()`);
  return rows[0]?.now as Date;
}
