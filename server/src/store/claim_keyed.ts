// Claims from the entry lanes of jobs with a key: runs whose key has room start at once, the others are filed under it.
//
//   ready (entry lane) ──▶ running, with the key    there is room, and nobody waits under the key
//                      └─▶ waiting, reason `limit`  there is none, or that is not for a claim to say: the admitter decides
//
// Who is in `running` with a key holds a place under it: nothing has to be given back, and nothing can drift. What such a
// claim cannot decide, a rate, a pause, others that wait, it leaves to admission (admit.ts), which goes by the same places.
// Whatever it looks at leaves the lane, so that no claim walks over the crowd of a full key again.
//
// Never over a limit, with any number of servers: all claims from entry lanes and all admissions of a segment go one after
// the other. The lock is taken by a statement of its own, so that the one that counts sees what those before it committed.
// All of it is sent at once, so a server that stands still keeps nobody waiting.
import { int4s, int8s, texts, uuids } from './arrays.ts';
import { type ClaimedRun, type ClaimOrder, claimedColumns, claimedFlag } from './claim.ts';
import type { Database, Queryable } from './database.ts';
import { type Fragment, ofSegment, part, sql, theOne } from './sql.ts';

export interface KeyedClaim {
  runs: ClaimedRun[];
  /** Runs that wait now, with the numbers under which they stood in their lanes. */
  filed: { lane_id: number; fence: string; key: string }[];
  /** More may be there than was looked at. */
  more: boolean;
}

interface LookedAt extends ClaimedRun {
  key: string;
  starts: boolean;
}

const placesLock = 7600;

/** Until the transaction ends, nobody else gives away places under keys of the segment. */
export async function lockPlaces(tx: Queryable, segment: number): Promise<void> {
  await tx.query(sql`select pg_advisory_xact_lock(${placesLock}::integer, ${segment}::integer)`);
}

/** How many runs hold a place under a key by running. */
export const runningUnder = (segment: Fragment, key: Fragment): Fragment =>
  part`(select count(*) from punctual.running q where q.segment = ${segment} and q.key = ${key})`;

export async function claimKeyed(db: Database, order: ClaimOrder): Promise<KeyedClaim> {
  const { segment, slots } = order;
  const { rows } = await db.transaction(async (tx) => {
    void lockPlaces(tx, segment);
    return { rows: tx.query<LookedAt>(takeKeyed(order)) };
  });
  const lookedAt = await rows;
  const runs = lookedAt.filter((run) => run.starts);
  const filed = lookedAt.filter((run) => !run.starts);
  return { runs, filed, more: filed.length > 0 && lookedAt.length === slots.length };
}

function takeKeyed({ segment, lanes, slots, lease_id }: ClaimOrder): ReturnType<typeof sql> {
  return sql`
    with picked as materialized (
      select next.*, l.place
      from unnest(${int4s(lanes, (lane) => lane.lane_id)}::integer[], ${int8s(lanes, (lane) => lane.after)}::bigint[])
        with ordinality l (lane_id, after, place)
      cross join lateral (
        select r.ctid as row, r.*
        from punctual.ready r
        where r.segment = ${segment}::smallint and r.lane_id = l.lane_id and r.seq > l.after
        order by r.seq
        limit ${slots.length}::integer
        for update skip locked
      ) next
      limit ${slots.length}::integer
    ),
    asking as materialized (
      select p.*, j.concurrency_key as key, row_number() over (partition by j.concurrency_key order by p.place, p.seq) as turn
      from picked p
      join punctual.jobs j on j.segment = ${segment}::smallint and j.job_id = p.job_id
    ),
    keys as materialized (
      select a.key, ${roomUnder(segment)} as room
      from (select distinct key from asking) a
    ),
    decided as materialized (
      select a.*, a.turn <= k.room as starts, row_number() over (partition by a.turn <= k.room order by a.place, a.seq) as slot
      from asking a
      join keys k using (key)
    ),
    gone as (
      delete from punctual.ready
      where ${ofSegment(part`segment`, segment)} and ctid = any (array(select p.row from picked p))
    ),
    granted as (
      insert into punctual.running (segment, run_id, job_id, lane_id, attempt, cause, lease_id, session_id, worker_id, scheduled_for, due_at, key)
      select d.segment, d.run_id, d.job_id, d.lane_id, d.attempts + 1, d.cause, ${lease_id}::uuid, s.session_id, s.worker_id,
             d.scheduled_for, d.due_at, d.key
      from decided d
      join unnest(${uuids(slots, (slot) => slot.session_id)}::uuid[], ${texts(slots, (slot) => slot.worker_id)}::text[])
        with ordinality as s (session_id, worker_id, slot) using (slot)
      where d.starts
    ),
    filed as (
      insert into punctual.waiting (segment, run_id, job_id, lane_id, attempts, cause, reason, scheduled_for, due_at, wake_at, key, priority)
      select d.segment, d.run_id, d.job_id, d.lane_id, d.attempts, d.cause, 'limit', d.scheduled_for, d.due_at, 'infinity', d.key, l.priority
      from decided d
      join punctual.lanes l using (lane_id)
      where not d.starts
    )
    select t.starts, t.key, t.slot::integer as slot, ${claimedColumns}, ${claimedFlag}
    from decided t
    left join punctual.jobs j on t.starts and j.segment = t.segment and j.job_id = t.job_id`;
}

/**
 * How many runs of the key `a.key` may start: none when others wait under it, or when it has a rate or a pause. Holds
 * count even if they are over: the admitter removes those.
 */
function roomUnder(segment: number): Fragment {
  const own = (column: Fragment): Fragment => part`case when k.own then k.${column} else d.${column} end`;
  return part`(
        select case
          when coalesce(k.blocked_until > now(), false) or ${own(part`rate_units`)} is not null then 0
          when (select true from punctual.waiting w
                where w.segment = ${segment}::smallint and w.key = a.key and w.reason = 'limit' limit 1) is not null then 0
          when ${own(part`max_concurrency`)} is null then 'infinity'::double precision
          else ${own(part`max_concurrency`)} - ${runningUnder(part`${segment}::smallint`, part`a.key`)}
               - (select count(*) from punctual.key_holds h where h.segment = ${segment}::smallint and h.key = a.key)
        end
        from (select 1) one
        left join (
          select * from punctual.key_limits o
          where o.segment = ${segment}::smallint and ${theOne(part`o.key`, part`a.key`)}
        ) k on true
        left join (
          select * from punctual.key_limits o
          where o.segment = ${segment}::smallint and o.own and ${theOne(part`o.key`, part`'*'`)}
        ) d on true)`;
}
