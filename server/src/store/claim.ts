// Claim: due runs become leased ones, in one statement for hundreds of runs of one segment.
//
//   ready ──delete … skip locked──▶ running        (the normal case)
//                               ├─▶ waiting         (its job was paused while the run was on its way to ready)
//                               └─▶ ended_runs      (its job was cancelled likewise, or the run's whole time is over)
//
// Two claimers never get the same run: a row locked by one is skipped by the other, and the delete is the claim. The
// statement commits before any worker hears of the runs, so a run that a worker holds is always in `running`. If the
// answer of the statement is lost, the runs stand in `running` with nobody working on them: the caller then lets the
// worker's next call list what it really runs, and gives the rest back (dispatch/sessions.ts).
//
// Lanes come in the order in which they are to be served; the scan stops as soon as enough runs are locked. The attempt
// counts from here, so a run that kills its worker uses up its attempts.
import { int4s, int8s, texts, uuids } from './arrays.ts';
import type { Queryable } from './database.ts';
import { sql } from './sql.ts';

export interface ClaimedRun {
  run_id: string;
  job_id: string;
  lane_id: number;
  /** Which of the slots asked for it takes: 1, 2, 3, … */
  slot: number;
  attempt: number;
  /** Grows with each lease of the run: the number under which it last became ready. */
  fence: string;
  scheduled_for: string;
  due_at: string;
  name: string;
  user_id: string | null;
  payload: string | null;
  executor: string | null;
  max_retries: number;
  timeout_ms: number;
}

export interface ClaimOrder {
  segment: number;
  /** The first to be served first; rows up to `after` are known to be gone. */
  lanes: readonly { lane_id: number; after: number }[];
  /** One entry a free slot: the session that takes the n-th run. */
  slots: readonly { session_id: string; worker_id: string }[];
  /** Fresh and random: with the run's id it names this lease and no other. */
  lease_id: string;
}

const tooLate = 'The time the whole run may take was over before it could start.';

export async function claimRuns(db: Queryable, order: ClaimOrder): Promise<ClaimedRun[]> {
  return db.query<ClaimedRun>(sql`
    with taken as (
      delete from punctual.ready
      where segment = ${order.segment}::smallint
        and ctid = any (array(
          select next.ctid
          from unnest(${int4s(order.lanes, (lane) => lane.lane_id)}::integer[], ${int8s(order.lanes, (lane) => lane.after)}::bigint[]) l (lane_id, after)
          cross join lateral (
            select r.ctid
            from punctual.ready r
            where r.segment = ${order.segment}::smallint and r.lane_id = l.lane_id and r.seq > l.after
            order by r.seq
            limit ${order.slots.length}::integer
            for update skip locked
          ) next
          limit ${order.slots.length}::integer
        ))
      returning segment, run_id, job_id, lane_id, attempts, cause, seq, scheduled_for, due_at
    ),
    numbered as (
      select t.*, j.user_id, j.name, j.payload, j.executor, j.max_retries, row_number() over () as slot,
             case when j.run_timeout_ms is null then j.timeout_ms
                  else least(j.timeout_ms, ceil(extract(epoch from t.scheduled_for - now()) * 1000 + j.run_timeout_ms))::integer end as timeout_ms,
             case when j.cancelled_at is not null then 'cancelled'
                  when j.paused_at is not null then 'paused'
                  when t.scheduled_for + j.run_timeout_ms * interval '1 millisecond' <= now() then 'too_late'
                  else 'granted' end as verdict
      from taken t
      join punctual.jobs j on j.segment = t.segment and j.job_id = t.job_id
    ),
    granted as (
      insert into punctual.running (segment, run_id, job_id, lane_id, attempt, cause, lease_id, session_id, worker_id, scheduled_for, due_at)
      select n.segment, n.run_id, n.job_id, n.lane_id, n.attempts + 1, n.cause, ${order.lease_id}::uuid, s.session_id, s.worker_id,
             n.scheduled_for, n.due_at
      from numbered n
      join unnest(
        ${uuids(order.slots, (slot) => slot.session_id)}::uuid[], ${texts(order.slots, (slot) => slot.worker_id)}::text[])
        with ordinality as s (session_id, worker_id, slot) using (slot)
      where n.verdict = 'granted'
    ),
    held as (
      insert into punctual.waiting (segment, run_id, job_id, lane_id, attempts, cause, reason, scheduled_for, due_at, wake_at)
      select segment, run_id, job_id, lane_id, attempts, cause, 'paused', scheduled_for, due_at, 'infinity'
      from numbered
      where verdict = 'paused'
    ),
    ended as (
      insert into punctual.ended_runs (segment, run_id, job_id, lane_id, attempt, cause, status, reason, scheduled_for, due_at, error)
      select segment, run_id, job_id, lane_id, attempts, cause,
             (case when verdict = 'cancelled' then 'CANCELLED' else 'FAILED' end)::punctual.run_outcome,
             case when verdict = 'cancelled' then 'job_cancelled' else 'run_timed_out' end, scheduled_for, due_at,
             case when verdict = 'too_late' then ${tooLate} end
      from numbered
      where verdict in ('cancelled', 'too_late')
    ),
    dead as (
      insert into punctual.dead_letters (segment, run_id, job_id, lane_id, reason, error, attempts)
      select segment, run_id, job_id, lane_id, 'run_timed_out', ${tooLate}, attempts
      from numbered
      where verdict = 'too_late'
    )
    select run_id, job_id, lane_id, slot::integer as slot, attempts + 1 as attempt, seq as fence, scheduled_for::text as scheduled_for,
           due_at::text as due_at, name, user_id, payload, executor, max_retries, timeout_ms
    from numbered
    where verdict = 'granted'`);
}
