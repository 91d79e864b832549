// What templates refer to: results and errors of steps, of maps as lists, of workflows within as they ended. Bounded: what is too
// large to be passed on is said to be, not read.
import { limits, PunctualError } from '@punctual/contract';
import { jobIdOfFirstRun, segmentOf } from '../base/ids.ts';
import { isSealed, type Show, shown } from '../base/vault.ts';
import type { Loaded, StepOutcome } from '../rules/workflow/advance.ts';
import type { StepKind } from '../rules/workflow/definition.ts';
import { uuids } from './arrays.ts';
import type { Queryable } from './database.ts';
import { sql } from './sql.ts';
import { stepPlace } from './workflow_seal.ts';

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
  /** It was not kept because it could not be encrypted. */
  unsealed: boolean;
}

/** What templates refer to: results and errors of these steps of a workflow, those that are encrypted as `show` shows them. */
export async function loadResults(
  tx: Queryable,
  workflowId: string,
  steps: readonly string[],
  show: Show,
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
    loaded.set(
      row.step,
      readable(row.step, () => toLoaded({ workflow_id: workflowId, row, items, ends, children, show })),
    );
  }
  return loaded;
}

/** What cannot be decrypted is said to be. */
function readable(step: string, read: () => Loaded): Loaded {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof PunctualError)) throw error;
    const message = `what ${step} left cannot be read. ${error.message}`;
    return { result: null, error: null, tooLarge: false, unreadable: { reason: 'cannot_decrypt', message } };
  }
}

function toLoaded({
  workflow_id,
  row,
  items,
  ends,
  children,
  show,
}: {
  workflow_id: string;
  row: LoadedRow;
  items: readonly LoadedRow[];
  ends: ReadonlyMap<string, RunEnd>;
  children: ReadonlyMap<string, string | null>;
  show: Show;
}): Loaded {
  const rowError = shown(row.error, stepPlace('step_error', { workflow_id, step: row.step }), show);
  const plain = (text: string | null, error: string | null, tooLarge = false): Loaded => ({
    result: text === null || tooLarge ? null : JSON.parse(text),
    error,
    tooLarge,
  });
  if (row.kind === 'wait')
    return plain(shown(row.result, stepPlace('step_result', { workflow_id, step: row.step }), show), rowError);
  if (row.kind === 'workflow') {
    const id = row.child_id ?? '';
    const stored = children.get(id) ?? null;
    const text = shown(stored, { kind: 'workflow_result', workflow_id: id }, show);
    return plain(text, rowError, stored === null && row.outcome === 'SUCCESS');
  }
  if (row.kind === 'job') {
    const end = endOf(row, ends, show);
    const loaded = plain(end?.result ?? null, rowError ?? end?.error ?? null, end?.dropped);
    return end?.unsealed === true ? { ...loaded, ...notKept(row.step) } : loaded;
  }
  // A map that ends in this transaction has no outcome yet; its items have.
  if (row.outcome !== null && row.outcome !== 'SUCCESS') return plain(null, rowError);
  const found = items.map((item) => endOf(item, ends, show));
  const text = `[${found.map((end) => end?.result ?? 'null').join(',')}]`;
  const tooLarge = found.some((end) => end?.dropped === true) || Buffer.byteLength(text) > limits.max_result_bytes;
  const loaded = plain(text, null, tooLarge);
  return found.some((end) => end?.unsealed === true) ? { ...loaded, ...notKept(row.step) } : loaded;
}

/** How the run of a step or an item ended, shown. */
function endOf({ run_id }: LoadedRow, ends: ReadonlyMap<string, RunEnd>, show: Show): RunEnd | undefined {
  const end = ends.get(run_id ?? '');
  if (end === undefined || run_id === null) return undefined;
  if (!isSealed(end.result) && !isSealed(end.error)) return end;
  const place = { job_id: jobIdOfFirstRun(run_id), run_id };
  return {
    ...end,
    result: shown(end.result, { kind: 'result', ...place }, show),
    error: shown(end.error, { kind: 'error', ...place }, show),
  };
}

function notKept(step: string): Pick<Loaded, 'unreadable'> {
  const message = `the result of ${step} was not kept: the server that was told of it had no encryption keys.`;
  return { unreadable: { reason: 'result_not_encrypted', message } };
}

/** How runs ended. Of more results than may be read at once only the first are. */
async function readEnds(tx: Queryable, runIds: readonly string[]): Promise<Map<string, RunEnd>> {
  const ends = new Map<string, RunEnd>();
  for (const segment of new Set(runIds.map(segmentOf))) {
    const some = runIds.filter((id) => segmentOf(id) === segment);
    const rows = await tx.query<RunEnd & { run_id: string }>(sql`
      select e.run_id, e.error, coalesce(e.reason = 'result_not_encrypted', false) as unsealed, case when e.bytes <= ${limits.max_items_bytes}::integer then e.result end as result,
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
