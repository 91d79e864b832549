// The address under which people look at a trace.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fillTraceUrl, traceUrlProblem } from './trace_url.ts';

test('an address with a place for the id is taken and filled in', () => {
  const template = 'https://grafana/explore?left={"query":"{trace_id}"}';
  assert.equal(traceUrlProblem(template), null);
  assert.equal(fillTraceUrl('https://tempo/trace/{trace_id}', 'abc'), 'https://tempo/trace/abc');
});

test('what is no address of the web, or has no place for the id, is refused', () => {
  assert.match(traceUrlProblem('https://tempo/trace/') ?? '', /\{trace_id\}/);
  assert.match(traceUrlProblem('javascript:alert("{trace_id}")') ?? '', /http/);
  assert.match(traceUrlProblem('tempo/trace/{trace_id}') ?? '', /http/);
});
