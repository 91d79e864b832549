// Workers in the book: their sessions and leases, and what becomes of the runs of a session that ended.
//
// The lease belongs to the session, not to each run: a heartbeat is one row. Database time decides when it ends; the
// worker's own clock only makes it stop sooner. A session that ended never lives again: `ended_at is null` guards every
// renewal, and the row lock orders renewal and reaping.
//
// A claim for a session may commit after the session was reaped, however late. So runs of ended sessions are looked for again
// and again, and from time to time those of all sessions that are not alive.
//
// A worker may go from server to server. `call` is the number of the newest of its calls under which a server took over: before
// that the server leases nothing to the session, and with the list of an older call nobody takes leases back.
import type { Worker, WorkerDescription } from '@punctual/contract';
import { packErrors } from '../rules/log_rows.ts';
import type { Database, Queryable } from './database.ts';
import { entryLane } from './lanes.ts';
import { fileChunks } from './log_filters.ts';
import type { Lease } from './settle.ts';
import { joinJob, ofSegment, part, sql, sqlPlannedOnce } from './sql.ts';

const lostError = 'The worker did not renew its lease.';
const lost = packErrors([lostError]);

export interface SessionKey {
  session_id: string;
  worker_id: string;
}

/** Makes the session, or describes it anew; false when it has ended. */
export async function registerSession(
  db: Queryable,
  key: SessionKey,
  worker: WorkerDescription,
  leaseMs: number,
): Promise<boolean> {
  const rows = await db.query(sql`
    insert into punctual.workers as w (session_id, worker_id, host, pid, version, slots, types, executors, queues, labels, lease_until)
    values (${key.session_id}, ${key.worker_id}, ${worker.host}, ${worker.pid}, ${worker.version}, ${worker.slots}, ${worker.types},
            ${worker.executors}, ${worker.queues}, ${worker.labels ?? []}, now() + ${leaseMs}::integer * interval '1 millisecond')
    on conflict (session_id) do update
    set host = excluded.host, pid = excluded.pid, version = excluded.version, slots = excluded.slots, types = excluded.types,
        executors = excluded.executors, queues = excluded.queues, labels = excluded.labels, seen_at = now(), lease_until = excluded.lease_until
    where w.ended_at is null and w.worker_id = excluded.worker_id
    returning w.session_id`);
  return rows.length > 0;
}

/** Renews leases; answers the sessions that are alive. */
export async function extendSessions(
  db: Queryable,
  sessions: readonly { session_id: string; draining: boolean }[],
  leaseMs: number,
): Promise<Set<string>> {
  const rows = await db.query<{ session_id: string }>(sqlPlannedOnce`
    update punctual.workers w
    set seen_at = now(), lease_until = now() + ${leaseMs}::integer * interval '1 millisecond', draining = s.draining
    from unnest(${sessions.map((s) => s.session_id)}::uuid[], ${sessions.map((s) => s.draining)}::boolean[]) as s (session_id, draining)
    where w.session_id = s.session_id and w.ended_at is null
    returning w.session_id`);
  return new Set(rows.map((row) => row.session_id));
}

/** The live sessions of a worker: more than one when two processes use one name. */
export async function sessionsOf(
  db: Queryable,
  workerId: string,
): Promise<{ session_id: string; draining: boolean }[]> {
  return db.query(sql`
    select session_id, draining
    from punctual.workers
    where worker_id = ${workerId} and ended_at is null and lease_until > now()
    limit 100`);
}

/** The worker said goodbye. */
export async function endSession(db: Queryable, sessionId: string): Promise<void> {
  await db.query(sql`
    update punctual.workers
    set ended_at = now(), seen_at = now()
    where session_id = ${sessionId} and ended_at is null`);
}

/** Ends the sessions whose lease ran out. */
export async function expireSessions(db: Queryable): Promise<SessionKey[]> {
  return db.query<SessionKey>(sql`
    update punctual.workers
    set ended_at = now(), lost = true
    where ended_at is null and lease_until < now()
    returning session_id, worker_id`);
}

/** Sessions that ended lately: a claim made for them may have committed since. */
export async function endedSessions(db: Queryable, withinMs: number): Promise<string[]> {
  const rows = await db.query<{ session_id: string }>(sql`
    select session_id
    from punctual.workers
    where ended_at > now() - ${withinMs}::integer * interval '1 millisecond'`);
  return rows.map((row) => row.session_id);
}

/** Sessions that have leases although they are not alive. It reads all of `running`, which is as small as the sum of all slots. */
export async function sessionsAstray(db: Queryable): Promise<string[]> {
  const rows = await db.query<{ session_id: string }>(sql`
    select r.session_id
    from (select distinct session_id from punctual.running) r
    left join punctual.workers w on w.session_id = r.session_id and w.ended_at is null
    where w.session_id is null`);
  return rows.map((row) => row.session_id);
}

/** Takes runs back from ended sessions: to `ready` for another attempt, or to the end when none is left. */
export async function reapRuns(
  db: Queryable,
  segment: number,
  sessions: readonly string[],
  limit: number,
): Promise<{ run_id: string }[]> {
  return db.query<{ run_id: string }>(sql`
    with lost as (
      delete from punctual.running
      where ${ofSegment(part`segment`, segment)}
        and ctid = any (array(
          select r.ctid
          from punctual.running r
          where r.segment = ${segment}::smallint and r.session_id = any (${sessions}::uuid[])
          limit ${limit}::integer
          for update skip locked
        ))
      returning *
    ),
    judged as (
      select l.*, l.attempt <= j.max_retries and l.cancel_at is null as again
      from lost l
      join punctual.jobs j on j.segment = l.segment and j.job_id = l.job_id
    ),
    recorded as (
      insert into punctual.attempts (segment, run_id, attempt, lease_id, worker_id, outcome, started_at, error)
      select segment, run_id, attempt, lease_id, worker_id, 'lost', started_at, ${lostError}::text
      from judged
    ),
    failed as materialized (
      select r.*, j.user_id, nextval('punctual.log_order') as chunk, 0 as pack
      from judged r
      ${joinJob(segment, part`r.job_id`, part`j.user_id`)}
    ),
    searchable as (
      insert into punctual.log_chunks (segment, run_id, chunk, attempt, lines, job_id, lane_id, worker_id, is_error)
      select segment, run_id, chunk, attempt, ${lost.rows[0]?.lines ?? ''}::text, job_id, lane_id, worker_id, true
      from failed
    ),
    filed as (${fileChunks(part`failed`, lost.filters)}
    ),
    returned as (
      insert into punctual.ready (segment, run_id, job_id, lane_id, attempts, cause, scheduled_for, due_at)
      select segment, run_id, job_id, lane_id, attempt, cause, scheduled_for, due_at
      from judged
      where again
    ),
    dead as (
      insert into punctual.dead_letters (segment, run_id, job_id, lane_id, reason, error, attempts, worker_id)
      select segment, run_id, job_id, ${entryLane(part`judged.lane_id`)}, 'lost', 'The worker did not renew its lease, and no attempt is left.', attempt, worker_id
      from judged
      where not again and cancel_at is null
    ),
    forgotten as (
      delete from punctual.checkpoints c
      using judged j
      where c.segment = ${segment}::smallint and c.run_id = j.run_id and not j.again
    ),
    ended as (
      insert into punctual.ended_runs (segment, run_id, job_id, lane_id, attempt, cause, status, reason, lease_id, worker_id,
                                       scheduled_for, due_at, started_at, error)
      select segment, run_id, job_id, lane_id, attempt, cause,
             (case when cancel_at is not null then 'CANCELLED' else 'FAILED' end)::punctual.run_outcome, 'lost', lease_id, worker_id,
             scheduled_for, due_at, started_at, 'The worker did not renew its lease, and no attempt is left.'
      from judged
      where not again
    )
    select run_id
    from judged`);
}

/**
 * Makes a server the one that looks after a session, under the number of a call; answers the leases the session has in so many
 * segments, or null when a newer call was taken over before, or the session has ended. The row stays locked until the leases
 * are read: who takes the session over next, and leases to it after that, comes later than both.
 */
export async function takeOver(
  db: Database,
  { session_id, n, segments }: { session_id: string; n: number; segments: number },
): Promise<Lease[] | null> {
  const taken = sql`
    update punctual.workers
    set call = ${n}
    where session_id = ${session_id} and call < ${n}::bigint and ended_at is null
    returning session_id`;
  if (segments === 0) return (await db.query(taken)).length === 0 ? null : [];
  return db.transaction(async (tx) => {
    const rows = await tx.query(taken);
    const all = Array.from({ length: segments }, (_, segment) => segment);
    return rows.length === 0 ? null : leasesOf(tx, session_id, all);
  });
}

/** What the book says a session holds. */
export async function leasesOf(db: Queryable, sessionId: string, segments: readonly number[]): Promise<Lease[]> {
  return db.query<Lease>(sql`
    select r.run_id, r.lease_id
    from unnest(${segments}::smallint[]) s (segment)
    join punctual.running r on r.segment = s.segment and r.session_id = ${sessionId}`);
}

/** Runs of these sessions that somebody wants stopped. */
export async function cancelledLeases(
  db: Queryable,
  sessions: readonly string[],
): Promise<(Lease & { session_id: string })[]> {
  return db.query(sql`
    select run_id, lease_id, session_id
    from punctual.running
    where session_id = any (${sessions}::uuid[]) and cancel_at is not null`);
}

interface WorkerRow extends Omit<Worker, 'started_at' | 'seen_at' | 'lease_until'> {
  started_at: Date;
  seen_at: Date;
  lease_until: Date;
}

/** Workers alive or seen in the last hour. `running` counts rows of a table as small as the sum of all slots. */
export async function listWorkers(db: Queryable): Promise<Worker[]> {
  const rows = await db.query<WorkerRow>(sql`
    select w.worker_id,
           case when w.lost or (w.ended_at is null and w.lease_until < now()) then 'LOST' when w.ended_at is not null then 'GONE'
                when w.draining then 'DRAINING' else 'ALIVE' end as status,
           w.host, w.pid, w.version, w.slots, coalesce(held.runs, 0)::integer as running, w.types, w.executors, w.queues, w.labels,
           w.started_at, w.seen_at, w.lease_until
    from punctual.workers w
    left join (select session_id, count(*) as runs from punctual.running group by session_id) held using (session_id)
    where w.seen_at > now() - interval '1 hour'
    order by w.ended_at is not null, w.started_at desc
    limit 1000`);
  return rows.map((row) => ({
    ...row,
    started_at: row.started_at.toISOString(),
    seen_at: row.seen_at.toISOString(),
    lease_until: row.lease_until.toISOString(),
  }));
}
