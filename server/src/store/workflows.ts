// Workflows in the book: created, read, listed. How they go on is in workflow_advance.ts, what people do to them in
// workflow_moves.ts.
import {
  PunctualError,
  type StepDetail,
  type Workflow,
  type WorkflowQuery,
  type WorkflowState,
  type WorkflowStep,
  type WorkflowSummary,
} from '@punctual/contract';
import { highestId, jobIdOfFirstRun, segmentOf } from '../base/ids.ts';
import { hidden, isSealed, type Show, shown } from '../base/vault.ts';
import { artifactsOf } from '../rules/artifacts.ts';
import type { Graph } from '../rules/workflow/definition.ts';
import { parseSteps } from '../rules/workflow/show.ts';
import { addRefs } from './artifact_refs.ts';
import type { Queryable } from './database.ts';
import { type Page, type PageRequest, readPage, rowsPerSegment } from './pages.ts';
import { isSealedIn } from './sealed.ts';
import { join, part, sql } from './sql.ts';
import { walkOn } from './workflow_advance.ts';
import { learn, type Outlook, type WorkflowParts, withWorkflows } from './workflow_batch.ts';
import { loadResults } from './workflow_results.ts';
import { parseWhole, sealWorkflow, stepPlace } from './workflow_seal.ts';

export interface NewWorkflow {
  workflow_id: string;
  name: string;
  user_id: string | null;
  /** JSON: {"steps": …}. */
  definition: string;
  /** What it was compiled to. */
  graph: Graph;
  input: string | null;
  /** With it, asking twice makes one workflow. */
  once: { key: string; body_hash: string; other_hashes?: readonly string[] } | null;
  /** What it stores is sealed. */
  encrypted?: boolean;
  /** The trace it belongs to. */
  traceparent?: string | null;
  job_id?: string;
  run_id?: string;
}

/** Creates a workflow and begins the steps that need no other, in one transaction. Answers its id: an earlier one's with the same key. */
export async function createWorkflow(
  parts: WorkflowParts,
  wanted: NewWorkflow,
): Promise<{ workflow_id: string; replayed: boolean; outlook: Outlook }> {
  const { workflow_id, name, user_id, traceparent = null, once } = wanted;
  const { definition, input } = wanted.encrypted === true ? sealWorkflow(parts.vault, workflow_id, wanted) : wanted;
  const segment = segmentOf(workflow_id);
  const { answer, outlook } = await withWorkflows(parts, { segment, ids: [] }, async (batch) => {
    const rows = await batch.tx.query<{ workflow_id: string }>(sql`
      insert into punctual.workflows (segment, workflow_id, name, user_id, definition, input, key, body_hash, job_id, run_id, traceparent)
      values (${segment}::smallint, ${workflow_id}::uuid, ${name}, ${user_id}, ${definition}, ${input}, ${once?.key ?? null},
              ${once?.body_hash ?? null}, ${wanted.job_id ?? null}::uuid, ${wanted.run_id ?? null}::uuid, ${traceparent})
      on conflict (segment, key) where key is not null do nothing
      returning workflow_id`);
    if (rows.length === 0) return earlier(batch.tx, segment, once);
    await addRefs(
      batch.tx,
      artifactsOf(definition).map((sha256) => ({ sha256, owner_id: workflow_id })),
    );
    const text = { workflow_id, name, user_id, definition, input, traceparent, parent_id: null };
    const known = learn(parts, text, wanted.graph);
    const workflow = { known, turn: 0, standing: 'live' as const, ended: false, states: [], stored: [] };
    batch.locked.set(workflow_id, workflow);
    await walkOn(batch, workflow);
    return null;
  });
  return { workflow_id: answer ?? workflow_id, replayed: answer !== null, outlook };
}

async function earlier(tx: Queryable, segment: number, once: NewWorkflow['once']): Promise<string> {
  const rows = await tx.query<{ workflow_id: string; body_hash: string }>(sql`
    select workflow_id, body_hash
    from punctual.workflows
    where segment = ${segment}::smallint and key = ${once?.key ?? ''}`);
  const [row] = rows;
  if (row === undefined) throw new PunctualError('unavailable', { retryAfterSeconds: 1 });
  if (once === null || ![once.body_hash, ...(once.other_hashes ?? [])].includes(row.body_hash))
    throw new PunctualError('idempotency_key_reused');
  return row.workflow_id;
}

interface WorkflowRow {
  workflow_id: string;
  name: string;
  user_id: string | null;
  state: WorkflowState;
  parent_id: string | null;
  parent_step: string | null;
  job_id: string | null;
  encrypted: boolean;
  created_at: Date;
  ended_at: Date | null;
}

/** Has the workflow `w` runs or workflows within that have not ended, as far as is noted? */
const hasLive = part`
  exists (select from punctual.workflow_steps s
          where s.segment = w.segment and s.workflow_id = w.workflow_id and (s.run_id is not null or s.child_id is not null) and s.outcome is null)`;
const waits = part`
  exists (select from punctual.workflow_steps s where s.segment = w.segment and s.workflow_id = w.workflow_id and s.kind = 'wait' and s.outcome is null)`;

/** How it stands follows from its steps; only the end is noted, with what the steps amounted to. */
const columns = part`
  w.workflow_id, w.name, w.user_id, w.parent_id, w.parent_step, w.job_id, w.created_at, w.ended_at, ${isSealedIn(part`w.input`)} as encrypted,
  case when w.outcome is not null then w.outcome
       when w.cancelled_at is not null then 'CANCELLED'
       when w.paused_at is not null then 'PAUSED'
       when ${waits} and not ${hasLive} then 'WAITING'
       else 'RUNNING'
  end as state`;

/** What is encrypted of it as `show` shows it; the outline of its steps is not. */
export async function getWorkflow(db: Queryable, workflowId: string, show: Show = hidden): Promise<Workflow | null> {
  const segment = segmentOf(workflowId);
  const rows = await db.query<WorkflowRow & { definition: string; input: string | null; result: string | null }>(sql`
    select ${columns}, w.definition, w.input, w.result
    from punctual.workflows w
    where w.segment = ${segment}::smallint and w.workflow_id = ${workflowId}`);
  const row = rows[0];
  if (row === undefined) return null;
  const whole = isSealed(row.input) ? show(row.input, { kind: 'workflow', workflow_id: workflowId }) : null;
  const { definition, input } =
    whole !== null ? parseWhole(whole) : { ...row, input: row.encrypted ? null : row.input };
  return {
    ...toSummary(row),
    input: input === null ? null : JSON.parse(input),
    definition: (JSON.parse(definition) as { steps: Workflow['definition'] }).steps,
    ...(row.result === null ? {} : { result: readResult(row.result, workflowId, show) }),
    steps: await listSteps(db, row, show),
  };
}

function readResult(stored: string, workflow_id: string, show: Show): unknown {
  const text = shown(stored, { kind: 'workflow_result', workflow_id }, show);
  return text === null ? null : JSON.parse(text);
}

export async function getState(db: Queryable, workflowId: string): Promise<WorkflowState | null> {
  const rows = await db.query<WorkflowRow>(sql`
    select ${columns}
    from punctual.workflows w
    where w.segment = ${segmentOf(workflowId)}::smallint and w.workflow_id = ${workflowId}`);
  return rows[0]?.state ?? null;
}

interface ShownRow {
  step: string;
  item: number;
  kind: string;
  job_id: string | null;
  run_id: string | null;
  child_id: string | null;
  token: string | null;
  expires_at: Date | null;
  items: number | null;
  made: number;
  succeeded: number;
  failed: number;
  outcome: WorkflowStep['state'] | null;
  reason: string | null;
  error: string | null;
  begun_at: Date;
  ended_at: Date | null;
}

async function listSteps(
  db: Queryable,
  { workflow_id, definition, state: whole }: WorkflowRow & { definition: string },
  show: Show,
): Promise<WorkflowStep[]> {
  const segment = segmentOf(workflow_id);
  const rows = await db.query<ShownRow>(sql`
    select step, item, kind, job_id, run_id, child_id, token, expires_at, items, made, succeeded, failed, outcome, reason, error, begun_at, ended_at
    from punctual.workflow_steps
    where segment = ${segment}::smallint and workflow_id = ${workflow_id} and item = -1`);
  const runs = await readRuns(db, rows);
  const byName = new Map(rows.map((row) => [row.step, row]));
  const errorOf = ({ step, run_id, error }: ShownRow): string | null => {
    if (error !== null) return shown(error, stepPlace('step_error', { workflow_id, step }), show);
    if (run_id === null) return null;
    const place = { kind: 'error', job_id: jobIdOfFirstRun(run_id), run_id } as const;
    return shown(runs.get(run_id)?.error ?? null, place, show);
  };
  return parseSteps(definition).map(({ name, ...step }) => {
    const row = byName.get(name);
    const about = { step: name, ...step };
    return row === undefined
      ? { ...about, ...notBegun(whole) }
      : { ...about, ...begun(row, runs.get(row.run_id ?? '')), error_message: errorOf(row) };
  });
}

function notBegun(whole: WorkflowState): Omit<WorkflowStep, 'step' | 'kind' | 'needs' | 'level'> {
  const empty = { error_message: null, job_id: null, run_id: null, workflow_id: null, begun_at: null, ended_at: null };
  return whole === 'CANCELLED'
    ? { ...empty, state: 'CANCELLED', reason: 'workflow_cancelled' }
    : { ...empty, state: 'PENDING', reason: null };
}

function begun(
  row: ShownRow,
  run: RunNow | undefined,
): Omit<WorkflowStep, 'step' | 'kind' | 'needs' | 'level' | 'error_message'> {
  const { items, made, succeeded, failed } = row;
  const open = row.kind === 'wait' && row.outcome === null;
  return {
    state: stateOf(row, run),
    reason: row.reason,
    job_id: row.job_id,
    run_id: row.run_id,
    workflow_id: row.child_id,
    ...(items === null ? {} : { items: { total: items, made, succeeded, failed } }),
    ...(open && row.token !== null ? { token: row.token } : {}),
    ...(open && row.expires_at !== null ? { expires_at: row.expires_at.toISOString() } : {}),
    begun_at: row.begun_at.toISOString(),
    ended_at: row.ended_at?.toISOString() ?? null,
  };
}

function stateOf(row: Pick<ShownRow, 'outcome' | 'kind' | 'run_id'>, run: RunNow | undefined): WorkflowStep['state'] {
  if (row.outcome !== null) return row.outcome;
  if (row.kind === 'wait') return 'WAITING';
  if (row.kind === 'item' && row.run_id === null) return 'PENDING';
  return run?.state === 'queued' ? 'QUEUED' : 'RUNNING';
}

interface RunNow {
  run_id: string;
  state: 'queued' | 'running' | 'ended';
  error: string | null;
}

/** Where the runs of these steps are, of those that say so: live ones, and errors of those that ended. */
async function readRuns(
  db: Queryable,
  steps: readonly Pick<ShownRow, 'run_id' | 'outcome'>[],
): Promise<Map<string, RunNow>> {
  const ids = steps.flatMap(({ run_id, outcome }) => (run_id === null || outcome === 'SUCCESS' ? [] : [run_id]));
  const found = new Map<string, RunNow>();
  for (const segment of new Set(ids.map(segmentOf))) {
    const some = ids.filter((id) => segmentOf(id) === segment);
    const rows = await db.query<RunNow>(sql`
      select run_id, 'queued' as state, null::text as error from punctual.ready where segment = ${segment}::smallint and run_id = any (${some}::uuid[])
      union all select run_id, 'queued', null from punctual.waiting where segment = ${segment}::smallint and run_id = any (${some}::uuid[])
      union all select run_id, 'running', null from punctual.running where segment = ${segment}::smallint and run_id = any (${some}::uuid[])
      union all select run_id, 'ended', error from punctual.ended_runs where segment = ${segment}::smallint and run_id = any (${some}::uuid[])`);
    for (const row of rows) found.set(row.run_id, row);
  }
  return found;
}

/** One step with its result, and of a map the items above one, so many. */
export async function getStep(
  db: Queryable,
  workflow: Workflow,
  { step: name, after, limit, show }: { step: string; after: number; limit: number; show: Show },
): Promise<(Omit<StepDetail, 'next_cursor'> & { more: boolean }) | null> {
  const step = workflow.steps.find((one) => one.step === name);
  if (step === undefined) return null;
  const segment = segmentOf(workflow.workflow_id);
  const rows =
    step.kind === 'map'
      ? await db.query<ShownRow>(sql`
          select item, kind, job_id, run_id, outcome
          from punctual.workflow_steps
          where segment = ${segment}::smallint and workflow_id = ${workflow.workflow_id} and step = ${name} and item > ${after}::integer
          order by item
          limit ${limit + 1}::integer`)
      : [];
  const runs = await readRuns(db, rows);
  const items = rows.slice(0, limit).map((row) => {
    const { item, job_id, run_id } = row;
    return { item, state: stateOf(row, runs.get(run_id ?? '')), job_id, run_id };
  });
  const loaded =
    step.ended_at === null ? undefined : (await loadResults(db, workflow.workflow_id, [name], show)).get(name);
  const { unreadable } = loaded ?? {};
  if (unreadable?.reason === 'cannot_decrypt')
    throw new PunctualError('cannot_decrypt', { detail: unreadable.message });
  const concealed = workflow.encrypted === true && show === hidden;
  return {
    step: loaded?.tooLarge === true ? { ...step, reason: 'result_too_large' } : step,
    ...(loaded === undefined || loaded.tooLarge ? {} : { result: concealed ? null : loaded.result }),
    ...(workflow.encrypted === true ? { encrypted: true } : {}),
    items,
    more: rows.length > limit,
  };
}

/** Newest first, in bounded steps (pages.ts). */
export async function listWorkflows(
  db: Queryable,
  filter: Omit<WorkflowQuery, 'limit' | 'cursor'>,
  page: PageRequest,
): Promise<Page<WorkflowSummary>> {
  const { name, state, user_id, job_id } = filter;
  const filters = [
    ...(name === undefined ? [] : [part`w.name = ${name}`]),
    ...(state === undefined ? [] : [part`w.state = ${state}`]),
    ...(user_id === undefined ? [] : [part`w.user_id = ${user_id}`]),
    ...(job_id === undefined ? [] : [part`w.job_id = ${job_id}`]),
  ];
  // What goes on is found among what has not ended, which is little.
  const live = state === 'RUNNING' || state === 'PAUSED' || state === 'WAITING';
  return readPage<WorkflowRow, WorkflowSummary>(db, page, (step) => {
    const perSegment = rowsPerSegment(step, filters.length > 0);
    return {
      id: 'workflow_id',
      perSegment,
      candidates: part`
        select w.segment, w.workflow_id
        from punctual.workflows w
        where w.segment = s.segment and w.workflow_id < ${step.below ?? highestId} ${live ? part`and w.ended_at is null` : part``}
          ${job_id === undefined ? part`` : part`and w.job_id = ${job_id}`}
        order by w.workflow_id desc
        limit ${perSegment}`,
      fitting: part`
        select *
        from (
          select ${columns}
          from (select l.segment, l.workflow_id from looked_at l order by l.workflow_id desc) newest_first
          join punctual.workflows w using (segment, workflow_id)
        ) w
        where ${join(filters, ' and ', part`true`)}`,
      toItem: toSummary,
    };
  });
}

function toSummary(row: WorkflowRow): WorkflowSummary {
  const { workflow_id, name, user_id, state, parent_id, parent_step, job_id } = row;
  return {
    ...{ workflow_id, name, user_id, state, job_id },
    ...(row.encrypted ? { encrypted: true } : {}),
    parent: parent_id === null || parent_step === null ? null : { workflow_id: parent_id, step: parent_step },
    created_at: row.created_at.toISOString(),
    ended_at: row.ended_at?.toISOString() ?? null,
  };
}
