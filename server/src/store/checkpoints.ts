// What a run keeps from one attempt to the next: its checkpoint, and how often it has snoozed. A row of `checkpoints` lives
// as long as its run: the statements that end runs remove it (settle.ts, run_moves.ts, workers.ts), successes apart, which
// stay as cheap as they are; `forgetEnded` follows them when the server knows of a row, and the sweep finds the rest.
//
// The fence: a checkpoint is written only while (run_id, lease_id) stands in `running`. The row is locked against its
// deletion: a reap that comes meanwhile passes it by and takes it the next time, and the next attempt sees the checkpoint; a
// reap that came first has it refused. Within a lease the version decides: an older one that arrives late changes nothing.
//
// A claim must find out which runs have a row without looking for each. A run that kept something has been started: it has
// used an attempt, or its due_at differs from its scheduled_for, which `apart` sees to wherever an attempt is not counted.
import type { Checkpoint } from '@punctual/contract';
import { segmentOf } from '../base/ids.ts';
import { hidden, isSealed, type Show, shown } from '../base/vault.ts';
import type { PreparedCheckpoint } from '../rules/report.ts';
import { int4s, texts, uuids } from './arrays.ts';
import type { Queryable } from './database.ts';
import { type Fragment, part, sql } from './sql.ts';

/** Saves the checkpoints whose lease still holds and answers those leases; the others came from a worker that lost the run. */
export async function saveCheckpoints(
  db: Queryable,
  segment: number,
  checkpoints: readonly PreparedCheckpoint[],
): Promise<Set<string>> {
  const rows = await db.query<{ run_id: string; lease_id: string }>(sql`
    with given as (
      select *
      from unnest(
        ${uuids(checkpoints, (c) => c.run_id)}::uuid[], ${uuids(checkpoints, (c) => c.lease_id)}::uuid[],
        ${int4s(checkpoints, (c) => c.version)}::integer[], ${texts(checkpoints, (c) => c.value)}::text[])
        as g (run_id, lease_id, version, value)
    ),
    held as (
      select r.segment, r.run_id, r.lease_id, r.attempt, g.version, g.value
      from given g
      join punctual.running r on r.segment = ${segment}::smallint and r.run_id = g.run_id and r.lease_id = g.lease_id
      for key share of r
    ),
    saved as (
      insert into punctual.checkpoints as c (segment, run_id, version, value, attempt, saved_at)
      select distinct on (run_id) segment, run_id, version, value, attempt, now()
      from held
      order by run_id, version desc
      on conflict (segment, run_id) do update
      set version = excluded.version, value = excluded.value, attempt = excluded.attempt, saved_at = excluded.saved_at,
          updated_at = excluded.saved_at
      where c.version < excluded.version
    )
    select distinct run_id, lease_id
    from held`);
  return new Set(rows.map((row) => row.run_id + row.lease_id));
}

/** What a claimed run kept in attempts before. */
export interface Kept {
  run_id: string;
  /** 0: it has snoozed, and saved nothing. */
  version: number;
  /** JSON. */
  value: string | null;
  saved_at: string | null;
  /** The checkpoints before it fill the answer: it must be granted another time. */
  left_out: boolean;
}

/** What these runs kept, up to so many bytes of checkpoints; the first always fits. */
export async function keptBy(
  db: Queryable,
  segment: number,
  runIds: readonly string[],
  maxBytes: number,
): Promise<Map<string, Kept>> {
  const rows = await db.query<Kept>(sql`
    select k.run_id, k.version, k.saved_at::text as saved_at, k.bytes_before >= ${maxBytes}::bigint as left_out,
           case when k.bytes_before < ${maxBytes}::bigint then k.value end as value
    from (
      select c.run_id, c.version, c.saved_at, c.value,
             coalesce(sum(octet_length(c.value)) over (order by c.run_id rows between unbounded preceding and 1 preceding), 0) as bytes_before
      from punctual.checkpoints c
      where c.segment = ${segment}::smallint and c.run_id = any (${uuids(runIds, (id) => id)}::uuid[])
    ) k`);
  return new Map(rows.map((row) => [row.run_id, row]));
}

/** The last checkpoint of a run that has not ended. */
export async function getCheckpoint(
  db: Queryable,
  { run_id, job_id }: { run_id: string; job_id: string },
  show: Show = hidden,
): Promise<Checkpoint | null> {
  const rows = await db.query<Omit<Checkpoint, 'value' | 'saved_at'> & { value: string; saved_at: Date }>(sql`
    select c.run_id, c.version, c.value, c.attempt as attempt_number, c.saved_at
    from punctual.checkpoints c
    where c.segment = ${segmentOf(run_id)}::smallint and c.run_id = ${run_id} and c.version > 0 and ${isLive(part`c`)}`);
  const [row] = rows;
  if (row === undefined) return null;
  const value = shown(row.value, { kind: 'checkpoint', job_id, run_id }, show);
  return {
    ...row,
    value: value === null ? null : (JSON.parse(value) as unknown),
    ...(isSealed(row.value) ? { encrypted: true } : {}),
    saved_at: row.saved_at.toISOString(),
  };
}

/** Removes what these runs kept, if they have ended. */
export async function forgetEnded(db: Queryable, segment: number, runIds: readonly string[]): Promise<void> {
  await db.query(sql`
    delete from punctual.checkpoints c
    where c.segment = ${segment}::smallint and c.run_id = any (${uuids(runIds, (id) => id)}::uuid[]) and not ${isLive(part`c`)}`);
}

/** Looks at rows after a run, up to a limit, and removes those of runs that have ended; answers where it stopped, or null. */
export async function sweepCheckpoints(
  db: Queryable,
  segment: number,
  after: string,
  limit: number,
): Promise<{ removed: number; last: string | null }> {
  const rows = await db.query<{ removed: number; seen: number; last: string | null }>(sql`
    with page as materialized (
      select c.segment, c.run_id, ${isLive(part`c`)} as live
      from punctual.checkpoints c
      where c.segment = ${segment}::smallint and c.run_id > ${after}
      order by c.run_id
      limit ${limit}::integer
    ),
    removed as (
      delete from punctual.checkpoints c
      using page p
      where c.segment = ${segment}::smallint and c.run_id = p.run_id and not p.live
      returning 1
    )
    select (select count(*) from removed)::integer as removed, count(*)::integer as seen, max(run_id::text) as last
    from page`);
  const { removed = 0, seen = 0, last = null } = rows[0] ?? {};
  return { removed, last: seen === limit ? last : null };
}

/** Whether the run of a row has not ended: one snapshot shows each run in exactly one table, and none comes back. */
function isLive(row: Fragment): Fragment {
  const of = (table: Fragment): Fragment =>
    part`exists (select from ${table} r where r.segment = ${row}.segment and r.run_id = ${row}.run_id)`;
  return part`(${of(part`punctual.running`)} or ${of(part`punctual.ready`)} or ${of(part`punctual.waiting`)})`;
}

/** A due time that is not the scheduled one: it tells a claim that the run may have been started before. */
export function apart(due: Fragment, scheduledFor: Fragment): Fragment {
  return part`(${due} + (${due} = ${scheduledFor})::integer * interval '1 microsecond')`;
}
