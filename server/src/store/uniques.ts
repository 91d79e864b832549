// Unique keys in the book: which job a key names, and how that job stands. The row of a key is the lock under which
// submits with that key are judged one after the other (unique_moves.ts). A row whose job no longer holds the key does no
// harm, and is forgotten after a while (upkeep/uniques.ts).
import { segmentOf } from '../base/ids.ts';
import type { Holder } from '../rules/unique.ts';
import { texts, uuids } from './arrays.ts';
import type { Queryable } from './database.ts';
import { firstRunOfJob } from './jobs.ts';
import { isSealedIn } from './sealed.ts';
import { type Fragment, join, ofSegment, part, sql } from './sql.ts';

/** A key of a user, no user being an empty text; the segment is that of the hash of both. */
export interface UniqueKeyOf {
  segment: number;
  user_id: string;
  key: string;
}

export interface NamedJob extends UniqueKeyOf {
  job_id: string;
}

/**
 * Locks keys until the end of the transaction; those that name no job get the one given. Answers the job each names.
 * Always in the same order, so that two bulks never wait for each other.
 */
export async function lockKeys(tx: Queryable, keys: readonly NamedJob[]): Promise<NamedJob[]> {
  const locked: NamedJob[] = [];
  for (const [segment, some] of bySegment(keys, (key) => key.segment)) {
    const sorted = [...some].sort((a, b) => (orderOf(a) < orderOf(b) ? -1 : 1));
    locked.push(
      ...(await tx.query<NamedJob>(sql`
        insert into punctual.uniques (segment, user_id, key, job_id)
        select ${segment}::smallint, k.user_id, k.key, k.job_id
        from unnest(${texts(sorted, (k) => k.user_id)}::text[], ${texts(sorted, (k) => k.key)}::text[], ${uuids(sorted, (k) => k.job_id)}::uuid[])
          with ordinality as k (user_id, key, job_id, place)
        order by k.place
        on conflict (segment, user_id, key) do update set key = excluded.key
        returning segment, user_id, key, job_id`)),
    );
  }
  return locked;
}

const orderOf = ({ user_id, key }: UniqueKeyOf): string => `${user_id} ${key}`;

/** The keys, which the transaction has locked, name these jobs from now on. */
export async function renameKeys(tx: Queryable, keys: readonly NamedJob[]): Promise<void> {
  for (const [segment, some] of bySegment(keys, (key) => key.segment))
    await tx.query(sql`
      update punctual.uniques u
      set job_id = k.job_id, look_at = now() + interval '1 minute'
      from unnest(${texts(some, (k) => k.user_id)}::text[], ${texts(some, (k) => k.key)}::text[], ${uuids(some, (k) => k.job_id)}::uuid[])
        as k (user_id, key, job_id)
      where u.segment = ${segment}::smallint and u.user_id = k.user_id and u.key = k.key`);
}

export async function namedJob(db: Queryable, { segment, user_id, key }: UniqueKeyOf): Promise<string | null> {
  const rows = await db.query<{ job_id: string }>(sql`
    select job_id
    from punctual.uniques
    where segment = ${segment}::smallint and user_id = ${user_id} and key = ${key}`);
  return rows[0]?.job_id ?? null;
}

/** The runs of the job `j` that have not ended; one snapshot shows each of them in exactly one table. */
const liveRuns: Fragment = join(
  [
    [part`punctual.waiting`, part`r.attempts > 0`] as const,
    [part`punctual.ready`, part`r.attempts > 0`] as const,
    [part`punctual.running`, part`true`] as const,
  ].flatMap(([table, started]) => [
    part`select r.cause, ${started} as started from ${table} r where r.segment = j.segment and r.run_id = ${firstRunOfJob}`,
    part`select r.cause, ${started} as started from ${table} r where r.segment = j.segment and r.job_id = j.job_id and r.cause <> 'submit'`,
  ]),
  ' union all ',
  part``,
);

/**
 * How these jobs stand, by their ids; those that do not exist any more are left out. Runs that people made of a job after
 * its end do not make it hold its key again: whether they do would depend on whether it was forgotten meanwhile.
 */
export async function readHolders(db: Queryable, jobIds: readonly string[]): Promise<Map<string, Holder>> {
  const holders = new Map<string, Holder>();
  for (const [segment, ids] of bySegment(jobIds, segmentOf)) {
    const rows = await db.query<Holder>(sql`
      select j.job_id, j.type, j.unique_scope as scope, j.schedule_type in ('CRON', 'INTERVAL') as recurring,
             j.cancelled_at is not null as cancelled, coalesce(l.started, false) as started,
             coalesce(l.live, false)
               or exists (select from punctual.schedules s where s.segment = j.segment and s.job_id = j.job_id and not s.ended) as live,
             coalesce(j.created_at + j.unique_period_ms * interval '1 millisecond' > clock_timestamp(), false) as in_period,
             ${isSealedIn(part`j.payload`)} as encrypted
      from unnest(${uuids(ids, (id) => id)}::uuid[]) i (job_id)
      join punctual.jobs j on j.segment = ${segment}::smallint and j.job_id = i.job_id
      cross join lateral (
        select bool_or(cause in ('submit', 'schedule')) as live, bool_or(started and cause <> 'backfill') as started
        from (${liveRuns}) live
      ) l`);
    for (const row of rows) holders.set(row.job_id, row);
  }
  return holders;
}

/** Keys of a segment that it is time to look at. */
export async function keysToLookAt(db: Queryable, segment: number, limit: number): Promise<NamedJob[]> {
  return db.query<NamedJob>(sql`
    select segment, user_id, key, job_id
    from punctual.uniques
    where segment = ${segment}::smallint and look_at <= now()
    order by look_at
    limit ${limit}::integer`);
}

/** Forgets keys, unless they name another job by now or somebody has them locked. Answers how many. */
export async function forgetKeys(db: Queryable, segment: number, keys: readonly NamedJob[]): Promise<number> {
  if (keys.length === 0) return 0;
  const rows = await db.query<{ n: number }>(sql`
    with gone as (
      delete from punctual.uniques
      where ${ofSegment(part`segment`, segment)} and ctid = any (array(${unlocked(segment, keys)}))
      returning 1
    )
    select count(*)::integer as n
    from gone`);
  return rows[0]?.n ?? 0;
}

/** Keys that are still held are looked at again after as long as their job is old, within bounds. */
export async function lookLater(db: Queryable, segment: number, keys: readonly NamedJob[]): Promise<void> {
  if (keys.length === 0) return;
  await db.query(sql`
    update punctual.uniques u
    set look_at = now() + least(greatest(now() - ${madeAt(part`u.job_id`)}, interval '1 minute'), interval '6 hours')
    where ${ofSegment(part`u.segment`, segment)} and u.ctid = any (array(${unlocked(segment, keys)}))`);
}

/** The time in an id. */
const madeAt = (id: Fragment): Fragment =>
  part`to_timestamp(('x' || substr(${id}::text, 1, 8) || substr(${id}::text, 10, 4))::bit(48)::bigint / 1000.0)`;

/** Rows that nobody has locked, so that whoever sweeps never waits, and never holds one row while waiting for another. */
function unlocked(segment: number, keys: readonly NamedJob[]): Fragment {
  return part`
    select u.ctid
    from unnest(${texts(keys, (k) => k.user_id)}::text[], ${texts(keys, (k) => k.key)}::text[], ${uuids(keys, (k) => k.job_id)}::uuid[])
      as k (user_id, key, job_id)
    join punctual.uniques u on u.segment = ${segment}::smallint and u.user_id = k.user_id and u.key = k.key and u.job_id = k.job_id
    for update of u skip locked`;
}

function bySegment<T>(items: readonly T[], segmentOfItem: (item: T) => number): [number, T[]][] {
  const groups = new Map<number, T[]>();
  for (const item of items) {
    const segment = segmentOfItem(item);
    const group = groups.get(segment);
    if (group === undefined) groups.set(segment, [item]);
    else group.push(item);
  }
  return [...groups].sort(([a], [b]) => a - b);
}
