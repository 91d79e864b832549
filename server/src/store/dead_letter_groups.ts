// Dead letters put together by type and error, for people who look for what is wrong. Looks at a bounded number of the
// newest letters of each segment; called by the door.
import { type DeadLetterGroup, type DeadLetterGroupQuery, type DeadLetterGroups, limits } from '@punctual/contract';
import { commonText, hole } from '../rules/error_text.ts';
import type { Queryable } from './database.ts';
import { filtersOf } from './dead_letters.ts';
import { join, part, sql } from './sql.ts';

interface GroupRow extends Omit<DeadLetterGroup, 'first_failed_at' | 'last_failed_at' | 'q'> {
  first_failed_at: Date;
  last_failed_at: Date;
}

interface Row extends GroupRow {
  looked_at: number;
  cut: boolean;
  missing: boolean;
}

/** Ids, long hexadecimal numbers and numbers: what differs between errors that are otherwise the same. */
const varies = '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|0x[0-9a-f]+|[0-9a-f]{12,}|[0-9]+([.,:][0-9]+)*';

/** Of a message only its beginning decides. */
const shapeChars = 300;

export async function listDeadLetterGroups(
  db: Queryable,
  filter: DeadLetterGroupQuery,
  segments: readonly number[],
): Promise<DeadLetterGroups> {
  const perSegment = Math.ceil(limits.max_grouped_dead_letters / segments.length);
  const most = limits.max_dead_letter_groups;
  const rows = await db.query<Row>(sql`
    with looked_at as materialized (
      select c.*, count(*) over (partition by c.segment) >= ${perSegment} as cut
      from unnest(${segments}::smallint[]) s (segment)
      cross join lateral (
        select d.*
        from punctual.dead_letters d
        where d.segment = s.segment and d.redriven_at is null
        order by d.run_id desc
        limit ${perSegment}
      ) c
    ),
    fitting as (
      select l.type, d.reason, d.failed_at, d.run_id,
             regexp_replace(split_part(left(d.error, ${shapeChars}), E'\\n', 1), ${varies}, ${hole}, 'gi') as error
      from looked_at d
      join punctual.jobs j on j.segment = d.segment and j.job_id = d.job_id
      join punctual.lanes l on l.lane_id = d.lane_id
      where ${join(filtersOf(filter), ' and ', part`true`)}
    ),
    grouped as (
      select type, reason, error, count(*)::integer as count, min(failed_at) as first_failed_at, max(failed_at) as last_failed_at,
             max(run_id::text) as latest_run_id
      from fitting
      group by type, reason, error
      order by count(*) desc, max(failed_at) desc
      limit ${most + 1}
    )
    select a.looked_at, a.cut, g.type is null as missing, g.*
    from (select count(*)::integer as looked_at, coalesce(bool_or(cut), false) as cut from looked_at) a
    left join grouped g on true
    order by g.count desc, g.last_failed_at desc`);
  const found = rows.filter(({ missing }) => !missing);
  return {
    groups: found.slice(0, most).map(toGroup),
    looked_at: rows[0]?.looked_at ?? 0,
    complete: rows[0]?.cut !== true && found.length <= most,
  };
}

function toGroup({ looked_at: _looked_at, cut: _cut, missing: _missing, ...row }: Row): DeadLetterGroup {
  return {
    ...row,
    q: commonText(row.error),
    first_failed_at: row.first_failed_at.toISOString(),
    last_failed_at: row.last_failed_at.toISOString(),
  };
}
