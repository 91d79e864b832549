// Events in the book. Nothing is written when a run ends: each subscription keeps a place in what has ended, ordered by
// time and run, and reads on from it up to the horizon (ended_lately.ts). What it reads becomes deliveries in the same
// transaction that moves the place, so nothing is left out, and an event that is read twice has the same id.
//
// A subscription whose deliveries do not get away is not read further: history is the buffer.
import type { Alert, PutSubscription } from '@punctual/contract';
import { type EndedRun, eventOfAlert, eventsOfRun } from '../rules/cloud_event.ts';
import type { Database, Queryable } from './database.ts';
import { writeDeliveries } from './deliveries.ts';
import { endedWithin } from './ended_lately.ts';
import { part, sql } from './sql.ts';

/** Runs in one step. */
const stepRuns = 500;
/** So many deliveries of one subscription may wait before it reads on. */
const maxDue = 2_000;
/** An error is quoted; the run has it whole. */
const maxErrorChars = 2_000;
const highest = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

const source = part`(select '/punctual/' || i.installation_id from punctual.installation i)`;

/** In the transaction that began or ended the alerts. Answers how many deliveries it wrote. */
export async function writeAlertEvents(tx: Queryable, alerts: readonly Alert[]): Promise<number> {
  if (alerts.length === 0) return 0;
  // Whoever deletes a subscription waits, and then deletes these too.
  const rows = await tx.query<{ name: string; kinds: string[]; source: string }>(sql`
    select name, kinds, ${source} as source
    from punctual.event_subscriptions
    where kinds && '{alert.firing,alert.resolved}'
    for key share`);
  return writeDeliveries(
    tx,
    rows.flatMap((row) =>
      alerts
        .map((alert) => eventOfAlert(alert, row.source))
        .filter(({ kind }) => row.kinds.includes(kind))
        .map(({ id, kind, body }) => ({
          target_kind: 'subscription' as const,
          target: row.name,
          event: kind,
          event_id: id,
          body,
        })),
    ),
  );
}

/** Subscriptions to the ends of runs. */
export async function runSubscriptions(db: Queryable): Promise<string[]> {
  const rows = await db.query<{ name: string }>(sql`
    select name from punctual.event_subscriptions where kinds && '{run.succeeded,run.failed,run.cancelled,run.dead}' and paused_at is null order by name`);
  return rows.map(({ name }) => name);
}

export interface ReadStep {
  /** Runs that were read. */
  runs: number;
  /** It has come to the horizon, or may not read further now. */
  done: boolean;
}

interface HeldSubscription {
  definition: string;
  kinds: string[];
  source: string;
  read_until: string;
  /** Just before it: others may have ended at the same time. */
  read_from: string;
  read_run_id: string;
  until: string;
  last: boolean;
}

/** One step of one subscription: at most `sliceMs` of time and some hundreds of runs. */
export async function readEvents(
  db: Database,
  name: string,
  { horizon, sliceMs }: { horizon: string; sliceMs: number },
): Promise<ReadStep> {
  return db.transaction(async (tx) => {
    const [held] = await tx.query<HeldSubscription>(sql`
      select s.definition, s.kinds, ${source} as source, s.read_until::text as read_until, s.read_run_id,
             (s.read_until - interval '1 microsecond')::text as read_from,
             least(${horizon}::timestamptz, u.until)::text as until, u.until >= ${horizon}::timestamptz as last
      from punctual.event_subscriptions s
      cross join lateral (select s.read_until + ${sliceMs}::bigint * interval '1 millisecond') u (until)
      where s.name = ${name} and s.paused_at is null and s.read_until < ${horizon}::timestamptz
        and (select count(*) from (
               select from punctual.deliveries d
               where d.target_kind = 'subscription' and d.target = s.name and d.state = 'due'
               limit ${maxDue}::integer) n) < ${maxDue}::integer
      for update of s skip locked`);
    if (held === undefined) return { runs: 0, done: true };
    const runs = await endedRuns(tx, held);
    const wanted = new Set(held.kinds);
    await writeDeliveries(
      tx,
      runs.flatMap(({ place: _place, ...run }) =>
        eventsOfRun(run, wanted, held.source).map(({ id, kind, body }) => {
          return { target_kind: 'subscription' as const, target: name, event: kind, event_id: id, body };
        }),
      ),
    );
    const last = runs.length < stepRuns ? undefined : runs.at(-1);
    await tx.query(sql`
      update punctual.event_subscriptions
      set read_until = ${last?.place ?? held.until}::timestamptz, read_run_id = ${last?.run_id ?? highest}::uuid
      where name = ${name}`);
    return { runs: runs.length, done: held.last && last === undefined };
  });
}

async function endedRuns(tx: Queryable, held: HeldSubscription): Promise<(EndedRun & { place: string })[]> {
  const { type, queue } = JSON.parse(held.definition) as PutSubscription;
  const wants = (kind: string): boolean => held.kinds.includes(kind);
  const statuses = [
    ...(wants('run.succeeded') ? ['SUCCESS'] : []),
    ...(wants('run.failed') || wants('run.dead') ? ['FAILED'] : []),
    ...(wants('run.cancelled') ? ['CANCELLED'] : []),
  ];
  return tx.query<EndedRun & { place: string }>(sql`
    with ended as materialized (
      select e.*, l.type, l.queue
      from punctual.ended_runs e
      join punctual.lanes l using (lane_id)
      where ${endedWithin(held.read_from, held.until)}
        and (e.ended_at, e.run_id) > (${held.read_until}::timestamptz, ${held.read_run_id}::uuid)
        and e.status = any (${statuses}::punctual.run_outcome[])
        and ${type === undefined ? part`true` : part`l.type = ${type}`} and ${queue === undefined ? part`true` : part`l.queue = ${queue}`}
      order by e.ended_at, e.run_id
      limit ${stepRuns}::integer
    )
    select e.run_id, e.job_id, j.name, e.type, e.queue, j.user_id, j.tags, e.status, e.reason, e.attempt as attempt_number,
           e.worker_id as executor_id, e.scheduled_for, e.started_at as start_time, e.ended_at as end_time,
           left(e.error, ${maxErrorChars}::integer) as error_message, d.run_id is not null as dead, e.ended_at::text as place
    from ended e
    left join punctual.jobs j on j.segment = e.segment and j.job_id = e.job_id
    left join punctual.dead_letters d on d.segment = e.segment and d.run_id = e.run_id
    order by e.ended_at, e.run_id`);
}
