// Ties a route of the contract to a handler: checks every part of the request first, so that handlers see only what fits.
import {
  type Answer,
  type Body,
  type Headers,
  type Params,
  PunctualError,
  type Query,
  type Route,
} from '@punctual/contract';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { type Check, checksOf } from './validation.ts';

export interface Input<R extends Route> {
  params: Params<R>;
  query: Query<R>;
  headers: Headers<R>;
  body: Body<R>;
  request: FastifyRequest;
  reply: FastifyReply;
}

export type Handler<R extends Route> = (input: Input<R>) => Promise<Answer<R> | RawJson | typeof streamed>;

/** An answer that is JSON text already. */
export class RawJson {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/** The answer was sent as a stream (stream.ts). */
export const streamed = Symbol('streamed');

export function register<R extends Route>(app: FastifyInstance, route: R, handle: Handler<R>): void {
  const checks = checksOf(route);
  app.route({
    method: route.method,
    url: route.path.replace(/\{(\w+)\}/g, ':$1'),
    config: { operation: route.operation },
    handler: async (request, reply) => {
      require(checks.params, request.params, 'invalid_id');
      require(checks.query, request.query, 'invalid_input');
      require(checks.headers, request.headers, 'invalid_input');
      const body = request.body ?? (checks.body === null ? undefined : route.bodyOptional === true ? {} : null);
      require(checks.body, body, 'invalid_input');
      const { params, query, headers } = request;
      const answer = await handle({ params, query, headers, body, request, reply } as Input<R>);
      if (answer === streamed) return reply;
      reply.code(route.success).header('content-type', 'application/json; charset=utf-8');
      return reply.send(answer instanceof RawJson ? answer.text : JSON.stringify(answer));
    },
  });
}

function require(check: Check | null, value: unknown, code: 'invalid_id' | 'invalid_input'): void {
  const errors = check === null ? [] : check(value);
  if (errors.length === 0) return;
  const [first] = errors;
  const detail = first === undefined ? undefined : `${first.path} ${first.message}`.trim();
  throw new PunctualError(code, { detail, errors });
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The body as it came. */
    bodyText: string;
  }
  interface FastifyContextConfig {
    operation?: string;
  }
}
