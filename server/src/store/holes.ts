// Finds holes in the ledger: counts the times of a schedule by its rule and compares with what is recorded. Only schedules
// that were never changed can be judged by the rule they have now; of those a bounded number, the newest, each from where
// retention has let its ledger begin. Called with the invariants, after tests and by `punctual doctor`.
import { countBetween } from '../rules/schedule/occurrences.ts';
import type { ScheduleRule } from '../rules/schedule/rule.ts';
import type { Queryable } from './database.ts';
import { epochMs, part, sql } from './sql.ts';

const maxSchedules = 500;
/** Counting more takes too long for a check. */
const maxTimes = 20_000;

interface Recorded {
  job_id: string;
  rule: string;
  from_ms: string;
  until_ms: string;
  times: number;
}

/** A job whose ledger has a time missing or too many, in words; null when there is none. */
export async function findHole(db: Queryable, deadlineMs: number): Promise<string | null> {
  const rows = await db.query<Recorded>(
    sql`
    select s.job_id, s.rule, ${epochMs(part`case when s.ledger_from is null then j.created_at else least(s.ledger_from, l.first) - interval '1 millisecond' end`)} as from_ms,
           ${epochMs(part`s.planned_until`)} as until_ms, coalesce(l.times, 0)::integer as times
    from (
      select *
      from punctual.schedules
      where not fixed_delay and calendar is null
      order by job_id desc
      limit ${maxSchedules}::integer
    ) s
    join punctual.jobs j using (segment, job_id)
    left join lateral (
      select sum(o.times) as times, min(o.scheduled_for) as first
      from punctual.occurrences o
      where o.segment = s.segment and o.job_id = s.job_id and (s.ledger_from is null or o.through >= s.ledger_from)
    ) l on true
    where j.version = 1 and coalesce(l.first > j.created_at, true)`,
    deadlineMs,
  );
  for (const { job_id, rule, from_ms, until_ms, times } of rows) {
    const { count, excluded, complete } = countBetween(
      JSON.parse(rule) as ScheduleRule,
      Number(from_ms),
      Number(until_ms),
      maxTimes,
    );
    if (complete && count + excluded !== times) return `${job_id}: ${count + excluded} times, ${times} recorded`;
  }
  return null;
}
