// The header `traceparent` (W3C Trace Context) of a call: what the job names, the trace the run belongs to, or one made from
// the run, the same for all its attempts. Used by http.ts.
import { createHash } from 'node:crypto';
import { ownTrace, parseTraceparent, traceparentText } from '@punctual/contract/plain';
import type { Grant, RunContext } from '@punctual/sdk';

/** `given`: the header the job names, which goes before one in its payload. */
export function traceparentOf(run: Grant, given: string | undefined, ctx: Pick<RunContext, 'traceparent'>): string {
  const { payload } = run;
  const inPayload =
    typeof payload === 'object' && payload !== null && Object.hasOwn(payload, 'traceparent')
      ? (payload as { traceparent: unknown }).traceparent
      : undefined;
  for (const value of [given, inPayload, ctx.traceparent])
    if (typeof value === 'string' && parseTraceparent(value) !== null) return value;
  const { traceId } = ownTrace(run.run_id);
  const spanId = createHash('sha256').update(run.lease_id).digest('hex').slice(0, 16);
  return traceparentText({ traceId, spanId, sampled: true });
}
