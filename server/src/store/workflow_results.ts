// What templates refer to: results and errors of steps, of maps as lists, of workflows within as they ended. Bounded: what is too
// large to be passed on is said to be, not read.
import { limits } from '@punctual/contract';
import { segmentOf } from '../base/ids.ts';
import type { Loaded, StepOutcome } from '../rules/workflow/advance.ts';
import type { StepKind } from '../rules/workflow/definition.ts';
import { uuids } from './arrays.ts';
import type { Queryable } from './database.ts';
import { sql } from './sql.ts';

interface LoadedRow {
  step: string;
  item: number;
  kind: StepKind | 'item';
  run_id: string | null;
  child_id: string | null;
  outcome: StepOutcome | null;
  error: string | null;
  result: string | null;
}

interface RunEnd {
  result: string | null;
  error: string | null;
  /** It was not kept, or is beyond what is read at once. */
  dropped: boolean;
}

/** What templates refer to: results and errors of these steps of a workflow. */
export async function loadResults(
  tx: Queryable,
  workflowId: string,
  steps: readonly string[],
): Promise<Map<string, Loaded>> {
  const segment = segmentOf(workflowId);
  const rows = await tx.query<LoadedRow>(sql`
    select step, item, kind, run_id, child_id, outcome, error, result
    from punctual.workflow_steps
    where segment = ${segment}::smallint and workflow_id = ${workflowId} and step = any (${steps}::text[])
    order by item`);
  const ends = await readEnds(
    tx,
    rows.flatMap(({ run_id }) => (run_id === null ? [] : [run_id])),
  );
  const children = await readChildren(
    tx,
    segment,
    rows.flatMap(({ child_id }) => (child_id === null ? [] : [child_id])),
  );
  const loaded = new Map<string, Loaded>();
  for (const row of rows) {
    if (row.kind === 'item') continue;
    const items = row.kind === 'map' ? rows.filter(({ step, kind }) => step === row.step && kind === 'item') : [];
    loaded.set(row.step, toLoaded(row, items, ends, children));
  }
  return loaded;
}

function toLoaded(
  row: LoadedRow,
  items: readonly LoadedRow[],
  ends: ReadonlyMap<string, RunEnd>,
  children: ReadonlyMap<string, string | null>,
): Loaded {
  const plain = (text: string | null, error: string | null, tooLarge = false): Loaded => ({
    result: text === null || tooLarge ? null : JSON.parse(text),
    error,
    tooLarge,
  });
  if (row.kind === 'wait') return plain(row.result, row.error);
  if (row.kind === 'workflow') {
    const text = children.get(row.child_id ?? '') ?? null;
    return plain(text, row.error, text === null && row.outcome === 'SUCCESS');
  }
  if (row.kind === 'job') {
    const end = ends.get(row.run_id ?? '');
    return plain(end?.result ?? null, row.error ?? end?.error ?? null, end?.dropped);
  }
  // A map that ends in this transaction has no outcome yet; its items have.
  if (row.outcome !== null && row.outcome !== 'SUCCESS') return plain(null, row.error);
  const found = items.map(({ run_id }) => ends.get(run_id ?? ''));
  const text = `[${found.map((end) => end?.result ?? 'null').join(',')}]`;
  const tooLarge = found.some((end) => end?.dropped === true) || Buffer.byteLength(text) > limits.max_result_bytes;
  return plain(text, null, tooLarge);
}

/** How runs ended. Of more results than may be read at once only the first are. */
async function readEnds(tx: Queryable, runIds: readonly string[]): Promise<Map<string, RunEnd>> {
  const ends = new Map<string, RunEnd>();
  for (const segment of new Set(runIds.map(segmentOf))) {
    const some = runIds.filter((id) => segmentOf(id) === segment);
    const rows = await tx.query<RunEnd & { run_id: string }>(sql`
      select e.run_id, e.error, case when e.bytes <= ${limits.max_items_bytes}::integer then e.result end as result,
             coalesce(e.reason = 'result_too_large', false) or coalesce(e.bytes > ${limits.max_items_bytes}::integer, false) as dropped
      from (
        select r.run_id, r.error, r.result, r.reason, sum(octet_length(r.result)) over (order by r.run_id) as bytes
        from punctual.ended_runs r
        where r.segment = ${segment}::smallint and r.run_id = any (${uuids(some, (id) => id)}::uuid[])
      ) e`);
    for (const row of rows) ends.set(row.run_id, row);
  }
  return ends;
}

async function readChildren(
  tx: Queryable,
  segment: number,
  ids: readonly string[],
): Promise<Map<string, string | null>> {
  if (ids.length === 0) return new Map();
  const rows = await tx.query<{ workflow_id: string; result: string | null }>(sql`
    select workflow_id, result
    from punctual.workflows
    where segment = ${segment}::smallint and workflow_id = any (${ids}::uuid[])`);
  return new Map(rows.map((row) => [row.workflow_id, row.result]));
}
