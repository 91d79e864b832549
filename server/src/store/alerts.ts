// Alerts in the book: what a check found becomes firing or goes on, what it no longer finds is over; and who is to be told.
// All of a check is written by one statement, in the transaction that holds the rule. To tell is a move of its own: it takes
// the alerts whose time has come, skipping those that another server has locked, and writes the deliveries with it. So
// one server tells, and what it tells is sent even if it dies right after.
import { type Alert, limits } from '@punctual/contract';
import { newId } from '../base/ids.ts';
import { type PreparedAlertRule, prepareAlertRule, summaryOf } from '../rules/alert.ts';
import type { Message } from '../rules/message.ts';
import type { Finding, Found } from './alert_checks.ts';
import type { HeldRule } from './alert_rules.ts';
import type { Database, Queryable } from './database.ts';
import { type NewDelivery, writeDeliveries } from './deliveries.ts';
import { type Fragment, part, sql } from './sql.ts';

interface AlertRow extends Omit<Alert, 'since' | 'last_at' | 'resolved_at' | 'notified_at' | 'acknowledged_at'> {
  since: Date;
  last_at: Date;
  resolved_at: Date | null;
  notified_at: Date | null;
  acknowledged_at: Date | null;
}

/** A silence that holds now is about the alert `a`. */
const silenced = part`exists (
  select
  from punctual.alert_silences s
  where s.until_at > now() and coalesce(s.rule, a.rule) = a.rule and coalesce(s.group_key, a.group_key) = a.group_key)`;

const columns = part`
  a.alert_id, a.rule, a.kind, a.group_key as "group", case when a.resolved_at is null then 'firing' else 'resolved' end as state,
  a.summary, a.value, a.count, a.job_id, a.run_id, a.since, a.last_at, a.resolved_at, a.notified_at, ${silenced} as silenced,
  a.acknowledged_at, a.acknowledged_by, a.note`;

/** Writes what a check found; answers the alerts that began and those that are over. */
export async function applyFindings(tx: Queryable, held: HeldRule, { findings, cleared }: Found): Promise<Alert[]> {
  const { name, rule } = held;
  const some = findings.slice(0, limits.max_alert_groups);
  const list = <K extends keyof Finding>(key: K): Finding[K][] => some.map((finding) => finding[key]);
  const ms = (value: number): Fragment => part`${value}::bigint * interval '1 millisecond'`;
  const rows = await tx.query<AlertRow>(sql`
    with found as (
      select *
      from unnest(
        ${some.map(() => newId('alert', 0))}::uuid[], ${list('group')}::text[], ${list('value')}::double precision[],
        ${list('count')}::integer[], ${list('job_id')}::uuid[], ${list('run_id')}::uuid[],
        ${some.map((finding) => summaryOf(rule, finding))}::text[]) as f (alert_id, group_key, value, count, job_id, run_id, summary)
    ),
    goes_on as (
      update punctual.alerts a
      set last_at = now(), value = f.value, summary = f.summary, job_id = coalesce(f.job_id, a.job_id),
          run_id = coalesce(f.run_id, a.run_id),
          count = case when ${rule.resolve_after_ms > 0}::boolean then a.count + f.count else f.count end
      from found f
      where a.rule = ${name} and a.resolved_at is null and a.group_key = f.group_key
    ),
    begun as (
      insert into punctual.alerts as a (alert_id, rule, kind, group_key, value, count, summary, job_id, run_id, notify_at)
      select f.alert_id, ${name}, ${rule.kind}, f.group_key, f.value, f.count, f.summary, f.job_id, f.run_id,
             case when ${rule.channels.length > 0}::boolean then greatest(
               now() + ${ms(rule.wait_ms)},
               (select max(p.notified_at) from punctual.alerts p where p.rule = ${name} and p.group_key = f.group_key) + ${ms(rule.cool_down_ms)})
             end
      from found f
      where not exists (
        select from punctual.alerts a where a.rule = ${name} and a.resolved_at is null and a.group_key = f.group_key)
      returning ${columns}
    ),
    over as (
      update punctual.alerts a
      set resolved_at = now(),
          notify_at = case when a.notified_at is not null and ${rule.notify_resolved}::boolean then now() end
      where a.rule = ${name} and a.resolved_at is null
        and not exists (select from found f where f.group_key = a.group_key)
        and (a.last_at <= now() - ${ms(rule.resolve_after_ms)} or a.group_key = any (${cleared}::text[]))
      returning ${columns}
    )
    select * from begun union all select * from over`);
  return rows.map(toAlert);
}

/** Tells of what is due, rule by rule; answers how many messages were written. */
export async function notifyDue(db: Database): Promise<number> {
  const rules = await db.query<{ rule: string }>(sql`
    select distinct rule from punctual.alerts a where a.notify_at <= now() and not ${silenced}`);
  let messages = 0;
  for (const { rule } of rules) messages += await db.transaction((tx) => notifyRule(tx, rule));
  return messages;
}

async function notifyRule(tx: Queryable, name: string): Promise<number> {
  const [row] = await tx.query<{ definition: string; channels: string[]; now: Date }>(sql`
    select definition, channels, now() as now from punctual.alert_rules where name = ${name}`);
  const rule = row === undefined ? null : prepareAlertRule(JSON.parse(row.definition));
  if (row === undefined || rule === null || 'refused' in rule) return forget(tx, name);
  const told = await takeAlerts(tx, name, rule);
  const messages = (['alert.firing', 'alert.resolved'] as const).flatMap((event): Message[] => {
    const all = told.filter(({ state }) => `alert.${state}` === event);
    if (all.length === 0) return [];
    const alerts = all.slice(0, limits.max_alerts_in_message);
    const { kind, note } = rule;
    return [{ event, rule: name, kind, note, total: all.length, alerts, timestamp: row.now.toISOString() }];
  });
  const deliveries = messages.flatMap((message) =>
    row.channels.map((channel): NewDelivery => {
      const { event } = message;
      return { target_kind: 'channel', target: channel, event, event_id: null, body: JSON.stringify(message) };
    }),
  );
  await writeDeliveries(tx, deliveries);
  return messages.length;
}

/**
 * Those whose time has come, and with them those that still gather: one message for all. A rule that repeats sets the time of
 * the next message.
 */
async function takeAlerts(tx: Queryable, name: string, rule: PreparedAlertRule): Promise<Alert[]> {
  const rows = await tx.query<AlertRow>(sql`
    with due as materialized (
      select a.alert_id, a.notify_at
      from punctual.alerts a
      where a.rule = ${name} and not ${silenced} and a.notify_at is not null
        and a.notify_at <= now() + case when a.resolved_at is null and a.notified_at is null
                                     then ${rule.wait_ms}::bigint * interval '1 millisecond' else interval '0' end
      order by a.notify_at
      limit ${limits.max_alert_groups}::integer
      for update skip locked
    )
    update punctual.alerts a
    set notified_at = now(),
        notify_at = case when a.resolved_at is null and a.acknowledged_at is null and ${rule.repeat_ms > 0}::boolean
                      then now() + ${rule.repeat_ms}::bigint * interval '1 millisecond' end
    from due
    where a.alert_id = due.alert_id and exists (select from due d where d.notify_at <= now())
    returning ${columns}`);
  return rows.map(toAlert);
}

/** Its rule is gone: there is nobody to tell. */
async function forget(tx: Queryable, rule: string): Promise<number> {
  await tx.query(sql`update punctual.alerts set notify_at = null where rule = ${rule} and notify_at is not null`);
  return 0;
}

/** Newest first, below an id. */
export async function listAlerts(
  db: Queryable,
  { state, rule, below, limit }: { state?: Alert['state']; rule?: string; below: string; limit: number },
): Promise<Alert[]> {
  const rows = await db.query<AlertRow>(sql`
    select ${columns}
    from punctual.alerts a
    where a.alert_id < ${below}::uuid
      ${state === undefined ? part`` : state === 'firing' ? part`and a.resolved_at is null` : part`and a.resolved_at is not null`}
      ${rule === undefined ? part`` : part`and a.rule = ${rule}`}
    order by a.alert_id desc
    limit ${limit}::integer`);
  return rows.map(toAlert);
}

export async function countFiring(db: Queryable): Promise<number> {
  const rows = await db.query<{ n: number }>(sql`
    select count(*)::integer as n from punctual.alerts where resolved_at is null`);
  return rows[0]?.n ?? 0;
}

/** It is not repeated any more. The first who acknowledges is remembered. */
export async function acknowledgeAlert(
  db: Queryable,
  alertId: string,
  { by, note }: { by?: string; note?: string },
): Promise<Alert | null> {
  const rows = await db.query<AlertRow>(sql`
    update punctual.alerts a
    set acknowledged_at = coalesce(a.acknowledged_at, now()), acknowledged_by = coalesce(a.acknowledged_by, ${by ?? null}),
        note = coalesce(${note ?? null}, a.note),
        notify_at = case when a.resolved_at is null and a.notified_at is not null then null else a.notify_at end
    where a.alert_id = ${alertId}::uuid
    returning ${columns}`);
  return rows[0] === undefined ? null : toAlert(rows[0]);
}

/** Alerts that were over long ago, some at a time. */
export async function pruneAlerts(db: Queryable, { days, limit }: { days: number; limit: number }): Promise<number> {
  const rows = await db.query(sql`
    delete from punctual.alerts
    where alert_id in (
      select alert_id from punctual.alerts where resolved_at < now() - ${days}::integer * interval '1 day' limit ${limit}::integer)
    returning 1`);
  return rows.length;
}

function toAlert({ since, last_at, resolved_at, notified_at, acknowledged_at, ...row }: AlertRow): Alert {
  return {
    ...row,
    since: since.toISOString(),
    last_at: last_at.toISOString(),
    resolved_at: resolved_at?.toISOString() ?? null,
    notified_at: notified_at?.toISOString() ?? null,
    acknowledged_at: acknowledged_at?.toISOString() ?? null,
  };
}
