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
import type { FastifyContextConfig, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Caller } from '../access/caller.ts';
import type { Answering, Asked } from './asked.ts';
import { record } from './audited.ts';
import { type OwnParts, ownerCheck } from './own.ts';
import type { QuickDoor, QuickRoute } from './quick_door.ts';
import { type Check, checksOf } from './validation.ts';

export interface Input<R extends Route, Request = FastifyRequest, Reply = FastifyReply> {
  params: Params<R>;
  query: Query<R>;
  headers: Headers<R>;
  body: Body<R>;
  caller: Caller;
  request: Request;
  reply: Reply;
}

export type Handler<R extends Route> = (input: Input<R>) => Promise<Answer<R> | RawText | typeof streamed>;

/** A handler that needs nothing of Fastify. */
export type QuickHandler<R extends Route> = (input: Input<R, Asked, Answering>) => Promise<Answer<R>>;

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
  const respond = responder(app, route, handle);
  app.route({
    method: route.method,
    url: route.path.replace(/\{(\w+)\}/g, ':$1'),
    config: configOf(route),
    handler: async (request, reply) => {
      request.isHandled = true;
      try {
        const answer = await respond(request, reply);
        if (answer === streamed) return reply;
        reply.code(route.success).header('content-type', answer.type);
        return reply.send(answer.text);
      } finally {
        request.letGo();
      }
    },
  });
}

/** A route that is also answered the quick way (quick_door.ts). */
export function registerQuick<R extends Route>(app: FastifyInstance, route: R, handle: QuickHandler<R>): void {
  register(app, route, handle);
  app.quickDoor.add({
    route,
    config: configOf(route),
    respond: responder(app, route, handle as Handler<R>) as QuickRoute['respond'],
  });
}

function configOf({ operation, access, audit }: Route): FastifyContextConfig {
  return { operation, access, ...(audit === undefined ? {} : { audit }) };
}

type Respond = (request: FastifyRequest, reply: FastifyReply) => Promise<RawText | typeof streamed>;

function responder<R extends Route>(app: FastifyInstance, route: R, handle: Handler<R>): Respond {
  const checks = checksOf(route);
  const { access, audit } = route as Route;
  const keepToOwn = access !== 'open' && access.rows === 'own' ? ownerCheck(route, app.door) : null;
  return async (request, reply) => {
    require(checks.params, request.params, 'invalid_id');
    require(checks.query, request.query, 'invalid_input');
    require(checks.headers, request.headers, 'invalid_input');
    const body = request.body ?? (checks.body === null ? undefined : route.bodyOptional === true ? {} : null);
    require(checks.body, body, 'invalid_input');
    const { params, query, headers, caller } = request;
    requireReveal(query, caller);
    if (keepToOwn !== null && caller.user_id !== null) await keepToOwn(caller.user_id, { params, query, body });
    const answer = await handle({ params, query, headers, body, caller, request, reply } as Input<R>);
    if (answer === streamed) return streamed;
    if (audit !== undefined && !request.isRecorded)
      await record(app.door.db, request, { id: idOf(route, params, answer), before: null, after: answer });
    return answer instanceof RawText ? answer : new RawText(JSON.stringify(answer));
  };
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
    quickDoor: QuickDoor;
  }
}
