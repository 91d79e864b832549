// Subscriptions to events in the book: where they go, which events, and how far each has read what ended.
import { limits, PunctualError, type PutSubscription, type Subscription } from '@punctual/contract';
import { shownWebhook } from '../rules/channel.ts';
import { lockAlertSettings } from './alert_rules.ts';
import type { Database, Queryable } from './database.ts';
import { deliveryCounts } from './deliveries.ts';
import { epochMs, type Fragment, part, sql } from './sql.ts';

interface SubscriptionRow {
  name: string;
  definition: string;
  has_secret: boolean;
  read_until: Date;
  due: number;
  dead: number;
  paused_at: Date | null;
  updated_at: Date;
}

const select = (where: Fragment): Fragment => part`
  select s.name, s.definition, s.secret is not null as has_secret, s.read_until, s.paused_at, s.updated_at, ${deliveryCounts('subscription', part`s.name`)}
  from punctual.event_subscriptions s
  where ${where}
  order by s.name`;

export async function listSubscriptions(db: Queryable): Promise<Subscription[]> {
  return (await db.query<SubscriptionRow>(sql`${select(part`true`)}`)).map(toSubscription);
}

export async function getSubscription(db: Queryable, name: string): Promise<Subscription | null> {
  const rows = await db.query<SubscriptionRow>(sql`${select(part`s.name = ${name}`)}`);
  return rows[0] === undefined ? null : toSubscription(rows[0]);
}

/** A secret that is left out is kept, or made. Answers it if it was made. */
export async function putSubscription(
  db: Database,
  name: string,
  { subscription, newSecret }: { subscription: PutSubscription; newSecret: string },
): Promise<string | null> {
  return db.transaction(async (tx) => {
    await lockAlertSettings(tx);
    const { secret, ...definition } = subscription;
    const [put] = await tx.query<{ made: boolean }>(sql`
      insert into punctual.event_subscriptions as s (name, definition, kinds, secret)
      values (${name}, ${JSON.stringify(definition)}, ${definition.kinds}::text[], ${secret ?? newSecret})
      on conflict (name) do update
      set definition = excluded.definition, kinds = excluded.kinds, updated_at = now(),
          -- One that was not about runs has not read them, and begins now.
          read_until = case when s.kinds && '{run.succeeded,run.failed,run.cancelled,run.dead}' then s.read_until else now() end,
          secret = case when ${secret === undefined}::boolean then s.secret else excluded.secret end
      returning secret = ${newSecret} as made`);
    const [count] = await tx.query<{ n: number }>(sql`select count(*)::integer as n from punctual.event_subscriptions`);
    if ((count?.n ?? 0) > limits.max_subscriptions) throw new PunctualError('too_many_rules');
    return put?.made === true ? newSecret : null;
  });
}

export async function deleteSubscription(db: Queryable, name: string): Promise<boolean> {
  const rows = await db.query(sql`
    with gone as (delete from punctual.event_subscriptions where name = ${name} returning name),
    unsent as (delete from punctual.deliveries d using gone g where d.target_kind = 'subscription' and d.target = g.name)
    select name from gone`);
  return rows.length > 0;
}

/** Paused twice, it is paused since the first time. False: there is none of this name. */
export async function pauseSubscription(db: Queryable, name: string, paused: boolean): Promise<boolean> {
  const rows = await db.query(sql`
    update punctual.event_subscriptions
    set paused_at = case when ${paused}::boolean then coalesce(paused_at, now()) end
    where name = ${name}
    returning 1`);
  return rows.length > 0;
}

/** The subscription as a test of it needs it. */
export async function findSubscription(
  db: Queryable,
  name: string,
): Promise<{ definition: string; secret: string | null; source: string; now_ms: number } | null> {
  const rows = await db.query<{ definition: string; secret: string | null; source: string; now_ms: string }>(sql`
    select s.definition, s.secret, '/punctual/' || i.installation_id as source, ${epochMs(part`now()`)} as now_ms
    from punctual.event_subscriptions s
    cross join punctual.installation i
    where s.name = ${name}`);
  return rows[0] === undefined ? null : { ...rows[0], now_ms: Number(rows[0].now_ms) };
}

function toSubscription({ definition, read_until, paused_at, updated_at, ...row }: SubscriptionRow): Subscription {
  const { url, kinds, type = null, queue = null, note = null } = JSON.parse(definition) as PutSubscription;
  return {
    ...row,
    target: shownWebhook(url),
    kinds,
    type,
    queue,
    note,
    read_until: read_until.toISOString(),
    paused_at: paused_at?.toISOString() ?? null,
    updated_at: updated_at.toISOString(),
  };
}
