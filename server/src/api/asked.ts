// What guard, handlers and errors know of a request and its answer, whichever way it came in: through Fastify, or the quick
// way (quick_door.ts). Requests and replies of Fastify fit.
import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyContextConfig } from 'fastify';
import type { Caller } from '../access/caller.ts';

export interface Asked {
  /** Names the request among all: it is in its answer and in the log. */
  readonly id: string;
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly ip: string;
  readonly routeOptions: { readonly config: FastifyContextConfig };
  /** The body as it came. */
  readonly bodyText: string;
  caller: Caller;
  /** Its entry in the audit log is written. */
  isRecorded: boolean;
}

export interface Answering {
  header(name: string, value: string): Answering;
}
