// Workflows at the door: created, scheduled, checked, read. What people do to them is in workflow_moves.ts.
import { hash } from 'node:crypto';
import {
  type CreateWorkflow,
  deeperThan,
  defaults,
  InnerWorkflow,
  limits,
  PunctualError,
  roleMay,
  type ScheduleWorkflow,
  type Workflow,
  workflowRoutes,
} from '@punctual/contract';
import type { FastifyInstance } from 'fastify';
import type { Caller } from '../access/caller.ts';
import { timeMs } from '../base/clock.ts';
import { kindOf, newId, segmentOf } from '../base/ids.ts';
import { hidden, type Show, type Vault } from '../base/vault.ts';
import { artifactsOf } from '../rules/artifacts.ts';
import { type PreparedJob, prepareJob, type Refusal } from '../rules/job.ts';
import { segmentOfKey } from '../rules/segment.ts';
import { compileWorkflow, type Graph } from '../rules/workflow/definition.ts';
import { outlineOf } from '../rules/workflow/outline.ts';
import { planOf } from '../rules/workflow/show.ts';
import { createWorkflow, getStep, getWorkflow, listWorkflows } from '../store/workflows.ts';
import { idShape, makeCursor, numberShape, readCursor } from './cursor.ts';
import { ownKey } from './own.ts';
import { register } from './register.ts';
import type { ApiParts } from './server.ts';
import { submitTraced, traced } from './traced.ts';
import { checker } from './validation.ts';

export function registerWorkflows(app: FastifyInstance, parts: ApiParts): void {
  const { db, segments, allSegments, workflows, submitter, editor, flow, vault } = parts;
  const checkInner = checker(InnerWorkflow);

  const showIf = (reveal = false): Show => (reveal ? vault.reveal : hidden);
  const compile = (body: CreateWorkflow): Graph => {
    const graph = compileWorkflow(body, checkInner);
    if (!('refused' in graph)) {
      requireKeys(vault, body.encrypted);
      return graph;
    }
    const [first] = graph.refused;
    throw new PunctualError('invalid_workflow', { detail: `${first?.path} ${first?.message}`, errors: graph.refused });
  };
  const requireWorkflow = async (id: string, show: Show): Promise<Workflow> => {
    requireWorkflowId(id, segments);
    const workflow = await getWorkflow(db, id, show);
    if (workflow === null) throw new PunctualError('workflow_not_found', { detail: `No workflow has the id ${id}.` });
    return workflow;
  };
  let turn = 0;

  register(app, workflowRoutes.createWorkflow, async ({ body, headers, caller, request, reply }) => {
    const graph = compile(body);
    requireFlat(body.input, 'input');
    const text = toText(body);
    const given = headers['idempotency-key'];
    const key = given === undefined ? undefined : ownKey(caller, given);
    const segment = key === undefined ? turn++ % segments : segmentOfKey(`workflow ${key}`, segments);
    const once = key === undefined ? null : { key, ...hashesOf(vault, body, request.bodyText) };
    const { workflow_id, replayed, outlook } = await traced(
      headers.traceparent,
      { type: 'workflow' },
      async (traceparent) => {
        const encrypted = body.encrypted === true;
        const wanted = { ...text, graph, workflow_id: newId('workflow', segment), encrypted, traceparent, once };
        const answer = await createWorkflow(workflows.parts, wanted);
        return { answer, ids: { workflow_id: answer.workflow_id } };
      },
    );
    workflows.follow(outlook);
    if (replayed) reply.header('idempotency-replayed', 'true');
    return { workflow_id };
  });

  register(app, workflowRoutes.scheduleWorkflow, async ({ body, headers, caller, request, reply }) => {
    const job = await toJob(body);
    const key = headers['idempotency-key'];
    const once =
      key === undefined ? null : { user_id: caller.user_id ?? '', key, ...hashesOf(vault, body, request.bodyText) };
    const { jobs, replayed } = await submitTraced(headers.traceparent, [job], (some) => submitter.submit(some, once));
    if (replayed) reply.header('idempotency-replayed', 'true');
    return jobs[0] as (typeof jobs)[0];
  });

  /** A job whose runs begin the workflow. */
  const toJob = async (body: ScheduleWorkflow): Promise<PreparedJob> => {
    const { steps, input, name = 'workflow', ...rest } = body;
    compile({ steps, encrypted: rest.encrypted === true });
    requireFlat(input, 'input');
    const prepared = accepted(
      prepareJob({ ...rest, name, type: 'workflow' }, timeMs(), (queue) => flow.table.defaultPriority(queue)),
    );
    const whole = { steps, ...(input === undefined ? {} : { input }) };
    const text = JSON.stringify({ kind: 'workflow', ...whole });
    if (Buffer.byteLength(text) > limits.max_payload_bytes)
      throw tooLarge('definition with its input', limits.max_payload_bytes);
    const artifacts = artifactsOf(text);
    // What must not be read is the payload, which is sealed.
    const kept = prepared.encrypted
      ? { executor: JSON.stringify({ kind: 'workflow', steps: outlineOf(steps) }), payload: JSON.stringify(whole) }
      : { executor: text };
    const job = { ...prepared, ...kept, executor_kind: 'workflow', ...(artifacts.length === 0 ? {} : { artifacts }) };
    const recurring = job.schedule_type === 'CRON' || job.schedule_type === 'INTERVAL';
    return recurring
      ? { ...job, schedule: await editor.preparer()(job.schedule_type as 'CRON' | 'INTERVAL', rest) }
      : job;
  };

  register(app, workflowRoutes.validateWorkflow, async ({ body }) => {
    const graph = compile(body);
    requireFlat(body.input, 'input');
    toText(body);
    return planOf(graph);
  });

  register(app, workflowRoutes.listWorkflows, async ({ query: { limit = defaults.page, cursor, ...filter } }) => {
    const below = readCursor(cursor, filter, idShape);
    const page = await listWorkflows(db, filter, { below, limit, segments: allSegments });
    return { workflows: page.items, next_cursor: page.below === null ? null : makeCursor(page.below, filter) };
  });

  register(app, workflowRoutes.getWorkflow, async ({ params, query, caller }) => {
    const workflow = await requireWorkflow(params.workflow_id, showIf(query.reveal));
    return { ...workflow, steps: workflow.steps.map((step) => forCaller(step, caller)) };
  });

  register(
    app,
    workflowRoutes.getWorkflowStep,
    async ({ params: { workflow_id, step }, query: { limit = defaults.page, cursor, reveal }, caller }) => {
      const show = showIf(reveal);
      const workflow = await requireWorkflow(workflow_id, show);
      const after = Number(readCursor(cursor, { workflow_id, step }, numberShape) ?? -1);
      const detail = await getStep(db, workflow, { step, after, limit, show });
      if (detail === null) throw new PunctualError('step_not_found', { detail: `The workflow has no step ${step}.` });
      const { more, ...shown } = detail;
      const last = shown.items.at(-1);
      const next_cursor = more && last !== undefined ? makeCursor(String(last.item), { workflow_id, step }) : null;
      return { ...shown, step: forCaller(shown.step, caller), next_cursor };
    },
  );
}

/** Refuses a workflow that is to be encrypted when there are no keys. */
function requireKeys(vault: Vault, encrypted = false): void {
  if (encrypted && vault.current === null)
    throw new PunctualError('encryption_off', {
      errors: [{ path: 'encrypted', message: 'needs encryption keys on the server' }],
    });
}

/** How the body is recognized when it is sent again. One that is to be encrypted must not be guessed from its hash. */
function hashesOf(
  vault: Vault,
  { encrypted = false }: { encrypted?: boolean },
  bodyText: string,
): { body_hash: string; other_hashes: string[] } {
  if (!encrypted) return { body_hash: hash('sha256', bodyText, 'base64url'), other_hashes: [] };
  const [body_hash = '', ...other_hashes] = vault.fingerprints(bodyText);
  return { body_hash, other_hashes };
}

/** An id of something else, or of a segment that does not exist, is answered without asking the book. */
export function requireWorkflowId(id: string, segments: number): void {
  if (kindOf(id) !== 'workflow' || segmentOf(id) >= segments)
    throw new PunctualError('workflow_not_found', { detail: `No workflow has the id ${id}.` });
}

/** The token completes the step: who may only look does not see it. */
function forCaller<S extends { token?: string }>(step: S, { role }: Caller): S {
  if (step.token === undefined || roleMay(role, 'submitter')) return step;
  const { token: _token, ...shown } = step;
  return shown as S;
}

export function requireFlat(value: unknown, path: string): void {
  if (!deeperThan(value, limits.max_payload_depth)) return;
  const message = `is nested deeper than ${limits.max_payload_depth} levels`;
  throw new PunctualError('invalid_input', { detail: `${path} ${message}`, errors: [{ path, message }] });
}

function tooLarge(what: string, most: number): PunctualError {
  return new PunctualError('body_too_large', { detail: `The ${what} is larger than ${most} bytes.` });
}

function accepted(prepared: PreparedJob | Refusal): PreparedJob {
  if (!('refused' in prepared)) return prepared;
  const [first] = prepared.refused;
  throw new PunctualError('invalid_input', { detail: `${first?.path} ${first?.message}`, errors: prepared.refused });
}

/** What is kept of a workflow, as text. */
function toText(body: CreateWorkflow): {
  name: string;
  user_id: string | null;
  definition: string;
  input: string | null;
} {
  const definition = JSON.stringify({ steps: body.steps });
  const input = body.input === undefined ? null : JSON.stringify(body.input);
  if (Buffer.byteLength(definition) > limits.max_definition_bytes)
    throw tooLarge('definition', limits.max_definition_bytes);
  if (input !== null && Buffer.byteLength(input) > limits.max_payload_bytes)
    throw tooLarge('input', limits.max_payload_bytes);
  return { name: body.name ?? 'workflow', user_id: body.user_id ?? null, definition, input };
}
