// The cookie of a session of the dashboard: scripts cannot read it, other sites cannot send it.
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Asked } from './asked.ts';

const name = 'punctual_session';

export function sessionOf({ headers }: Pick<Asked, 'headers'>): string | null {
  if (headers.cookie === undefined) return null;
  return /(?:^|;\s*)punctual_session=([A-Za-z0-9_-]{1,100})(?:;|$)/.exec(headers.cookie)?.[1] ?? null;
}

/** `secret` null takes the cookie away. */
export function setSession(request: FastifyRequest, reply: FastifyReply, secret: string | null, seconds: number): void {
  // Only whoever ends TLS before us knows of it; the browser itself says so in Origin.
  const secure =
    request.headers['x-forwarded-proto'] === 'https' || request.headers.origin?.startsWith('https://') === true;
  const age = secret === null ? 0 : seconds;
  reply.header(
    'set-cookie',
    `${name}=${secret ?? ''}; Path=/; Max-Age=${age}; HttpOnly; SameSite=Strict${secure ? '; Secure' : ''}`,
  );
}
