// Pages of lists that stay fast with ten million rows. A list never counts and never skips: ids are time-ordered, so a page
// is the next ids below the cursor, newest first.
//
// Filters without an index look at a bounded number of rows: each segment is read down to `perSegment` rows; the highest id
// at which some segment stopped is the horizon, and everything above it is known. What found less than asked ends at the
// horizon, and the next step starts there. A page takes a few such steps while it is not full and its time is not up, so that
// no statement is long and nobody waits for what is rare.
import { limits } from '@punctual/contract';
import { monotonicMs } from '../base/clock.ts';
import { highestId } from '../base/ids.ts';
import type { Queryable } from './database.ts';
import { type Fragment, part, sql } from './sql.ts';

/** Rows that one statement looks at. */
const stepRows = 2_000;
/** A page takes no further step after so long. */
const lookMs = 150;

export interface PageRequest {
  /** Only ids below this one; null for the first page. */
  below: string | null;
  limit: number;
  segments: readonly number[];
}

export interface Page<Item> {
  items: Item[];
  /** Where the next page starts: ids below this one; null when there is nothing more. */
  below: string | null;
}

export interface List<Row, Item> {
  /** The column that orders the list. */
  id: 'run_id' | 'job_id' | 'workflow_id';
  perSegment: number;
  /** What to look at in the segment `s.segment`, newest first, at most `perSegment` rows. */
  candidates: Fragment;
  /** The rows of `looked_at` that fit, with all that is shown of them. */
  fitting: Fragment;
  toItem: (row: Row) => Item;
}

/** `listOf` says how to read on from a place. */
export async function readPage<Row extends object, Item>(
  db: Queryable,
  page: PageRequest,
  listOf: (page: PageRequest) => List<Row, Item>,
): Promise<Page<Item>> {
  const until = monotonicMs() + lookMs;
  const items: Item[] = [];
  let { below } = page;
  for (let looked = 0; looked < limits.max_scan; looked += stepRows) {
    const rest = { ...page, below, limit: page.limit - items.length };
    const step = await readStep(db, rest, listOf(rest));
    items.push(...step.items);
    below = step.below;
    if (below === null || items.length >= page.limit || monotonicMs() > until) break;
  }
  return { items, below };
}

async function readStep<Row extends object, Item>(
  db: Queryable,
  page: PageRequest,
  { id, perSegment, candidates, fitting, toItem }: List<Row, Item>,
): Promise<Page<Item>> {
  const column = columnsById[id];
  const rows = await db.query<Row & { horizon: string | null; missing: boolean }>(sql`
    with looked_at as materialized (
      select c.*
      from unnest(${page.segments}::smallint[]) s (segment)
      cross join lateral (${candidates}) c
    ),
    horizon as (
      select max(lowest)::uuid as id
      from (
        select min(${column}::text) as lowest
        from looked_at
        group by segment
        having count(*) >= ${perSegment}
      ) stopped
    ),
    matched as (
      select *
      from (${fitting}) f
      where f.${column} >= coalesce((select h.id from horizon h), '00000000-0000-0000-0000-000000000000')
      order by f.${column} desc
      limit ${page.limit + 1}
    )
    select h.id as horizon, m.${column} is null as missing, m.*
    from horizon h
    left join matched m on true
    order by m.${column} desc`);
  const horizon = rows[0]?.horizon ?? null;
  const found = rows
    .filter(({ missing }) => !missing)
    .map(({ horizon: _horizon, missing: _missing, ...row }) => row as unknown as Row);
  const last = found[page.limit - 1] as Record<string, unknown> | undefined;
  const more = found.length > page.limit && last !== undefined;
  return { items: found.slice(0, page.limit).map(toItem), below: more ? String(last[id]) : horizon };
}

const columnsById = { run_id: part`run_id`, job_id: part`job_id`, workflow_id: part`workflow_id` };

/** How many rows of a segment a step may look at. */
export function rowsPerSegment(page: PageRequest, filtered: boolean): number {
  if (!filtered) return page.limit + 1;
  return Math.max(page.limit + 1, Math.ceil(stepRows / page.segments.length));
}

export function lower(a: string | null, b: string | null): string {
  return [a ?? highestId, b ?? highestId].sort()[0] ?? highestId;
}
