// What becomes of spans when nobody takes them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  BasicTracerProvider,
  BatchSpanProcessor,
  type ReadableSpan,
  type SpanExporter,
} from '@opentelemetry/sdk-trace-base';
import { telemetryVariables } from './environment.ts';
import { BoundedProcessor } from './telemetry_bound.ts';

function endSpans(exporter: SpanExporter, max: number, spans: number): BoundedProcessor {
  const options = { maxQueueSize: max, maxExportBatchSize: 10 };
  const processor = new BoundedProcessor(exporter, max, (counted) => new BatchSpanProcessor(counted, options));
  const tracer = new BasicTracerProvider({ spanProcessors: [processor] }).getTracer('test');
  for (let i = 0; i < spans; i++) tracer.startSpan('one').end();
  return processor;
}

test('however many spans end while the collector is silent, no more are kept than fit', async () => {
  const held: ReadableSpan[] = [];
  const unanswered: (() => void)[] = [];
  let isSilent = true;
  const silent: SpanExporter = {
    export: (spans, done) => {
      held.push(...spans);
      if (isSilent) unanswered.push(() => done({ code: 0 }));
      else done({ code: 0 });
    },
    shutdown: async () => {},
  };
  const processor = endSpans(silent, 100, 20_000);
  assert.deepEqual(processor.counts(), { exported: 0, failed: 0, dropped: 19_900 });
  assert.ok(held.length <= 100);
  isSilent = false;
  for (const answer of unanswered) answer();
  await processor.shutdown();
  assert.deepEqual(processor.counts(), { exported: 100, failed: 0, dropped: 19_900 });
});

test('spans are counted by what became of them', async () => {
  let fails = true;
  const moody: SpanExporter = {
    export: (_spans, done) => done(fails ? { code: 1, error: new Error('no') } : { code: 0 }),
    shutdown: async () => {},
  };
  const processor = endSpans(moody, 1000, 10);
  await processor.forceFlush();
  assert.deepEqual(processor.counts(), { exported: 0, failed: 10, dropped: 0 });
  fails = false;
  const tracer = new BasicTracerProvider({ spanProcessors: [processor] }).getTracer('test');
  for (let i = 0; i < 5; i++) tracer.startSpan('one').end();
  await processor.forceFlush();
  assert.deepEqual(processor.counts(), { exported: 5, failed: 10, dropped: 0 });
  await processor.shutdown();
});

test('spans are sent only where an endpoint is named, and not when telemetry is switched off', () => {
  const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' };
  assert.equal(telemetryVariables({}), null);
  assert.equal(telemetryVariables({ OTEL_EXPORTER_OTLP_ENDPOINT: '' }), null);
  assert.equal(telemetryVariables({ ...endpoint, OTEL_SDK_DISABLED: 'true' }), null);
  assert.equal(telemetryVariables({ ...endpoint, OTEL_TRACES_EXPORTER: 'none' }), null);
  assert.deepEqual(telemetryVariables(endpoint), { protocol: null, maxQueue: 2048 });
  const given = { OTEL_BSP_MAX_QUEUE_SIZE: '50', OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' };
  assert.deepEqual(telemetryVariables({ ...endpoint, ...given }), { protocol: 'grpc', maxQueue: 50 });
  assert.equal(telemetryVariables({ ...endpoint, OTEL_BSP_MAX_QUEUE_SIZE: '99999999' })?.maxQueue, 100_000);
});
