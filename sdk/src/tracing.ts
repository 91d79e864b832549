// OpenTelemetry for the client and the worker: only where the application, or the program, has registered a tracer. The library
// is loaded then and not before: for all others nothing happens, and a process starts no later.
import { createRequire } from 'node:module';
import type * as OpenTelemetry from '@opentelemetry/api';
import { isTracing, parseTraceparent, traceparentText } from '@punctual/contract/plain';

type Api = typeof OpenTelemetry;

const require = createRequire(import.meta.url);
let loaded: Api | null = null;

/** The library; null while nobody makes spans in this process. */
export function tracing(): Api | null {
  if (loaded === null && isTracing()) loaded = require('@opentelemetry/api') as Api;
  return loaded;
}

/** The span that is active where this is called, as the header `traceparent`. */
export function activeTraceparent(): string | undefined {
  const api = tracing();
  const active = api?.trace.getSpanContext(api.context.active());
  return api === null || active === undefined ? undefined : toText(api, active);
}

export function toText(api: Api, { traceId, spanId, traceFlags }: OpenTelemetry.SpanContext): string | undefined {
  const context = { traceId, spanId, sampled: (traceFlags & api.TraceFlags.SAMPLED) !== 0 };
  return api.isSpanContextValid({ traceId, spanId, traceFlags }) ? traceparentText(context) : undefined;
}

/** The context in which the span of a header is the active one; a context without any when the header does not fit. */
export function contextOf(api: Api, traceparent: string | undefined): OpenTelemetry.Context {
  const from = parseTraceparent(traceparent);
  if (from === null) return api.ROOT_CONTEXT;
  const traceFlags = from.sampled ? api.TraceFlags.SAMPLED : api.TraceFlags.NONE;
  const remote = { traceId: from.traceId, spanId: from.spanId, traceFlags, isRemote: true };
  return api.trace.setSpanContext(api.ROOT_CONTEXT, remote);
}
