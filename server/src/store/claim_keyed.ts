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
import { int4s } from './arrays.ts';
import {
  type ClaimedRow,
  type ClaimedRun,
  type ClaimOrder,
  claimedColumns,
  claimedFlag,
  onlySession,
  sessionsOf,
  startedAt,
  takeReady,
  toClaimed,
  withJobs,
} from './claim.ts';
import type { Database, Queryable } from './database.ts';
import { type Fragment, ofSegment, part, type Sql, sqlPlannedOnce, theOne } from './sql.ts';

export interface KeyedClaim {
  runs: ClaimedRun[];
  /** Runs that wait now, with the numbers under which they stood in their lanes. */
  filed: { lane_id: number; fence: string; key: string }[];
  /** More may be there than was looked at. */
  more: boolean;
}

interface LookedAt extends ClaimedRow {
  /** The key it waits under now; null when it starts. */
  filed_under: string | null;
}

const placesLock = 7600;

/** Until the transaction ends, nobody else gives away places under keys of the segment. */
export async function lockPlaces(tx: Queryable, segment: number): Promise<void> {
  await tx.query(sqlPlannedOnce`select pg_advisory_xact_lock(${placesLock}::integer, ${segment}::integer)`);
}

/** How many runs hold a place under a key by running. */
export const runningUnder = (segment: Fragment, key: Fragment): Fragment =>
  part`(select count(*) from punctual.running q where q.segment is not distinct from ${segment} and q.key = ${key})`;

export async function claimKeyed(db: Database, order: ClaimOrder): Promise<KeyedClaim> {
  const { segment, lanes, slots } = order;
  const { rows } = await db.transaction(async (tx) => {
    void lockPlaces(tx, segment);
    return { rows: tx.query<LookedAt>((version) => takeKeyed(order, version)) };
  });
  const lookedAt = toClaimed(await rows, null);
  const places = new Map(lanes.map((lane, place) => [lane.lane_id, place]));
  const place = (run: ClaimedRun): number => places.get(run.lane_id) ?? 0;
  const runs = lookedAt.filter((run) => run.filed_under === null);
  runs.sort((a, b) => place(a) - place(b) || Number(a.fence) - Number(b.fence));
  const filed = lookedAt.flatMap(({ lane_id, fence, filed_under: key }) =>
    key === null ? [] : [{ lane_id, fence, key }],
  );
  return { runs, filed, more: filed.length > 0 && lookedAt.length === slots.length };
}

/**
 * The keys of runs that come straight from a submit stand in `ready`; those of others are looked up. Who is refused is a set
 * looked up by hash, which `is true` keeps so, whatever the tables were like when the statement was planned; mostly it is empty.
 */
function takeKeyed(order: ClaimOrder, version: number): Sql {
  const { segment, lanes, slots, lease_id } = order;
  const one = onlySession(slots);
  const ours = part`segment = ${segment}::smallint`;
  const laneIds = int4s(lanes, (lane) => lane.lane_id);
  const place = lanes.length === 1 ? part`1` : part`array_position(${laneIds}::integer[], lane_id)`;
  const isRefused = (run: Fragment): Fragment =>
    part`(exists (select from refused) and ${run}.run_id in (select run_id from refused))`;
  return sqlPlannedOnce`
    with keyed as materialized (
      ${takeReady(order)}, ${place} as place,
                coalesce(key, (select j.concurrency_key from punctual.jobs j where j.${ours} and ${theOne(part`j.job_id`, part`ready.job_id`)})) as key
    ),
    ${refuse(segment)},
    ${one === null ? part`numbered as (select *, row_number() over (partition by ${isRefused(part`keyed`)} order by place, seq) as slot from keyed),` : part``}
    granted as (
      insert into punctual.running (segment, run_id, job_id, lane_id, attempt, cause, lease_id, session_id, worker_id, scheduled_for, due_at, started_at, key)
      select d.segment, d.run_id, d.job_id, d.lane_id, d.attempts + 1, d.cause, ${lease_id}::uuid,
             ${one === null ? part`s.session_id, s.worker_id` : part`${one.session_id}::uuid, ${one.worker_id}::text`},
             d.scheduled_for, d.due_at, ${startedAt}, d.key
      from ${one === null ? part`numbered d join ${sessionsOf(slots)} using (slot)` : part`keyed d`}
      where not ${isRefused(part`d`)}
    ),
    filed as (
      insert into punctual.waiting (segment, run_id, job_id, lane_id, attempts, cause, reason, scheduled_for, due_at, wake_at, key, priority)
      select d.segment, d.run_id, d.job_id, d.lane_id, d.attempts, d.cause, 'limit', d.scheduled_for, d.due_at, 'infinity', d.key,
             (select l.priority from punctual.lanes l where l.lane_id = d.lane_id)
      from keyed d
      where ${isRefused(part`d`)} is true
    )
    select ${claimedColumns(null)}, ${claimedFlag}, case when ${isRefused(part`t`)} then t.key end as filed_under,
           ${one === null ? part`t.slot::integer` : part`null::integer`} as slot
    from ${withJobs(one === null ? part`numbered` : part`keyed`, segment, version)}`;
}

/**
 * The turn of a run under its key comes after those that hold a place and those before it in the batch. Holds count even if
 * they are over: the admitter removes those. Only what the order needs is sorted.
 */
function refuse(segment: number): Fragment {
  const ours = part`segment = ${segment}::smallint`;
  return part`
    asking as (
      select key, place, seq, run_id from keyed
      union all
      select r.key, 0, null, null
      from punctual.running r
      where ${ofSegment(part`r.segment`, segment)} and r.key = any (array(select key from keyed))
      union all
      select h.key, 0, null, null from punctual.key_holds h where h.${ours}
    ),
    refused as materialized (
      select a.run_id
      from (select *, row_number() over (partition by key order by place, seq) as turn from asking) a
      where a.place > 0 and a.turn > ${mostUnder(ours)}
    )`;
}

/**
 * The last turn of the key `a.key` that a claim may let start: none when others wait under it, or when it has a rate or a
 * pause; as its own limit says, else the default. What the segment has none of is not looked for.
 */
function mostUnder(ours: Fragment): Fragment {
  const most = part`case when k.rate_units is not null or k.blocked_until > now() then 0
                         when k.own then coalesce(k.max_concurrency, ${anyNumber}) end`;
  const filed = part`from punctual.waiting w where w.${ours} and w.reason = 'limit'`;
  const limits = part`from punctual.key_limits k where k.${ours}`;
  return part`case
        when exists (select ${filed}) and (select true ${filed} and w.key = a.key limit 1) then 0
        else coalesce(case when exists (select ${limits} and k.key <> '*') then (select ${most} ${limits} and k.key = a.key) end,
                      (select ${most} ${limits} and k.key = '*'), ${anyNumber})
      end`;
}

const anyNumber = part`2147483647`;
