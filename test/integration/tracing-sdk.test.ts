// An application that makes spans of its own: what it submits within one belongs to its trace, and its handlers run within the
// span of their attempt, also in child processes. The house is in this process, so all spans are in memory.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { context, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { FatalError } from '@punctual/sdk';
import { eventually } from '../support/eventually.ts';
import { openHouse } from '../support/house.ts';

const exporter = new InMemorySpanExporter();
const tracer = trace.getTracer('application');
before(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }));
});
after(() => {
  trace.disable();
  context.disable();
});

const spansOf = (traceId: string): ReadableSpan[] =>
  exporter.getFinishedSpans().filter((span) => span.spanContext().traceId === traceId);
const named = (spans: readonly ReadableSpan[], name: string): ReadableSpan => {
  const found = spans.find((span) => span.name === name);
  assert.ok(found, `${name} is not among ${spans.map((span) => span.name).join(', ')}`);
  return found;
};

test('what an application submits within a span belongs to its trace, and so does what the handler does', async () => {
  await using house = await openHouse();
  const seen: (string | undefined)[] = [];
  await house.addWorker({
    outer: async (_run, ctx) => {
      seen.push(ctx.traceparent);
      await tracer.startActiveSpan('work', async (span) => {
        await house.client.jobs.create({ type: 'inner' });
        span.end();
      });
    },
    inner: () => null,
  });
  const request = tracer.startSpan('request');
  const { job_id } = await context.with(trace.setSpan(context.active(), request), () =>
    house.client.jobs.create({ type: 'outer' }),
  );
  request.end();
  const { traceId, spanId } = request.spanContext();
  assert.equal((await house.ended(job_id)).trace_id, traceId);
  const { jobs } = await house.client.jobs.list({ type: 'inner' });
  await house.ended(jobs[0]?.job_id ?? '');
  const spans = spansOf(traceId);
  const parents = ['submit outer', 'run outer', 'work', 'submit inner', 'run inner'].map((name) => named(spans, name));
  const [submit, run, work, again, inner] = parents.map((span) => span.spanContext().spanId);
  assert.deepEqual(
    parents.map((span) => span.parentSpanContext?.spanId),
    [spanId, submit, run, work, again],
  );
  assert.ok(inner);
  assert.deepEqual(seen, [`00-${traceId}-${run}-01`]);
});

test('the error of an attempt stands in its span, without what is secret', async () => {
  await using house = await openHouse();
  const handlers = {
    leaky: () => {
      throw new FatalError('the password open-sesame is wrong');
    },
  };
  await house.addWorker(handlers, { redact: ['open-sesame'] });
  const { job_id } = await house.client.jobs.create({ type: 'leaky' });
  const { trace_id = '' } = await house.ended(job_id);
  const { status } = named(spansOf(trace_id), 'run leaky');
  assert.equal(status.code, 2);
  assert.match(status.message ?? '', /^the password .* is wrong$/);
  assert.doesNotMatch(status.message ?? '', /sesame/);
});

test('a handler in a child process is told the span of its attempt', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'punctual-traced-'));
  try {
    const module = path.join(folder, 'handler.mjs');
    writeFileSync(module, 'export default (run, ctx) => ({ traceparent: ctx.traceparent });\n');
    await using house = await openHouse();
    await house.addWorker({ isolated: { module } });
    const { job_id } = await house.client.jobs.create({ type: 'isolated' });
    const { trace_id = '', result } = await house.ended(job_id);
    const run = named(spansOf(trace_id), 'run isolated').spanContext();
    assert.deepEqual(result, { traceparent: `00-${trace_id}-${run.spanId}-01` });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test('jobs of a bulk, with a unique key or for later belong to the trace of their submit', async () => {
  await using house = await openHouse({ workers: 1 });
  const request = tracer.startSpan('request');
  const { traceId } = request.spanContext();
  const made = await context.with(trace.setSpan(context.active(), request), async () => [
    ...(await house.client.jobs.createMany([{ type: 'echo' }, { type: 'echo', delay_ms: 50, tags: ['a'] }])).jobs,
    await house.client.jobs.create({ type: 'echo', unique_key: 'only' }),
  ]);
  request.end();
  for (const { job_id } of made) assert.equal((await house.ended(job_id)).trace_id, traceId);
});

test('all steps of a workflow, also of one within it, belong to the trace of its submit', async () => {
  await using house = await openHouse({ workers: 1 });
  const request = tracer.startSpan('request');
  const { traceId } = request.spanContext();
  const steps = {
    first: { type: 'echo' },
    within: { needs: ['first'], workflow: { steps: { inner: { type: 'echo' } } } },
    many: { needs: ['first'], map: { over: [1, 2] }, type: 'echo' },
  };
  const { workflow_id } = await context.with(trace.setSpan(context.active(), request), () =>
    house.client.workflows.create({ steps }),
  );
  request.end();
  await eventually(async () => assert.equal((await house.client.workflows.get(workflow_id)).state, 'SUCCESS'));
  const { runs } = await house.client.runs.list({ type: 'echo' });
  assert.deepEqual(
    runs.map(({ trace_id }) => trace_id),
    Array.from({ length: 4 }, () => traceId),
  );
  const submit = named(spansOf(traceId), 'submit workflow');
  assert.equal(submit.attributes['punctual.workflow_id'], workflow_id);
  const ran = spansOf(traceId).filter(({ name }) => name === 'run echo');
  assert.deepEqual(new Set(ran.map((span) => span.parentSpanContext?.spanId)), new Set([submit.spanContext().spanId]));
});

test('a workflow that a schedule begins has one trace for all its steps', async () => {
  await using house = await openHouse({ workers: 1 });
  const steps = { one: { type: 'echo' }, two: { type: 'echo', needs: ['one'] } };
  const { job_id } = await house.client.workflows.schedule({ steps, interval_ms: 1000, max_runs: 1 });
  const runs = await eventually(async () => {
    const page = await house.client.runs.list({ type: 'echo' });
    assert.equal(page.runs.filter(({ status }) => status === 'SUCCESS').length, 2);
    return page.runs;
  });
  assert.equal(new Set(runs.map(({ trace_id }) => trace_id)).size, 1, `of ${job_id}`);
});
