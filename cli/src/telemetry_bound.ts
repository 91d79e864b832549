// Between those who end spans and the exporter: counts what becomes of them, and lets no more wait than fit, on their way
// included. Used by telemetry.ts.
import type { Context } from '@opentelemetry/api';
import type { ReadableSpan, Span, SpanExporter, SpanProcessor } from '@opentelemetry/sdk-trace-base';
import type { SpanCounts } from './telemetry.ts';

/** ExportResultCode.SUCCESS, whose library is loaded only where spans are sent. */
const isSuccess = (code: number): boolean => code === 0;

export class BoundedProcessor implements SpanProcessor {
  readonly #inner: SpanProcessor;
  readonly #max: number;
  #waiting = 0;
  #exported = 0;
  #failed = 0;
  #dropped = 0;

  constructor(exporter: SpanExporter, max: number, batch: (counted: SpanExporter) => SpanProcessor) {
    this.#max = max;
    this.#inner = batch(this.#counting(exporter));
  }

  counts(): SpanCounts {
    return { exported: this.#exported, failed: this.#failed, dropped: this.#dropped };
  }

  onStart(span: Span, context: Context): void {
    this.#inner.onStart(span, context);
  }

  onEnd(span: ReadableSpan): void {
    if ((span.spanContext().traceFlags & 1) === 0) return;
    if (this.#waiting >= this.#max) {
      this.#dropped++;
      return;
    }
    this.#waiting++;
    this.#inner.onEnd(span);
  }

  forceFlush(): Promise<void> {
    return this.#inner.forceFlush();
  }

  shutdown(): Promise<void> {
    return this.#inner.shutdown();
  }

  #counting(exporter: SpanExporter): SpanExporter {
    return {
      export: (spans, done) =>
        exporter.export(spans, (result) => {
          this.#waiting -= spans.length;
          if (isSuccess(result.code)) this.#exported += spans.length;
          else this.#failed += spans.length;
          done(result);
        }),
      shutdown: () => exporter.shutdown(),
    };
  }
}
