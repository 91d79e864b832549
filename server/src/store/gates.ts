// Gates in the book, and the move of a closed one: due runs behind a gate that drops end as DROPPED.
import type { Gate, GateKind, SetGate } from '@punctual/contract';
import { int4s } from './arrays.ts';
import { resetBreaker } from './breakers.ts';
import type { Database, Queryable } from './database.ts';
import { changeFlow } from './flow.ts';
import { type EndedJob, toEndedJob } from './settle.ts';
import { ofSegment, part, sql } from './sql.ts';

interface GateRow extends Omit<Gate, 'changed_at'> {
  changed_at: Date;
}

export async function listGates(db: Queryable): Promise<Gate[]> {
  const rows = await db.query<GateRow>(sql`
    select kind, name, state, note, author, changed_at
    from punctual.gates
    order by state = 'open', changed_at desc`);
  return rows.map(toGate);
}

export async function setGate(db: Database, kind: GateKind, name: string, gate: SetGate): Promise<void> {
  await changeFlow(db, async (tx) => {
    await writeGate(tx, kind, name, gate);
    if (kind === 'type' && gate.state === 'open') await resetBreaker(tx, name);
  });
}

export async function writeGate(tx: Queryable, kind: GateKind, name: string, gate: SetGate): Promise<void> {
  await tx.query(sql`
    insert into punctual.gates (kind, name, state, note, author)
    values (${kind}, ${name}, ${gate.state}, ${gate.note ?? null}, ${gate.author ?? null})
    on conflict (kind, name) do update
    set state = excluded.state, note = excluded.note, author = excluded.author, changed_at = now()`);
}

export async function getGate(db: Queryable, kind: GateKind, name: string): Promise<Gate | null> {
  const rows = await db.query<GateRow>(sql`
    select kind, name, state, note, author, changed_at
    from punctual.gates
    where kind = ${kind} and name = ${name}`);
  return rows[0] === undefined ? null : toGate(rows[0]);
}

/** Ends due runs of these lanes; answers how many, and the jobs among them that may have other runs. */
export async function dropReady(
  db: Queryable,
  segment: number,
  { laneIds, limit }: { laneIds: readonly number[]; limit: number },
): Promise<{ dropped: number; further: EndedJob[] }> {
  const rows = await db.query<{ dropped: number; further: string[] | null }>(sql`
    with taken as (
      delete from punctual.ready
      where ${ofSegment(part`segment`, segment)}
        and ctid = any (array(
          select next.ctid
          from unnest(${int4s(laneIds, (id) => id)}::integer[]) l (lane_id)
          cross join lateral (
            select r.ctid
            from punctual.ready r
            where r.segment = ${segment}::smallint and r.lane_id = l.lane_id
            order by r.seq
            limit ${limit}::integer
            for update skip locked
          ) next
          limit ${limit}::integer
        ))
      returning segment, run_id, job_id, lane_id, attempts, cause, scheduled_for, due_at
    ),
    ended as (
      insert into punctual.ended_runs (segment, run_id, job_id, lane_id, attempt, cause, status, reason, scheduled_for, due_at)
      select segment, run_id, job_id, lane_id, attempts, cause, 'DROPPED', 'gate', scheduled_for, due_at
      from taken
    )
    select count(*)::integer as dropped, array_agg(job_id::text || cause::text) filter (where cause <> 'submit') as further
    from taken`);
  return { dropped: rows[0]?.dropped ?? 0, further: (rows[0]?.further ?? []).map(toEndedJob) };
}

function toGate(row: GateRow): Gate {
  return { ...row, changed_at: row.changed_at.toISOString() };
}
