// Settle: leased runs end, wait for another attempt, or go back, in one statement for a batch of outcomes of one segment.
//
//   running ──delete where lease_id matches──▶ ended_runs    move = 'end'; a failure also becomes a dead letter
//                                          ├─▶ waiting       move = 'retry', or 'snooze': the attempt does not count
//                                          ├─▶ ready         move = 'release': it never started
//                                          └─▶ waiting       move = 'hold': its job is paused
//
// The fence: a row is deleted only if (run_id, lease_id) is what the worker says. When the lease has moved on nothing
// matches and nothing is written. The row lock orders settle with cancel, reap and a second settle: one of them deletes
// the row, the others find nothing.
//
// Settling twice gives the same answer: a lease that is not in `running` but stands in `ended_runs` or `attempts` was
// settled by an earlier call whose answer was lost (findSettled). A snooze leaves its lease in `checkpoints`.
//
// A run that waits again gives up its place under its keys: it goes back to the lane from which it was admitted.
//
// A handler may settle its run itself, as a success in a transaction of its own (punctual.complete in the migrations, which
// does what settleSuccesses does, at the commit). Its worker then reports a failure: if the transaction was committed that
// is a second settle and changes nothing; if it was rolled back the run is still leased, and the attempt has failed.
//
// A run whose cancel was asked for is not tried again, nor does it snooze: it is recorded as CANCELLED.
import type { RunCause } from '@punctual/contract';
import { isSealed } from '../base/vault.ts';
import { packErrors } from '../rules/log_rows.ts';
import { int2s, int4s, int8s, texts, uuids } from './arrays.ts';
import { apart } from './checkpoints.ts';
import { wholeFrom } from './claim.ts';
import type { Queryable } from './database.ts';
import { entryLane } from './lanes.ts';
import { fileChunks } from './log_filters.ts';
import {
  type Fragment,
  findsManyAtOnce,
  joinJob,
  ofSegment,
  part,
  sql,
  sqlPlannedOnce,
  theOne,
  unnested,
} from './sql.ts';

export interface Settlement {
  run_id: string;
  lease_id: string;
  move: 'end' | 'retry' | 'snooze' | 'release' | 'hold';
  /** false: the worker never heard of it, and the attempt does not count. */
  started: boolean;
  /** The outcome of the run, when it ends. */
  status: 'SUCCESS' | 'FAILED' | 'CANCELLED';
  reason: string | null;
  /** How the attempt ended, for the history; null for success and release. */
  attempt_outcome: 'failed' | 'timed_out' | 'lost' | 'cancelled' | null;
  error: string | null;
  result: string | null;
  /** How long it waits, for another attempt or snoozing. */
  retry_delay_ms: number | null;
  /** Where it was in the order of its lane, for a run that goes back there; else it goes behind all others. */
  place?: number;
}

export interface Lease {
  run_id: string;
  lease_id: string;
}

/** A run that succeeded, with its result as JSON. */
export interface Success extends Lease {
  result: string | null;
  reason: string | null;
}

export interface SettledSuccesses {
  /** How many leases matched. */
  settled: number;
  further: EndedJob[];
  keys: string[];
}

/**
 * Most runs succeed: they have a statement of their own that does only that. For many it finds each by its id, however many
 * entries of runs that are gone the index still holds, and may pass over one that is being changed in that moment, to ask for
 * its cancel for example. So whatever it did not find is asked for once more, in a way that waits for such changes.
 */
export async function settleSuccesses(
  db: Queryable,
  segment: number,
  successes: readonly Success[],
): Promise<SettledSuccesses> {
  const [first] = successes;
  if (first !== undefined && successes.length === 1) return endAsSuccess(db, () => theSuccess(segment, first));
  const found = await endAsSuccess(db, (version) => successesFound(segment, successes, version));
  if (found.settled === successes.length) return found;
  const rest = await endAsSuccess(db, () => successesMatching(segment, successes));
  return {
    settled: found.settled + rest.settled,
    further: [...found.further, ...rest.further],
    keys: [...found.keys, ...rest.keys],
  };
}

async function endAsSuccess(db: Queryable, settled: (version: number) => Fragment): Promise<SettledSuccesses> {
  const rows = await db.query<{ settled: number; further: string[] | null; keys: string[] | null }>(
    (version) => sqlPlannedOnce`
    with ${settled(version)},
    ended as (
      insert into punctual.ended_runs (segment, run_id, job_id, lane_id, attempt, cause, status, reason, lease_id, worker_id,
                                       scheduled_for, due_at, started_at, result)
      select segment, run_id, job_id, lane_id, attempt, cause, 'SUCCESS', reason, lease_id, worker_id,
             scheduled_for, due_at, least(started_at, now()), result
      from settled
    )
    select count(*)::integer as settled, array_agg(job_id::text || cause::text) filter (where cause <> 'submit') as further,
           array_agg(key) filter (where key is not null) as keys
    from settled`,
  );
  return {
    settled: rows[0]?.settled ?? 0,
    further: (rows[0]?.further ?? []).map((text) => ({ ...toEndedJob(text), succeeded: true })),
    keys: rows[0]?.keys ?? [],
  };
}

const successColumns = part`
  r.segment, r.run_id, r.job_id, r.lane_id, r.attempt, r.cause, r.lease_id, r.worker_id, r.scheduled_for, r.due_at, r.started_at, r.key`;

const runIds = (leases: readonly Lease[]): Fragment => part`${uuids(leases, (o) => o.run_id)}::uuid[]`;
const leaseIds = (leases: readonly Lease[]): Fragment => part`${uuids(leases, (o) => o.lease_id)}::uuid[]`;
const leaseArrays = (leases: readonly Lease[]) => ({ run_id: runIds(leases), lease_id: leaseIds(leases) });

const asRows = (successes: readonly Success[]): Fragment =>
  unnested({
    ...leaseArrays(successes),
    reason: part`${texts(successes, (o) => o.reason)}::text[]`,
    result: part`${texts(successes, (o) => o.result)}::text[]`,
  });

/**
 * Most have no result: nothing need be carried from the outcome to the row. Else they are joined, all of both sides, so that it
 * cannot become a loop within a loop; a row that is missing is known by a condition from which no plan concludes that.
 */
function successesFound(segment: number, successes: readonly Success[], version: number): Fragment {
  const found = version < findsManyAtOnce ? foundOneByOne : foundAtOnce;
  const gone = part`
      delete from punctual.running r
      where ${found(segment, successes)}
      returning ${successColumns}`;
  if (successes.every(({ reason, result }) => reason === null && result === null))
    return part`settled as (${gone}, null::text as reason, null::text as result)`;
  const named = new Map(successes.map((success) => [success.run_id + success.lease_id, success]));
  return part`
    gone as (${gone}),
    settled as (
      select g.*, o.reason, o.result
      from gone g
      full join ${asRows([...named.values()])} o on o.run_id = g.run_id and o.lease_id = g.lease_id
      where (g.run_id is null) is not true
    )`;
}

/**
 * Mostly all were claimed together, under one lease. Else whether a run is under the lease that goes with it is a set looked up by
 * hash, which `is true` keeps so.
 */
function foundAtOnce(segment: number, leases: readonly Lease[]): Fragment {
  const run_id = runIds(leases);
  const of = part`r.segment = ${segment}::smallint and r.run_id = any (${run_id})`;
  const lease = leases[0]?.lease_id;
  if (leases.every((one) => one.lease_id === lease)) return part`${of} and r.lease_id = ${lease}::uuid`;
  return part`${of} and ((r.run_id, r.lease_id) in (select unnest(${run_id}), unnest(${leaseIds(leases)}))) is true`;
}

function foundOneByOne(segment: number, leases: readonly Lease[]): Fragment {
  return part`${ofSegment(part`r.segment`, segment)} and r.ctid = any (array(
        select q.place
        from ${unnested(leaseArrays(leases))} o
        cross join lateral (
          select q.ctid as place, q.lease_id
          from punctual.running q
          where q.segment = ${segment}::smallint and ${theOne(part`q.run_id`, part`o.run_id`)}
        ) q
        where q.lease_id = o.lease_id
      ))`;
}

function theSuccess(segment: number, { run_id, lease_id, reason, result }: Success): Fragment {
  return part`
    settled as (
      delete from punctual.running r
      where r.segment = ${segment}::smallint and r.run_id = ${run_id}::uuid and r.lease_id = ${lease_id}::uuid
      returning ${successColumns}, ${reason}::text as reason, ${result}::text as result
    )`;
}

function successesMatching(segment: number, successes: readonly Success[]): Fragment {
  return part`
    settled as (
      delete from punctual.running r
      using ${asRows(successes)} o
      where r.segment = ${segment}::smallint and r.run_id = o.run_id and r.lease_id = o.lease_id
      returning ${successColumns}, o.reason, o.result
    )`;
}

/** A job that may have other runs, or others that wait for it, of which a run has ended; and why that run existed. */
export interface EndedJob {
  job_id: string;
  cause: RunCause;
  /** It is known that the run succeeded; else it ended somehow. */
  succeeded?: true;
}

const idChars = 36;

/** From the id and the cause in one text. */
export function toEndedJob(text: string): EndedJob {
  return { job_id: text.slice(0, idChars), cause: text.slice(idChars) as RunCause };
}

/** A settled lease; `further_of` is its job when that may have other runs, which may wait for the end of this one (toEndedJob). */
export interface SettledLease extends Lease {
  further_of: string | null;
  /** The key under which it held a place by running. */
  key: string | null;
}

export async function settleRuns(
  db: Queryable,
  segment: number,
  settlements: readonly Settlement[],
): Promise<SettledLease[]> {
  const s = settlements;
  const errors = packErrors(s.map(({ error }) => (error === null || isSealed(error) ? null : error)));
  return db.query<SettledLease>(sqlPlannedOnce`
    with outcome as materialized (
      select *
      from unnest(
        ${uuids(s, (o) => o.run_id)}::uuid[], ${uuids(s, (o) => o.lease_id)}::uuid[], ${texts(s, (o) => o.move)}::text[],
        ${texts(s, (o) => o.status)}::text[], ${texts(s, (o) => o.reason)}::text[],
        ${texts(s, (o) => o.attempt_outcome)}::text[], ${texts(s, (o) => o.error)}::text[],
        ${texts(s, (o) => o.result)}::text[], ${int8s(s, (o) => o.retry_delay_ms)}::bigint[],
        ${int2s(s, (o) => (o.started ? 0 : 1))}::smallint[], ${int8s(s, (o) => o.place ?? null)}::bigint[],
        ${texts(errors.rows, (row) => row?.lines ?? null)}::text[], ${int4s(errors.rows, (row) => row?.pack ?? null)}::integer[])
        as o (run_id, lease_id, move, status, reason, attempt_outcome, error, result, retry_delay_ms, uncounted, place, lines, pack)
    ),
    settled as (
      delete from punctual.running r
      using outcome o
      where r.segment = ${segment}::smallint and r.run_id = o.run_id and r.lease_id = o.lease_id
      returning r.segment, r.run_id, r.job_id, r.lane_id, r.cause, r.lease_id, r.worker_id, r.scheduled_for, r.due_at, r.key,
                (r.attempt - case when o.move = 'snooze' and r.cancel_at is null then 1 else o.uncounted end)::smallint as attempt,
                case when o.uncounted = 0 then least(r.started_at, now()) end as started_at, o.reason, o.error, o.result, o.retry_delay_ms,
                o.place, o.lines, o.pack,
                case when o.move = 'snooze' and r.cancel_at is not null then 'cancelled' else o.attempt_outcome end as attempt_outcome,
                case when r.cancel_at is not null and o.move <> 'end' then 'end' else o.move end as move,
                case when r.cancel_at is not null and o.status <> 'SUCCESS' then 'CANCELLED' else o.status end as status
    ),
    ended as (
      insert into punctual.ended_runs (segment, run_id, job_id, lane_id, attempt, cause, status, reason, lease_id, worker_id,
                                       scheduled_for, due_at, started_at, error, result)
      select segment, run_id, job_id, lane_id, attempt, cause, status::punctual.run_outcome, reason, lease_id, worker_id,
             scheduled_for, due_at, started_at, error, result
      from settled
      where move = 'end'
    ),
    retried as (
      insert into punctual.waiting (segment, run_id, job_id, lane_id, attempts, cause, reason, scheduled_for, due_at, wake_at)
      select segment, run_id, job_id, ${entryLane(part`settled.lane_id`)}, attempt, cause, 'retry', scheduled_for,
             ${wakeAt}, ${wakeAt}
      from settled
      where move = 'retry'
    ),
    snoozed as (
      insert into punctual.waiting (segment, run_id, job_id, lane_id, attempts, cause, reason, scheduled_for, due_at, wake_at)
      select segment, run_id, job_id, ${entryLane(part`settled.lane_id`)}, attempt, cause, 'snooze', scheduled_for, ${apart(wakeAt, part`scheduled_for`)}, ${wakeAt}
      from settled
      where move = 'snooze'
    ),
    counted as (
      insert into punctual.checkpoints as c (segment, run_id, snoozes, snooze_lease_id)
      select segment, run_id, 1, lease_id
      from settled
      where move = 'snooze'
      on conflict (segment, run_id) do update
      set snoozes = c.snoozes + 1, snooze_lease_id = excluded.snooze_lease_id, updated_at = now()
    ),
    released as (
      insert into punctual.ready (segment, run_id, job_id, lane_id, attempts, cause, seq, scheduled_for, due_at)
      select segment, run_id, job_id, lane_id, attempt, cause, coalesce(place, nextval('punctual.arrivals') * 4096), scheduled_for,
             ${apart(part`due_at`, part`scheduled_for`)}
      from settled
      where move = 'release' and due_at <= now()
    ),
    early as (
      insert into punctual.waiting (segment, run_id, job_id, lane_id, attempts, cause, reason, scheduled_for, due_at, wake_at)
      select segment, run_id, job_id, ${entryLane(part`settled.lane_id`)}, attempt, cause, 'due_later', scheduled_for, due_at, due_at
      from settled
      where move = 'release' and due_at > now()
    ),
    held as (
      insert into punctual.waiting (segment, run_id, job_id, lane_id, attempts, cause, reason, scheduled_for, due_at, wake_at)
      select segment, run_id, job_id, ${entryLane(part`settled.lane_id`)}, attempt, cause, 'paused', scheduled_for, due_at, 'infinity'
      from settled
      where move = 'hold'
    ),
    dead as (
      insert into punctual.dead_letters (segment, run_id, job_id, lane_id, reason, error, attempts, worker_id)
      select segment, run_id, job_id, ${entryLane(part`settled.lane_id`)}, coalesce(reason, 'failed'), error, attempt, worker_id
      from settled
      where move = 'end' and status = 'FAILED'
    ),
    recorded as (
      insert into punctual.attempts (segment, run_id, attempt, lease_id, worker_id, outcome, started_at, error)
      select segment, run_id, attempt, lease_id, worker_id, attempt_outcome::punctual.attempt_outcome, started_at, error
      from settled
      where attempt_outcome is not null
    ),
    failed as materialized (
      select s.*, j.user_id, nextval('punctual.log_order') as chunk
      from settled s
      ${joinJob(segment, part`s.job_id`, part`j.user_id`)}
      where s.lines is not null
    ),
    searchable as (
      insert into punctual.log_chunks (segment, run_id, chunk, attempt, lines, job_id, lane_id, worker_id, is_error)
      select segment, run_id, chunk, attempt, lines, job_id, lane_id, worker_id, true
      from failed
    ),
    filed as (${fileChunks(part`failed`, errors.filters)}
    ),
    forgotten as (
      delete from punctual.checkpoints c
      using settled s
      where c.segment = ${segment}::smallint and c.run_id = s.run_id and s.move = 'end'
    )
    select run_id, lease_id, key, case when cause <> 'submit' and move = 'end' then job_id::text || cause::text end as further_of
    from settled`);
}

const wakeAt = part`now() + retry_delay_ms * interval '1 millisecond'`;

/**
 * Those of the leases that have been settled before: by a settle whose answer was lost, or in SQL by the handler itself.
 */
export async function findSettled(db: Queryable, segment: number, leases: readonly Lease[]): Promise<SettledLease[]> {
  return db.query<SettledLease>(sql`
    with asked as (
      select *
      from unnest(${leases.map((lease) => lease.run_id)}::uuid[], ${leases.map((lease) => lease.lease_id)}::uuid[]) as l (run_id, lease_id)
    )
    select a.run_id, a.lease_id, case when e.cause <> 'submit' then e.job_id::text || e.cause::text end as further_of,
           (select j.concurrency_key from punctual.jobs j where j.segment = ${segment}::smallint and j.job_id = e.job_id) as key
    from asked a
    join punctual.ended_runs e on e.segment = ${segment}::smallint and e.run_id = a.run_id and e.lease_id = a.lease_id
    where e.reason is distinct from 'lost'
    union all
    select a.run_id, a.lease_id, null, null
    from asked a
    join punctual.attempts t on t.segment = ${segment}::smallint and t.run_id = a.run_id and t.lease_id = a.lease_id
    where t.outcome <> 'lost'
    union all
    select a.run_id, a.lease_id, null, null
    from asked a
    join punctual.checkpoints c on c.segment = ${segment}::smallint and c.run_id = a.run_id and c.snooze_lease_id = a.lease_id`);
}

/** A run whose attempt did not succeed. */
export interface FailingRun extends Lease {
  attempt: number;
  max_retries: number;
  backoff: string | null;
  /** What is left of the time the whole run may take; null for no limit. */
  left_ms: string | null;
  /** How often it has snoozed before. */
  snoozes: number;
  /** The concurrency key of its job. */
  key: string | null;
}

/** What the rules need to know to decide whether attempts that failed or snoozed are followed by others. */
export async function readFailing(db: Queryable, segment: number, leases: readonly Lease[]): Promise<FailingRun[]> {
  return db.query<FailingRun>(sqlPlannedOnce`
    select r.run_id, r.lease_id, r.attempt, j.max_retries, j.backoff, j.concurrency_key as key,
           case when j.run_timeout_ms is not null then extract(epoch from ${wholeFrom(part`r`)} - now()) * 1000 + j.run_timeout_ms end as left_ms,
           coalesce(c.snoozes, 0) as snoozes
    from unnest(${leases.map((lease) => lease.run_id)}::uuid[], ${leases.map((lease) => lease.lease_id)}::uuid[]) as l (run_id, lease_id)
    join punctual.running r on r.segment = ${segment}::smallint and r.run_id = l.run_id and r.lease_id = l.lease_id
    ${joinJob(segment, part`r.job_id`, part`j.max_retries, j.backoff, j.concurrency_key, j.run_timeout_ms`)}
    left join lateral (
      select c.snoozes from punctual.checkpoints c where c.segment = ${segment}::smallint and ${theOne(part`c.run_id`, part`r.run_id`)}
    ) c on true`);
}
