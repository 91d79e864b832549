// A walk over all sealed values of the book, by key, in bounded steps: to count them, and to write them again under another
// key. A value is replaced only if it still is what was read, so that servers go on meanwhile.
import type { Place } from '../base/vault.ts';
import { texts, uuids } from './arrays.ts';
import type { Queryable } from './database.ts';
import { isSealedIn } from './sealed.ts';
import { type Fragment, part, sql } from './sql.ts';

/** A column in which sealed values may stand; rows are told apart by `id`, and by `sub` where one id has several. */
interface Source {
  table: Fragment;
  column: Fragment;
  id: Fragment;
  sub: Fragment | null;
  kind: Place['kind'];
  job: Fragment;
}

/** The job of a run, whatever state that is in. */
const jobOfRun = part`coalesce(
  (select e.job_id from punctual.ended_runs e where e.segment = t.segment and e.run_id = t.run_id limit 1),
  (select r.job_id from punctual.running r where r.segment = t.segment and r.run_id = t.run_id),
  (select r.job_id from punctual.ready r where r.segment = t.segment and r.run_id = t.run_id),
  (select r.job_id from punctual.waiting r where r.segment = t.segment and r.run_id = t.run_id))`;

const ofRun = { id: part`run_id`, sub: null, job: part`t.job_id` };

const sources = {
  'jobs.payload': {
    table: part`punctual.jobs`,
    column: part`payload`,
    id: part`job_id`,
    sub: null,
    kind: 'payload',
    job: part`t.job_id`,
  },
  'ended_runs.result': { ...ofRun, table: part`punctual.ended_runs`, column: part`result`, kind: 'result' },
  'ended_runs.error': { ...ofRun, table: part`punctual.ended_runs`, column: part`error`, kind: 'error' },
  'attempts.error': {
    table: part`punctual.attempts`,
    column: part`error`,
    id: part`run_id`,
    sub: part`lease_id`,
    kind: 'error',
    job: jobOfRun,
  },
  'dead_letters.error': { ...ofRun, table: part`punctual.dead_letters`, column: part`error`, kind: 'error' },
  'checkpoints.value': {
    ...ofRun,
    table: part`punctual.checkpoints`,
    column: part`value`,
    kind: 'checkpoint',
    job: jobOfRun,
  },
} as const satisfies Record<string, Source>;

export type SealedColumn = keyof typeof sources;
export const sealedColumns = Object.keys(sources) as SealedColumn[];

export interface RowKey {
  id: string;
  sub: string;
}

const noId = '00000000-0000-0000-0000-000000000000';
export const beforeAll: RowKey = { id: noId, sub: noId };

export interface SealedScan {
  /** The sealed ones among the rows looked at, with the names of their keys. */
  rows: (RowKey & { key: string })[];
  /** Where to go on; null: all were looked at. */
  next: RowKey | null;
}

/** Looks at so many rows of a segment after one. */
export async function scanSealed(
  db: Queryable,
  where: { column: SealedColumn; segment: number; after: RowKey },
  limit: number,
): Promise<SealedScan> {
  const { table, column, id, sub }: Source = sources[where.column];
  const { segment, after } = where;
  const behind =
    sub === null
      ? part`t.${id} > ${after.id}::uuid`
      : part`(t.${id}, t.${sub}) > (${after.id}::uuid, ${after.sub}::uuid)`;
  const rows = await db.query<RowKey & { key: string | null }>(sql`
    select t.${id} as id, ${sub === null ? part`${noId}::uuid` : part`t.${sub}`} as sub,
           case when ${isSealedIn(part`t.${column}`)} then split_part(left(t.${column}, 64), ':', 2) end as key
    from ${table} t
    where t.segment = ${segment}::smallint and ${behind}
    order by t.${id}${sub === null ? part`` : part`, t.${sub}`}
    limit ${limit}::integer`);
  const last = rows.at(-1);
  return {
    rows: rows.filter((row): row is RowKey & { key: string } => row.key !== null),
    next: rows.length === limit && last !== undefined ? { id: last.id, sub: last.sub } : null,
  };
}

export interface SealedValue extends RowKey {
  value: string;
  place: Place;
}

/** The values of these rows; of a row that is gone, or whose run is, none. */
export async function readSealed(
  db: Queryable,
  { column: name, segment }: { column: SealedColumn; segment: number },
  keys: readonly RowKey[],
): Promise<SealedValue[]> {
  const { table, column, id, sub, job, kind }: Source = sources[name];
  const rows = await db.query<RowKey & { value: string; job_id: string | null }>(sql`
    select k.id, k.sub, t.${column} as value, ${job} as job_id
    from unnest(${uuids(keys, (key) => key.id)}::uuid[], ${uuids(keys, (key) => key.sub)}::uuid[]) k (id, sub)
    join ${table} t on t.segment = ${segment}::smallint and t.${id} = k.id ${sub === null ? part`` : part`and t.${sub} = k.sub`}
    where ${isSealedIn(part`t.${column}`)}`);
  return rows.flatMap(({ job_id, ...row }) => {
    if (job_id === null) return [];
    return [{ ...row, place: kind === 'payload' ? { kind, job_id } : { kind, job_id, run_id: row.id } }];
  });
}

/** Writes values in the place of others, unless those have changed; answers how many. */
export async function replaceSealed(
  db: Queryable,
  { column: name, segment }: { column: SealedColumn; segment: number },
  values: readonly (SealedValue & { next: string })[],
): Promise<number> {
  const { table, column, id, sub }: Source = sources[name];
  const rows = await db.query<{ n: number }>(sql`
    with replaced as (
      update ${table} t
      set ${column} = v.next
      from unnest(
        ${uuids(values, (v) => v.id)}::uuid[], ${uuids(values, (v) => v.sub)}::uuid[],
        ${texts(values, (v) => v.value)}::text[], ${texts(values, (v) => v.next)}::text[]) v (id, sub, value, next)
      where t.segment = ${segment}::smallint and t.${id} = v.id and t.${column} = v.value
        ${sub === null ? part`` : part`and t.${sub} = v.sub`}
      returning 1
    )
    select count(*)::integer as n
    from replaced`);
  return rows[0]?.n ?? 0;
}
