// Admission: runs that have reached an entry lane get a place under their keys, or wait for one.
//
//   ready (entry lane) ──▶ ready (twin lane) + key_holds      there is room under all of its keys
//                      └─▶ waiting, reason `limit`            filed under the key that has none
//   waiting (limit)    ──▶ ready (twin lane) + key_holds      when there is room
//
// Never over a limit, with any number of servers: everything is decided by who holds the rows of the keys, in one short
// transaction. A hold is over when its run neither runs nor waits in a twin lane; one snapshot, read after the keys are
// held, shows each run in exactly one table, so none is missed while it moves from one to the other. A hold that is over
// stays over: whoever takes a run out of a twin lane other than by claim, release or reap puts it back into the entry lane
// (`entryLane`), from where it must pass here again. Holds of users in fair queues count only until a worker takes the run.
//
// Locks, so that nobody waits in a circle: runs with `skip locked`, then keys in their order, those that exist before those
// that are made. A server that dies in the middle leaves nothing of it behind.
import { type Candidate, type Decision, decide, fairKey, worthReading } from '../rules/admit.ts';
import { type Fair, type HeldKey, holdKeys, type KeyOrder, writeKeys } from './admit_keys.ts';
import { int2s, int4s, int8s, texts, uuids } from './arrays.ts';
import type { Database, Queryable } from './database.ts';
import { type Fragment, part, sql } from './sql.ts';

export interface AdmitOrder extends KeyOrder {
  /** Entries in the order in which they are served; rows up to `after` are known to be gone. */
  entries: readonly { lane_id: number; after: number }[];
  /** Keys that may have room. */
  keys: readonly string[];
  limit: number;
}

export interface Admitted {
  /** Runs taken from entry lanes, with the numbers under which they stood there. */
  taken: { lane_id: number; seq: number }[];
  admitted: number;
  filed: number;
}

interface Run extends Candidate {
  job_id: string;
  lane_id: number;
  attempts: number;
  cause: string;
  scheduled_for: string;
  due_at: string;
  /** The key it is filed under; null when it comes from an entry lane. */
  filed: string | null;
}

interface RunRow {
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

/** Keys that are looked at because their time has come, in one pass. */
const maxDueKeys = 200;

export async function admitRuns(db: Database, order: AdmitOrder): Promise<Admitted> {
  return db.transaction(async (tx) => {
    const fresh = await takeFresh(tx, order);
    const runs = fresh.map((row) => toRun(row, order.fair));
    const asked = await keysToLookAt(tx, order);
    const wanted = new Set([...asked, ...runs.flatMap((run) => run.keys)]);
    for (const key of await otherKeys(tx, order, asked)) wanted.add(key);
    const taken = fresh.map(({ lane_id, seq }) => ({ lane_id, seq: Number(seq) }));
    if (wanted.size === 0) return { taken, admitted: 0, filed: 0 };
    const keys = await holdKeys(tx, order, [...wanted]);
    const reading = planReading(keys, order.limit);
    const filed = (await takeFiled(tx, order, reading)).map((row) => toRun(row, order.fair));
    // One whose other key is not held, because it was filed a moment ago, is left for the next pass.
    const held = filed.filter((run) => run.keys.every((key) => keys.has(key)));
    const decision = decide(keys, [...runs, ...held]);
    noteMore(decision, { keys, reading, filed, limit: order.limit });
    await write(tx, order.segment, { decision, keys });
    return {
      taken,
      admitted: decision.admitted.length,
      filed: decision.refused.filter(({ run }) => run.filed === null).length,
    };
  });
}

function toRun(row: RunRow, fair: Fair): Run {
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

async function takeFresh(tx: Queryable, { segment, entries, limit }: AdmitOrder): Promise<RunRow[]> {
  if (entries.length === 0) return [];
  return tx.query<RunRow>(sql`
    with t as (
      delete from punctual.ready
      where segment = ${segment}::smallint
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

/** Keys of runs that left, keys whose time has come, and those asked for. */
async function keysToLookAt(tx: Queryable, { segment, left, keys }: AdmitOrder): Promise<string[]> {
  const rows = await tx.query<{ key: string }>(sql`
    select h.key
    from punctual.key_holds h
    where h.segment = ${segment}::smallint and h.run_id = any (${uuids(left, (id) => id)}::uuid[])
    union
    (select k.key
    from punctual.key_limits k
    where k.segment = ${segment}::smallint and k.look_at <= now()
    order by k.look_at
    limit ${maxDueKeys}::integer)`);
  return [...keys, ...rows.map((row) => row.key)].filter((key) => key !== '*');
}

/** The other keys of runs that are filed under these and may go next: with fair queues a run may have two. */
async function otherKeys(
  tx: Queryable,
  { segment, fair, limit }: AdmitOrder,
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

type Keys = ReadonlyMap<string, HeldKey>;

interface Reading {
  key: string;
  count: number;
}

function planReading(keys: Keys, limit: number): Reading[] {
  return [...keys.values()]
    .map((state) => ({ key: state.key, count: Math.min(limit, worthReading(state)) }))
    .filter(({ count }) => count > 0);
}

async function takeFiled(
  tx: Queryable,
  { segment, limit }: AdmitOrder,
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

/** More may wait under a key than was read or could be judged: then it is looked at again at once. */
function noteMore(
  { look_in_ms, refused }: Decision<Run>,
  { keys, reading, filed, limit }: { keys: Keys; reading: readonly Reading[]; filed: readonly Run[]; limit: number },
): void {
  const shut = new Set(refused.map(({ key }) => key));
  const counts = new Map<string, number>();
  for (const { filed: key } of filed) if (key !== null) counts.set(key, (counts.get(key) ?? 0) + 1);
  for (const { key, count } of reading) {
    if (shut.has(key) || (keys.get(key)?.room ?? 0) < 1) continue;
    if (filed.length >= limit || (counts.get(key) ?? 0) >= count) look_in_ms.set(key, 0);
  }
  for (const { filed: key, keys: all } of filed)
    if (key !== null && !all.every((one) => keys.has(one))) look_in_ms.set(key, 0);
}

async function write(
  tx: Queryable,
  segment: number,
  { decision, keys }: { decision: Decision<Run>; keys: Keys },
): Promise<void> {
  const { admitted, refused, look_in_ms } = decision;
  if (admitted.length > 0) await writeAdmitted(tx, segment, admitted);
  const filed = refused.filter(({ run }) => run.filed === null);
  if (filed.length > 0) await writeFiled(tx, segment, filed);
  const moved = refused.filter(({ run, key }) => run.filed !== null && run.filed !== key);
  if (moved.length > 0)
    await tx.query(sql`
      update punctual.waiting w
      set key = m.key, updated_at = now()
      from unnest(${uuids(moved, ({ run }) => run.run_id)}::uuid[], ${texts(moved, ({ key }) => key)}::text[]) m (run_id, key)
      where w.segment = ${segment}::smallint and w.run_id = m.run_id`);
  const changed = [...keys.values()].filter(
    ({ key, bucket, look_at_ms }) => bucket !== null || look_in_ms.has(key) || look_at_ms !== null,
  );
  if (changed.length > 0) await writeKeys(tx, segment, changed, look_in_ms);
}

async function writeAdmitted(tx: Queryable, segment: number, runs: readonly Run[]): Promise<void> {
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

async function writeFiled(tx: Queryable, segment: number, filed: readonly { run: Run; key: string }[]): Promise<void> {
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

/** For each of the segments with something to do: milliseconds until then, negative when overdue. */
export async function nextLooks(
  db: Queryable,
  segments: readonly number[],
  entries: readonly { segment: number; lane_id: number; after: number }[],
): Promise<{ segment: number; in_ms: number }[]> {
  const rows = await db.query<{ segment: number; in_ms: string }>(sql`
    select s.segment, extract(epoch from next.look_at - now()) * 1000 as in_ms
    from unnest(${segments}::smallint[]) s (segment)
    cross join lateral (
      select k.look_at
      from punctual.key_limits k
      where k.segment = s.segment and k.look_at is not null
      order by k.look_at
      limit 1
    ) next
    union all
    select distinct e.segment, -1
    from unnest(${int2s(entries, (lane) => lane.segment)}::smallint[], ${int4s(entries, (lane) => lane.lane_id)}::integer[],
                ${int8s(entries, (lane) => lane.after)}::bigint[]) e (segment, lane_id, after)
    where exists (select from punctual.ready r where r.segment = e.segment and r.lane_id = e.lane_id and r.seq > e.after)`);
  return rows.map((row) => ({ segment: row.segment, in_ms: Number(row.in_ms) }));
}
