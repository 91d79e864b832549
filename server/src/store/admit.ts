// Admission: runs that have reached an entry lane get a place under their keys, or wait for one.
//
//   ready (entry lane) ──▶ ready (twin lane) + key_holds      there is room under all of its keys
//                      └─▶ waiting, reason `limit`            filed under the key that has none
//   waiting (limit)    ──▶ ready (twin lane) + key_holds      when there is room
//
// Most runs with a key never come here: a claim takes them from the entry lane itself while there is room
// (claim_keyed.ts). Here come those it filed, and those whose queue is shared fairly or limited by queue or type.
//
// Never over a limit, with any number of servers: everything is decided by who holds the places of the segment and the rows
// of the keys, in one short transaction. A hold is over when its run neither runs nor waits in a twin lane; one snapshot,
// read after the keys are held, shows each run in exactly one table, so none is missed while it moves from one to the other.
// A hold that is over stays over: whoever takes a run out of a twin lane other than by claim, release or reap puts it back
// into the entry lane (`entryLane`), from where it must pass here again. Holds of users in fair queues count only until a
// worker takes the run.
//
// Locks, so that nobody waits in a circle: runs with `skip locked`, then the places (lockPlaces), then keys in their order,
// those that exist before those that are made. A server that dies in the middle leaves nothing of it behind.
import { type Decision, decide, worthReading } from '../rules/admit.ts';
import { type HeldKey, holdKeys, type KeyOrder, writeKeys } from './admit_keys.ts';
import {
  otherKeys,
  type Reading,
  type Run,
  type RunOrder,
  takeFiled,
  takeFresh,
  toRun,
  writeAdmitted,
  writeFiled,
  writeRefiled,
} from './admit_runs.ts';
import { int2s, int4s, int8s, uuids } from './arrays.ts';
import { lockPlaces } from './claim_keyed.ts';
import type { Database, Queryable } from './database.ts';
import { sql } from './sql.ts';

export interface AdmitOrder extends KeyOrder, RunOrder {
  /** Keys that may have room. */
  keys: readonly string[];
}

export interface Admitted {
  /** Runs taken from entry lanes, with the numbers under which they stood there. */
  taken: { lane_id: number; seq: number }[];
  admitted: number;
  filed: number;
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
    if (wanted.size === 0 && runs.length === 0) return { taken, admitted: 0, filed: 0 };
    await lockPlaces(tx, order.segment);
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

type Keys = ReadonlyMap<string, HeldKey>;

function planReading(keys: Keys, limit: number): Reading[] {
  return [...keys.values()]
    .map((state) => ({ key: state.key, count: Math.min(limit, worthReading(state)) }))
    .filter(({ count }) => count > 0);
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
  if (moved.length > 0) await writeRefiled(tx, segment, moved);
  const changed = [...keys.values()].filter(
    ({ key, bucket, look_at_ms }) => bucket !== null || look_in_ms.has(key) || look_at_ms !== null,
  );
  if (changed.length > 0) await writeKeys(tx, segment, changed, look_in_ms);
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
