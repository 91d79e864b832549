// Limits of keys in the book: set, removed, listed, and how they are used. They are followed in admit.ts. A limit lives in
// the segment of its key, beside its runs; the default (`*`) is a row in each segment.
import { type KeyLimit, type KeyUse, limits, type PutKeyLimit } from '@punctual/contract';
import { refill } from '../rules/admit.ts';
import { holdsPlace } from './admit_keys.ts';
import { int8s, texts } from './arrays.ts';
import { runningUnder } from './claim_keyed.ts';
import type { Queryable } from './database.ts';
import { type Fragment, ofSegment, part, sql } from './sql.ts';

export const defaultKey = '*';

interface LimitRow {
  key: string;
  own: boolean;
  max_concurrency: number | null;
  rate_units: number | null;
  rate_per_ms: number | null;
  burst: number | null;
  note: string | null;
  blocked_until: Date | null;
  updated_at: Date;
}

const columns = part`k.key, k.own, k.max_concurrency, k.rate_units, k.rate_per_ms, k.burst, k.note,
  case when k.blocked_until > now() then k.blocked_until end as blocked_until, k.updated_at`;

/** Sets the limit in these segments: that of the key, or for the default all. Its row lock orders it with admissions. */
export async function putKeyLimit(
  db: Queryable,
  segments: readonly number[],
  key: string,
  { max_concurrency = null, rate = null, note = null }: PutKeyLimit,
): Promise<KeyLimit> {
  const rows = await db.query<LimitRow>(sql`
    insert into punctual.key_limits as k (segment, key, own, max_concurrency, rate_units, rate_per_ms, burst, note, look_at)
    select s.segment, ${key}::text, true, ${max_concurrency}::integer, ${rate?.units ?? null}::integer, ${rate?.per_ms ?? null}::integer,
           ${rate?.burst ?? rate?.units ?? null}::integer, ${note}::text, case when ${key}::text <> ${defaultKey} then now() end
    from unnest(${segments}::smallint[]) s (segment)
    on conflict (segment, key) do update
    set own = true, max_concurrency = excluded.max_concurrency, rate_units = excluded.rate_units, rate_per_ms = excluded.rate_per_ms,
        burst = excluded.burst, note = excluded.note, updated_at = now(), look_at = excluded.look_at,
        tokens = case when excluded.rate_units is not null then k.tokens end
    returning ${columns}`);
  return toLimit(rows[0] as LimitRow);
}

/** False when there is none. The row stays while the key is in use. */
export async function deleteKeyLimit(db: Queryable, segments: readonly number[], key: string): Promise<boolean> {
  const rows = await db.query(sql`
    update punctual.key_limits
    set own = false, max_concurrency = null, rate_units = null, rate_per_ms = null, burst = null, note = null, updated_at = now(),
        tokens = null, refilled_at = null, look_at = case when key <> ${defaultKey} then now() end
    where segment = any (${segments}::smallint[]) and key = ${key} and own
    returning key`);
  return rows.length > 0;
}

/** By key, after a key. The default stands in every segment and is shown once. */
export async function listKeyLimits(
  db: Queryable,
  segments: readonly number[],
  page: { after: string; limit: number; key?: string },
): Promise<KeyLimit[]> {
  const rows = await db.query<LimitRow>(sql`
    select distinct on (k.key) ${columns}
    from unnest(${segments}::smallint[]) s (segment)
    cross join lateral (
      select *
      from punctual.key_limits o
      where o.segment = s.segment and o.own and o.key > ${page.after} ${page.key === undefined ? part`` : part`and o.key = ${page.key}`}
      order by o.key
      limit ${page.limit}::integer
    ) k
    order by k.key
    limit ${page.limit}::integer`);
  return rows.map(toLimit);
}

interface UseRow extends LimitRow {
  tokens: number | null;
  elapsed_ms: number | null;
  in_use: number;
  unstarted: number;
  holders: string[] | null;
  waiting: number;
}

/** The limit that applies to the key, and who uses it. */
export async function getKeyUse(db: Queryable, segment: number, key: string): Promise<KeyUse> {
  const rows = await db.query<UseRow>(sql`
    with held as materialized (
      select h.run_id, h.units
      from punctual.key_holds h
      where h.segment = ${segment}::smallint and h.key = ${key} and ${holdsPlace}
      union all
      select r.run_id, 0
      from punctual.running r
      where ${ofSegment(part`r.segment`, segment)} and r.key = ${key}
      limit ${limits.max_counted}
    ),
    -- The row of the key, and for what it does not say itself the default.
    found as (
      select *
      from punctual.key_limits
      where segment = ${segment}::smallint and key in (${key}, ${defaultKey})
    )
    select ${columns}, k.tokens, (extract(epoch from now() - k.refilled_at) * 1000)::double precision as elapsed_ms,
           (select count(*) from held)::integer as in_use,
           (select coalesce(sum(units), 0) from held h where (
             select r.run_id from punctual.running r where r.segment = ${segment}::smallint and r.run_id = h.run_id) is null)::integer as unstarted,
           (select array_agg(run_id::text) from (select run_id from held order by run_id limit ${limits.max_shown_holders}) h) as holders,
           (select count(*) from (
             select from punctual.waiting w
             where w.segment = ${segment}::smallint and w.key = ${key} and w.reason = 'limit'
             limit ${limits.max_counted}) w)::integer as waiting
    from (select 1) one
    left join found k on true`);
  const mine = rows.find((row) => row.key === key);
  const fallback = rows.find((row) => row.key === defaultKey && row.own);
  const [any] = rows as [UseRow];
  const limiting = mine?.own === true ? mine : fallback;
  return {
    ...(limiting === undefined ? noLimit : toLimit(limiting)),
    key,
    source: mine?.own === true ? 'own' : fallback === undefined ? 'none' : 'default',
    blocked_until: mine?.blocked_until?.toISOString() ?? null,
    in_use: any.in_use,
    holders: any.holders ?? [],
    tokens: limiting === undefined ? null : tokensNow(limiting, mine, any.unstarted),
    waiting: any.waiting,
  };
}

const noLimit = { max_concurrency: null, rate: null, note: null, blocked_until: null, updated_at: null };

function tokensNow(
  { rate_units, rate_per_ms, burst }: LimitRow,
  state: UseRow | undefined,
  unstarted: number,
): number | null {
  if (rate_units === null || rate_per_ms === null || burst === null) return null;
  const bucket = { tokens: state?.tokens ?? burst, burst, per_ms: rate_units / rate_per_ms, unstarted };
  return Math.round(refill(bucket, state?.elapsed_ms ?? 0).tokens * 1000) / 1000;
}

function toLimit(row: LimitRow): KeyLimit {
  const { key, max_concurrency, rate_units, rate_per_ms, burst, note } = row;
  const rate =
    rate_units === null || rate_per_ms === null || burst === null
      ? null
      : { units: rate_units, per_ms: rate_per_ms, burst };
  const blocked_until = row.blocked_until?.toISOString() ?? null;
  return { key, max_concurrency, rate, note, blocked_until, updated_at: row.updated_at.toISOString() };
}

/** What a run's target asked for: nothing of these keys is admitted for a while. */
export async function blockKeys(
  db: Queryable,
  segment: number,
  blocks: readonly { key: string; for_ms: number }[],
): Promise<void> {
  await db.query(sql`
    insert into punctual.key_limits as k (segment, key, blocked_until, look_at)
    select ${segment}::smallint, b.key, now() + max(b.for_ms) * interval '1 millisecond', now() + max(b.for_ms) * interval '1 millisecond'
    from unnest(${texts(blocks, (block) => block.key)}::text[], ${int8s(blocks, (block) => block.for_ms)}::bigint[]) b (key, for_ms)
    group by b.key
    order by b.key
    on conflict (segment, key) do update
    set blocked_until = greatest(k.blocked_until, excluded.blocked_until), look_at = coalesce(k.look_at, excluded.look_at)`);
}

/** The most runs that may hold a place under the key of the row `of`; null for any number. `k` is its limit, if it has one. */
export const mostPlaces = (of: Fragment): Fragment => part`case
    when k.own then k.max_concurrency
    when strpos(${of}.key, ' ') = 0 then (
      select d.max_concurrency from punctual.key_limits d where d.segment = ${of}.segment and d.key = ${defaultKey} and d.own)
    else (
      select greatest(1, round(s.share * coalesce((s.weights::jsonb ->> split_part(${of}.key, ' ', 3))::numeric, 1)))::integer
      from punctual.fair_queues s
      where s.queue = split_part(${of}.key, ' ', 2))
  end`;

/** Of the keys in `filed`, under which runs wait, those that have room and need not rest. */
const withRoom = part`
  select f.key, f.updated_at
  from filed f
  left join punctual.key_limits k using (segment, key)
  where coalesce(k.look_at <= now(), true) and coalesce(k.blocked_until <= now(), true)
    and coalesce((select count(*) from punctual.key_holds h where h.segment = f.segment and h.key = f.key and ${holdsPlace})
                 + ${runningUnder(part`f.segment`, part`f.key`)} < ${mostPlaces(part`f`)}, true)`;

/** Keys of a segment under which runs wait although there is room: whoever should have admitted them was stopped. */
export const neglectedKeys = (segment: Fragment): Fragment => part`
  with recursive filed as (
    (select w.segment, w.key, w.updated_at
     from punctual.waiting w
     where w.segment = ${segment} and w.reason = 'limit'
     order by w.key, w.priority desc, w.due_at, w.run_id
     limit 1)
    union all
    select next.*
    from filed f
    cross join lateral (
      select w.segment, w.key, w.updated_at
      from punctual.waiting w
      where w.segment = f.segment and w.reason = 'limit' and w.key > f.key
      order by w.key, w.priority desc, w.due_at, w.run_id
      limit 1
    ) next
  )
  ${withRoom}`;

/** Those of the keys under which runs wait although there is room. Mostly nobody waits in the segment at all. */
export async function keysWithRoom(db: Queryable, segment: number, keys: readonly string[]): Promise<string[]> {
  const waiting = await db.query(sql`
    select from punctual.waiting w where w.segment = ${segment}::smallint and w.reason = 'limit' limit 1`);
  if (waiting.length === 0) return [];
  const rows = await db.query<{ key: string }>(sql`
    with filed as materialized (
      select ${segment}::smallint as segment, k.key, now() as updated_at
      from unnest(${texts(keys, (key) => key)}::text[]) k (key)
      where (select true from punctual.waiting w
             where w.segment = ${segment}::smallint and w.key = k.key and w.reason = 'limit' limit 1) is not null
    )
    ${withRoom}`);
  return rows.map((row) => row.key);
}

export interface Neglected {
  /** Keys with room under which runs wait. */
  keys: string[];
  /** Runs whose holds are over and were not removed. */
  left: string[];
  /** Are there holds at all? */
  holds: boolean;
  /** Runs that wait for a limit; counted up to limits.max_counted. */
  waiting: number;
}

/** What nobody has done although it was to be done; the safety net under admission. */
export async function findNeglected(db: Queryable, segment: number, limit: number): Promise<Neglected> {
  const rows = await db.query<{ keys: string[] | null; left: string[] | null; holds: boolean; waiting: number }>(sql`
    select (select array_agg(key) from (select n.key from (${neglectedKeys(part`${segment}::smallint`)}) n limit ${limit}::integer) n) as keys,
           (select array_agg(run_id::text) from (
             select h.run_id from punctual.key_holds h where h.segment = ${segment}::smallint and not ${holdsPlace} limit ${limit}::integer) h) as left,
           exists (select from punctual.key_holds h where h.segment = ${segment}::smallint) as holds,
           (select count(*) from (
             select from punctual.waiting w where w.segment = ${segment}::smallint and w.reason = 'limit' limit ${limits.max_counted}) w)::integer as waiting`);
  const { keys = null, left = null, holds = false, waiting = 0 } = rows[0] ?? {};
  return { keys: keys ?? [], left: left ?? [], holds, waiting };
}

/** Forgets keys that have no limit of their own and have not been used for a while: a new row is the same as none. */
export async function pruneKeys(db: Queryable, segment: number, limit: number): Promise<number> {
  const rows = await db.query(sql`
    delete from punctual.key_limits
    where segment = ${segment}::smallint
      and key = any (array(
        select k.key
        from punctual.key_limits k
        left join punctual.key_limits d on d.segment = k.segment and d.key = ${defaultKey} and d.own
        where k.segment = ${segment}::smallint and not k.own and k.look_at is null
          and k.updated_at < now() - interval '10 minutes' and coalesce(k.blocked_until < now(), true)
          and coalesce(k.tokens + extract(epoch from now() - k.refilled_at) * 1000 * d.rate_units / d.rate_per_ms >= d.burst, true)
          and not exists (select from punctual.key_holds h where h.segment = k.segment and h.key = k.key)
          and not exists (select from punctual.waiting w where w.segment = k.segment and w.key = k.key and w.reason = 'limit')
        limit ${limit}::integer
        for update of k skip locked
      ))
    returning key`);
  return rows.length;
}
