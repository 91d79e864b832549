// The guard at the door: who is asking, may they, and not too often. It runs before a body is read. A server that asks for
// no keys answers only its own host, so that a page of another site cannot speak to it through the user's browser; one that
// asks for keys looks at nothing else, but a change that comes with a cookie must come from a page of its own.
import { type Access, type Needed, PunctualError, rolesThatMay } from '@punctual/contract';
import type { FastifyInstance } from 'fastify';
import type { Budgets, Verdict } from '../access/budgets.ts';
import { type Caller, localAdmin, stranger } from '../access/caller.ts';
import type { Keyring } from '../access/keyring.ts';
import { httpDate } from '../base/clock.ts';
import type { Config } from '../config.ts';
import type { Answering, Asked } from './asked.ts';
import { sessionOf } from './cookies.ts';

export interface Guards {
  config: Config;
  keyring: Keyring;
  budgets: Budgets;
}

export function guardDoor(app: FastifyInstance, guards: Guards): void {
  app.decorateRequest('caller', null as unknown as Caller);
  // Hooks with callbacks, not promises: they run for every request.
  app.addHook('onRequest', (request, reply, done) => {
    reply
      .header('x-content-type-options', 'nosniff')
      .header('referrer-policy', 'no-referrer')
      .header('x-request-id', request.id)
      .header('date', httpDate());
    try {
      const admitted = admit(request, reply, guards);
      if (admitted === null) done();
      else void later(admitted, done);
    } catch (error) {
      done(error as Error);
    }
  });
}

async function later(admitted: Promise<void>, done: (error?: Error) => void): Promise<void> {
  try {
    await admitted;
  } catch (error) {
    done(error as Error);
    return;
  }
  done();
}

/** null: admitted without asking anybody. */
export function admit(request: Asked, reply: Answering, guards: Guards): Promise<void> | null {
  const { keyring } = guards;
  if (keyring.required) return admitByKey(request, reply, guards);
  const isOpen = accessOf(request) === 'open';
  if (isOpen || (keyring.isSureOfNone && !bringsKey(request, keyring))) return admitLocal(request, guards);
  // The first key may have been made since keys were last looked for: who brings one knows of it.
  return keyring
    .lookForKeys()
    .then(() => (keyring.required ? admitByKey(request, reply, guards) : admitLocal(request, guards)) ?? undefined);
}

function admitLocal(request: Asked, { config }: Guards): null {
  const local = config.trust_network || isLocalHost(request.headers.host);
  if (!local || (isChange(request) && isForeignOrigin(request))) throw new PunctualError('host_not_allowed');
  request.caller = localAdmin;
  return null;
}

function admitByKey(request: Asked, reply: Answering, guards: Guards): Promise<void> | null {
  const { keyring } = guards;
  const access = accessOf(request);
  if (access === 'open') {
    if (isChange(request) && isForeignOrigin(request)) throw new PunctualError('host_not_allowed');
    request.caller = stranger;
    return null;
  }
  const { kind, secret } = secretOf(request);
  if (kind === 'session' && isChange(request) && !isOwnPage(request)) throw fromElsewhere();
  const caller = keyring.recall(kind, secret);
  if (caller === undefined)
    return keyring
      .find(kind, secret, request.ip)
      .then((found) => passOn(request, reply, { found, access, guards }) ?? undefined);
  return passOn(request, reply, { found: caller, access, guards });
}

function accessOf(request: Asked): Access {
  return request.routeOptions.config.access ?? 'open';
}

function isChange({ method }: Asked): boolean {
  return method !== 'GET' && method !== 'HEAD';
}

/** A key that may be in the book. */
function bringsKey({ headers }: Asked, keyring: Keyring): boolean {
  const secret = bearerOf(headers.authorization);
  return secret !== null && keyring.recall('key', secret) === undefined;
}

interface Pass {
  found: Caller | null;
  access: Needed;
  guards: Guards;
}

function passOn(request: Asked, reply: Answering, { found, access, guards }: Pass): Promise<void> | null {
  if (found === null) throw new PunctualError('key_invalid');
  request.caller = found;
  if (found.rate !== null) {
    const verdict = guards.budgets.spend(found);
    if (verdict instanceof Promise)
      return verdict.then((late) => {
        heed(reply, found, late);
        requireRole(found, access);
      });
    heed(reply, found, verdict);
  }
  requireRole(found, access);
  return null;
}

function requireRole({ role, user_id }: Caller, access: Needed): void {
  const may = rolesThatMay(access);
  if (!may.includes(role))
    throw new PunctualError('role_missing', {
      detail: `This needs a key with the role ${may.join(' or ')}; yours is ${role}.`,
    });
  if (access.rows === 'all' && user_id !== null)
    throw new PunctualError('wrong_user', {
      detail: `This concerns all users, and the key belongs to the user ${user_id}.`,
    });
}

/** As draft-ietf-httpapi-ratelimit-headers has it. */
function heed(reply: Answering, { rate }: Caller, { ok, remaining, resetSeconds }: Verdict): void {
  if (rate === null) return;
  reply
    .header('ratelimit-policy', `"key";q=${rate.burst};w=${Math.max(1, Math.ceil(rate.burst / rate.perSecond))}`)
    .header('ratelimit', `"key";r=${remaining};t=${resetSeconds}`);
  if (ok) return;
  throw new PunctualError('rate_limited', {
    detail: `The key may send ${rate.perSecond} requests a second, and ${rate.burst} at once.`,
    retryAfterSeconds: resetSeconds,
  });
}

function secretOf(request: Asked): { kind: 'key' | 'session'; secret: string } {
  const { authorization } = request.headers;
  if (authorization !== undefined) {
    const secret = bearerOf(authorization);
    if (secret !== null) return { kind: 'key', secret };
    throw new PunctualError('key_invalid', { detail: 'Authorization must be `Bearer` and an API key.' });
  }
  const secret = sessionOf(request);
  if (secret === null) throw new PunctualError('key_missing');
  return { kind: 'session', secret };
}

function bearerOf(authorization: string | undefined): string | null {
  return authorization !== undefined && /^bearer /i.test(authorization) ? authorization.slice(7).trim() : null;
}

function isLocalHost(host: string | undefined): boolean {
  return host === undefined || /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?$/i.test(host);
}

/** It says that it comes from a page of another origin. */
export function isForeignOrigin({ headers }: Asked): boolean {
  return headers.origin !== undefined && headers.origin.replace(/^https?:\/\//, '') !== headers.host;
}

/** It says that it comes from a page of ours: a cookie alone does not prove that. */
function isOwnPage(request: Asked): boolean {
  const site = request.headers['sec-fetch-site'];
  if (isForeignOrigin(request)) return false;
  return site === undefined ? request.headers.origin !== undefined : site === 'same-origin';
}

function fromElsewhere(): PunctualError {
  return new PunctualError('host_not_allowed', {
    detail: 'A change with a session must come from a page of the dashboard; programs send an API key instead.',
  });
}

declare module 'fastify' {
  interface FastifyRequest {
    caller: Caller;
  }
  interface FastifyContextConfig {
    access?: Access;
  }
}
