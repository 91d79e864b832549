// A receiver of webhooks on loopback: keeps what it got, and answers as it is told to.
import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http';
import { eventually } from './eventually.ts';

export interface Received {
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
  json: Record<string, unknown>;
  atMs: number;
}

export type Answer = (call: Received, response: ServerResponse, n: number) => void;

export class Receiver implements AsyncDisposable {
  readonly calls: Received[] = [];
  answer: Answer = (_call, response) => void response.writeHead(204).end();
  readonly #server: Server;

  constructor() {
    this.#server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const body = Buffer.concat(chunks).toString();
        const json = JSON.parse(body) as Record<string, unknown>;
        const call = { path: request.url ?? '', headers: request.headers, body, json, atMs: performance.now() };
        this.calls.push(call);
        this.answer(call, response, this.calls.length);
      });
    });
  }

  listen(port = 0): Promise<this> {
    return new Promise((resolve) => this.#server.listen(port, '127.0.0.1', () => resolve(this)));
  }

  get port(): number {
    return (this.#server.address() as { port: number }).port;
  }

  url(path = '/'): string {
    return `http://127.0.0.1:${this.port}${path}`;
  }

  of(path: string): Received[] {
    return this.calls.filter((call) => call.path === path);
  }

  /** The calls to a path, once there are at least so many. */
  got(path: string, count = 1, withinMs = 60_000): Promise<Received[]> {
    return eventually(
      () => {
        const calls = this.of(path);
        if (calls.length < count) throw new Error(`${calls.length} calls to ${path}, not ${count}`);
        return calls;
      },
      { withinMs },
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
