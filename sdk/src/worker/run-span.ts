// The span of one attempt, `run`: a child of the submit that the grant names. The handler runs with it as the active span, so
// that what the handler calls and submits belongs to the same trace. Made by active-run.ts, where somebody makes spans.

import type * as OpenTelemetry from '@opentelemetry/api';
import type { Grant } from '@punctual/contract';
import { contextOf, toText, tracing } from '../tracing.ts';

export type SpanEnd = 'success' | 'failed' | 'cancelled' | 'snoozed' | 'lease_lost';

export interface RunSpan {
  /** For what the handler calls. */
  traceparent: string | undefined;
  /** Calls a function with the span as the active one. */
  within<T>(work: () => T): T;
  end(how: SpanEnd, error?: string): void;
}

/** null when nothing is traced here. */
export function startRunSpan(run: Grant): RunSpan | null {
  const api = tracing();
  if (api === null) return null;
  const parent = contextOf(api, run.traceparent);
  const tracer = api.trace.getTracer('punctual');
  const options = { kind: api.SpanKind.CONSUMER, attributes: attributesOf(run) };
  const span = tracer.startSpan(`run ${run.type}`, options, parent);
  const active = api.trace.setSpan(parent, span);
  return {
    traceparent: toText(api, span.spanContext()),
    within: (work) => api.context.with(active, work),
    end(how, error) {
      span.setAttribute('punctual.outcome', how);
      if (how === 'failed' || how === 'lease_lost')
        span.setStatus({ code: api.SpanStatusCode.ERROR, ...(error === undefined ? {} : { message: error }) });
      span.end();
    },
  };
}

function attributesOf(run: Grant): OpenTelemetry.Attributes {
  return {
    'messaging.system': 'punctual',
    'messaging.operation.type': 'process',
    'messaging.destination.name': run.queue,
    'punctual.run_id': run.run_id,
    'punctual.job_id': run.job_id,
    'punctual.type': run.type,
    'punctual.queue': run.queue,
    'punctual.attempt': run.attempt_number,
    'punctual.scheduled_for': run.scheduled_for,
  };
}
