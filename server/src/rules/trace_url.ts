// Where people look at a trace: an address with a place for its id, which operators set. Pure; main.ts checks it at the start,
// the API fills it in.

const place = '{trace_id}';

/** What is wrong with the template; null when nothing is. */
export function traceUrlProblem(template: string): string | null {
  if (!template.includes(place)) return `it must hold ${place}, where the id of the trace goes`;
  const filled = fillTraceUrl(template, '0'.repeat(32));
  const { protocol } = URL.canParse(filled) ? new URL(filled) : { protocol: '' };
  return protocol === 'http:' || protocol === 'https:' ? null : 'it must begin with http:// or https://';
}

export function fillTraceUrl(template: string, traceId: string): string {
  return template.replaceAll(place, traceId);
}
