// Claim: due runs become leased ones, in one statement for hundreds of runs of one segment:
//
//   ready ──delete … skip locked──▶ running, payload joined from jobs
//
// Two claimers never get the same run: a row locked by one is skipped by the other, and the delete is the claim. The
// statement commits before any worker hears of the runs, so a run that a worker holds is always in `running`. If the
// answer of the statement is lost, the runs stand in `running` with nobody working on them: the caller then lets the
// worker's next call list what it really runs, and gives the rest back (dispatch/sync.ts).
//
// A run may reach `ready` in the moment its job is paused or cancelled, or too late for the time its whole run may take.
// Such runs are claimed with a flag; the caller settles them instead of granting them (dispatch/claim.ts). They are few,
// and so the statement that all others pass through stays small.
//
// Lanes come in the order in which they are to be served; the scan stops as soon as enough runs are locked. The attempt
// counts from here, so a run that kills its worker uses up its attempts.
import { defaults } from '@punctual/contract';
import { int4s, int8s, texts, uuids } from './arrays.ts';
import type { Kept } from './checkpoints.ts';
import type { Queryable } from './database.ts';
import { type Fragment, findsManyAtOnce, joinJob, ofSegment, part, type Sql, sqlPlannedOnce } from './sql.ts';

export interface ClaimedRun {
  run_id: string;
  job_id: string;
  lane_id: number;
  /** Which of the slots asked for it takes: 1, 2, 3, … */
  slot: number;
  attempt: number;
  /** Grows with each lease of the run: the number under which it last became ready. */
  fence: string;
  due_at: string;
  /** null: the same as due_at. */
  scheduled_for: string | null;
  name: string;
  user_id: string | null;
  payload: string | null;
  executor: string | null;
  /** The trace its spans belong to. */
  traceparent: string | null;
  max_retries: number;
  timeout_ms: number;
  /** What it uses of a rate; told by claims of limited lanes only. */
  units?: number;
  /** Set: it must not start, for this reason. */
  flag: 'cancelled' | 'paused' | 'too_late' | null;
  /** What it kept in attempts before; the statement does not read it (dispatch/claim.ts). */
  kept?: Kept | undefined;
}

export interface ClaimLane {
  lane_id: number;
  after: number;
  /** How much may still start of its queue and of its type, when those are limited (claim_limited.ts). */
  queue_room?: LaneRoom | null;
  type_room?: LaneRoom | null;
}

export interface LaneRoom {
  /** A number for the limit within the statement: lanes under the same one share its room. */
  group: number;
  runs: number | null;
  units: number | null;
  /** A run that needs more units than ever fit takes all there are. */
  burst: number | null;
}

export interface ClaimOrder {
  segment: number;
  /** The first to be served first; rows up to `after` are known to be gone. */
  lanes: readonly ClaimLane[];
  /** One entry a free slot: the session that takes the n-th run. */
  slots: readonly { session_id: string; worker_id: string }[];
  /** Fresh and random: with the run's id it names this lease and no other. */
  lease_id: string;
}

/** To whom runs are leased that need not wait in `ready`. */
export interface DirectGrant {
  session_id: string;
  worker_id: string;
  lease_id: string;
}

/** Who takes it says whether the statement was committed, with what it wrote, or failed; `certain` that it wrote nothing. */
export interface LeaseOffer<Written> {
  grant: DirectGrant;
  committed: (written: Written) => void;
  failed: (certain: boolean) => void;
}

/** Offers so many runs of a lane, perhaps before their time, to a worker that waits for such; null: better claim them. */
export type OfferRuns = (laneId: number, count: number, ahead: boolean) => LeaseOffer<ClaimedRun[]> | null;

/**
 * `due`: runs whose time has just come, or comes within `aheadMs`, are leased straight from `waiting`, where nothing in
 * `ready` is before them.
 */
export async function claimRuns(
  db: Queryable,
  order: ClaimOrder,
  due: { aheadMs: number } | null = null,
): Promise<ClaimedRun[]> {
  const { slots } = order;
  const mostly = order.lanes[0]?.lane_id ?? null;
  const limited = order.lanes.some((lane) => lane.queue_room != null || lane.type_room != null);
  const one = onlySession(slots);
  const startsAt = due === null ? startedAt : part`starts_at`;
  const claim = (version: number): Sql => sqlPlannedOnce`
    with taken as (${due !== null ? takeDue(order, due.aheadMs) : limited ? takeWithin(order) : takeReady(order)})
    ${one === null ? part`, numbered as (select *, row_number() over () as slot from taken)` : part``},
    granted as (
      insert into punctual.running (segment, run_id, job_id, lane_id, attempt, cause, lease_id, session_id, worker_id, scheduled_for, due_at, started_at)
      ${one === null ? grantToMany(slots, order.lease_id, startsAt) : grantToOne(one, order.lease_id, startsAt)}
    )
    select ${claimedColumns(mostly)}, ${claimedFlag}, ${one === null ? part`t.slot::integer` : part`null::integer`} as slot${limited ? part`, coalesce(j.units, 1)::integer as units` : part``}
    from ${withJobs(one === null ? part`numbered` : part`taken`, order.segment, version)}`;
  return toClaimed(await db.query<ClaimedRow>(claim), mostly);
}

/** Not before it is due: a statement that began a moment earlier may see a run that has just become ready. */
export const startedAt = part`greatest(now(), due_at)`;

/**
 * The runs `t` with their jobs `j`, which are found at once where that can be. As a full join that cannot become a loop within
 * a loop, as it would be planned while there are few jobs; both sides hold the same jobs.
 */
export function withJobs(runs: Fragment, segment: number, version: number): Fragment {
  if (version < findsManyAtOnce)
    return part`${runs} t join punctual.jobs j on j.segment = t.segment and j.job_id = t.job_id`;
  return part`${runs} t full join (
      select * from punctual.jobs j where j.segment = ${segment}::smallint and j.job_id = any (array(select job_id from ${runs}))
    ) j on j.job_id = t.job_id`;
}

/** What most runs have alike. It travels as null: who reads a value spends more on it than on the whole of a null. */
const usual = { slot: 1, attempt: 1, max_retries: defaults.max_retries, timeout_ms: defaults.timeout_ms } as const;
type Usual = keyof typeof usual | 'lane_id';

export type ClaimedRow = Omit<ClaimedRun, Usual> & { [key in Usual]: number | null };

/** What a worker needs of the run `t` of the job `j`, as `toClaimed` reads it, most of them of this lane. */
export const claimedColumns = (lane: number | null): Fragment => part`
  t.run_id, t.job_id, nullif(t.lane_id, ${lane}::integer) as lane_id, nullif(t.attempts + 1, ${usual.attempt}::integer) as attempt,
  t.seq as fence, t.due_at::text as due_at, nullif(t.scheduled_for, t.due_at)::text as scheduled_for,
  j.name, j.user_id, j.payload, j.executor, j.traceparent, nullif(j.max_retries, ${usual.max_retries}::smallint) as max_retries,
  case when j.run_timeout_ms is null then nullif(j.timeout_ms, ${usual.timeout_ms}::integer)
       else least(j.timeout_ms, ceil(extract(epoch from ${wholeFrom(part`t`)} - now()) * 1000 + j.run_timeout_ms))::integer
  end as timeout_ms`;

/** With what was left out, in the same objects. */
export function toClaimed<Row extends ClaimedRow>(rows: Row[], lane: number | null): (Row & ClaimedRun)[] {
  for (const row of rows) {
    row.slot ??= usual.slot;
    row.lane_id ??= lane;
    row.attempt ??= usual.attempt;
    row.max_retries ??= usual.max_retries;
    row.timeout_ms ??= usual.timeout_ms;
  }
  return rows as (Row & ClaimedRun)[];
}

/** Must the run `t` of the job `j` not start? */
export const claimedFlag = part`
  case when j.cancelled_at is not null then 'cancelled'
       when j.paused_at is not null then 'paused'
       when j.run_timeout_ms is not null and ${wholeFrom(part`t`)} + j.run_timeout_ms * interval '1 millisecond' <= now() then 'too_late'
  end as flag`;

/**
 * From when the time of a whole run counts: its nominal time, or for one that was made later, to catch up or to fill
 * in, when it was made, which its id tells.
 */
export function wholeFrom(run: Fragment): Fragment {
  return part`greatest(${run}.scheduled_for, to_timestamp(('x' || substr(${run}.run_id::text, 1, 8) || substr(${run}.run_id::text, 10, 4))::bit(48)::bigint / 1000.0))`;
}

export function takeReady({ segment, lanes, slots }: ClaimOrder): Fragment {
  return part`
      delete from punctual.ready
      where ${ofSegment(part`segment`, segment)}
        and ctid = any (array(
          select next.ctid
          from unnest(${int4s(lanes, (lane) => lane.lane_id)}::integer[], ${int8s(lanes, (lane) => lane.after)}::bigint[]) l (lane_id, after)
          cross join lateral (
            select r.ctid
            from punctual.ready r
            where r.segment = ${segment}::smallint and r.lane_id = l.lane_id and r.seq > l.after
            order by r.seq
            limit ${slots.length}::integer
            for update skip locked
          ) next
          limit ${slots.length}::integer
        ))
      returning segment, run_id, job_id, lane_id, attempts, cause, seq, scheduled_for, due_at`;
}

/** The same within the room of limits: runs in their order, as long as neither their queue's nor their type's is used up. */
function takeWithin({ segment, lanes, slots }: ClaimOrder): Fragment {
  const rooms = (of: (lane: ClaimLane) => LaneRoom | null | undefined): Fragment => part`
    ${int4s(lanes, (lane) => of(lane)?.group ?? null)}::integer[], ${int4s(lanes, (lane) => of(lane)?.runs ?? null)}::integer[],
    ${int4s(lanes, (lane) => of(lane)?.units ?? null)}::integer[], ${int4s(lanes, (lane) => of(lane)?.burst ?? null)}::integer[]`;
  return part`
      delete from punctual.ready
      where ${ofSegment(part`segment`, segment)}
        and ctid = any (array(
          select c.ctid
          from (
            select next.ctid, l.place, next.seq, l.q_runs, l.q_units, l.t_runs, l.t_units,
                   row_number() over (partition by l.q order by l.place, next.seq) as q_run,
                   sum(least(coalesce(j.units, 1), l.q_burst)) over (partition by l.q order by l.place, next.seq) as q_unit,
                   row_number() over (partition by l.t order by l.place, next.seq) as t_run,
                   sum(least(coalesce(j.units, 1), l.t_burst)) over (partition by l.t order by l.place, next.seq) as t_unit
            from unnest(
              ${int4s(lanes, (lane) => lane.lane_id)}::integer[], ${int8s(lanes, (lane) => lane.after)}::bigint[],
              ${rooms((lane) => lane.queue_room)}, ${rooms((lane) => lane.type_room)})
              with ordinality as l (lane_id, after, q, q_runs, q_units, q_burst, t, t_runs, t_units, t_burst, place)
            cross join lateral (
              select r.ctid, r.seq, r.job_id
              from punctual.ready r
              where r.segment = ${segment}::smallint and r.lane_id = l.lane_id and r.seq > l.after
              order by r.seq
              limit least(${slots.length}::integer, l.q_runs, l.q_units, l.t_runs, l.t_units)
              for update skip locked
            ) next
            ${joinJob(segment, part`next.job_id`, part`j.units`)}
          ) c
          where (c.q_runs is null or c.q_run <= c.q_runs) and (c.q_units is null or c.q_unit <= c.q_units)
            and (c.t_runs is null or c.t_run <= c.t_runs) and (c.t_units is null or c.t_unit <= c.t_units)
          order by c.place, c.seq
          limit ${slots.length}::integer
        ))
      returning segment, run_id, job_id, lane_id, attempts, cause, seq, scheduled_for, due_at`;
}

function takeDue({ segment, lanes, slots }: ClaimOrder, aheadMs: number): Fragment {
  return part`
      delete from punctual.waiting
      where ${ofSegment(part`segment`, segment)}
        and ctid = any (array(
          select w.ctid
          from punctual.waiting w
          where w.segment = ${segment}::smallint and w.wake_at <= now() + ${aheadMs}::integer * interval '1 millisecond'
            and w.lane_id = any (${int4s(lanes, (lane) => lane.lane_id)}::integer[])
          order by w.wake_at
          limit ${slots.length}::integer
          for update skip locked
        ))
      returning segment, run_id, job_id, lane_id, attempts, cause, nextval('punctual.arrivals') * 4096 as seq, scheduled_for, due_at,
                greatest(now(), wake_at) as starts_at`;
}

type Slot = ClaimOrder['slots'][number];

/** Mostly one worker takes the whole batch, and no row needs to be told which slot it goes to. */
export function onlySession(slots: readonly Slot[]): Slot | null {
  const [first] = slots;
  return first !== undefined && slots.every((slot) => slot.session_id === first.session_id) ? first : null;
}

/** Whose the slots are, by their numbers. */
export function sessionsOf(slots: readonly Slot[]): Fragment {
  return part`unnest(${uuids(slots, (slot) => slot.session_id)}::uuid[], ${texts(slots, (slot) => slot.worker_id)}::text[])
        with ordinality as s (session_id, worker_id, slot)`;
}

function grantToOne({ session_id, worker_id }: Slot, leaseId: string, startsAt: Fragment): Fragment {
  return part`
      select segment, run_id, job_id, lane_id, attempts + 1, cause, ${leaseId}::uuid, ${session_id}::uuid, ${worker_id}::text,
             scheduled_for, due_at, ${startsAt}
      from taken`;
}

function grantToMany(slots: readonly Slot[], leaseId: string, startsAt: Fragment): Fragment {
  return part`
      select n.segment, n.run_id, n.job_id, n.lane_id, n.attempts + 1, n.cause, ${leaseId}::uuid, s.session_id, s.worker_id,
             n.scheduled_for, n.due_at, ${startsAt}
      from numbered n
      join ${sessionsOf(slots)} using (slot)`;
}
