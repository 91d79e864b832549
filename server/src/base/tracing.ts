// The spans that a server makes: `submit`, and for each attempt the `wait` from when the run was due to its lease. The span of
// the attempt itself, `run`, is made by its worker, as a child of the submit. Nothing here does anything unless the program has
// registered a tracer (cli/src/telemetry.ts): spans are then handed to it in memory and sent by it, whatever becomes of them.
//
// A run that comes from nobody's submit, such as one of a schedule, has a trace of its own, whose ids are made from its run id:
// every attempt and every server finds the same.

import {
  type Attributes,
  type Context,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  type SpanOptions,
  SpanStatusCode,
  TraceFlags,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { isTracing, ownTrace, parseTraceparent, type TraceContext, traceparentText } from '@punctual/contract';
import { timeMs } from './clock.ts';

/** Ids that the next span gets instead of random ones; the program's generator of ids asks here first. */
export const presetIds: { traceId: string | undefined; spanId: string | undefined } = {
  traceId: undefined,
  spanId: undefined,
};

/** What was made. */
export interface Ids {
  job_id?: string;
  run_id?: string;
  workflow_id?: string;
}

export interface SubmitSpan {
  /** To be remembered by what is submitted. */
  traceparent: string;
  end(ids: Ids | undefined): void;
  fail(error: unknown): void;
}

/** The span of a submit, where spans are made. */
export function startSubmit(
  traceparent: string | undefined,
  { type, queue, jobs }: { type: string; queue?: string | undefined; jobs?: number | undefined },
): SubmitSpan {
  const attributes: Attributes = {
    ...system,
    'messaging.operation.type': 'send',
    'messaging.destination.name': queue,
    'punctual.type': type,
    'punctual.queue': queue,
    'punctual.jobs': jobs,
  };
  const options = { kind: SpanKind.PRODUCER, attributes };
  const span = tracer().startSpan(`submit ${type}`, options, contextOf(parseTraceparent(traceparent)));
  return {
    traceparent: traceparentText(toTrace(span)),
    end(ids) {
      for (const name of ['job_id', 'run_id', 'workflow_id'] as const)
        if (ids?.[name] !== undefined) span.setAttribute(`punctual.${name}`, ids[name]);
      span.end();
    },
    fail(error) {
      span.setStatus({ code: SpanStatusCode.ERROR, message: (error as { code?: string }).code ?? 'failed' });
      span.end();
    },
  };
}

export interface WaitedRun {
  run_id: string;
  job_id: string;
  type: string;
  queue: string;
  attempt: number;
  /** As PostgreSQL writes a time. */
  due_at: string;
  traceparent: string | null;
  /** It was started before, whatever its attempt says. */
  again: boolean;
}

/** Notes that a run has waited and starts now, where spans are made; answers what its worker is to know. */
export function noteWait(run: WaitedRun): string {
  const now = timeMs();
  const due = Math.min(Date.parse(run.due_at), now);
  const attributes = attributesOf(run);
  const from = parseTraceparent(run.traceparent) ?? ownRoot(run, due, attributes);
  tracer().startSpan(`wait ${run.type}`, { startTime: due, attributes }, contextOf(from)).end(now);
  return traceparentText(from);
}

/** The first span of a workflow that comes from nobody's trace, such as one of a schedule; null where no spans are made. */
export function beginWorkflowTrace(workflowId: string): string | null {
  if (!isTracing()) return null;
  const attributes = { ...system, 'punctual.workflow_id': workflowId };
  const span = startOwn(workflowId, 'due workflow', { kind: SpanKind.PRODUCER, attributes });
  span.end();
  return traceparentText(toTrace(span));
}

/** The first span of a run that comes from nobody's trace; made at its first attempt, known again at the later ones. */
function ownRoot(run: WaitedRun, due: number, attributes: Attributes): TraceContext {
  const span = startOwn(run.run_id, `due ${run.type}`, { kind: SpanKind.PRODUCER, startTime: due, attributes });
  if (run.attempt === 1 && !run.again) span.end(due);
  return toTrace(span);
}

function startOwn(id: string, name: string, options: SpanOptions): Span {
  Object.assign(presetIds, ownTrace(id));
  const span = tracer().startSpan(name, options, ROOT_CONTEXT);
  Object.assign(presetIds, { traceId: undefined, spanId: undefined });
  return span;
}

const system: Attributes = { 'messaging.system': 'punctual' };

function attributesOf({ run_id, job_id, type, queue, attempt }: WaitedRun): Attributes {
  return {
    ...system,
    'messaging.destination.name': queue,
    'punctual.run_id': run_id,
    'punctual.job_id': job_id,
    'punctual.type': type,
    'punctual.queue': queue,
    'punctual.attempt': attempt,
  };
}

function tracer(): Tracer {
  return trace.getTracer('punctual');
}

function toTrace(span: Span): TraceContext {
  const { traceId, spanId, traceFlags } = span.spanContext();
  return { traceId, spanId, sampled: (traceFlags & TraceFlags.SAMPLED) !== 0 };
}

function contextOf(from: TraceContext | null): Context {
  if (from === null) return ROOT_CONTEXT;
  const { traceId, spanId, sampled } = from;
  const traceFlags = sampled ? TraceFlags.SAMPLED : TraceFlags.NONE;
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags, isRemote: true });
}
