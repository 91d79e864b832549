// What log lines are found by: a row for those that were stored together, with a filter of their words (rules/log_filter.ts)
// and all that a search can choose by. It lives in the day of its chunks, and outlives them by a while: a chunk that it names
// may be gone.
//
// Lines that an older version stored have a list of words instead (`words`). They are filed here by a loop, and lose it.
import { readLines, type StoredLines } from '../rules/log_lines.ts';
import { Packs } from '../rules/log_rows.ts';
import { byteas, int2s, int4s, uuids } from './arrays.ts';
import type { Database, Queryable } from './database.ts';
import { found } from './history.ts';
import { type HistoryDay, takeAway } from './history_days.ts';
import { type Fragment, part, sql } from './sql.ts';

/** Files chunks of one segment that are stored by the same statement: rows of `of` with their pack. */
export function fileChunks(of: Fragment, filters: readonly Buffer[]): Fragment {
  return part`
      insert into punctual.log_filters (segment, last_chunk, chunks, job_ids, lane_ids, worker_ids, user_ids, filter)
      select n.segment, max(n.chunk), ${whatOf(part`n`, part`n.user_id`)}, ${filterOf(filters)}
      from ${of} n
      where n.chunk is not null
      group by n.segment, n.pack`;
}

function whatOf(n: Fragment, user: Fragment): Fragment {
  return part`array_agg(${n}.chunk), array_agg(${n}.job_id), array_agg(distinct ${n}.lane_id), array_agg(distinct ${n}.worker_id), array_agg(distinct ${user})`;
}

function filterOf(filters: readonly Buffer[]): Fragment {
  return part`(${byteas(filters, (filter) => filter)}::bytea[])[pack + 1]`;
}

interface OlderChunk extends StoredLines {
  segment: number;
  run_id: string;
  chunk: string;
  created_at: Date;
}

const filedAtOnce = 500;

/** Files some of the chunks that an older version stored, newest first; answers how many. Any number of servers may do it. */
export async function fileOlder(db: Database): Promise<number> {
  return db.transaction(async (tx) => {
    const [index] = await tx.query<{ whole: boolean }>(sql`
      select indisvalid as whole from pg_index where indexrelid = 'punctual.log_chunks_unfiled'::regclass`);
    // Before all partitions have it, each look would read all of some.
    if (index?.whole !== true) return 0;
    const rows = await tx.query<OlderChunk>(sql`
      select c.segment, c.run_id, c.chunk, c.lines, c.packed, c.created_at
      from punctual.log_chunks c
      where c.words is not null
      order by c.chunk desc
      limit ${filedAtOnce}::integer
      for update skip locked`);
    if (rows.length > 0) await fileRows(tx, rows);
    return rows.length;
  });
}

async function fileRows(tx: Queryable, rows: readonly OlderChunk[]): Promise<void> {
  const placeOf = ({ segment, created_at }: OlderChunk): string =>
    `${segment} ${created_at.toISOString().slice(0, 10)}`;
  const filters: Buffer[] = [];
  const packs = new Packs(filters);
  const filed = [...rows].sort((a, b) => (placeOf(a) < placeOf(b) ? -1 : 1));
  const packed = filed.map((row, i) => {
    const before = filed[i - 1];
    // A filter is of one segment and one day.
    if (before !== undefined && placeOf(before) !== placeOf(row)) packs.end();
    for (const { level, message } of readLines(row)) packs.add(level, message);
    return packs.row();
  });
  packs.end();
  await tx.query(sql`
    with given as (
      select *
      from unnest(${int2s(filed, (row) => row.segment)}::smallint[], ${uuids(filed, (row) => row.run_id)}::uuid[],
                  ${filed.map((row) => row.chunk)}::bigint[], ${int4s(packed, (pack) => pack)}::integer[]) as g (segment, run_id, chunk, pack)
    ),
    unfiled as (
      update punctual.log_chunks c
      set words = null
      from given g
      where c.segment = g.segment and c.run_id = g.run_id and c.chunk = g.chunk
      returning c.segment, c.chunk, c.job_id, c.lane_id, c.worker_id, c.created_at, g.pack
    )
    insert into punctual.log_filters (segment, last_chunk, chunks, job_ids, lane_ids, worker_ids, user_ids, filter, since, created_at)
    select u.segment, max(u.chunk), ${whatOf(part`u`, part`j.user_id`)}, ${filterOf(filters)}, min(u.created_at), max(u.created_at)
    from unfiled u
    left join punctual.jobs j on j.segment = u.segment and j.job_id = u.job_id
    group by u.segment, u.pack`);
}

/** Drops the filters of a day whose chunks were dropped. Those of chunks that stayed move to the rest, as these did. */
export async function dropFilters(db: Database, day: HistoryDay<'log_filters'>): Promise<'dropped' | 'busy' | 'kept'> {
  const { name, from, to } = day;
  const staying = await db.query<{ last_chunk: string }>(sql`
    select distinct f.last_chunk
    from punctual.log_filters f
    cross join lateral unnest(f.chunks) as n (chunk)
    join punctual.log_chunks c on c.chunk = n.chunk and c.created_at >= ${from}::timestamptz and c.created_at < ${to}::timestamptz
    where f.created_at >= ${from}::timestamptz and f.created_at < ${to}::timestamptz`);
  return takeAway(db, day, async (tx) => {
    // Names come from PostgreSQL's catalogs, not from outside.
    const run = (text: string, values: unknown[] = []): Promise<object[]> => tx.query({ name: '', text, values });
    await run(`alter table punctual.log_filters detach partition punctual.${name}`);
    if (staying.length > 0)
      await run(
        `insert into punctual.log_filters select * from punctual.${name} where last_chunk = any ($1::bigint[])`,
        [staying.map(({ last_chunk }) => last_chunk)],
      );
    await run(`drop table punctual.${name}`);
  });
}

/** Removes filters from the rest whose chunks are all gone. */
export async function sweepFilters(db: Queryable): Promise<void> {
  await db.query(sql`
    delete from punctual.log_filters_rest f
    where not ${found(part`
      from punctual.log_chunks c
      where c.chunk = any (f.chunks) and c.created_at >= f.since and c.created_at <= f.created_at`)}`);
}
