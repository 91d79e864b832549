// The header `traceparent` (W3C Trace Context, https://www.w3.org/TR/trace-context/): which trace something belongs to, and
// which span it comes from. Read by the server, the SDK and the worker; what does not fit is passed over, never refused.

export interface TraceContext {
  traceId: string;
  spanId: string;
  /** Whether spans of the trace are kept. */
  sampled: boolean;
}

const pattern = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

export function parseTraceparent(text: unknown): TraceContext | null {
  const match = typeof text === 'string' && text.length <= 200 ? pattern.exec(text) : null;
  // Only versions that come later may hold more.
  if (match === null || (match[4] !== undefined && match[0].startsWith('00'))) return null;
  const [, traceId = '', spanId = '', flags = ''] = match;
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

export function traceparentText({ traceId, spanId, sampled }: TraceContext): string {
  return `00-${traceId}-${spanId}-${sampled ? '01' : '00'}`;
}

/** The trace of a run that comes from nobody's: it is made from its id, and so the same for all its attempts. */
export function ownTrace(runId: string): Omit<TraceContext, 'sampled'> {
  const traceId = runId.replaceAll('-', '');
  return { traceId, spanId: traceId.slice(16) };
}

/** Does somebody make spans in this process? The libraries of OpenTelemetry find each other under this name. */
export function isTracing(): boolean {
  const registered = (globalThis as { [name: symbol]: { trace?: unknown } | undefined })[
    Symbol.for('opentelemetry.js.api.1')
  ];
  return registered?.trace !== undefined;
}
