// The keys of an admission pass (admit.ts): their rows are locked, who holds places under them is read, and what was given
// away is written back. Whoever holds the row of a key decides alone who goes next under it.
import { fairRoom, type KeyState, refill } from '../rules/admit.ts';
import { texts, uuids } from './arrays.ts';
import { runningUnder } from './claim_keyed.ts';
import type { Queryable } from './database.ts';
import { type Fragment, ofSegment, part, sql, theOne } from './sql.ts';

export type Fair = ReadonlyMap<string, { share: number; weights: Record<string, number> }>;

export interface KeyOrder {
  segment: number;
  fair: Fair;
  /** Runs that may have given up their places. */
  left: readonly string[];
}

interface KeyRow {
  key: string;
  max_concurrency: number | null;
  rate_units: number | null;
  rate_per_ms: number | null;
  burst: number | null;
  tokens: number | null;
  refilled_ms: number | null;
  blocked_until_ms: number | null;
  look_at_ms: number | null;
}

/** A key that this transaction holds, with what its row says now. */
export interface HeldKey extends KeyState {
  now_ms: number;
  look_at_ms: number | null;
}

const ms = (time: Fragment): Fragment => part`(extract(epoch from ${time}) * 1000)::double precision`;

/** Locks the rows of the keys in their order, makes those that are missing, and reads who holds places under them. */
export async function holdKeys(
  tx: Queryable,
  order: KeyOrder,
  wanted: readonly string[],
): Promise<Map<string, HeldKey>> {
  const { segment } = order;
  const rows = await lockKeys(tx, segment, wanted);
  const missing = wanted.filter((key) => !rows.some((row) => row.key === key));
  if (missing.length > 0) {
    await tx.query(sql`
      insert into punctual.key_limits (segment, key)
      select ${segment}::smallint, k.key
      from unnest(${texts(missing, (key) => key)}::text[]) k (key)
      order by k.key
      on conflict do nothing`);
    rows.push(...(await lockKeys(tx, segment, missing)));
  }
  const limited = rows.filter((row) => maxOf(row, order.fair) !== null || row.rate_units !== null);
  const { now_ms, holds } = await readHolds(
    tx,
    order,
    limited.map((row) => row.key),
  );
  return new Map(rows.map((row) => [row.key, toState(row, { now_ms, hold: holds.get(row.key), fair: order.fair })]));
}

function lockKeys(tx: Queryable, segment: number, keys: readonly string[]): Promise<KeyRow[]> {
  const effective = (column: Fragment): Fragment =>
    part`case when k.own then k.${column} else d.${column} end as ${column}`;
  return tx.query<KeyRow>(sql`
    select k.key, ${effective(part`max_concurrency`)}, ${effective(part`rate_units`)}, ${effective(part`rate_per_ms`)}, ${effective(part`burst`)},
           k.tokens, ${ms(part`k.refilled_at`)} as refilled_ms, ${ms(part`k.blocked_until`)} as blocked_until_ms, ${ms(part`k.look_at`)} as look_at_ms
    from punctual.key_limits k
    left join punctual.key_limits d on d.segment = k.segment and d.key = '*' and d.own and strpos(k.key, ' ') = 0
    where k.segment = ${segment}::smallint and k.key = any (${texts(keys, (key) => key)}::text[])
    order by k.key
    for update of k`);
}

/** Does the hold `h` still count? That of a run that a claim has meanwhile taken from its entry lane does not. */
export const holdsPlace = part`coalesce(
  (select l.entry_lane_id is not null
   from punctual.ready r
   join punctual.lanes l using (lane_id)
   where r.segment = h.segment and ${theOne(part`r.run_id`, part`h.run_id`)}),
  (select strpos(h.key, ' ') = 0 and r.key is null
   from punctual.running r
   where r.segment = h.segment and r.run_id = h.run_id),
  false)`;

interface Hold {
  /** Those that count, and runs that hold a place by running. */
  places: number;
  unstarted: number;
}

/**
 * Removes holds that are over and counts the others. Without a limit nobody needs to know how many there are: there only
 * those of runs that are said to have left are looked at.
 */
async function readHolds(
  tx: Queryable,
  { segment, left }: KeyOrder,
  limited: readonly string[],
): Promise<{ now_ms: number; holds: Map<string, Hold> }> {
  const rows = await tx.query<{ key: string | null; places: number; unstarted: number; now_ms: number }>(sql`
    with looked_at as materialized (
      select h.ctid as row, h.run_id, h.key, h.units, ${holdsPlace} as counts
      from punctual.key_holds h
      where h.segment = ${segment}::smallint and h.key = any (${texts(limited, (key) => key)}::text[])
      union
      select h.ctid as row, h.run_id, h.key, h.units, ${holdsPlace} as counts
      from punctual.key_holds h
      where h.segment = ${segment}::smallint and h.run_id = any (${uuids(left, (id) => id)}::uuid[])
    ),
    over as (
      delete from punctual.key_holds h
      where ${ofSegment(part`h.segment`, segment)} and h.ctid = any (array(select o.row from looked_at o where not o.counts))
    ),
    held as (
      select o.key, count(*) as places, sum(o.units) filter (where (
               select r.run_id from punctual.running r where r.segment = ${segment}::smallint and r.run_id = o.run_id) is null) as unstarted
      from looked_at o
      where o.counts
      group by o.key
    )
    select k.key, (coalesce(h.places, 0) + ${runningUnder(part`${segment}::smallint`, part`k.key`)})::integer as places,
           coalesce(h.unstarted, 0)::integer as unstarted, ${ms(part`clock_timestamp()`)} as now_ms
    from (select 1) one
    left join unnest(${texts(limited, (key) => key)}::text[]) k (key) on true
    left join held h using (key)`);
  const holds = new Map(rows.flatMap((row) => (row.key === null ? [] : [[row.key, row] as const])));
  return { now_ms: Number(rows[0]?.now_ms), holds };
}

/** The most places under a key: of a user in a fair queue, or as its row says. null for any number. */
function maxOf(row: KeyRow, fair: Fair): number | null {
  const [kind, queue = '', userId = ''] = row.key.split(' ');
  if (kind === row.key) return row.max_concurrency;
  const shared = fair.get(queue);
  return shared === undefined ? null : fairRoom(shared, userId);
}

function toState(row: KeyRow, { now_ms, hold, fair }: { now_ms: number; hold: Hold | undefined; fair: Fair }): HeldKey {
  const { key, rate_units, rate_per_ms, burst, tokens, refilled_ms, blocked_until_ms, look_at_ms } = row;
  const max = maxOf(row, fair);
  const rated = rate_units !== null && rate_per_ms !== null && burst !== null;
  const bucket = rated
    ? { tokens: tokens ?? burst, burst, per_ms: rate_units / rate_per_ms, unstarted: hold?.unstarted ?? 0 }
    : null;
  return {
    key,
    room: max === null ? Number.POSITIVE_INFINITY : Math.max(0, max - (hold?.places ?? 0)),
    bucket: bucket === null ? null : refill(bucket, refilled_ms === null ? 0 : now_ms - refilled_ms),
    blocked_ms: blocked_until_ms === null ? 0 : blocked_until_ms - now_ms,
    now_ms,
    look_at_ms,
  };
}

export async function writeKeys(
  tx: Queryable,
  segment: number,
  keys: readonly HeldKey[],
  lookInMs: ReadonlyMap<string, number>,
): Promise<void> {
  const lookAt = ({ key, now_ms }: HeldKey): number | null => {
    const inMs = lookInMs.get(key);
    return inMs === undefined ? null : now_ms + inMs;
  };
  await tx.query(sql`
    update punctual.key_limits k
    set tokens = c.tokens::double precision,
        refilled_at = case when c.tokens is not null then to_timestamp(c.now_ms::double precision / 1000) end,
        look_at = to_timestamp(c.look_at_ms::double precision / 1000)
    from unnest(
      ${texts(keys, ({ key }) => key)}::text[], ${texts(keys, ({ bucket }) => (bucket === null ? null : String(bucket.tokens)))}::text[],
      ${texts(keys, ({ now_ms }) => String(now_ms))}::text[], ${texts(keys, (key) => lookAt(key)?.toString() ?? null)}::text[])
      c (key, tokens, now_ms, look_at_ms)
    where k.segment = ${segment}::smallint and k.key = c.key`);
}
