// Ties a route of the contract to a handler: checks every part of the request first, so that handlers see only what fits.
import {
  type Answer,
  type AuditNoun,
  type Body,
  type Headers,
  type Params,
  PunctualError,
  type Query,
  type Route,
  roleMay,
  rolesThatMay,
} from '@punctual/contract';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Caller } from '../access/caller.ts';
import { record } from './audited.ts';
import { type OwnParts, ownerCheck } from './own.ts';
import { type Check, checksOf } from './validation.ts';

export interface Input<R extends Route> {
  params: Params<R>;
  query: Query<R>;
  headers: Headers<R>;
  body: Body<R>;
  caller: Caller;
  request: FastifyRequest;
  reply: FastifyReply;
}

export type Handler<R extends Route> = (input: Input<R>) => Promise<Answer<R> | RawText | typeof streamed>;

const json = 'application/json; charset=utf-8';

/** An answer that is text already. */
export class RawText {
  readonly text: string;
  readonly type: string;
  constructor(text: string, type = json) {
    this.text = text;
    this.type = type;
  }
}

/** The answer was sent as a stream (stream.ts). */
export const streamed = Symbol('streamed');

export function register<R extends Route>(app: FastifyInstance, route: R, handle: Handler<R>): void {
  const checks = checksOf(route);
  const { access, audit } = route as Route;
  const keepToOwn = access !== 'open' && access.rows === 'own' ? ownerCheck(route, app.door) : null;
  app.route({
    method: route.method,
    url: route.path.replace(/\{(\w+)\}/g, ':$1'),
    config: { operation: route.operation, access, ...(audit === undefined ? {} : { audit }) },
    handler: async (request, reply) => {
      require(checks.params, request.params, 'invalid_id');
      require(checks.query, request.query, 'invalid_input');
      require(checks.headers, request.headers, 'invalid_input');
      const body = request.body ?? (checks.body === null ? undefined : route.bodyOptional === true ? {} : null);
      require(checks.body, body, 'invalid_input');
      const { params, query, headers, caller } = request;
      requireReveal(query, caller);
      if (keepToOwn !== null && caller.user_id !== null) await keepToOwn(caller.user_id, { params, query, body });
      const answer = await handle({ params, query, headers, body, caller, request, reply } as Input<R>);
      if (answer === streamed) return reply;
      if (audit !== undefined && !request.isRecorded)
        await record(app.door.db, request, { id: idOf(route, params, answer), before: null, after: answer });
      const raw = answer instanceof RawText ? answer : null;
      reply.code(route.success).header('content-type', raw?.type ?? json);
      return reply.send(raw?.text ?? JSON.stringify(answer));
    },
  });
}

/** What is encrypted is for those who could have submitted it, not for everybody who may look. */
function requireReveal(query: unknown, { role }: Caller): void {
  const { reveal } = (query ?? {}) as { reveal?: boolean };
  if (reveal === true && !roleMay(role, 'submitter'))
    throw new PunctualError('role_missing', {
      detail: `To reveal what is encrypted needs a key with the role ${rolesThatMay({ role: 'submitter' }).join(' or ')}; yours is ${role}.`,
    });
}

/** What was changed: as the path names it, else as the answer does. */
function idOf(route: Route, params: unknown, answer: unknown): string {
  const named = Object.values((params ?? {}) as Record<string, string>).join('/');
  if (named !== '') return named;
  const { [`${route.audit}_id`]: id } = answer as Record<string, unknown>;
  return typeof id === 'string' ? id : '';
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
    /** Its entry in the audit log is written. */
    isRecorded: boolean;
  }
  interface FastifyContextConfig {
    operation?: string;
    audit?: AuditNoun;
  }
  interface FastifyInstance {
    door: OwnParts;
  }
}
