// The runs of an admission pass (admit.ts): taken from entry lanes and from those that wait, and put where they belong.
import { type Candidate, fairKey } from '../rules/admit.ts';
import type { Fair } from './admit_keys.ts';
import { int2s, int4s, int8s, texts, uuids } from './arrays.ts';
import type { Queryable } from './database.ts';
import { type Fragment, ofSegment, part, sql } from './sql.ts';

export interface RunOrder {
  segment: number;
  /** Entries in the order in which they are served; rows up to `after` are known to be gone. */
  entries: readonly { lane_id: number; after: number }[];
  fair: Fair;
  limit: number;
}

/** How many of those that wait under a key are to be read. */
export interface Reading {
  key: string;
  count: number;
}

export interface Run extends Candidate {
  job_id: string;
  lane_id: number;
  attempts: number;
  cause: string;
  scheduled_for: string;
  due_at: string;
  /** The key it is filed under; null when it comes from an entry lane. */
  filed: string | null;
}

export interface RunRow {
  run_id: string;
  job_id: string;
  lane_id: number;
  attempts: number;
  cause: string;
  seq: string;
  scheduled_for: string;
  due_at: string;
  due_us: string;
  filed: string | null;
  concurrency_key: string | null;
  user_id: string | null;
  units: number;
  queue: string;
  priority: number;
}

export function toRun(row: RunRow, fair: Fair): Run {
  const { concurrency_key, user_id, queue, seq: _seq, due_us, ...run } = row;
  const keys = concurrency_key === null ? [] : [concurrency_key];
  if (fair.has(queue)) keys.push(fairKey(queue, user_id));
  return { ...run, due_us: Number(due_us), keys };
}

const runColumns = part`
  t.run_id, t.job_id, t.lane_id, t.attempts, t.cause::text as cause, t.scheduled_for::text as scheduled_for, t.due_at::text as due_at,
  (extract(epoch from t.due_at) * 1000000)::bigint as due_us, j.concurrency_key, j.user_id, coalesce(j.units, 1) as units,
  l.queue, l.priority`;

const withJobAndLane = part`
  join punctual.jobs j on j.segment = t.segment and j.job_id = t.job_id
  join punctual.lanes l on l.lane_id = t.lane_id`;

export async function takeFresh(tx: Queryable, { segment, entries, limit }: RunOrder): Promise<RunRow[]> {
  if (entries.length === 0) return [];
  return tx.query<RunRow>(sql`
    with t as (
      delete from punctual.ready
      where ${ofSegment(part`segment`, segment)}
        and ctid = any (array(
          select next.ctid
          from unnest(${int4s(entries, (lane) => lane.lane_id)}::integer[], ${int8s(entries, (lane) => lane.after)}::bigint[]) e (lane_id, after)
          cross join lateral (
            select r.ctid
            from punctual.ready r
            where r.segment = ${segment}::smallint and r.lane_id = e.lane_id and r.seq > e.after
            order by r.seq
            limit ${limit}::integer
            for update skip locked
          ) next
          limit ${limit}::integer
        ))
      returning *
    )
    select ${runColumns}, t.seq, null as filed
    from t ${withJobAndLane}`);
}

/** The other keys of runs that are filed under these and may go next: with fair queues a run may have two. */
export async function otherKeys(
  tx: Queryable,
  { segment, fair, limit }: RunOrder,
  keys: readonly string[],
): Promise<string[]> {
  if (fair.size === 0 || keys.length === 0) return [];
  const rows = await tx.query<{ concurrency_key: string | null; user_id: string | null; queue: string }>(sql`
    select distinct j.concurrency_key, j.user_id, l.queue
    from unnest(${texts(keys, (key) => key)}::text[]) k (key)
    cross join lateral (${filedUnder(segment, part`k.key`, part`${limit}::integer`)}) t
    ${withJobAndLane}`);
  return rows.flatMap(({ concurrency_key, user_id, queue }) => [
    ...(concurrency_key === null ? [] : [concurrency_key]),
    ...(fair.has(queue) ? [fairKey(queue, user_id)] : []),
  ]);
}

/** Those that wait under a key, in the order in which they may go. */
function filedUnder(segment: number, key: Fragment, limit: Fragment): Fragment {
  return part`
      select w.*
      from punctual.waiting w
      where w.segment = ${segment}::smallint and w.key = ${key} and w.reason = 'limit'
      order by w.priority desc, w.due_at, w.run_id
      limit ${limit}`;
}

export async function takeFiled(
  tx: Queryable,
  { segment, limit }: RunOrder,
  reading: readonly Reading[],
): Promise<RunRow[]> {
  if (reading.length === 0) return [];
  return tx.query<RunRow>(sql`
    select ${runColumns}, 0 as seq, t.key as filed
    from (
      select f.*
      from unnest(${texts(reading, (one) => one.key)}::text[], ${int4s(reading, (one) => one.count)}::integer[]) k (key, count)
      cross join lateral (
        ${filedUnder(segment, part`k.key`, part`k.count`)}
        for update skip locked
      ) f
      limit ${limit}::integer
    ) t ${withJobAndLane}`);
}

export async function writeAdmitted(tx: Queryable, segment: number, runs: readonly Run[]): Promise<void> {
  const waited = runs.filter((run) => run.filed !== null);
  const holds = runs.flatMap((run) => run.keys.map((key) => ({ run_id: run.run_id, key, units: run.units })));
  const moved = await tx.query(sql`
    with waited as (
      delete from punctual.waiting
      where segment = ${segment}::smallint and run_id = any (${uuids(waited, (run) => run.run_id)}::uuid[])
    ),
    held as (
      insert into punctual.key_holds (segment, run_id, key, units)
      select ${segment}::smallint, h.*
      from unnest(${uuids(holds, (hold) => hold.run_id)}::uuid[], ${texts(holds, (hold) => hold.key)}::text[], ${int2s(holds, (hold) => hold.units)}::smallint[]) h
      on conflict do nothing
    )
    insert into punctual.ready (segment, run_id, job_id, lane_id, attempts, cause, scheduled_for, due_at)
    select ${segment}::smallint, r.run_id, r.job_id, l.lane_id, r.attempts, r.cause::punctual.run_cause, r.scheduled_for::timestamptz, r.due_at::timestamptz
    from unnest(${runArrays(runs)}) with ordinality r (run_id, job_id, lane_id, attempts, cause, scheduled_for, due_at, place)
    join punctual.lanes l on l.entry_lane_id = r.lane_id
    order by r.place
    returning run_id`);
  if (moved.length < runs.length)
    throw new Error(`of ${runs.length} runs ${moved.length} have a lane to be admitted to`);
}

/** They wait under another of their keys from now on. */
export async function writeRefiled(
  tx: Queryable,
  segment: number,
  moved: readonly { run: Run; key: string }[],
): Promise<void> {
  await tx.query(sql`
    update punctual.waiting w
    set key = m.key, updated_at = now()
    from unnest(${uuids(moved, ({ run }) => run.run_id)}::uuid[], ${texts(moved, ({ key }) => key)}::text[]) m (run_id, key)
    where w.segment = ${segment}::smallint and w.run_id = m.run_id`);
}

export async function writeFiled(
  tx: Queryable,
  segment: number,
  filed: readonly { run: Run; key: string }[],
): Promise<void> {
  const runs = filed.map(({ run }) => run);
  await tx.query(sql`
    insert into punctual.waiting (segment, run_id, job_id, lane_id, attempts, cause, reason, scheduled_for, due_at, wake_at, key, priority)
    select ${segment}::smallint, r.run_id, r.job_id, r.lane_id, r.attempts, r.cause::punctual.run_cause, 'limit',
           r.scheduled_for::timestamptz, r.due_at::timestamptz, 'infinity', r.key, r.priority
    from unnest(${runArrays(runs)}, ${texts(filed, ({ key }) => key)}::text[], ${int2s(runs, (run) => run.priority)}::smallint[])
      r (run_id, job_id, lane_id, attempts, cause, scheduled_for, due_at, key, priority)`);
}

function runArrays(runs: readonly Run[]): Fragment {
  return part`
    ${uuids(runs, (run) => run.run_id)}::uuid[], ${uuids(runs, (run) => run.job_id)}::uuid[], ${int4s(runs, (run) => run.lane_id)}::integer[],
    ${int2s(runs, (run) => run.attempts)}::smallint[], ${texts(runs, (run) => run.cause)}::text[],
    ${texts(runs, (run) => run.scheduled_for)}::text[], ${texts(runs, (run) => run.due_at)}::text[]`;
}
