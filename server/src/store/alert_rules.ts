// Alert rules in the book. A check belongs to whoever locks the row of a rule whose time has come; the others pass by. The
// lock lasts as long as the transaction of the check: a server that freezes in it loses it, and nothing of it was done.
import { type AlertRule, limits, PunctualError, type PutAlertRule } from '@punctual/contract';
import { type PreparedAlertRule, prepareAlertRule, wordingOf } from '../rules/alert.ts';
import type { Database, Queryable } from './database.ts';
import { part, sql } from './sql.ts';

/** Held by whoever puts a rule, a channel, a silence or a subscription, and by nobody else: they are counted under it. */
const alertsLock = 7600_0023;

export async function lockAlertSettings(tx: Queryable): Promise<void> {
  await tx.query(sql`select pg_advisory_xact_lock(${alertsLock})`);
}

interface RuleRow {
  name: string;
  kind: AlertRule['kind'];
  definition: string;
  channels: string[];
  enabled: boolean;
  firing: number;
  checked_at: Date | null;
  error: string | null;
  updated_at: Date;
}

const columns = part`
  r.name, r.kind, r.definition, r.channels, r.enabled, r.checked_at, r.error, r.updated_at,
  (select count(*)::integer from punctual.alerts a where a.rule = r.name and a.resolved_at is null) as firing`;

export async function listAlertRules(db: Queryable): Promise<AlertRule[]> {
  const rows = await db.query<RuleRow>(sql`select ${columns} from punctual.alert_rules r order by r.name`);
  return rows.map(toRule);
}

export async function getAlertRule(db: Queryable, name: string): Promise<AlertRule | null> {
  const rows = await db.query<RuleRow>(sql`select ${columns} from punctual.alert_rules r where r.name = ${name}`);
  return rows[0] === undefined ? null : toRule(rows[0]);
}

/** It begins anew: what was counted for the rule before is forgotten. */
export async function putAlertRule(db: Database, name: string, rule: PutAlertRule): Promise<void> {
  await db.transaction(async (tx) => {
    await lockAlertSettings(tx);
    const channels = rule.channels ?? [];
    const missing = await tx.query<{ name: string }>(sql`
      select n.name
      from unnest(${channels}::text[]) n (name)
      where not exists (select from punctual.alert_channels c where c.name = n.name)`);
    if (missing[0] !== undefined)
      throw new PunctualError('alert_channel_not_found', {
        detail: `There is no channel ${missing[0].name}; put it first.`,
      });
    await tx.query(sql`
      with forgotten as (delete from punctual.alert_counts where rule = ${name}),
      also as (delete from punctual.alert_durations where rule = ${name})
      insert into punctual.alert_rules (name, kind, definition, channels, enabled)
      values (${name}, ${rule.kind}, ${JSON.stringify(rule)}, ${channels}::text[], ${rule.enabled ?? true}::boolean)
      on conflict (name) do update
      set kind = excluded.kind, definition = excluded.definition, channels = excluded.channels, enabled = excluded.enabled,
          next_check_at = now(), looked_until = now(), succeeded_at = now(), error = null, updated_at = now()`);
    const [count] = await tx.query<{ rules: number }>(sql`select count(*)::integer as rules from punctual.alert_rules`);
    if ((count?.rules ?? 0) > limits.max_alert_rules) throw new PunctualError('too_many_rules');
  });
}

export async function deleteAlertRule(db: Queryable, name: string): Promise<boolean> {
  const rows = await db.query(sql`
    with gone as (delete from punctual.alert_rules where name = ${name} returning name),
    counts as (delete from punctual.alert_counts c using gone g where c.rule = g.name),
    durations as (delete from punctual.alert_durations d using gone g where d.rule = g.name),
    over as (
      update punctual.alerts a
      set resolved_at = now(), notify_at = null
      from gone g
      where a.rule = g.name and a.resolved_at is null
    )
    select name from gone`);
  return rows.length > 0;
}

/** Those whose time has come, the longest waiting first, and in how many ms the next one's time comes. */
export async function dueAlertRules(db: Queryable): Promise<{ name: string; in_ms: number }[]> {
  return db.query(sql`
    select name, greatest(0, extract(epoch from next_check_at - now()) * 1000)::double precision as in_ms
    from punctual.alert_rules
    where enabled
    order by next_check_at
    limit ${limits.max_alert_rules}::integer`);
}

/** A rule whose check is ours, until the transaction ends. */
export interface HeldRule {
  name: string;
  rule: PreparedAlertRule;
  /** What ended after `from` and until `to` was not looked at yet. */
  from: string;
  to: string;
}

/**
 * The rule, if its time has come and nobody else checks it. `furthest_ms`: what ended longer ago is not looked at any more,
 * as when no server was there.
 */
export async function holdRule(
  tx: Queryable,
  name: string,
  { every_ms, horizon, furthest_ms }: { every_ms: number; horizon: string; furthest_ms: number },
): Promise<HeldRule | null> {
  const rows = await tx.query<{ definition: string; from: string; to: string }>(sql`
    with held as (
      select name, looked_until
      from punctual.alert_rules
      where name = ${name} and enabled and next_check_at <= now()
      for update skip locked
    )
    update punctual.alert_rules r
    set next_check_at = now() + ${every_ms}::bigint * interval '1 millisecond', checked_at = now(), error = null,
        looked_until = greatest(h.looked_until, ${horizon}::timestamptz)
    from held h
    where r.name = h.name
    returning r.definition,
              greatest(h.looked_until, now() - ${furthest_ms}::bigint * interval '1 millisecond')::text as from,
              r.looked_until::text as to`);
  const held = rows[0];
  if (held === undefined) return null;
  const rule = prepareAlertRule(JSON.parse(held.definition) as PutAlertRule);
  if ('refused' in rule) throw new Error(`alert rule ${name} cannot be followed`);
  return { name, rule, from: held.from, to: held.to };
}

/** A check that failed is tried again with the next turn, and says why. */
export async function failRule(db: Queryable, name: string, error: string, everyMs: number): Promise<void> {
  await db.query(sql`
    update punctual.alert_rules
    set next_check_at = now() + ${everyMs}::bigint * interval '1 millisecond', checked_at = now(), error = ${error}
    where name = ${name} and next_check_at <= now()`);
}

function toRule({ definition, checked_at, updated_at, ...row }: RuleRow): AlertRule {
  const parsed = JSON.parse(definition) as PutAlertRule;
  const prepared = prepareAlertRule(parsed);
  return {
    ...row,
    wording: 'refused' in prepared ? '' : wordingOf(prepared),
    definition: parsed,
    checked_at: checked_at?.toISOString() ?? null,
    updated_at: updated_at.toISOString(),
  };
}
