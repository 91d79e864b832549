// Backfills in the book: counted for a dry run, created, read. What they do is in backfill_moves.ts.
import { type Backfill, type BackfillPlan, PunctualError } from '@punctual/contract';
import { newId, segmentOf } from '../base/ids.ts';
import { timestamps } from './arrays.ts';
import type { Database, Queryable } from './database.ts';
import { getSubmission } from './jobs.ts';
import { epochMs, type Fragment, part, sql } from './sql.ts';

/** When a recurring job runs, as far as a backfill needs to know. */
export interface Timing {
  rule: string;
  fixed_delay: boolean;
  /** The first time that the planner has not come to. */
  next_ms: number | null;
  /** Now; or the time that the planner has come to a moment ahead. */
  now_ms: number;
}

export async function readTiming(db: Queryable, jobId: string): Promise<Timing | null> {
  const rows = await db.query<{ rule: string; fixed_delay: boolean; next_ms: string | null; now_ms: string }>(sql`
    select rule, fixed_delay, ${epochMs(part`next_fire_at`)} as next_ms, ${epochMs(part`greatest(now(), planned_until)`)} as now_ms
    from punctual.schedules
    where segment = ${segmentOf(jobId)}::smallint and job_id = ${jobId}`);
  const row = rows[0];
  if (row === undefined) return null;
  return { ...row, next_ms: row.next_ms === null ? null : Number(row.next_ms), now_ms: Number(row.now_ms) };
}

export interface NewBackfill {
  job_id: string;
  from_ms: number;
  to_ms: number;
  newest_first: boolean;
  max_concurrency: number;
  include_done: boolean;
  /** In order. */
  times: readonly number[];
}

/** Times in one statement: a tenth of the most that a backfill takes. */
const maxChunk = 10_000;

/** What creating it would do. */
export async function previewBackfill(db: Queryable, wanted: NewBackfill): Promise<BackfillPlan> {
  let already = 0;
  for (const times of chunksOf(wanted.times)) {
    const rows = await db.query<{ already: number }>(sql`
      with ${doneTimes(wanted.job_id, times)}
      select count(*)::integer as already
      from unnest(${timestamps(times, (ms) => ms)}::timestamptz[]) w (scheduled_for)
      join done using (scheduled_for)`);
    already += rows[0]?.already ?? 0;
  }
  const runs = wanted.include_done ? wanted.times.length : wanted.times.length - already;
  return toPlan(wanted, { backfill_id: null, already, runs });
}

/** An Idempotency-Key of a user, and the hash of what was asked for under it. */
export interface BackfillKey {
  user_id: string;
  key: string;
  body_hash: string;
}

/**
 * All of it or nothing. The job's row orders two that are created at once: the second sees the times of the first, and when it
 * has the same key it is answered as the first was.
 */
export async function createBackfill(
  db: Database,
  wanted: NewBackfill,
  once: BackfillKey | null,
): Promise<{ plan: BackfillPlan; replayed: boolean }> {
  const segment = segmentOf(wanted.job_id);
  return db.transaction(async (tx) => {
    const jobs = await tx.query<{ cancelled: boolean }>(sql`
      select cancelled_at is not null as cancelled
      from punctual.jobs
      where segment = ${segment}::smallint and job_id = ${wanted.job_id}
      for update`);
    const earlier = once === null ? null : await findAnswer(tx, segment, once);
    if (earlier !== null) return { plan: earlier, replayed: true };
    if (jobs[0]?.cancelled !== false) throw new PunctualError('job_ended', { detail: 'The job is cancelled.' });
    const backfill_id = newId('backfill', segment);
    let runs = 0;
    let already = 0;
    for (const times of chunksOf(wanted.times)) {
      const done = await insertTimes(tx, { ...wanted, times }, backfill_id);
      runs += done.inserted;
      already += done.already;
    }
    await tx.query(sql`
      insert into punctual.backfills (segment, backfill_id, job_id, from_at, to_at, newest_first, max_concurrency, include_done, already, total)
      values (${segment}::smallint, ${backfill_id}::uuid, ${wanted.job_id}::uuid,
              ${new Date(wanted.from_ms).toISOString()}::timestamptz, ${new Date(wanted.to_ms).toISOString()}::timestamptz,
              ${wanted.newest_first}::boolean, ${wanted.max_concurrency}::smallint, ${wanted.include_done}::boolean,
              ${already}::integer, ${runs}::integer)`);
    const plan = toPlan(wanted, { backfill_id, already, runs });
    if (once !== null) await keepAnswer(tx, wanted.job_id, once, plan);
    return { plan, replayed: false };
  });
}

async function findAnswer(
  tx: Queryable,
  segment: number,
  { user_id, key, body_hash }: BackfillKey,
): Promise<BackfillPlan | null> {
  const earlier = await getSubmission(tx, { segment, user_id, key });
  if (earlier === null) return null;
  if (earlier.body_hash !== body_hash) throw new PunctualError('idempotency_key_reused');
  return JSON.parse(earlier.answer ?? '') as BackfillPlan;
}

async function keepAnswer(
  tx: Queryable,
  jobId: string,
  { user_id, key, body_hash }: BackfillKey,
  plan: BackfillPlan,
): Promise<void> {
  await tx.query(sql`
    insert into punctual.submissions (segment, user_id, key, body_hash, job_id, jobs, answer)
    values (${segmentOf(jobId)}::smallint, ${user_id}, ${key}, ${body_hash}, ${jobId}::uuid, 0::smallint, ${JSON.stringify(plan)})`);
}

async function insertTimes(
  tx: Queryable,
  { job_id, include_done, times }: NewBackfill,
  backfillId: string,
): Promise<{ inserted: number; already: number }> {
  const rows = await tx.query<{ inserted: number; already: number }>(sql`
    with ${doneTimes(job_id, times)},
    wanted as materialized (
      select w.scheduled_for, d.scheduled_for is not null as done
      from unnest(${timestamps(times, (ms) => ms)}::timestamptz[]) w (scheduled_for)
      left join done d on d.scheduled_for = w.scheduled_for
    ),
    inserted as (
      insert into punctual.backfill_times (segment, backfill_id, scheduled_for)
      select ${segmentOf(job_id)}::smallint, ${backfillId}::uuid, scheduled_for
      from wanted
      where ${include_done}::boolean or not done
      returning 1
    )
    select (select count(*) from inserted)::integer as inserted, count(*) filter (where done)::integer as already
    from wanted`);
  return rows[0] ?? { inserted: 0, already: 0 };
}

/** Times of the job that have a run, or will have it from a backfill that goes on. */
function doneTimes(jobId: string, times: readonly number[]): Fragment {
  const segment = segmentOf(jobId);
  const within = (column: Fragment): Fragment =>
    part`${column} >= ${isoOf(times[0])}::timestamptz and ${column} <= ${isoOf(times.at(-1))}::timestamptz`;
  return part`
    done as (
      select o.scheduled_for
      from punctual.occurrences o
      where o.segment = ${segment}::smallint and o.job_id = ${jobId} and ${within(part`o.scheduled_for`)} and o.run_id is not null
      union
      select t.scheduled_for
      from punctual.backfills b
      join punctual.backfill_times t using (segment, backfill_id)
      where b.segment = ${segment}::smallint and b.job_id = ${jobId} and ${within(part`t.scheduled_for`)}
        and (t.run_id is not null or b.state = 'RUNNING')
    )`;
}

function* chunksOf(times: readonly number[]): Generator<readonly number[]> {
  for (let at = 0; at < times.length; at += maxChunk) yield times.slice(at, at + maxChunk);
}

interface BackfillRow {
  backfill_id: string;
  job_id: string;
  state: Backfill['state'];
  from_at: Date;
  to_at: Date;
  newest_first: boolean;
  max_concurrency: number;
  include_done: boolean;
  already: number;
  total: number;
  made: number;
  succeeded: number;
  failed: number;
  cancelled: number;
  created_at: Date;
  ended_at: Date | null;
}

const columns = part`
  backfill_id, job_id, state, from_at, to_at, newest_first, max_concurrency, include_done, already, total, made, succeeded, failed,
  cancelled, created_at, ended_at`;

export async function getBackfill(db: Queryable, backfillId: string): Promise<Backfill | null> {
  const rows = await db.query<BackfillRow>(sql`
    select ${columns}
    from punctual.backfills
    where segment = ${segmentOf(backfillId)}::smallint and backfill_id = ${backfillId}`);
  return rows[0] === undefined ? null : toBackfill(rows[0]);
}

/** Newest first, below an id. */
export async function listBackfills(
  db: Queryable,
  jobId: string,
  { below, limit }: { below: string; limit: number },
): Promise<Backfill[]> {
  const rows = await db.query<BackfillRow>(sql`
    select ${columns}
    from punctual.backfills
    where segment = ${segmentOf(jobId)}::smallint and job_id = ${jobId} and backfill_id < ${below}
    order by backfill_id desc
    limit ${limit}::integer`);
  return rows.map(toBackfill);
}

function toPlan(
  { times }: NewBackfill,
  plan: { backfill_id: string | null; already: number; runs: number },
): BackfillPlan {
  return { ...plan, times: times.length, first: isoOf(times[0]), last: isoOf(times.at(-1)) };
}

function isoOf(ms: number | undefined): string | null {
  return ms === undefined ? null : new Date(ms).toISOString();
}

function toBackfill({ from_at, to_at, newest_first, created_at, ended_at, ...row }: BackfillRow): Backfill {
  return {
    ...row,
    from: from_at.toISOString(),
    to: to_at.toISOString(),
    order: newest_first ? 'newest_first' : 'oldest_first',
    running: row.made - row.succeeded - row.failed - row.cancelled,
    created_at: created_at.toISOString(),
    ended_at: ended_at?.toISOString() ?? null,
  };
}
