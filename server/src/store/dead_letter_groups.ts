// Dead letters put together by type and error, for people who look for what is wrong. Looks at a bounded number of the
// newest letters of each segment, a few segments at a time so that no statement is long; called by the door.
import { type DeadLetterGroup, type DeadLetterGroupQuery, type DeadLetterGroups, limits } from '@punctual/contract';
import { isSealed } from '../base/vault.ts';
import { commonText, shapeChars, shapeOf } from '../rules/error_text.ts';
import type { Queryable } from './database.ts';
import { filtersOf } from './dead_letters.ts';
import { fewAtOnce } from './few.ts';
import { epochMs, join, part, sql } from './sql.ts';

interface Letter {
  looked_at: number;
  cut: boolean;
  /** Null when no letter fits: then the rest is null too. */
  type: string | null;
  reason: string;
  failed_ms: string;
  run_id: string;
  error: string | null;
}

interface Group {
  type: string;
  reason: string;
  error: string | null;
  count: number;
  first_ms: number;
  last_ms: number;
  latest_run_id: string;
}

/** A statement looks at so many segments, and so many of them go at once. */
const segmentsPerStatement = 2;
const statementsAtOnce = 3;

export async function listDeadLetterGroups(
  db: Queryable,
  filter: DeadLetterGroupQuery,
  segments: readonly number[],
): Promise<DeadLetterGroups> {
  const perSegment = Math.ceil(limits.max_grouped_dead_letters / segments.length);
  const few = fewAtOnce(db, statementsAtOnce);
  const groups = new Map<string, Group>();
  let looked_at = 0;
  let complete = true;
  const look = async (some: readonly number[]): Promise<void> => {
    const letters = await readLetters(few, { segments: some, perSegment, filter });
    looked_at += letters[0]?.looked_at ?? 0;
    if (letters[0]?.cut === true) complete = false;
    for (const letter of letters) if (letter.type !== null) add(groups, letter, letter.type);
  };
  const looks = Array.from({ length: Math.ceil(segments.length / segmentsPerStatement) }, (_, i) =>
    look(segments.slice(i * segmentsPerStatement, (i + 1) * segmentsPerStatement)),
  );
  await Promise.all(looks);
  const largest = [...groups.values()].sort((a, b) => b.count - a.count || b.last_ms - a.last_ms);
  const most = limits.max_dead_letter_groups;
  return { groups: largest.slice(0, most).map(toGroup), looked_at, complete: complete && largest.length <= most };
}

/** The newest letters of some segments that fit; one row without a letter when none does. */
async function readLetters(
  db: Queryable,
  { segments, perSegment, filter }: { segments: readonly number[]; perSegment: number; filter: DeadLetterGroupQuery },
): Promise<Letter[]> {
  return db.query<Letter>(sql`
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
      select l.type, d.reason, ${epochMs(part`d.failed_at`)} as failed_ms, d.run_id, left(d.error, ${shapeChars}) as error
      from looked_at d
      ${filter.user_id === undefined ? part`` : part`join punctual.jobs j on j.segment = d.segment and j.job_id = d.job_id`}
      join punctual.lanes l on l.lane_id = d.lane_id
      where ${join(filtersOf(filter), ' and ', part`true`)}
    )
    select a.looked_at, a.cut, f.*
    from (select count(*)::integer as looked_at, coalesce(bool_or(cut), false) as cut from looked_at) a
    left join fitting f on true`);
}

function add(groups: Map<string, Group>, { reason, error: text, run_id, failed_ms }: Letter, type: string): void {
  // What is encrypted says nothing to anybody.
  const error = text === null || isSealed(text) ? null : shapeOf(text);
  const at = Number(failed_ms);
  const key = JSON.stringify([type, reason, error]);
  const group = groups.get(key);
  if (group === undefined) {
    groups.set(key, { type, reason, error, count: 1, first_ms: at, last_ms: at, latest_run_id: run_id });
    return;
  }
  group.count++;
  group.first_ms = Math.min(group.first_ms, at);
  group.last_ms = Math.max(group.last_ms, at);
  if (run_id > group.latest_run_id) group.latest_run_id = run_id;
}

function toGroup({ first_ms, last_ms, ...group }: Group): DeadLetterGroup {
  return {
    ...group,
    q: commonText(group.error),
    first_failed_at: new Date(first_ms).toISOString(),
    last_failed_at: new Date(last_ms).toISOString(),
  };
}
