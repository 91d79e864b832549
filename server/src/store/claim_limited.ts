// Claims of lanes whose queue or type is limited, correct over any number of servers: a short transaction locks the
// limits (one such claim at a time for each), counts who holds a place, and claims no more than there is room for.
//
//   lane_limits ──for update──▶ room = max_concurrency − holds whose run is running; tokens of the rate
//   ready ──claim within the room──▶ running, lane_holds; tokens taken
//
// A place needs no giving back: a hold whose run has left `running` no longer counts and is swept here. The lock decides:
// whoever comes second counts, in a statement of its own, what the first has committed.
import { segmentOf } from '../base/ids.ts';
import type { LimitKey } from '../rules/flow.ts';
import { int2s, texts, uuids } from './arrays.ts';
import { type ClaimedRun, type ClaimOrder, claimRuns, type LaneRoom } from './claim.ts';
import type { Database, Queryable } from './database.ts';
import { tokensNow } from './queues.ts';
import { part, sqlPlannedOnce } from './sql.ts';

export interface LimitedLane {
  lane_id: number;
  after: number;
  limits: { queue: LimitKey | null; type: LimitKey | null };
}

export interface LimitedClaim {
  runs: ClaimedRun[];
  /** Some limit has no room left; more may be waiting. */
  cut: boolean;
  /** When units of a rate are used up: milliseconds until there is one again. */
  refillMs: number | null;
}

interface LockedLimit extends LimitKey {
  max_concurrency: number | null;
  rate_units: number | null;
  rate_per_ms: number | null;
  rate_burst: number | null;
  tokens: number;
  used: number;
}

export async function claimLimited(
  db: Database,
  order: Omit<ClaimOrder, 'lanes'> & { lanes: readonly LimitedLane[] },
): Promise<LimitedClaim> {
  return db.transaction(async (tx) => {
    const limits = await lockLimits(tx, order.lanes);
    const rooms = new Map([...limits].map(([id, limit]) => [id, roomOf(limit)]));
    const lanes = order.lanes
      .map((lane) => ({ ...lane, ...laneRoom(lane, rooms) }))
      .filter((lane) => !isFull(lane.queue_room) && !isFull(lane.type_room));
    const runs = lanes.length === 0 ? [] : await claimRuns(tx, { ...order, lanes });
    const uses = usesOf(runs, order.lanes, limits);
    await hold(tx, uses);
    return { runs, ...outlook(limits, uses) };
  });
}

interface Use {
  limit: LockedLimit;
  run_id: string;
  units: number;
}

/** In one order everywhere, so that two claims never wait for each other. */
async function lockLimits(tx: Queryable, lanes: readonly LimitedLane[]): Promise<Map<string, LockedLimit>> {
  const keys = new Map<string, LimitKey>();
  for (const { limits } of lanes)
    for (const limit of [limits.queue, limits.type]) if (limit !== null) keys.set(idOf(limit), limit);
  const wanted = [...keys.values()];
  const asked = part`unnest(${wanted.map((key) => key.kind)}::text[], ${wanted.map((key) => key.name)}::text[]) as k (kind, name)`;
  await tx.query(sqlPlannedOnce`
    select from punctual.lane_limits l
    where (l.kind, l.name) in (select k.kind, k.name from ${asked})
    order by l.kind, l.name
    for update`);
  const rows = await tx.query<LockedLimit>(sqlPlannedOnce`
    with held as materialized (
      select h.ctid as row, h.kind, h.name,
             (select true from punctual.running r where r.segment = h.segment and r.run_id = h.run_id) is not null as counts
      from ${asked}
      join punctual.lane_holds h using (kind, name)
    ),
    swept as (
      delete from punctual.lane_holds
      where ctid = any (array(select h.row from held h where not h.counts))
    )
    select l.kind, l.name, l.max_concurrency, l.rate_units, l.rate_per_ms, l.rate_burst, coalesce(${tokensNow}, 0) as tokens,
           (select count(*)::integer from held h where h.kind = l.kind and h.name = l.name and h.counts) as used
    from ${asked}
    join punctual.lane_limits l using (kind, name)`);
  return new Map(rows.map((row) => [idOf(row), row]));
}

function roomOf({ max_concurrency, rate_units, rate_burst, tokens, used }: LockedLimit): Omit<LaneRoom, 'group'> {
  return {
    runs: max_concurrency === null ? null : Math.max(0, max_concurrency - used),
    units: rate_units === null ? null : Math.max(0, Math.floor(tokens + 1e-6)),
    burst: rate_burst,
  };
}

function isFull(room: LaneRoom | null): boolean {
  return room !== null && (room.runs === 0 || room.units === 0);
}

function laneRoom(
  { limits }: LimitedLane,
  rooms: ReadonlyMap<string, Omit<LaneRoom, 'group'>>,
): { queue_room: LaneRoom | null; type_room: LaneRoom | null } {
  const ids = [...rooms.keys()];
  const of = (limit: LimitKey | null): LaneRoom | null => {
    const id = limit === null ? '' : idOf(limit);
    const room = rooms.get(id);
    return room === undefined ? null : { group: ids.indexOf(id), ...room };
  };
  return { queue_room: of(limits.queue), type_room: of(limits.type) };
}

function usesOf(
  runs: readonly ClaimedRun[],
  lanes: readonly LimitedLane[],
  limits: ReadonlyMap<string, LockedLimit>,
): Use[] {
  const byLane = new Map(lanes.map((lane) => [lane.lane_id, lane.limits]));
  return runs.flatMap(({ run_id, lane_id, units }) => {
    const of = byLane.get(lane_id);
    return [of?.queue ?? null, of?.type ?? null].flatMap((key) => {
      const limit = key === null ? undefined : limits.get(idOf(key));
      return limit === undefined ? [] : [{ limit, run_id, units: Math.min(units ?? 1, limit.rate_burst ?? 1) }];
    });
  });
}

async function hold(tx: Queryable, uses: readonly Use[]): Promise<void> {
  if (uses.length === 0) return;
  await tx.query(sqlPlannedOnce`
    with held as (
      insert into punctual.lane_holds (kind, name, segment, run_id)
      select *
      from unnest(
        ${texts(uses, (use) => use.limit.kind)}::text[], ${texts(uses, (use) => use.limit.name)}::text[],
        ${int2s(uses, (use) => segmentOf(use.run_id))}::smallint[], ${uuids(uses, (use) => use.run_id)}::uuid[])
      on conflict do nothing
    ),
    used as (
      select kind, name, sum(units) as units
      from unnest(
        ${texts(uses, (use) => use.limit.kind)}::text[], ${texts(uses, (use) => use.limit.name)}::text[],
        ${int2s(uses, (use) => use.units)}::smallint[]) as u (kind, name, units)
      group by kind, name
    )
    update punctual.lane_limits l
    set tokens = ${tokensNow} - used.units, refilled_at = (select clock_timestamp())
    from used
    where l.kind = used.kind and l.name = used.name and l.rate_units is not null`);
}

/** Is there room left, and when will there be units again? */
function outlook(limits: ReadonlyMap<string, LockedLimit>, uses: readonly Use[]): Omit<LimitedClaim, 'runs'> {
  let cut = false;
  let refillMs: number | null = null;
  for (const limit of limits.values()) {
    const own = uses.filter((use) => use.limit === limit);
    const { runs, units } = roomOf(limit);
    if (runs !== null && runs <= own.length) cut = true;
    const left = units === null ? null : limit.tokens - own.reduce((sum, use) => sum + use.units, 0);
    if (left === null || left >= 1 || limit.rate_units === null || limit.rate_per_ms === null) continue;
    cut = true;
    refillMs = Math.min(refillMs ?? Number.POSITIVE_INFINITY, ((1 - left) * limit.rate_per_ms) / limit.rate_units);
  }
  return { cut, refillMs };
}

function idOf({ kind, name }: LimitKey): string {
  return `${kind} ${name}`;
}
