// Searching log lines: chunks are found by their words, then the rules judge their lines (rules/log_words.ts). Days are read
// one by one, newest first, and within a day chunks in falling order.
//
// Words that stand everywhere are found by walking back from the newest chunk; the index of words would have to read all of
// them first. Words that are rare are found by that index. So a day is walked for some hundred chunks, and what is older than
// those is asked of the index. What is added meanwhile lies above the place a page has come to and never moves it.
import type { LogSearchQuery } from '@punctual/contract';
import { segmentOf } from '../base/ids.ts';
import type { Queryable } from './database.ts';
import { type Fragment, part, sql } from './sql.ts';

export interface ChunkSearch {
  /** A tsquery. */
  words: string;
  run_id: string | undefined;
  /** Stored from then on, and before then. */
  from: Date;
  to: Date;
  /** Only chunks below this one. */
  below: string;
  limit: number;
}

export interface FoundChunk {
  chunk: string;
  run_id: string;
  job_id: string;
  attempt: number;
  worker_id: string | null;
  is_error: boolean | null;
  lines: string;
  created_at: Date;
  name: string;
  type: string;
  queue: string;
  user_id: string | null;
}

type Choice = Pick<LogSearchQuery, 'job_id' | 'type' | 'queue' | 'user_id' | 'worker_id' | 'level'>;

/** The words a chunk must have, and those that say what it is of. */
export function searchedWords(words: readonly { word: string; prefix: boolean }[], choice: Choice): string {
  const { job_id, type, queue, user_id, worker_id, level } = choice;
  const chosen = { job: job_id, worker: worker_id, type, queue, user: user_id };
  return [
    ...words.map(({ word, prefix }) => `'${word}'${prefix ? ':*' : ''}`),
    ...Object.entries(chosen).flatMap(([name, value]) => (value === undefined ? [] : [`'=${name}:${value}'`])),
    ...(level === undefined ? [] : [`'=${level}'`]),
  ].join(' & ');
}

const columns = part`c.segment, c.chunk, c.run_id, c.job_id, c.lane_id, c.attempt, c.worker_id, c.is_error, c.lines, c.created_at, c.words`;

/** `below` hides from the planner that chunks are in order: the index of words is the one to use. */
function within({ run_id, from, to }: ChunkSearch, below: Fragment): Fragment {
  const ofRun =
    run_id === undefined ? part`` : part`and c.segment = ${segmentOf(run_id)}::smallint and c.run_id = ${run_id}`;
  return part`c.created_at >= ${from} and c.created_at < ${to} and ${below} ${ofRun}`;
}

const shown = (found: Fragment): Fragment => part`
  select f.chunk, f.run_id, f.job_id, f.attempt, f.worker_id, f.is_error, f.lines, f.created_at, j.name, l.type, l.queue, j.user_id
  from ${found} f
  join punctual.jobs j on j.segment = f.segment and j.job_id = f.job_id
  join punctual.lanes l on l.lane_id = f.lane_id`;

/** Looks through the newest chunks; answers those that fit, and the chunk down to which all were seen: null for all of them. */
export async function walkChunks(
  db: Queryable,
  search: ChunkSearch & { steps: number },
): Promise<{ found: FoundChunk[]; seen: string | null }> {
  const rows = await db.query<FoundChunk & { lowest: string | null; walked: number; chunk: string | null }>(sql`
    with newest as materialized (
      select ${columns}
      from punctual.log_chunks c
      where ${within(search, part`c.chunk < ${search.below}::bigint`)}
      order by c.chunk desc
      limit ${search.steps}
    ),
    fitting as (
      select *
      from newest
      where words @@ ${search.words}::tsquery
      order by chunk desc
      limit ${search.limit}
    )
    select w.lowest, w.walked, s.*
    from (select min(chunk) as lowest, count(*)::integer as walked from newest) w
    left join (${shown(part`fitting`)}) s on true
    order by s.chunk desc`);
  const found = rows.filter((row) => row.chunk !== null) as FoundChunk[];
  if (found.length === search.limit) return { found, seen: found.at(-1)?.chunk ?? null };
  return { found, seen: (rows[0]?.walked ?? 0) < search.steps ? null : (rows[0]?.lowest ?? null) };
}

/** The newest chunks that have the words, by the index. */
export async function findChunks(db: Queryable, search: ChunkSearch): Promise<FoundChunk[]> {
  return db.query<FoundChunk>(sql`
    with fitting as materialized (
      select ${columns}
      from punctual.log_chunks c
      where ${within(search, part`c.chunk + 0 < ${search.below}::bigint`)} and c.words @@ ${search.words}::tsquery
    ),
    newest as (
      select *
      from fitting
      order by chunk desc
      limit ${search.limit}
    )
    ${shown(part`newest`)}
    order by f.chunk desc`);
}

/** What time it is. */
export async function databaseNow(db: Queryable): Promise<Date> {
  const rows = await db.query<{ now: Date }>(sql`select now()`);
  return rows[0]?.now as Date;
}
