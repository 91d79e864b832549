// Spans on their way to a collector (OTLP over HTTP), for `punctual server`, `worker` and `start`: only where the standard
// variables of OpenTelemetry name an endpoint, and only then its libraries are loaded. Whatever the collector does, jobs do not
// notice: spans wait in memory up to a bound and are dropped beyond it, and the end of the process waits a moment only.
import type { SpanExporter } from '@opentelemetry/sdk-trace-base';
import { type TelemetryVariables, telemetryVariables } from './environment.ts';
import type { Output } from './output.ts';
import { BoundedProcessor } from './telemetry_bound.ts';
import { version } from './version.ts';

export interface SpanCounts {
  exported: number;
  failed: number;
  dropped: number;
}

export interface Telemetry {
  /** What became of the spans of this process. */
  spans(): SpanCounts;
  /** Sends what is left, for as long as `stopMs`. */
  stop(): Promise<void>;
  /** To be called last: what could not be sent by then does not keep the process. */
  leave(): void;
}

const stopMs = 2_000;

/** null when nothing is to be sent. */
export async function openTelemetry(
  service: 'punctual-server' | 'punctual-worker',
  output: Pick<Output, 'remark'>,
): Promise<Telemetry | null> {
  const variables = telemetryVariables();
  if (variables === null) return null;
  if (variables.protocol !== null && variables.protocol !== 'http/json') {
    const { protocol } = variables;
    output.remark(`punctual: spans are sent as http/json, not as ${protocol}; collectors take it on the same port`);
  }
  try {
    return await register(service, variables);
  } catch (error) {
    output.remark(`punctual: no spans are sent: ${(error as Error).message}`);
    return null;
  }
}

async function register(service: string, { maxQueue }: TelemetryVariables): Promise<Telemetry> {
  const [api, sdk, { OTLPTraceExporter }, resources, { AsyncLocalStorageContextManager }, { presetIds }] =
    await Promise.all([
      import('@opentelemetry/api'),
      import('@opentelemetry/sdk-trace-base'),
      import('@opentelemetry/exporter-trace-otlp-http'),
      import('@opentelemetry/resources'),
      import('@opentelemetry/context-async-hooks'),
      import('@punctual/server/internal/base/tracing'),
    ]);
  const random = new sdk.RandomIdGenerator();
  const exporter: SpanExporter = new OTLPTraceExporter();
  const processor = new BoundedProcessor(exporter, maxQueue, (counted) => new sdk.BatchSpanProcessor(counted));
  const provider = new sdk.BasicTracerProvider({
    resource: resources
      .defaultResource()
      .merge(resources.resourceFromAttributes({ 'service.name': service, 'service.version': version() }))
      .merge(resources.detectResources({ detectors: [resources.envDetector] })),
    idGenerator: {
      generateTraceId: () => presetIds.traceId ?? random.generateTraceId(),
      generateSpanId: () => presetIds.spanId ?? random.generateSpanId(),
    },
    spanProcessors: [processor],
  });
  api.context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  api.trace.setGlobalTracerProvider(provider);
  let isLate = false;
  return {
    spans: () => processor.counts(),
    async stop() {
      isLate = await takesLonger(stopMs, provider.shutdown());
    },
    leave() {
      if (isLate) process.exit();
    },
  };
}

async function takesLonger(ms: number, work: Promise<unknown>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(true), ms);
  });
  const ended = work.then(
    () => false,
    () => false,
  );
  const isLate = await Promise.race([ended, late]);
  clearTimeout(timer);
  return isLate;
}
