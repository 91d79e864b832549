// A collector of OpenTelemetry on loopback: takes spans as JSON (OTLP/HTTP) and keeps them, or is as bad as it is told to be.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';

export interface CollectedSpan {
  service: string;
  traceId: string;
  spanId: string;
  parentSpanId: string | undefined;
  name: string;
  kind: number;
  /** In ms since 1970. */
  start: number;
  end: number;
  attributes: Record<string, unknown>;
  /** 2: an error. */
  status: number | undefined;
  message: string | undefined;
}

export const kinds = { internal: 1, producer: 4, consumer: 5 };

interface Attribute {
  key: string;
  value: { stringValue?: string; intValue?: number | string };
}

interface ExportRequest {
  resourceSpans: {
    resource: { attributes: Attribute[] };
    scopeSpans: {
      spans: {
        traceId: string;
        spanId: string;
        parentSpanId?: string;
        name: string;
        kind: number;
        startTimeUnixNano: string;
        endTimeUnixNano: string;
        attributes: Attribute[];
        status?: { code?: number; message?: string };
      }[];
    }[];
  }[];
}

export class Collector implements AsyncDisposable {
  readonly spans: CollectedSpan[] = [];
  calls = 0;
  /** ok; broken: it answers 500; silent: it never answers. */
  readonly #mood: 'ok' | 'broken' | 'silent';
  readonly #server: Server;

  constructor(mood: 'ok' | 'broken' | 'silent' = 'ok') {
    this.#mood = mood;
    this.#server = createServer((request, response) => void this.#take(request, response));
  }

  listen(): Promise<this> {
    return new Promise((resolve) => this.#server.listen(0, '127.0.0.1', () => resolve(this)));
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as { port: number }).port}`;
  }

  /** The spans of a trace by their names, those of a name in the order of their starts. */
  of(traceId: string): Record<string, CollectedSpan[]> {
    const found: Record<string, CollectedSpan[]> = {};
    const spans = this.spans.filter((span) => span.traceId === traceId).sort((a, b) => a.start - b.start);
    for (const span of spans) (found[span.name.split(' ')[0] ?? ''] ??= []).push(span);
    return found;
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.calls++;
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    if (this.#mood === 'silent') return;
    if (this.#mood === 'broken') return void response.writeHead(500).end();
    this.spans.push(...spansOf(JSON.parse(Buffer.concat(chunks).toString()) as ExportRequest));
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

function spansOf({ resourceSpans }: ExportRequest): CollectedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map((span) => ({
        service: String(valuesOf(resource.attributes)['service.name']),
        traceId: span.traceId,
        spanId: span.spanId,
        parentSpanId: span.parentSpanId === '' ? undefined : span.parentSpanId,
        name: span.name,
        kind: span.kind,
        start: Number(span.startTimeUnixNano) / 1e6,
        end: Number(span.endTimeUnixNano) / 1e6,
        attributes: valuesOf(span.attributes),
        status: span.status?.code,
        message: span.status?.message,
      })),
    ),
  );
}

function valuesOf(attributes: Attribute[]): Record<string, unknown> {
  return Object.fromEntries(
    attributes.map(({ key, value }) => [
      key,
      value.stringValue ?? (value.intValue === undefined ? value : Number(value.intValue)),
    ]),
  );
}
