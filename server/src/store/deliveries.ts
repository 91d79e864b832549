// Deliveries in the book: what is to be sent to a channel or a subscription, until it has arrived or is given up.
//
//   due ──take: lease_id, next_at = end of the lease──▶ due, being sent ──▶ delivered
//    ▲                                                       ├─▶ due, later
//    └──────────────── redrive ──────────── dead ◀───────────┘
//
// A row that is being sent is one that is due again when its lease is over: a server that dies in between has not lost it.
// Who took it ends it only while the lease is still his. So something may be sent twice, with the same id, and never not.
import { type Delivery, type DeliveryState, limits } from '@punctual/contract';
import { newId, newToken } from '../base/ids.ts';
import type { Queryable } from './database.ts';
import { type Fragment, join, part, sql } from './sql.ts';

export type TargetKind = 'channel' | 'subscription';

export interface NewDelivery {
  target_kind: TargetKind;
  target: string;
  event: string;
  /** What the receiver knows it by; null: the id of the delivery. */
  event_id: string | null;
  body: string;
}

/** What was written for an event already is not written again. Answers how many are new. */
export async function writeDeliveries(tx: Queryable, deliveries: readonly NewDelivery[]): Promise<number> {
  if (deliveries.length === 0) return 0;
  const list = <K extends keyof NewDelivery>(key: K): NewDelivery[K][] => deliveries.map((delivery) => delivery[key]);
  const rows = await tx.query(sql`
    insert into punctual.deliveries (delivery_id, target_kind, target, event, event_id, body)
    select d.delivery_id, d.target_kind, d.target, d.event, coalesce(d.event_id, d.delivery_id::text), d.body
    from unnest(
      ${deliveries.map(() => newId('delivery', 0))}::uuid[], ${list('target_kind')}::text[], ${list('target')}::text[],
      ${list('event')}::text[], ${list('event_id')}::text[], ${list('body')}::text[])
      as d (delivery_id, target_kind, target, event, event_id, body)
    on conflict (target_kind, target, event_id) do nothing
    returning 1`);
  return rows.length;
}

/** One that was taken, with what is needed to send it. */
export interface TakenDelivery {
  delivery_id: string;
  lease_id: string;
  target_kind: TargetKind;
  target: string;
  event: string;
  event_id: string;
  body: string;
  attempts: number;
  /** The channel or subscription as it is now. */
  kind: 'webhook' | 'slack' | 'email' | 'events';
  definition: string;
  secret: string | null;
  now_ms: number;
}

const targets = part`(
  select 'channel' as target_kind, name as target, kind, definition, secret, false as paused from punctual.alert_channels
  union all
  select 'subscription', name, 'events', definition, secret, paused_at is not null from punctual.event_subscriptions)`;

/** Takes some that are due, up to `each` of a target less what is under way here, and `limit` of all together. */
export async function takeDeliveries(
  db: Queryable,
  {
    each,
    limit,
    busy,
    leaseMs,
  }: {
    each: number;
    limit: number;
    busy: readonly { target_kind: TargetKind; target: string; n: number }[];
    leaseMs: number;
  },
): Promise<TakenDelivery[]> {
  const rows = await db.query<Omit<TakenDelivery, 'now_ms'> & { now_ms: string }>(sql`
    with busy as (
      select *
      from unnest(
        ${busy.map((b) => b.target_kind)}::text[], ${busy.map((b) => b.target)}::text[], ${busy.map((b) => b.n)}::integer[])
        as b (target_kind, target, n)
    ),
    due as materialized (
      select d.delivery_id, t.kind, t.definition, t.secret
      from ${targets} t
      left join busy b using (target_kind, target)
      cross join lateral (
        select d.delivery_id
        from punctual.deliveries d
        where d.target_kind = t.target_kind and d.target = t.target and d.state = 'due' and d.next_at <= now()
        order by d.next_at
        limit greatest(0, ${each}::integer - coalesce(b.n, 0))
        for update skip locked
      ) d
      where not t.paused
      limit ${limit}::integer
    )
    update punctual.deliveries d
    set attempts = d.attempts + 1, lease_id = ${newToken()}::uuid, next_at = now() + ${leaseMs}::bigint * interval '1 millisecond'
    from due
    where d.delivery_id = due.delivery_id
    returning d.delivery_id, d.lease_id, d.target_kind, d.target, d.event, d.event_id, d.body, d.attempts, due.kind,
              due.definition, due.secret, floor(extract(epoch from now()) * 1000)::bigint as now_ms`);
  return rows.map((row) => ({ ...row, now_ms: Number(row.now_ms) }));
}

export interface DeliveryEnd {
  state: DeliveryState;
  /** When it is due again, if it is. */
  in_ms: number | null;
  status: number | null;
  error: string | null;
  /** false: it was broken off, which does not count as an attempt. */
  counts?: boolean;
}

/** False: the lease has moved on, and nothing is written. */
export async function endDelivery(
  db: Queryable,
  { delivery_id, lease_id }: Pick<TakenDelivery, 'delivery_id' | 'lease_id'>,
  { state, in_ms, status, error, counts = true }: DeliveryEnd,
): Promise<boolean> {
  const rows = await db.query(sql`
    update punctual.deliveries
    set state = ${state}, lease_id = null, status = ${status}::integer, error = ${error},
        attempts = attempts - ${counts ? 0 : 1}::integer,
        next_at = case when ${state === 'due'}::boolean then now() + ${in_ms ?? 0}::bigint * interval '1 millisecond' end,
        ended_at = case when ${state !== 'due'}::boolean then now() end
    where delivery_id = ${delivery_id}::uuid and lease_id = ${lease_id}::uuid
    returning 1`);
  return rows.length > 0;
}

interface DeliveryRow extends Omit<Delivery, 'channel' | 'subscription' | 'next_at' | 'created_at' | 'ended_at'> {
  target_kind: TargetKind;
  target: string;
  next_at: Date | null;
  created_at: Date;
  ended_at: Date | null;
}

const columns = part`
  d.delivery_id, d.target_kind, d.target, d.event, d.event_id, d.state, d.attempts, d.next_at, d.status, d.error, d.created_at,
  d.ended_at`;

export interface DeliveryFilter {
  state?: DeliveryState;
  channel?: string;
  subscription?: string;
}

const conditions = ({ state, channel, subscription }: DeliveryFilter): Fragment =>
  join(
    [
      ...(state === undefined ? [] : [part`d.state = ${state}`]),
      ...(channel === undefined ? [] : [part`d.target_kind = 'channel' and d.target = ${channel}`]),
      ...(subscription === undefined ? [] : [part`d.target_kind = 'subscription' and d.target = ${subscription}`]),
    ],
    ' and ',
    part`true`,
  );

/** Newest first, below an id. */
export async function listDeliveries(
  db: Queryable,
  { below, limit, ...filter }: DeliveryFilter & { below: string; limit: number },
): Promise<Delivery[]> {
  const rows = await db.query<DeliveryRow>(sql`
    select ${columns}
    from punctual.deliveries d
    where d.delivery_id < ${below}::uuid and ${conditions(filter)}
    order by d.delivery_id desc
    limit ${limit}::integer`);
  return rows.map(toDelivery);
}

const revived = part`state = 'due', attempts = 0, next_at = now(), ended_at = null`;

/** One that was given up is due again; null: there is none of this id. Who asks twice gets the same answer. */
export async function redriveDelivery(db: Queryable, deliveryId: string): Promise<Delivery | null> {
  const rows = await db.query<DeliveryRow>(sql`
    with again as (
      update punctual.deliveries d
      set ${revived}
      where d.delivery_id = ${deliveryId}::uuid and d.state = 'dead'
      returning ${columns}
    )
    select * from again
    union all
    select ${columns}
    from punctual.deliveries d
    where d.delivery_id = ${deliveryId}::uuid and d.state = 'due' and not exists (select from again)`);
  return rows[0] === undefined ? null : toDelivery(rows[0]);
}

export async function redriveDeliveries(db: Queryable, filter: Omit<DeliveryFilter, 'state'>): Promise<number> {
  const rows = await db.query(sql`
    update punctual.deliveries
    set ${revived}
    where delivery_id in (
      select d.delivery_id
      from punctual.deliveries d
      where d.state = 'dead' and ${conditions(filter)}
      order by d.delivery_id
      limit ${limits.max_redriven_deliveries}::integer
      for update skip locked
    )
    returning 1`);
  return rows.length;
}

/** What arrived or was given up long ago, some at a time. */
export async function pruneDeliveries(
  db: Queryable,
  { deliveredDays, deadDays, limit }: { deliveredDays: number; deadDays: number; limit: number },
): Promise<number> {
  const rows = await db.query(sql`
    delete from punctual.deliveries
    where delivery_id in (
      select delivery_id
      from punctual.deliveries
      where state <> 'due'
        and ended_at < now() - ${deliveredDays}::integer * interval '1 day'
        and (state = 'delivered' or ended_at < now() - ${deadDays}::integer * interval '1 day')
      limit ${limit}::integer)
    returning 1`);
  return rows.length;
}

/** What was written for a target just while that was being deleted. */
export async function pruneOrphans(db: Queryable): Promise<void> {
  await db.query(sql`
    delete from punctual.deliveries d
    where d.state = 'due' and not exists (select from ${targets} t where t.target_kind = d.target_kind and t.target = d.target)`);
}

/** How much waits for a target, and how much was given up; counting ends at a bound. */
export const deliveryCounts = (kind: TargetKind, target: Fragment): Fragment => part`
  (select count(*)::integer from (
     select from punctual.deliveries d
     where d.target_kind = ${kind} and d.target = ${target} and d.state = 'due' limit ${limits.max_counted}) n) as due,
  (select count(*)::integer from (
     select from punctual.deliveries d
     where d.target_kind = ${kind} and d.target = ${target} and d.state = 'dead' limit ${limits.max_counted}) n) as dead`;

function toDelivery({ target_kind, target, next_at, created_at, ended_at, ...row }: DeliveryRow): Delivery {
  return {
    ...row,
    channel: target_kind === 'channel' ? target : null,
    subscription: target_kind === 'subscription' ? target : null,
    next_at: next_at?.toISOString() ?? null,
    created_at: created_at.toISOString(),
    ended_at: ended_at?.toISOString() ?? null,
  };
}
