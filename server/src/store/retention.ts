// Rules of retention in the book, and the pieces of statements that heed them. For each field the rule of the type goes
// before that of the queue, and that before the installation; 0 is for ever.
//
// Days are whole days in UTC, as the partitions are: what is over is over for a whole day at once. Every transaction that
// removes something holds `rulesLock` shared, and who changes a rule holds it alone. So once the change is answered, nothing
// goes that it keeps.
import {
  type GateKind,
  limits,
  PunctualError,
  type RetentionPolicy,
  type RetentionRule,
  type SetRetention,
} from '@punctual/contract';
import type { Database, Queryable } from './database.ts';
import { type Fragment, part, sql } from './sql.ts';

const rulesLock = 7600_0021;

type RuleRow = Omit<RetentionRule, 'changed_at'> & { changed_at: Date };

const columns = part`kind, name, runs_days, logs_days, note, changed_at`;

export async function listRetention(db: Queryable): Promise<RetentionRule[]> {
  const rows = await db.query<RuleRow>(sql`
    select ${columns}
    from punctual.retention
    order by kind, name`);
  return rows.map(toRule);
}

export async function setRetention(
  db: Database,
  kind: GateKind,
  name: string,
  rule: SetRetention,
): Promise<RetentionRule> {
  return changeRules(db, async (tx) => {
    const [set] = await tx.query<RuleRow>(sql`
      insert into punctual.retention (kind, name, runs_days, logs_days, note)
      values (${kind}, ${name}, ${rule.runs_days ?? null}::integer, ${rule.logs_days ?? null}::integer, ${rule.note ?? null})
      on conflict (kind, name) do update
      set runs_days = excluded.runs_days, logs_days = excluded.logs_days, note = excluded.note, changed_at = now()
      returning ${columns}`);
    const rows = await tx.query<{ rules: number }>(sql`select count(*)::integer as rules from punctual.retention`);
    if ((rows[0]?.rules ?? 0) > limits.max_retention_rules) throw new PunctualError('too_many_rules');
    return toRule(set as RuleRow);
  });
}

function toRule(row: RuleRow): RetentionRule {
  return { ...row, changed_at: row.changed_at.toISOString() };
}

export async function deleteRetention(db: Database, kind: GateKind, name: string): Promise<boolean> {
  return changeRules(db, async (tx) => {
    const rows = await tx.query(sql`
      delete from punctual.retention
      where kind = ${kind} and name = ${name}
      returning name`);
    return rows.length > 0;
  });
}

function changeRules<T>(db: Database, change: (tx: Queryable) => Promise<T>): Promise<T> {
  return db.transaction(async (tx) => {
    await tx.query(sql`select pg_advisory_xact_lock(${rulesLock})`);
    return change(tx);
  });
}

/** Removes something while no rule changes. */
export function removing<T>(db: Database, remove: (tx: Queryable) => Promise<T>): Promise<T> {
  return db.transaction(async (tx) => {
    await tx.query(sql`select pg_advisory_xact_lock_shared(${rulesLock})`);
    return remove(tx);
  });
}

/** The first moment that is still kept; null when everything is. */
export function keptFrom(days: Fragment): Fragment {
  return part`(date_trunc('day', now(), 'UTC') - ${days} * interval '1 day')`;
}

/** Is the time over for runs of what has this `queue` and `type`? */
export function runsOver(of: Fragment, at: Fragment, policy: RetentionPolicy): Fragment {
  return part`coalesce(${at} < ${keptFrom(runsDays(of, policy))}, false)`;
}

/** Is the time over for their log lines? */
export function logsOver(of: Fragment, at: Fragment, policy: RetentionPolicy): Fragment {
  const said = part`nullif(${ruled(part`logs_days`, of, policy.logs_days)}, 0)`;
  return part`coalesce(${at} < ${keptFrom(part`least(${said}, ${runsDays(of, policy)})`)}, false)`;
}

export function runsDays(of: Fragment, policy: RetentionPolicy): Fragment {
  return part`nullif(${ruled(part`runs_days`, of, policy.runs_days)}, 0)`;
}

function ruled(field: Fragment, of: Fragment, otherwise: number): Fragment {
  return part`coalesce(
    (select rule.${field} from punctual.retention rule where rule.kind = 'type' and rule.name = ${of}.type),
    (select rule.${field} from punctual.retention rule where rule.kind = 'queue' and rule.name = ${of}.queue),
    ${otherwise}::integer)`;
}

/** A text that changes when something new may be over: with the day, and with the rules. */
export async function retentionTurn(db: Queryable): Promise<string> {
  const rows = await db.query<{ turn: string }>(sql`
    select (now() at time zone 'UTC')::date || ' '
           || coalesce((select string_agg(rule.kind || rule.name || rule.changed_at, ' ' order by rule.kind, rule.name) from punctual.retention rule), '') as turn`);
  return rows[0]?.turn ?? '';
}
