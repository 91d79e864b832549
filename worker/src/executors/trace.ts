// The header `traceparent` (W3C Trace Context) of a call: what the job brings, or a trace made from the run, the same for all
// its attempts. Used by http.ts.
import { createHash } from 'node:crypto';
import type { Grant } from '@punctual/sdk';

const pattern = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;

/** `given`: the header the job names, which goes before one in its payload. */
export function traceparentOf(run: Grant, given: string | undefined): string {
  const { payload } = run;
  const inPayload =
    typeof payload === 'object' && payload !== null && Object.hasOwn(payload, 'traceparent')
      ? (payload as { traceparent: unknown }).traceparent
      : undefined;
  for (const value of [given, inPayload]) if (typeof value === 'string' && isValid(value)) return value;
  const span = createHash('sha256').update(run.lease_id).digest('hex').slice(0, 16);
  return `00-${run.run_id.replaceAll('-', '')}-${span}-01`;
}

function isValid(value: string): boolean {
  const [version, trace = '', span = ''] = value.split('-');
  return pattern.test(value) && version !== 'ff' && !/^0+$/.test(trace) && !/^0+$/.test(span);
}
