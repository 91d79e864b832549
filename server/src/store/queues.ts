// Queues in the book: their settings, their limits and those of types, and what waits and runs in them. Also the move of
// a queue whose runs age: a due run that has waited long enough goes to the lane one priority above.
import {
  type GateKind,
  type LaneLimit,
  type Queue,
  type Rate,
  type SetLaneLimit,
  type SetQueue,
} from '@punctual/contract';
import { presetPriority } from '../rules/flow.ts';
import { int4s } from './arrays.ts';
import type { Database, Queryable } from './database.ts';
import { changeFlow } from './flow.ts';
import { writeGate } from './gates.ts';
import type { Lane } from './lanes.ts';
import { type Fragment, ofSegment, part, sql } from './sql.ts';

/** More is not counted of one lane in one segment. */
const maxCounted = 10_000;

interface QueueRow extends Omit<Queue, 'rate' | 'default_priority'>, RateColumns {
  default_priority: number | null;
}

interface RateColumns {
  rate_units: number | null;
  rate_per_ms: number | null;
  rate_burst: number | null;
}

/** Queues that were used or have settings; of a thousand of them at most the counts stay quick. */
export async function listQueues(
  db: Queryable,
  segments: readonly number[],
  name: string | null = null,
): Promise<Queue[]> {
  const only = (column: Fragment): Fragment => (name === null ? part`true` : part`${column} = ${name}`);
  const rows = await db.query<QueueRow>(sql`
    with names as (
      select queue as name from punctual.lanes where ${only(part`queue`)}
      union select name from punctual.queues where ${only(part`name`)}
      union select name from punctual.gates where kind = 'queue' and ${only(part`name`)}
      union select name from punctual.lane_limits where kind = 'queue' and ${only(part`name`)}
    ),
    counts as (
      select l.queue, sum(c.ready)::integer as ready
      from punctual.lanes l
      cross join unnest(${segments}::smallint[]) s (segment)
      cross join lateral (
        select count(*) as ready
        from (
          select from punctual.ready r where r.segment = s.segment and r.lane_id = l.lane_id limit ${maxCounted}::integer
        ) counted
      ) c
      where ${only(part`l.queue`)}
      group by l.queue
    ),
    busy as (
      select l.queue, count(*)::integer as running
      from punctual.running r
      join punctual.lanes l using (lane_id)
      where ${only(part`l.queue`)}
      group by l.queue
    )
    select n.name, coalesce(g.state, 'open') as state, q.default_priority, q.ageing_ms, m.max_concurrency,
           m.rate_units, m.rate_per_ms, m.rate_burst, coalesce(c.ready, 0) as ready, coalesce(b.running, 0) as running
    from names n
    left join punctual.gates g on g.kind = 'queue' and g.name = n.name
    left join punctual.queues q on q.name = n.name
    left join punctual.lane_limits m on m.kind = 'queue' and m.name = n.name
    left join counts c on c.queue = n.name
    left join busy b on b.queue = n.name
    order by n.name`);
  return rows.map(({ rate_units, rate_per_ms, rate_burst, ...row }) => ({
    ...row,
    default_priority: row.default_priority ?? presetPriority(row.name),
    rate: toRate({ rate_units, rate_per_ms, rate_burst }),
  }));
}

export async function setQueue(db: Database, name: string, change: SetQueue): Promise<void> {
  const { paused, note, author, default_priority, ageing_ms, max_concurrency, rate } = change;
  await changeFlow(db, async (tx) => {
    if (paused !== undefined)
      await writeGate(tx, 'queue', name, {
        state: paused ? 'hold' : 'open',
        ...(note === undefined ? {} : { note }),
        ...(author === undefined ? {} : { author }),
      });
    await tx.query(sql`
      insert into punctual.queues as q (name, default_priority, ageing_ms)
      values (${name}, ${default_priority ?? null}::smallint, ${ageing_ms ?? null}::integer)
      on conflict (name) do update
      set default_priority = case when ${default_priority !== undefined}::boolean then excluded.default_priority else q.default_priority end,
          ageing_ms = case when ${ageing_ms !== undefined}::boolean then excluded.ageing_ms else q.ageing_ms end,
          changed_at = now()`);
    if (max_concurrency !== undefined || rate !== undefined)
      await writeLimit(tx, 'queue', name, {
        ...(max_concurrency === undefined ? {} : { max_concurrency }),
        ...(rate === undefined ? {} : { rate }),
      });
  });
}

export async function setLaneLimit(db: Database, kind: GateKind, name: string, limit: SetLaneLimit): Promise<void> {
  await changeFlow(db, (tx) => writeLimit(tx, kind, name, limit));
}

/** A new rate begins with a full bucket. */
async function writeLimit(
  tx: Queryable,
  kind: GateKind,
  name: string,
  { max_concurrency, rate, note }: SetLaneLimit,
): Promise<void> {
  const burst = rate == null ? null : (rate.burst ?? rate.units);
  await tx.query(sql`
    insert into punctual.lane_limits as l (kind, name, max_concurrency, rate_units, rate_per_ms, rate_burst, tokens, note)
    values (${kind}, ${name}, ${max_concurrency ?? null}::integer, ${rate?.units ?? null}::integer, ${rate?.per_ms ?? null}::integer,
            ${burst}::integer, ${burst ?? 0}::double precision, ${note ?? null})
    on conflict (kind, name) do update
    set max_concurrency = case when ${max_concurrency !== undefined}::boolean then excluded.max_concurrency else l.max_concurrency end,
        ${rate === undefined ? part`` : part`rate_units = excluded.rate_units, rate_per_ms = excluded.rate_per_ms, rate_burst = excluded.rate_burst, tokens = excluded.tokens, refilled_at = now(),`}
        note = coalesce(excluded.note, l.note),
        changed_at = now()`);
}

interface LimitRow extends Omit<LaneLimit, 'rate' | 'tokens'>, RateColumns {
  tokens: number;
}

export async function listLaneLimits(
  db: Queryable,
  only: { kind: GateKind; name: string } | null = null,
): Promise<LaneLimit[]> {
  const rows = await db.query<LimitRow>(sql`
    select l.kind, l.name, l.max_concurrency, l.rate_units, l.rate_per_ms, l.rate_burst, l.note, ${tokensNow} as tokens,
           (select count(*)::integer
            from punctual.lane_holds h
            join punctual.running r using (segment, run_id)
            where h.kind = l.kind and h.name = l.name) as running
    from punctual.lane_limits l
    where ${only === null ? part`l.max_concurrency is not null or l.rate_units is not null` : part`l.kind = ${only.kind} and l.name = ${only.name}`}
    order by l.kind, l.name`);
  return rows.map(({ rate_units, rate_per_ms, rate_burst, tokens, ...row }) => {
    const rate = toRate({ rate_units, rate_per_ms, rate_burst });
    return { ...row, rate, tokens: rate === null ? null : tokens };
  });
}

/** What is in the bucket of the limit `l` now. */
export const tokensNow = part`
  least(l.rate_burst, l.tokens + extract(epoch from (select clock_timestamp()) - l.refilled_at) * 1000 * l.rate_units / l.rate_per_ms)::double precision`;

function toRate({ rate_units: units, rate_per_ms: per_ms, rate_burst: burst }: RateColumns): Rate | null {
  return units === null || per_ms === null || burst === null ? null : { units, per_ms, burst };
}

/** Where the run at the head of one of these lanes has waited for so long. */
export async function findOld(
  db: Queryable,
  segments: readonly number[],
  { lanes, ageing_ms }: { lanes: readonly Lane[]; ageing_ms: number },
): Promise<{ segment: number; lane_id: number }[]> {
  return db.query(sql`
    select s.segment, l.lane_id
    from unnest(${segments}::smallint[]) s (segment)
    cross join unnest(${int4s(lanes, (lane) => lane.lane_id)}::integer[]) l (lane_id)
    cross join lateral (
      select r.due_at
      from punctual.ready r
      where r.segment = s.segment and r.lane_id = l.lane_id
      order by r.seq
      limit 1
    ) head
    where head.due_at <= now() - ${ageing_ms}::bigint * interval '1 millisecond'`);
}

/**
 * Moves due runs at the head of a lane to the lane one priority above, behind those that are there: once for each
 * `ageing_ms` they have waited. Answers how many.
 */
export async function raiseOld(
  db: Queryable,
  segment: number,
  { from, to, ageing_ms, limit }: { from: Lane; to: Lane; ageing_ms: number; limit: number },
): Promise<number> {
  const rows = await db.query<{ raised: number }>(sql`
    with old as (
      delete from punctual.ready
      where ${ofSegment(part`segment`, segment)}
        and ctid = any (array(
          select head.ctid
          from (
            select r.ctid, r.segment, r.job_id, r.due_at
            from punctual.ready r
            where r.segment = ${segment}::smallint and r.lane_id = ${from.lane_id}::integer
            order by r.seq
            limit ${limit}::integer
            for update skip locked
          ) head
          join punctual.jobs j using (segment, job_id)
          where head.due_at <= now() - ${ageing_ms}::bigint * (${from.priority}::integer - j.priority + 1) * interval '1 millisecond'
        ))
      returning segment, run_id, job_id, attempts, cause, scheduled_for, due_at
    ),
    raised as (
      insert into punctual.ready (segment, run_id, job_id, lane_id, attempts, cause, scheduled_for, due_at)
      select segment, run_id, job_id, ${to.lane_id}::integer, attempts, cause, scheduled_for, due_at
      from old
      order by due_at
      returning 1
    )
    select count(*)::integer as raised
    from raised`);
  return rows[0]?.raised ?? 0;
}
