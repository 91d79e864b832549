// A walk over all sealed values of the book, by key, in bounded steps: to count them, and to write them again under another
// key. A value is replaced only if it still is what was read, so that servers go on meanwhile.
import type { Place, StepPlace } from '../base/vault.ts';
import { texts } from './arrays.ts';
import type { Queryable } from './database.ts';
import { isSealedIn } from './sealed.ts';
import { type Fragment, join, part, sql } from './sql.ts';

/** What tells the rows of a segment apart, as text. */
export type RowKey = readonly string[];

/** A column in which sealed values may stand. */
interface Source {
  table: Fragment;
  column: Fragment;
  /** What tells the rows of a segment apart: the columns of an index, in its order. */
  keys: readonly { name: Fragment; type: Fragment }[];
  /** The job of a row; null: it is of none. */
  job: Fragment;
  place: (key: RowKey, job_id: string) => Place;
}

/** The job of a run, whatever state that is in. */
const jobOfRun = part`coalesce(
  (select e.job_id from punctual.ended_runs e where e.segment = t.segment and e.run_id = t.run_id limit 1),
  (select r.job_id from punctual.running r where r.segment = t.segment and r.run_id = t.run_id),
  (select r.job_id from punctual.ready r where r.segment = t.segment and r.run_id = t.run_id),
  (select r.job_id from punctual.waiting r where r.segment = t.segment and r.run_id = t.run_id))`;

const uuid = part`uuid`;
const runKey = { name: part`run_id`, type: uuid };
const workflowKey = { name: part`workflow_id`, type: uuid };

const ofRun = (kind: 'result' | 'error' | 'checkpoint'): Pick<Source, 'keys' | 'job' | 'place'> => ({
  keys: [runKey],
  job: part`t.job_id`,
  place: ([run_id = ''], job_id) => ({ kind, job_id, run_id }),
});

const ofWorkflow = (kind: 'workflow' | 'workflow_result'): Pick<Source, 'table' | 'keys' | 'job' | 'place'> => ({
  table: part`punctual.workflows`,
  keys: [workflowKey],
  job: part`null::uuid`,
  place: ([workflow_id = '']) => ({ kind, workflow_id }),
});

const ofStep = (kind: StepPlace['kind']): Pick<Source, 'table' | 'keys' | 'job' | 'place'> => ({
  table: part`punctual.workflow_steps`,
  keys: [workflowKey, { name: part`step`, type: part`text` }, { name: part`item`, type: part`integer` }],
  job: part`null::uuid`,
  place: ([workflow_id = '', step = '', item]) => ({ kind, workflow_id, step, item: Number(item) }),
});

const sources = {
  'jobs.payload': {
    table: part`punctual.jobs`,
    column: part`payload`,
    keys: [{ name: part`job_id`, type: uuid }],
    job: part`t.job_id`,
    place: (_key, job_id) => ({ kind: 'payload', job_id }),
  },
  'ended_runs.result': { ...ofRun('result'), table: part`punctual.ended_runs`, column: part`result` },
  'ended_runs.error': { ...ofRun('error'), table: part`punctual.ended_runs`, column: part`error` },
  'attempts.error': {
    ...ofRun('error'),
    table: part`punctual.attempts`,
    column: part`error`,
    keys: [runKey, { name: part`lease_id`, type: uuid }],
    job: jobOfRun,
  },
  'dead_letters.error': { ...ofRun('error'), table: part`punctual.dead_letters`, column: part`error` },
  'checkpoints.value': {
    ...ofRun('checkpoint'),
    table: part`punctual.checkpoints`,
    column: part`value`,
    job: jobOfRun,
  },
  'workflows.input': { ...ofWorkflow('workflow'), column: part`input` },
  'workflows.result': { ...ofWorkflow('workflow_result'), column: part`result` },
  'workflow_steps.payload': { ...ofStep('step_payload'), column: part`payload` },
  'workflow_steps.error': { ...ofStep('step_error'), column: part`error` },
  'workflow_steps.result': { ...ofStep('step_result'), column: part`result` },
} as const satisfies Record<string, Source>;

export type SealedColumn = keyof typeof sources;
export const sealedColumns = Object.keys(sources) as SealedColumn[];

export interface SealedScan {
  /** The sealed ones among the rows looked at, with the names of their encryption keys. */
  rows: { key: RowKey; under: string }[];
  /** Where to go on; null: all were looked at. */
  next: RowKey | null;
}

const list = (parts: readonly Fragment[]): Fragment => join(parts, ', ', part``);
const all = (parts: readonly Fragment[]): Fragment => join(parts, ' and ', part`true`);

/** Looks at so many rows of a segment after one, or from the first. */
export async function scanSealed(
  db: Queryable,
  where: { column: SealedColumn; segment: number; after: RowKey | null },
  limit: number,
): Promise<SealedScan> {
  const { table, column, keys }: Source = sources[where.column];
  const { segment, after } = where;
  const names = list(keys.map(({ name }) => part`t.${name}`));
  const behind =
    after === null ? part`true` : part`(${names}) > (${list(keys.map(({ type }, i) => part`${after[i]}::${type}`))})`;
  const rows = await db.query<{ key: string[]; under: string | null }>(sql`
    select array[${list(keys.map(({ name }) => part`t.${name}::text`))}] as key,
           case when ${isSealedIn(part`t.${column}`)} then split_part(left(t.${column}, 64), ':', 2) end as under
    from ${table} t
    where t.segment = ${segment}::smallint and ${behind}
    order by ${names}
    limit ${limit}::integer`);
  return {
    rows: rows.filter((row): row is { key: string[]; under: string } => row.under !== null),
    next: rows.length === limit ? (rows.at(-1)?.key ?? null) : null,
  };
}

export interface SealedValue {
  key: RowKey;
  value: string;
  place: Place;
}

const given = [part`k0`, part`k1`, part`k2`];

/** Keys as columns of a statement, so many as there are. */
function unnested(
  keys: Source['keys'],
  rows: readonly RowKey[],
): { arrays: Fragment; names: Fragment; same: Fragment } {
  return {
    arrays: list(keys.map((_, i) => part`${texts(rows, (row) => row[i] ?? null)}::text[]`)),
    names: list(keys.map((_, i) => given[i] as Fragment)),
    same: all(keys.map(({ name, type }, i) => part`t.${name} = v.${given[i] as Fragment}::${type}`)),
  };
}

/** The values of these rows; of a row that is gone, or whose run is, none. */
export async function readSealed(
  db: Queryable,
  { column: name, segment }: { column: SealedColumn; segment: number },
  wanted: readonly RowKey[],
): Promise<SealedValue[]> {
  const { table, column, keys, job, place }: Source = sources[name];
  const { arrays, names, same } = unnested(keys, wanted);
  const rows = await db.query<{ key: string[]; value: string; job_id: string | null }>(sql`
    select array[${names}] as key, t.${column} as value, ${job} as job_id
    from unnest(${arrays}) v (${names})
    join ${table} t on t.segment = ${segment}::smallint and ${same}
    where ${isSealedIn(part`t.${column}`)}`);
  return rows.flatMap(({ key, value, job_id }) => {
    const at = place(key, job_id ?? '');
    return 'job_id' in at && job_id === null ? [] : [{ key, value, place: at }];
  });
}

/** Writes values in the place of others, unless those have changed; answers how many. */
export async function replaceSealed(
  db: Queryable,
  { column: name, segment }: { column: SealedColumn; segment: number },
  values: readonly (SealedValue & { next: string })[],
): Promise<number> {
  const { table, column, keys }: Source = sources[name];
  const { arrays, names, same } = unnested(
    keys,
    values.map(({ key }) => key),
  );
  const rows = await db.query<{ n: number }>(sql`
    with replaced as (
      update ${table} t
      set ${column} = v.next
      from unnest(${arrays}, ${texts(values, (v) => v.value)}::text[], ${texts(values, (v) => v.next)}::text[]) v (${names}, value, next)
      where t.segment = ${segment}::smallint and ${same} and t.${column} = v.value
      returning 1
    )
    select count(*)::integer as n
    from replaced`);
  return rows[0]?.n ?? 0;
}
