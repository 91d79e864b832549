// A workflow is run again: the steps that failed and what was skipped because of them, or everything from a step on. Their
// rows are taken away, so that the rule decides them anew; what succeeded stays. One transaction that holds the workflow's row.
import { PunctualError } from '@punctual/contract';
import { segmentOf } from '../base/ids.ts';
import { isSealed } from '../base/vault.ts';
import { stepsToRetry } from '../rules/workflow/retry.ts';
import { int4s, texts, uuids } from './arrays.ts';
import type { Queryable } from './database.ts';
import { sql } from './sql.ts';
import { walkOn } from './workflow_advance.ts';
import {
  type Batch,
  type LockedWorkflow,
  type Outlook,
  requireOpened,
  type WorkflowParts,
  withWorkflows,
} from './workflow_batch.ts';
import { stepPlace } from './workflow_seal.ts';

export async function retryWorkflow(parts: WorkflowParts, workflowId: string, from: string | null): Promise<Outlook> {
  const { outlook } = await withWorkflows(
    parts,
    { segment: segmentOf(workflowId), ids: [workflowId] },
    async (batch) => {
      const workflow = requireOpened(batch, workflowId);
      if (workflow.known.parent_id !== null)
        throw new PunctualError('workflow_ended', {
          detail: `It is a step of workflow ${workflow.known.parent_id}; retry that.`,
        });
      const { graph } = workflow.known;
      const number = from === null ? null : graph.numberOf.get(from);
      if (number === undefined)
        throw new PunctualError('step_not_found', { detail: `The workflow has no step ${from}.` });
      const { again, items, running } = stepsToRetry(graph, workflow.states, number);
      if (running !== null) throw new PunctualError('step_running', { detail: `The step ${running} has not ended.` });
      if (again.length + items.length === 0)
        throw new PunctualError('workflow_ended', { detail: 'No step of it failed; name one to run again from.' });
      await revive(batch, workflow, { again, items, cancelled: workflow.standing === 'cancelled' });
      await walkOn(batch, workflow);
    },
  );
  return outlook;
}

async function revive(
  batch: Batch,
  workflow: LockedWorkflow,
  { again, items, cancelled }: { again: readonly number[]; items: readonly number[]; cancelled: boolean },
): Promise<void> {
  const { tx, segment } = batch;
  const { workflow_id, graph } = workflow.known;
  const nameOf = (number: number): string => graph.steps[number]?.name ?? '';
  await tx.query(sql`
    delete from punctual.workflow_steps
    where segment = ${segment}::smallint and workflow_id = ${workflow_id} and step = any (${again.map(nameOf)}::text[])`);
  for (const number of again) workflow.states[number] = undefined;
  for (const number of items) {
    const now = workflow.states[number];
    if (now?.map == null) continue;
    const made = now.map.succeeded;
    await reviveItems(batch, { workflow_id, step: nameOf(number) });
    workflow.states[number] = { outcome: null, reason: null, map: { ...now.map, made, failed: 0 } };
  }
  if (!cancelled) return;
  workflow.standing = 'live';
  await tx.query(sql`
    update punctual.workflows
    set cancelled_at = null, paused_at = null
    where segment = ${segment}::smallint and workflow_id = ${workflow_id}`);
}

/** Items of a map that did not succeed wait again, with the payloads that their jobs had. */
async function reviveItems(
  { tx, segment, parts: { vault } }: Batch,
  { workflow_id, step }: { workflow_id: string; step: string },
): Promise<void> {
  const items = await tx.query<{ item: number; job_id: string | null }>(sql`
    select item, job_id
    from punctual.workflow_steps
    where segment = ${segment}::smallint and workflow_id = ${workflow_id} and step = ${step} and item >= 0 and outcome <> 'SUCCESS'`);
  const payloads = await readPayloads(
    tx,
    items.flatMap(({ job_id }) => (job_id === null ? [] : [job_id])),
  );
  const moved = ({ item, job_id }: { item: number; job_id: string | null }): string | null => {
    const payload = job_id === null ? null : (payloads.get(job_id) ?? null);
    if (job_id === null || !isSealed(payload)) return payload;
    const place = stepPlace('step_payload', { workflow_id, step }, item);
    return vault.seal(vault.open(payload, { kind: 'payload', job_id }), place);
  };
  const numbers = int4s(items, (one) => one.item);
  await tx.query(sql`
    update punctual.workflow_steps s
    set outcome = null, reason = null, error = null, ended_at = null, job_id = null, run_id = null, payload = coalesce(i.payload, s.payload)
    from unnest(${numbers}::integer[], ${texts(items, moved)}::text[]) i (item, payload)
    where s.segment = ${segment}::smallint and s.workflow_id = ${workflow_id} and s.step = ${step}
      and s.item = i.item and s.item = any (${numbers}::integer[])`);
}

async function readPayloads(tx: Queryable, jobIds: readonly string[]): Promise<Map<string, string | null>> {
  const payloads = new Map<string, string | null>();
  for (const segment of new Set(jobIds.map(segmentOf))) {
    const some = jobIds.filter((id) => segmentOf(id) === segment);
    const rows = await tx.query<{ job_id: string; payload: string | null }>(sql`
      select job_id, payload
      from punctual.jobs
      where segment = ${segment}::smallint and job_id = any (${uuids(some, (id) => id)}::uuid[])`);
    for (const row of rows) payloads.set(row.job_id, row.payload);
  }
  return payloads;
}
